"""A real Connect cluster of two workers with exactly-once source support: what the agent says of it is what it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exporter import catalogue
from exporter.connect.failures import REDACTED
from exporter.connect.source import WITHOUT_REST, WITHOUT_WORKERS
from exporter.words import FailureCause
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.connect import ConnectCluster
from testkit.jvm_agents import JvmAgents
from testkit.workloads.producers import JavaProducer
from tests.e2e.conftest import EnterContext, StartAgent, in_proof

GROUP = "etl"
PASSWORD = "hunter2"

Fresh = Callable[[str], str]


class ConnectStack:
    """A Connect cluster, its workers' agents, and the Kafka below."""

    def __init__(self, kafka: KafkaCluster, connect: ConnectCluster, agents: JvmAgents) -> None:
        self.kafka = kafka
        self.connect = connect
        self.agents = agents

    def settings(self, *, rest: bool = True, way: str = "jolokia") -> dict[str, Any]:
        """The settings of an agent; ``way`` is jolokia, jmx_exporter or "" for no MBeans."""
        connect: dict[str, Any] = {"name": "main", "group_id": GROUP, "interval": "500ms"}
        if rest:
            connect["rest"] = list(self.connect.urls)
        if way:
            connect["workers"] = [{way: getattr(self.agents, way)(worker.name)} for worker in self.connect.workers]
        kafka = {"bootstrap.servers": self.kafka.bootstrap}
        return {"clusters": [{"name": "demo", "kafka": kafka}], "connect": [connect]}


