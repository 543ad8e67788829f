"""A real Kafka Streams application with exactly_once_v2: it commits, loses its state, and restores it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter import catalogue
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.jvm_agents import JvmAgents
from testkit.streams import StreamsApp
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent

Fresh = Callable[[str], str]
SOON_GIVEN_UP = {"main.consumer.default.api.timeout.ms": "5000", "task.timeout.ms": "0"}
"""A task that has something to commit when its source topic is deleted repeats the commit for 60 s, and the task for
five minutes: no thread fails in that time.
"""
# A changelog record for every update, and a first answer after five seconds, so that a restoration can be seen.
SLOW_RESTORE = {
    "restore.consumer.fetch.min.bytes": "10000000",
    "restore.consumer.fetch.max.wait.ms": "5000",
    "statestore.cache.max.bytes": "0",
}


@pytest.fixture
def agents(tmp_path: Path) -> JvmAgents:
    return JvmAgents(tmp_path)


@pytest.fixture
def app(kafka_4: KafkaCluster, agents: JvmAgents, fresh: Fresh) -> Iterator[StreamsApp]:
    topic = fresh("words")
    kafka_4.create_topic(topic, 2)
    with StreamsApp(kafka_4, fresh("count"), topic, settings=SLOW_RESTORE, jvm_options=agents.options) as started:
        yield started


@pytest.fixture
def agent(
    kafka_4: KafkaCluster, agents: JvmAgents, app: StreamsApp, start_agent: StartAgent, tmp_path: Path
) -> Callable[[str], AgentProcess]:
    """``agent("jolokia")`` runs one that reads the application that way."""

    def start(way: str) -> AgentProcess:
        url = getattr(agents, way)(f"streams-{app.application_id}")
        settings: dict[str, Any] = {
            "clusters": [
                {
                    "name": "demo",
                    "kafka": {"bootstrap.servers": kafka_4.bootstrap},
                    "groups": {"include": [app.application_id], "interval": "1s"},
                }
            ],
            "streams": [{way: url, "interval": "300ms"}],
        }
        file = tmp_path / "config.yml"
        file.write_text(json.dumps(settings))
        return start_agent("--config", str(file))

    return start


def remaining(metrics: Metrics) -> float:
    return metrics.total(catalogue.STREAMS_RESTORE_REMAINING_RECORDS)


def restores(metrics: Metrics) -> bool:
    """Whether anything is left to restore. Tasks and records are counted by MBeans that do not change together."""
    return remaining(metrics) > 0 or metrics.total(catalogue.STREAMS_RESTORING_TASKS) > 0


def is_running(metrics: Metrics) -> bool:
    client = metrics.samples(catalogue.STREAMS_CLIENT_STATE, state="running")
    threads = metrics.samples(catalogue.STREAMS_THREAD_STATE, state="running")
    return len(client) == 1 and len(threads) == 2


def test_it_commits_loses_its_state_and_restores_it(
    kafka_4: KafkaCluster, app: StreamsApp, agent: Callable[[str], AgentProcess], fresh: Fresh, keep: EnterContext
) -> None:
    topic = app.topic
    running = agent("jolokia")
    running.wait_until(is_running)
    producer = keep(RdkafkaProducer(kafka_4, fresh("writer")))
    producer.init()
    producer.run(100, topic, 400)
    metrics = running.wait_until(
        lambda seen: (
            seen.total(catalogue.STREAMS_THREAD_COMMITS_TOTAL) >= 2
            and (seen.value(catalogue.STREAMS_CHANGELOG_LAG_OFFSETS, topic=app.changelog) == 0)
            and seen.samples(catalogue.STREAMS_THREAD_COMMIT_LATENCY_SECONDS, stat="avg")
            and not restores(seen)
            and (seen.value(catalogue.TRANSACTIONS_TOTAL, application=app.application_id, outcome="committed") or 0)
            >= 1
            # All is counted, so that there is enough to restore.
            and seen.value(catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS, group=app.application_id, topic=topic) == 0
        ),
    )
    (lag,) = metrics.samples(catalogue.STREAMS_CHANGELOG_LAG_OFFSETS)
    assert lag.labels["application"] == app.application_id
    assert guarantees(metrics) == {(app.application_id, "exactly_once_v2")}
    assert metrics.total(catalogue.STREAMS_REBALANCES_TOTAL) >= 2, "one and more of each thread"
    assert metrics.total(catalogue.STREAMS_FAILED_THREADS_TOTAL) == 0

    app.stop()
    down = running.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="streams") == 0)
    assert not down.samples(catalogue.STREAMS_CLIENT_STATE), "unknown is absent"
    assert down.samples(catalogue.STREAMS_THREAD_COMMITS_TOTAL), "counters stay"
    app.lose_state()
    app.start()
    restoring = running.wait_until(
        lambda seen: remaining(seen) > 100 and seen.total(catalogue.STREAMS_RESTORING_TASKS) >= 1
    )
    assert not is_running(restoring)
    metrics = running.wait_until(lambda seen: is_running(seen) and not restores(seen))
    assert len(metrics.samples(catalogue.STREAMS_RESTORE_REMAINING_RECORDS)) == 2


def guarantees(metrics: Metrics) -> set[tuple[str, str]]:
    found = metrics.samples(catalogue.STREAMS_PROCESSING_GUARANTEE)
    return {(sample.labels["application"], sample.labels["guarantee"]) for sample in found}


def test_at_least_once_is_shown_as_such_and_a_thread_that_was_replaced_is_counted(
    kafka_4: KafkaCluster, agents: JvmAgents, start_agent: StartAgent, fresh: Fresh, keep: EnterContext, tmp_path: Path
) -> None:
    topic = fresh("words")
    kafka_4.create_topic(topic, 2)
    producer = keep(RdkafkaProducer(kafka_4, fresh("writer")))
    producer.init()
    plain = {"processing.guarantee": "at_least_once", "commit.interval.ms": "200", **SOON_GIVEN_UP}
    app = keep(StreamsApp(kafka_4, fresh("count"), topic, settings=plain, jvm_options=agents.options))
    settings: dict[str, Any] = {
        "clusters": [
            {"name": "demo", "kafka": {"bootstrap.servers": kafka_4.bootstrap}, "posture": {"interval": "5s"}}
        ],
        "streams": [{"jolokia": agents.jolokia(f"streams-{app.application_id}"), "interval": "300ms"}],
    }
    file = tmp_path / "config.yml"
    file.write_text(json.dumps(settings))
    agent = start_agent("--config", str(file))
    before = agent.wait_until(is_running)
    assert not guarantees(before), "nothing was committed yet"
    producer.run(10, topic, 2)
    seen = agent.wait_until(lambda metrics: bool(guarantees(metrics)))
    assert guarantees(seen) == {(app.application_id, "at_least_once")}
    assert seen.value(catalogue.TRANSACTIONS_TOTAL, application=app.application_id, outcome="committed") is None
    assert seen.total(catalogue.STREAMS_FAILED_THREADS_TOTAL) == 0
    kafka_4.delete_topic(topic)  # MissingSourceTopicException, which the application answers with REPLACE_THREAD
    agent.wait_until(lambda metrics: metrics.total(catalogue.STREAMS_FAILED_THREADS_TOTAL) >= 1)


@pytest.mark.proof
def test_a_jmx_exporter_gives_the_numbers_too(
    kafka_4: KafkaCluster, app: StreamsApp, agent: Callable[[str], AgentProcess], fresh: Fresh, keep: EnterContext
) -> None:
    topic = app.topic
    running = agent("jmx_exporter")
    producer = keep(RdkafkaProducer(kafka_4, fresh("writer")))
    producer.init()
    producer.run(3, topic, 10)
    metrics = running.wait_until(lambda seen: seen.total(catalogue.STREAMS_THREAD_COMMITS_TOTAL) >= 1)
    assert len(metrics.samples(catalogue.STREAMS_THREAD_COMMITS_TOTAL)) == 2
    assert metrics.value(catalogue.SOURCE_UP, source="streams") == 1
