"""Helm and what judges its output, offline; `make chart` gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.tools import Charts, install
from tests.helpers.time_limits import allow

TEST_SECONDS = 900
"""helm and its judges read megabytes, at times on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow(TEST_SECONDS, Path(__file__).parent, items)


@pytest.fixture(scope="session")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Charts:
    return Charts(install(), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def tools() -> Path:
    return install()
