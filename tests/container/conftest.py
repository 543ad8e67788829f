"""Where the tools are that judge; `make container` gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.tools import install


@pytest.fixture(scope="session")
def tools() -> Path:
    return install()
