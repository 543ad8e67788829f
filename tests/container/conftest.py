"""Where the tools are that judge; `make container` gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.tools import install

TEST_SECONDS = 900
"""The first test of the image carries it out: on a busy machine, with a slow network, that takes minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def tools() -> Path:
    return install()
