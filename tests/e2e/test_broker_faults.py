"""Faults of real brokers: moves, crashes, pauses, deletions. Counts stay right and nothing false is reported."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from exporter import catalogue
from exporter.kafka.ask import coordinator_partition
from exporter.model import Deadline
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.orphan import make_orphan
from testkit.processes import poll
from testkit.settings import free_ports
from testkit.workloads.producers import Producer, ProducerClass, ProducerError, RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent, in_proof
from tests.e2e.ending_lines import rolled
from tests.helpers.schemas import conform

SOURCES = 5
"""Sources of a cluster without engines and JVMs."""
OPTIONS = ("--cluster.name", "weather", "--lso.stall-after", "4s")
OFTEN = {"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "5s", "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "5s"}


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaCluster]:
    """Three brokers that tests stop and start again."""
    with KafkaCluster("4.3.1", 3, heap_mb=384) as kafka:
        yield kafka


def _leader(kafka: KafkaCluster, topic: str, partition: int) -> int:
    found: int = kafka.admin().list_topics(topic, timeout=60).topics[topic].partitions[partition].leader
    return found


def _committed(metrics: Metrics, application: str) -> float | None:
    return metrics.value(catalogue.TRANSACTIONS_TOTAL, application=application, outcome="committed")


def _application(producer: Producer) -> str:
    return producer.transactional_id.rpartition("-")[0]


@pytest.mark.parametrize("how", [*in_proof("stop"), "kill"])
def test_counters_carry_on_when_the_coordinator_moves(
    how: str,
    three: KafkaCluster,
    start_agent: StartAgent,
    keep: EnterContext,
    fresh: Callable[[str], str],
    make_producer: ProducerClass,
) -> None:
    topic, application = fresh("orders"), fresh("moved")
    three.create_topic(topic, 3)
    agent = start_agent("--bootstrap-server", three.bootstrap, *OPTIONS, environment=OFTEN)
    producer = keep(make_producer(three, f"{application}-1"))
    producer.init()
    producer.run(4, topic)
    agent.wait_until(lambda seen: _committed(seen, application) == 4)
    number = coordinator_partition(producer.transactional_id)
    coordinator = three.broker(_leader(three, "__transaction_state", number))
    getattr(coordinator, how)()
    try:
        producer.run(5, topic)
        producer.run(2, topic, commit=False)
        metrics = agent.wait_until(lambda seen: _committed(seen, application) == 9)
        assert metrics.value(catalogue.PRODUCER_FENCES_TOTAL, application=application) == 0
        assert metrics.value(catalogue.PRODUCER_INITS_TOTAL, application=application) == 1
        agent.wait_until(
            lambda seen: (
                seen.value(
                    catalogue.INTERNAL_TOPIC_PARTITIONS, topic="__transaction_state", condition="under_replicated"
                )
                == 50
            )
        )
    finally:
        coordinator.start()
        three.wait_ready()
    producer.run(1, topic)
    metrics = agent.wait_until(lambda seen: _committed(seen, application) == 10)
    found = {
        outcome: metrics.value(catalogue.TRANSACTIONS_TOTAL, application=application, outcome=outcome)
        for outcome in catalogue.OUTCOMES
    }
    assert found == producer.counts.outcomes()
    assert metrics.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 0
    agent.wait_until(lambda seen: all(sample.value == 1 for sample in seen.samples(catalogue.SOURCE_UP)))


def test_a_transaction_whose_markers_cannot_be_written_is_completing_and_never_hanging(
    three: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic, application = fresh("orders"), fresh("decided")
    three.create_topic(topic, 1, min_insync_replicas="3")
    agent = start_agent("--bootstrap-server", three.bootstrap, *OPTIONS, environment=OFTEN)
    producer = keep(RdkafkaProducer(three, f"{application}-1", timeout=120.0))
    producer.init()
    producer.begin()
    producer.send(topic, 2)
    producer.flush()
    avoid = {_leader(three, topic, 0), _leader(three, "__transaction_state", coordinator_partition(f"{application}-1"))}
    # Under min ISR the partition's leader still answers, and refuses the marker.
    stopped = three.broker(next(broker.id for broker in three.brokers if broker.id not in avoid))
    code, answer = rolled(three.bootstrap, stopped.id)
    assert (code, answer["answer"]) == (1, "no")
    assert [(row["reason"], row["subject"]) for row in answer["rows"] if row["effect"] == "no"] == [
        ("below_min_isr", topic)
    ]
    stopped.stop()
    code, answer = rolled(three.bootstrap, min(avoid))
    assert (code, answer["answer"]) == (1, "no")
    asked = json.loads(agent.get(f"/api/v1/roll?broker={min(avoid)}").text)
    (by_agent,) = conform("check-roll", asked)["clusters"][0]["brokers"]
    assert (by_agent["answer"], _reasons(by_agent)) == ("no", _reasons(answer))
    assert {"__transaction_state", topic} <= {row["subject"] for row in answer["rows"] if row["effect"] == "no"}
    commit = Thread(target=_try_to_commit, args=(producer,), daemon=True)
    try:
        commit.start()
        metrics = agent.wait_until(
            lambda seen: seen.samples(catalogue.LSO_BLOCKER_INFO, topic=topic, kind="completing")
        )
        blockers = metrics.samples(catalogue.LSO_BLOCKER_INFO, topic=topic)
        assert [sample.labels["transactional_id"] for sample in blockers] == [f"{application}-1"]
        assert metrics.value(catalogue.HANGING_TRANSACTIONS, topic=topic) == 0
        assert metrics.value(catalogue.TRANSACTIONS_OPEN, application=application, state="prepare_commit") == 1
        assert metrics.samples(catalogue.OLDEST_COMPLETION_START_TIMESTAMP_SECONDS, application=application)
        assert _committed(metrics, application) == 0
        assert " abort --topic" not in agent.get("/").text
    finally:
        stopped.start()
        three.wait_ready()
    metrics = agent.wait_until(lambda seen: _committed(seen, application) == 1)
    agent.wait_until(lambda seen: seen.value(catalogue.STALLED_PARTITIONS, topic=topic) == 0)
    commit.join(30)


def _reasons(answer: Any) -> set[tuple[str, str]]:
    """Return what a broker may not be stopped for, each with its subject."""
    return {(row["reason"], row["subject"]) for row in answer["rows"] if row["effect"] == "no"}


def _try_to_commit(producer: Producer) -> None:
    try:
        producer.commit()
    except ProducerError:
        return


def test_a_paused_broker_costs_its_own_samples_only(start_agent: StartAgent, fresh: Callable[[str], str]) -> None:
    # The cluster does not give the broker up: a read during which its partitions move has all answers, and no fault.
    with KafkaCluster("4.3.1", 2, properties={"broker.session.timeout.ms": "3600000"}) as kafka:
        others, own, paused = fresh("others"), fresh("own"), kafka.broker(2)
        for topic, broker in ((others, 1), (own, paused.id)):
            _create_at(kafka, topic, broker)
        agent = start_agent("--bootstrap-server", kafka.bootstrap, *OPTIONS, environment=OFTEN)
        lag, stalled = catalogue.TOPIC_LSO_LAG_OFFSETS, catalogue.STALLED_PARTITIONS
        agent.wait_until(lambda seen: (seen.value(lag, topic=others), seen.value(lag, topic=own)) == (0, 0))
        paused.pause()
        until, metrics = Deadline.after(120), agent.metrics()
        # Two reads: the second has the metadata of after a fault.
        while metrics.total(catalogue.SOURCE_FAULTS_TOTAL, source="lso", reason="timeout") < 2:
            assert poll(until, 0.5), "reads have no fault of a broker that does not answer"
            metrics = agent.metrics()
            assert (metrics.value(lag, topic=others), metrics.value(stalled, topic=others)) == (0, 0)
        assert metrics.value(catalogue.SOURCE_BLIND, source="lso") == 0
        (lso,) = (source for source in agent.status()["clusters"][0]["sources"] if source["source"] == "lso")
        assert lso["faults"], lso
        assert all(f"broker {paused.id} at {paused.address}" in fault["detail"] for fault in lso["faults"]), lso
        paused.resume()
        agent.wait_until(lambda seen: all(sample.value == 1 for sample in seen.samples(catalogue.SOURCE_UP)))
        agent.wait_until(lambda seen: seen.value(lag, topic=own) == 0)


@pytest.mark.proof
def test_with_one_coordinator_stopped_the_kind_is_unknown_and_after_its_election_too(
    start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    alone = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    with KafkaCluster("4.3.1", 2, properties=alone) as kafka:
        topic = fresh("ledger")
        kafka.create_topic(topic)
        healthy = keep(RdkafkaProducer(kafka, fresh("healthy")))
        healthy.init()
        healthy.run(1, topic)
        kafka.brokers[1].stop()
        _until_led(kafka, topic, kafka.brokers[0].id)
        make_orphan(kafka, topic)
        agent = start_agent("--bootstrap-server", kafka.bootstrap, *OPTIONS, environment=OFTEN)
        metrics = agent.wait_until(lambda seen: seen.samples(catalogue.LSO_BLOCKER_INFO, topic=topic))
        since = time.monotonic()
        while time.monotonic() - since < 50:  # longer than two rounds of a proof take
            metrics = agent.metrics()
            assert metrics.samples(catalogue.LSO_BLOCKER_INFO, kind="hanging") == []
            assert metrics.value(catalogue.HANGING_TRANSACTIONS, topic=topic) is None
            assert " abort --topic" not in agent.get("/").text + agent.get("/api/v1/status").text
            time.sleep(1)
        offline = metrics.value(catalogue.INTERNAL_TOPIC_PARTITIONS, topic="__transaction_state", condition="offline")
        assert offline is not None
        assert 0 < offline < 50
        kafka.brokers[1].start()
        until = Deadline.after(180)
        # The log elects a leader, so it is not whole since before these records, for 16 minutes (internals/proof.md).
        while not any("had an election" in missing for missing in _missing(agent, topic)):
            assert poll(until, 0.5), _missing(agent, topic)
        assert {sample.labels["kind"] for sample in agent.metrics().samples(catalogue.LSO_BLOCKER_INFO)} == {"unknown"}


@pytest.mark.proof
@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_an_agent_that_was_away_counts_what_it_missed(
    ending: str,
    kafka_4: KafkaCluster,
    start_agent: StartAgent,
    keep: EnterContext,
    fresh: Callable[[str], str],
    make_producer: ProducerClass,
    tmp_path: Path,
) -> None:
    topic, application = fresh("orders"), fresh("away")
    kafka_4.create_topic(topic)
    arguments = ("--bootstrap-server", kafka_4.bootstrap, *OPTIONS, "--state.dir", str(tmp_path))
    first = start_agent(*arguments, environment=OFTEN)
    producer = keep(make_producer(kafka_4, f"{application}-1"))
    producer.init()
    producer.run(3, topic)
    first.wait_until(lambda seen: _committed(seen, application) == 3)
    held = keep(make_producer(kafka_4, f"{application}-2", timeout=600.0))
    held.init()
    held.begin()
    held.send(topic)
    held.flush()
    stalled = first.wait_until(lambda seen: seen.samples(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, topic=topic))
    since = stalled.value(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, topic=topic)
    if ending == "stop":
        assert first.stop() == 0
    else:
        first.kill()
    producer.run(7, topic)
    producer.run(2, topic, commit=False)
    second = start_agent(*arguments, environment=OFTEN, name="second")
    metrics = second.wait_until(lambda seen: _committed(seen, application) == 10)
    assert metrics.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 0
    metrics = second.wait_until(
        lambda seen: seen.value(catalogue.TRANSACTIONS_TOTAL, application=application, outcome="aborted") == 2
    )
    assert _committed(metrics, application) == 10
    metrics = second.wait_until(lambda seen: seen.samples(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, topic=topic))
    again = metrics.value(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, topic=topic)
    assert again == pytest.approx(since, abs=0.01)


def test_a_first_start_dates_the_last_hour_and_counts_none_of_it(
    kafka_4: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic, application = fresh("orders"), fresh("before")
    kafka_4.create_topic(topic)
    zombie = keep(RdkafkaProducer(kafka_4, f"{application}-1"))
    zombie.init()
    zombie.begin()
    zombie.send(topic)
    zombie.flush()
    successor = keep(RdkafkaProducer(kafka_4, f"{application}-1", counts=zombie.counts))
    successor.init()
    successor.run(1, topic)
    agent = start_agent("--bootstrap-server", kafka_4.bootstrap, *OPTIONS)
    metrics = agent.wait_until(
        lambda seen: seen.samples(catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS, application=application)
    )
    assert metrics.value(catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS, application=application, outcome="committed")
    for outcome in catalogue.OUTCOMES:
        assert metrics.value(catalogue.TRANSACTIONS_TOTAL, application=application, outcome=outcome) == 0
    assert metrics.value(catalogue.PRODUCER_FENCES_TOTAL, application=application) == 0


def test_a_deleted_topic_leaves_no_series_and_no_fault(
    kafka_4: KafkaCluster, start_agent: StartAgent, fresh: Callable[[str], str]
) -> None:
    topic = fresh("gone")
    kafka_4.create_topic(topic, 3)
    agent = start_agent("--bootstrap-server", kafka_4.bootstrap, *OPTIONS, environment=OFTEN)
    agent.wait_until(lambda seen: seen.samples(catalogue.TOPIC_LSO_LAG_OFFSETS, topic=topic))
    kafka_4.delete_topic(topic)
    metrics = agent.wait_until(lambda seen: not seen.samples(catalogue.TOPIC_LSO_LAG_OFFSETS, topic=topic))
    assert topic not in metrics.text
    assert metrics.value(catalogue.SOURCE_UP, source="lso") == 1


def test_an_empty_cluster_is_no_fault_and_stays_empty(start_agent: StartAgent) -> None:
    with KafkaCluster("4.3.1") as kafka:
        agent = start_agent("--bootstrap-server", kafka.bootstrap, *OPTIONS, environment=OFTEN)
        metrics = agent.wait_until(lambda seen: len(seen.samples(catalogue.SOURCE_UP)) == SOURCES)
        assert all(sample.value == 1 for sample in metrics.samples(catalogue.SOURCE_UP))
        assert metrics.value(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS) == 0
        assert set(kafka.admin().list_topics(timeout=60).topics) == set()


def test_starting_before_kafka_and_with_a_dead_cluster_beside_it(
    start_agent: StartAgent, tmp_path: Path, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    nobody = free_ports(1)[0]
    with KafkaCluster("4.3.1") as kafka:
        kafka.brokers[0].stop()
        config = tmp_path / "config.yml"
        config.write_text(
            "clusters:\n"
            f"  - {{name: late, kafka: {{bootstrap.servers: '{kafka.bootstrap}'}}}}\n"
            f"  - {{name: dead, kafka: {{bootstrap.servers: '127.0.0.1:{nobody}'}}}}\n"
        )
        agent = start_agent("--config", str(config))
        metrics = agent.wait_until(lambda seen: len(seen.samples(catalogue.SOURCE_UP)) == 2 * SOURCES)
        assert all(sample.value == 0 for sample in metrics.samples(catalogue.SOURCE_UP))
        assert metrics.total(catalogue.SOURCE_FAULTS_TOTAL, reason="unreachable") > 0
        kafka.brokers[0].start()
        kafka.wait_ready()
        metrics = agent.wait_until(
            lambda seen: [s.value for s in seen.samples(catalogue.SOURCE_UP, kafka_cluster="late")] == [1] * SOURCES,
        )
        assert [sample.value for sample in metrics.samples(catalogue.SOURCE_UP, kafka_cluster="dead")] == [0] * SOURCES
        assert agent.get("/-/ready").status == 200
        # A hung peer delays the end by five seconds at most; after ten the agent would be killed.
        kafka.brokers[0].pause()
        assert agent.stop() == 0


def _missing(agent: AgentProcess, topic: str) -> list[str]:
    """Return what is missing to know the kind of the topic's holders."""
    stalled = agent.status()["clusters"][0]["stalled_partitions"]
    return [text for stall in stalled if stall["topic"] == topic for text in stall["blocker"]["missing"]]


def _create_at(kafka: KafkaCluster, topic: str, broker: int) -> None:
    """Create a topic of one partition that only this broker has."""
    admin = kafka.admin()  # kept until the answer is here
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[broker]])])[topic].result(60)
    _until_led(kafka, topic, broker)


def _until_led(kafka: KafkaCluster, topic: str, leader: int) -> None:
    """Wait until this broker leads the topic's first partition."""
    until = Deadline.after(30)
    while True:
        with suppress(KafkaException, KeyError):  # a broker may not know of a new topic yet
            if _leader(kafka, topic, 0) == leader:
                return
        assert poll(until, 0.2), f"broker {leader} does not lead {topic}"
