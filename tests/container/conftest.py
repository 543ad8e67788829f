"""Where the tools are that judge; `make container` gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.tools import install
from tests.helpers.time_limits import allow

TEST_SECONDS = 900
"""The first test of the image carries it out: on a busy machine, with a slow network, that takes minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow(TEST_SECONDS, Path(__file__).parent, items)


@pytest.fixture(scope="session")
def tools() -> Path:
    return install()
