"""One network and one broker for all tests of the images; `make image` builds these before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.time_limits import allow
from tests.image.engine import Kafka, engine, kafka

TEST_SECONDS = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow(TEST_SECONDS, Path(__file__).parent, items)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    network = f"eos-{os.getpid()}"
    engine("network", "create", network)
    try:
        with kafka(network, tmp_path_factory.mktemp("kafka")) as found:
            yield found
    finally:
        engine("network", "rm", "--force", network, check=False)
