"""The generated dashboards, as Grafana will read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.dashboards.board import Dashboard
from exporter.dashboards.generate import boards

_BOARDS = boards()


@pytest.fixture(params=_BOARDS, ids=lambda board: board.uid)
def board(request: pytest.FixtureRequest) -> Dashboard:
    """Each dashboard in turn, before it becomes JSON."""
    made: Dashboard = request.param
    return made


@pytest.fixture
def dashboard(board: Dashboard) -> dict[str, Any]:
    """Each dashboard in turn, as JSON."""
    loaded: dict[str, Any] = json.loads(board.text())
    return loaded
