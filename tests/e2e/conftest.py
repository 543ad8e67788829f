"""Real brokers for the end-to-end tests, real clients that keep their counts, and the installed agent.

Clusters are shared by all tests that do not break them, so tests take fresh names for their topics and ids.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from demo.agent import AgentError, AgentProcess
from demo.cluster import KafkaCluster
from demo.processes import ProcessGroup
from demo.workloads.producers import JavaProducer, ProducerClass, RdkafkaProducer
from tests.schemas import conform
from tests.time_limits import allow

VERSIONS = tuple(os.environ.get("KAFKA_VERSIONS", "4.3.1 3.9.2").split())
"""Of brokers; ``3.9.2-zookeeper`` for one with ZooKeeper."""
TEST_SECONDS = 240

T = TypeVar("T")


class EnterContext(Protocol):
    """Enters a context now and leaves it after the test, the newest first."""

    def __call__(self, context: AbstractContextManager[T]) -> T: ...


class StartAgent(Protocol):
    """Starts ``kafka-eos-exporter run`` with these arguments and waits until it is ready; stops it after the test."""

    def __call__(self, *arguments: str, **options: Any) -> AgentProcess: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Brokers and timeouts of Kafka's own take longer than the limit of a unit test."""
    allow(TEST_SECONDS, Path(__file__).parent, items)


def cluster_of(version: str, brokers: int = 1, **options: Any) -> KafkaCluster:
    """A cluster of one of ``VERSIONS``, not started yet."""
    number, _, mode = version.partition("-")
    return KafkaCluster(number, brokers, zookeeper=mode == "zookeeper", **options)


@pytest.fixture(scope="session")
def clusters() -> Iterator[Callable[..., KafkaCluster]]:
    """Running clusters by version and number of brokers, each started once; for tests that leave them as they were."""
    running: dict[tuple[str, int], KafkaCluster] = {}
    with ExitStack() as stack:

        def get(version: str, brokers: int = 1) -> KafkaCluster:
            key = (version, brokers)
            if key not in running:
                running[key] = stack.enter_context(cluster_of(version, brokers, progress=_progress))
            return running[key]

        yield get


@pytest.fixture(params=VERSIONS)
def kafka(request: pytest.FixtureRequest, clusters: Callable[..., KafkaCluster]) -> KafkaCluster:
    """One broker, of each version in turn."""
    return clusters(request.param)


@pytest.fixture
def kafka_4(clusters: Callable[..., KafkaCluster]) -> KafkaCluster:
    """One broker of the newest version."""
    return clusters(VERSIONS[0])


@pytest.fixture(params=[RdkafkaProducer, JavaProducer], ids=["rdkafka", "java"])
def make_producer(request: pytest.FixtureRequest) -> ProducerClass:
    """Each client generation in turn: a class to be called with ``(cluster, transactional_id, timeout=...)``."""
    made: ProducerClass = request.param
    return made


@pytest.fixture
def keep() -> Iterator[EnterContext]:
    """``producer = keep(make_producer(kafka, fresh("pay")))``."""
    with ExitStack() as stack:

        def enter(context: AbstractContextManager[T]) -> T:
            return stack.enter_context(context)

        yield enter


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """A name that no other test has; as a transactional.id it is an application of its own."""
    suffix = f"{secrets.token_hex(4)}x"
    return lambda stem: f"{stem}-{suffix}"


@pytest.fixture
def start_agent() -> Iterator[StartAgent]:
    """``agent = start_agent("--bootstrap-server", kafka.bootstrap)``; a second one gets ``name="second"``."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-agent-"))
    try:
        with ProcessGroup(folder) as processes:
            started: list[AgentProcess] = []

            def start(*arguments: str, **options: Any) -> AgentProcess:
                started.append(AgentProcess(processes, *arguments, **options).wait_ready())
                return started[-1]

            yield start
            for agent in started:
                with suppress(OSError, AgentError):  # the test ended it
                    if (answer := agent.get("/api/v1/status")).status == HTTPStatus.OK:
                        conform("status", json.loads(answer.body))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _progress(text: str) -> None:
    print(text, file=sys.stderr)
