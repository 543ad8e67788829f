"""The generated dashboards, as Grafana will read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.dashboards.board import Board
from exporter.dashboards.generate import boards
from exporter.dashboards.normalise import text

_BOARDS = boards()


@pytest.fixture(params=_BOARDS, ids=lambda board: board.uid)
def board(request: pytest.FixtureRequest) -> Board:
    """Each dashboard in turn, before it becomes JSON."""
    made: Board = request.param
    return made


@pytest.fixture
def dashboard(board: Board) -> dict[str, Any]:
    """Each dashboard in turn, as JSON."""
    loaded: dict[str, Any] = json.loads(text(board.dashboard()))
    return loaded
