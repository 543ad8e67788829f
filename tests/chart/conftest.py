"""Helm and what judges its output, offline; `make chart` gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.tools import Charts, install


@pytest.fixture(scope="session")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Charts:
    return Charts(install(), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def tools() -> Path:
    return install()