@pytest.fixture(scope="module")
def stack(clusters: Callable[..., KafkaCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectStack]:
    kafka = clusters("4.3.1")
    agents = JvmAgents(tmp_path_factory.mktemp("agents"))
    with ConnectCluster(kafka, GROUP, jvm_options=agents.options) as connect:
        yield ConnectStack(kafka, connect, agents)


@pytest.fixture
def agent(stack: ConnectStack, start_agent: StartAgent, tmp_path: Path) -> Callable[..., AgentProcess]:
    """``agent(way="jmx_exporter")`` runs one with these settings of the stack."""

    def start(**options: Any) -> AgentProcess:
        file = tmp_path / "config.yml"
        file.write_text(json.dumps(stack.settings(**options)))
        return start_agent("--config", str(file))

    return start


def labels(connector: str, task: int = 0) -> dict[str, str]:
    return {
        "kafka_cluster": "demo",
        "target": "main",
        "connect": "main",
        "connector": connector,
        "task": str(task),
    }


def failures(metrics: Metrics, connector: str) -> dict[str, float]:
    found = metrics.samples(catalogue.CONNECT_TASK_FAILURES_TOTAL, **labels(connector))
    assert {sample.labels["cause"] for sample in found} == set(FailureCause.values())
    return {sample.labels["cause"]: sample.value for sample in found if sample.value}


def has_failed(connector: str, times: int, metrics: Metrics) -> bool:
    return failures(metrics, connector) == {"other": times}


def state(metrics: Metrics, connector: str, task: int = 0) -> list[str]:
    return [
        sample.labels["state"] for sample in metrics.samples(catalogue.CONNECT_TASK_STATE, **labels(connector, task))
    ]


def test_every_boundary_is_reported_and_its_transactions_are_counted(
    stack: ConnectStack, agent: Callable[..., AgentProcess], fresh: Fresh
) -> None:
    poll, interval, own = fresh("poll"), fresh("interval"), fresh("own")
    topic = fresh("lines")
    stack.kafka.create_topic(topic)
    file = stack.connect.folder / f"{topic}.txt"
    file.write_text("".join(f"line {number}\n" for number in range(100)))
    running = agent()
    stack.connect.create_file_source(poll, file, topic)
    stack.connect.create_file_source(
        interval, file, topic, transaction_boundary="interval", transaction_boundary_interval_ms=500
    )
    stack.connect.create_step_source(
        own, topic, batch=7, transaction_boundary="connector", exactly_once_support="required", pause_ms=100
    )

    def commits(metrics: Metrics, connector: str) -> float | None:
        return metrics.value(catalogue.CONNECT_TASK_COMMITS_TOTAL, **labels(connector))

    def counted(metrics: Metrics, connector: str) -> float | None:
        return metrics.value(catalogue.TRANSACTIONS_TOTAL, application=f"{GROUP}-{connector}", outcome="committed")

    metrics = running.wait_until(
        lambda seen: (
            (commits(seen, poll) or 0) >= 1
            and (commits(seen, interval) or 0) >= 1
            and (commits(seen, own) or 0) >= 5
            and seen.value(catalogue.CONNECT_TASK_TRANSACTION_SIZE_RECORDS, **labels(own), stat="avg") is not None
            and all(counted(seen, connector) == commits(seen, connector) for connector in (poll, interval))
            and all(
                seen.value(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL, **labels(connector)) == 100
                for connector in (poll, interval)
            )
        ),
    )
    for connector, support, boundary in (
        (poll, "requested", "poll"),
        (interval, "requested", "interval"),
        (own, "required", "connector"),
    ):
        (info,) = metrics.samples(catalogue.CONNECT_CONNECTOR_INFO, connector=connector)
        assert info.labels == {
            "kafka_cluster": "demo",
            "target": "main",
            "connect": "main",
            "connector": connector,
            "type": "source",
            "exactly_once_support": support,
            "transaction_boundary": boundary,
        }
        assert state(metrics, connector) == ["running"]
        assert failures(metrics, connector) == {}
    for connector in (poll, interval):
        application = metrics.samples(catalogue.APPLICATION_INFO, connect=GROUP, connector=connector)
        assert [sample.labels["kind"] for sample in application] == ["connect_task"]
    for stat in ("min", "avg", "max"):
        size = metrics.value(catalogue.CONNECT_TASK_TRANSACTION_SIZE_RECORDS, **labels(own), stat=stat)
        assert size == 14, "two steps of seven records"
    assert metrics.value(catalogue.CONNECT_TASK_OFFSET_COMMIT_RATIO, **labels(own), result="success") == 1
    seconds = metrics.value(catalogue.CONNECT_TASK_OFFSET_COMMIT_SECONDS, **labels(own), stat="max")
    assert seconds is not None
    assert 0 < seconds < 10
    for connector in (poll, interval, own):
        stack.connect.delete(connector)
    running.wait_until(lambda seen: not seen.samples(catalogue.CONNECT_TASK_COMMITS_TOTAL, connector=own))


def test_a_task_whose_id_somebody_takes_fails_as_fenced_or_of_an_old_epoch(
    stack: ConnectStack, agent: Callable[..., AgentProcess], fresh: Fresh, keep: EnterContext
) -> None:
    connector, topic = fresh("rival"), fresh("rivals")
    stack.kafka.create_topic(topic)
    stack.connect.create_step_source(connector, topic, pause_ms=50, batch=2, transaction_boundary="connector")
    stack.connect.wait_tasks(connector)
    running = agent()
    running.wait_until(lambda seen: state(seen, connector) == ["running"])
    keep(JavaProducer(stack.kafka, stack.connect.transactional_id(connector))).init()
    metrics = running.wait_until(lambda seen: state(seen, connector) == ["failed"])
    counted = failures(metrics, connector)
    assert sum(counted.values()) == 1
    assert set(counted) <= {"fenced", "invalid_epoch"}
    (failed,) = [task for task in connect_status(running)["failed"] if task["connector"] == connector]
    assert failed["cause"] in counted
    assert "org.apache.kafka.common.errors." in failed["error"]
    stack.connect.delete(connector)


def test_a_crash_loop_is_counted_each_time_and_its_secret_shows_nowhere(
    stack: ConnectStack, agent: Callable[..., AgentProcess], fresh: Fresh
) -> None:
    connector, topic = fresh("crash"), fresh("crashes")
    stack.kafka.create_topic(topic)
    fail = stack.connect.folder / f"{topic}.fail"
    stack.connect.create_step_source(connector, topic, fail_file=fail, source_password=PASSWORD)
    stack.connect.wait_tasks(connector)
    running = agent()
    running.wait_until(lambda seen: state(seen, connector) == ["running"])
    fail.touch()
    running.wait_until(lambda seen: failures(seen, connector) == {"other": 1})
    # Failed before, failed after, on the same worker with the same trace: only the task's own metrics tell.
    for count in (2, 3):
        stack.connect.restart_task(connector)
        running.wait_until(partial(has_failed, connector, count))
    (failed,) = [task for task in connect_status(running)["failed"] if task["connector"] == connector]
    assert failed["error"] == f"java.lang.IllegalStateException: cannot reach jdbc:demo://{REDACTED}@db/orders"
    shown = [running.metrics().text, json.dumps(running.status()), running.get("/").text, running.log]
    assert not any(PASSWORD in text for text in shown)
    assert connector in running.get("/").text
    stack.connect.delete(connector)


@pytest.mark.parametrize("way", ["jolokia", *in_proof("jmx_exporter")])
def test_mbeans_alone_give_numbers_and_say_what_rest_would_add(
    stack: ConnectStack, agent: Callable[..., AgentProcess], fresh: Fresh, way: str
) -> None:
    connector, topic = fresh("alone"), fresh("alones")
    stack.kafka.create_topic(topic)
    stack.connect.create_step_source(connector, topic, pause_ms=50, transaction_boundary="connector")
    stack.connect.wait_tasks(connector)
    running = agent(rest=False, way=way)
    metrics = running.wait_until(
        lambda seen: (
            seen.value(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL, **labels(connector))
            and seen.value(catalogue.CONNECT_TASK_COMMITS_TOTAL, **labels(connector))
        )
    )
    assert metrics.value(catalogue.CONNECT_TASK_TRANSACTION_SIZE_RECORDS, **labels(connector), stat="avg") == 10
    assert metrics.value(catalogue.SOURCE_UP, source="connect", target="main") == 1
    assert WITHOUT_REST in connect_status(running)["notes"]
    assert WITHOUT_REST in running.log
    if way == "jolokia":
        assert state(metrics, connector) == ["running"]
    stack.connect.delete(connector)


def test_rest_alone_gives_states_and_says_what_mbeans_would_add(
    stack: ConnectStack, agent: Callable[..., AgentProcess], fresh: Fresh
) -> None:
    connector, topic = fresh("rest"), fresh("rests")
    stack.kafka.create_topic(topic)
    out = stack.connect.folder / f"{topic}.out"
    stack.connect.create_file_sink(connector, out, topic)
    stack.connect.wait_tasks(connector)
    running = agent(way="")
    metrics = running.wait_until(lambda seen: state(seen, connector) == ["running"])
    (info,) = metrics.samples(catalogue.CONNECT_CONNECTOR_INFO, connector=connector)
    assert (info.labels["type"], info.labels["exactly_once_support"]) == ("sink", "")
    assert metrics.value(catalogue.SOURCE_UP, source="connect", target="main") == 1
    assert not metrics.samples(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL)
    assert connect_status(running)["notes"] == [WITHOUT_WORKERS]
    sink = {"class": "FileStreamSinkConnector", "version": stack.kafka.version, "connectors": 1}
    assert sink in connect_status(running)["plugins"]
    stack.connect.delete(connector)


def test_a_killed_worker_is_a_fault_and_the_other_one_answers_for_both(
    stack: ConnectStack, agent: Callable[..., AgentProcess], fresh: Fresh
) -> None:
    connector, topic = fresh("moves"), fresh("moved")
    stack.kafka.create_topic(topic)
    stack.connect.create_step_source(connector, topic, tasks=2, pause_ms=50)
    stack.connect.wait_tasks(connector, tasks=2)
    running = agent()
    before = running.wait_until(
        lambda seen: len(seen.samples(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL, connector=connector)) == 2
    )
    killed = stack.connect.workers[0]
    killed.kill()
    try:
        metrics = running.wait_until(
            lambda seen: (
                seen.value(catalogue.SOURCE_UP, source="connect") == 0
                and (seen.value(catalogue.SOURCE_FAULTS_TOTAL, source="connect", reason="unreachable") or 0) >= 1
            )
        )
        assert len(metrics.samples(catalogue.CONNECT_TASK_STATE, connector=connector)) == 2
        for task in (0, 1):
            written = metrics.value(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL, **labels(connector, task))
            was = before.value(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL, **labels(connector, task))
            assert written is not None
            assert was is not None
            assert written >= was, "counters stand still, and stay"
        assert metrics.value(catalogue.SOURCE_UP, source="lso") == 1
    finally:
        killed.start()
    running.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="connect") == 1)
    stack.connect.wait_tasks(connector, tasks=2, timeout=90)
    stack.connect.delete(connector)


def connect_status(agent: AgentProcess) -> Any:
    (cluster,) = agent.status()["clusters"]
    (connect,) = cluster["connect"]
    return connect
