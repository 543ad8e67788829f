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
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Protocol, TypeVar

import pytest
from _pytest.mark import ParameterSet
from prometheus_client.parser import text_string_to_metric_families
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from testkit.agent import AgentError, AgentProcess
from testkit.cluster import KafkaCluster
from testkit.processes import ProcessGroup
from testkit.workloads.producers import JavaProducer, ProducerClass, RdkafkaProducer
from tests.helpers.schemas import conform
from tests.helpers.time_limits import allow

VERSIONS = tuple(os.environ.get("KAFKA_VERSIONS", "4.3.1 3.9.2").split())
"""Of brokers; ``3.9.2-zookeeper`` for one with ZooKeeper."""
TEST_SECONDS = 1200
PROOF_SECONDS = 180
"""Seconds that most of the tests marked ``proof`` take at most."""

T = TypeVar("T")


class EnterContext(Protocol):
    """Enters a context now and leaves it after the test, the newest first."""

    def __call__(self, context: AbstractContextManager[T]) -> T: ...


class StartAgent(Protocol):
    """Starts ``kafka-eos-exporter run`` with these arguments and waits until it is ready; stops it after the test."""

    def __call__(self, *arguments: str, **options: Any) -> AgentProcess: ...


HERE = Path(__file__).parent
LOGS = HERE.parents[1] / "build" / "logs"
LONGEST = (
    *("test_audit", "test_hanging_proof", "test_history", "test_broker_faults", "test_dashboards"),
    *("test_moving_brokers", "test_connect", "test_access", "test_terminal", "spark", "test_streams", "test_secured"),
    *("test_runbooks", "test_unmarked", "test_stale_broker", "test_flink"),
)
"""Files to begin with, so that none is left to run alone at the end: those that wait beside those that compute."""

TOGETHER = "tests/e2e/spark/test_audit"
"""Beginnings of the names of files that one worker runs, in one Spark session: to start it takes 30 s of CPU."""


class SparkTogether(LoadFileScheduling):
    """The files of audits as one, every other file by itself."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkTogether:
    return SparkTogether(config, log)


SOCKETS = "ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"
"""Of a worker that has a Spark: pyspark leaves its sockets to the garbage collector, whichever test runs then."""


def pytest_configure(config: pytest.Config) -> None:
    """Have the logs of all servers kept until the next run."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(LOGS, ignore_errors=True)
    os.environ["DEMO_LOGS"] = str(LOGS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Brokers and timeouts of Kafka's own take longer than the limit of a unit test.

    The files that take longest come first.
    """
    allow(TEST_SECONDS, HERE, items)
    items.sort(key=_rank)
    for item in items:
        item.add_marker(pytest.mark.filterwarnings(SOCKETS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a proof that would end after PROOF_UNTIL (seconds since 1970), which ``.ci/run`` sets."""
    left = float(os.environ.get("PROOF_UNTIL", "inf")) - time.time()
    if item.get_closest_marker("proof") and left < PROOF_SECONDS:
        pytest.skip("not run: there is no time left for it (`make e2e-proof` runs it)")


def _rank(item: pytest.Item) -> int:
    for rank, name in enumerate(LONGEST):
        if HERE in item.path.parents and name in {item.path.stem, item.path.parent.name}:
            return rank
    return len(LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say beside a failure where the logs of the servers are that ran."""
    report = yield
    if report.failed:
        running = {group.logs.name for group in ProcessGroup.open}
        ended = {path.name for path in LOGS.glob("*") if path.stat().st_mtime > call.start}
        report.sections.append(("logs of servers", "".join(f"build/logs/{name}\n" for name in sorted(running | ended))))
    return report


def in_proof(*parameters: T) -> list[ParameterSet]:
    """Parameters, such as further versions, that ``make test`` leaves to ``make proof``."""
    return [pytest.param(parameter, marks=pytest.mark.proof) for parameter in parameters]


EACH_VERSION = [VERSIONS[0], *in_proof(*VERSIONS[1:])]


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


@pytest.fixture(params=EACH_VERSION)
def kafka(request: pytest.FixtureRequest, clusters: Callable[..., KafkaCluster]) -> KafkaCluster:
    """One broker, of each version in turn."""
    return clusters(request.param)


@pytest.fixture
def kafka_4(clusters: Callable[..., KafkaCluster]) -> KafkaCluster:
    """One broker of the newest version."""
    return clusters(VERSIONS[0])


@pytest.fixture(params=[JavaProducer, *in_proof(RdkafkaProducer)], ids=["java", "rdkafka"])
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
    suffix = "".join(secrets.choice(ascii_lowercase) for _ in range(9))  # digits would name an instance
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
                        # The whole page, by a strict parser; waits read only the samples that they ask for.
                        assert list(text_string_to_metric_families(agent.metrics().text))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _progress(text: str) -> None:
    print(text, file=sys.stderr)
