"""Who holds a last stable offset: an old transaction whose records are deleted, and markers that are not replicated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from exporter import catalogue
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.orphan import make_orphan
from testkit.workloads.producers import Producer, ProducerClass, ProducerError, RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent

OPTIONS = ("--cluster.name", "holders", "--lso.stall-after", "4s")
OFTEN = {"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "5s", "KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "1s"}


def stalls(agent: AgentProcess, topic: str) -> list[Any]:
    """Return what the status says of the stalled partitions of a topic."""
    found = agent.status()["clusters"][0]["stalled_partitions"]
    return [holder for holder in found if holder["topic"] == topic]


def scrapes_until(agent: AgentProcess, what: Callable[[Metrics], bool]) -> list[Metrics]:
    """All scrapes until one is as wanted."""
    seen: list[Metrics] = []

    def look(metrics: Metrics) -> bool:
        seen.append(metrics)
        return what(metrics)

    agent.wait_until(look)
    return seen


def test_a_holder_whose_records_are_deleted_stays_the_holder_since_it_began(
    kafka: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic = fresh("deleted")
    kafka.create_topic(topic, 1)
    orphan = make_orphan(kafka, topic)
    producer = keep(RdkafkaProducer(kafka, fresh("writer")))
    producer.init()
    producer.run(20, topic)
    agent = start_agent("--bootstrap-server", kafka.bootstrap, *OPTIONS, environment=OFTEN)
    lag, since = catalogue.LSO_LAG_OFFSETS, catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS
    before = agent.wait_until(lambda seen: seen.value(since, topic=topic))
    assert before.value(lag, topic=topic) == 41
    admin = kafka.admin()
    for offset, left in ((11, 30), (31, 10)):
        asked = admin.delete_records([TopicPartition(topic, 0, offset)])
        next(iter(asked.values())).result(10)
        seen = scrapes_until(agent, lambda now: now.value(lag, topic=topic) == left)  # noqa: B023
        # At no scrape on the way was the stall gone, or another one.
        assert {metrics.value(since, topic=topic) for metrics in seen} == {before.value(since, topic=topic)}
        holders = {
            (sample.labels["producer_id"], sample.labels["start_offset"])
            for metrics in seen
            for sample in metrics.samples(catalogue.LSO_BLOCKER_INFO, topic=topic)
        }
        assert holders == {(str(orphan.producer_id), str(orphan.start_offset))}


@contextmanager
def member_of(kafka: KafkaCluster, group: str, topic: str, client_id: str) -> Iterator[None]:
    """A live member of a group, which commits nothing itself."""
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": group, "client.id": client_id}
    consumer = Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 6000})
    consumer.subscribe([topic])
    over = Event()

    def run() -> None:
        while not over.is_set():
            consumer.poll(0.1)

    polling = Thread(target=run, daemon=True)
    polling.start()
    try:
        yield
    finally:
        over.set()
        polling.join(10)
        consumer.close()


def test_the_group_of_a_holder_is_named_with_its_members_until_it_has_none(
    kafka_4: KafkaCluster,
    make_producer: ProducerClass,
    start_agent: StartAgent,
    keep: EnterContext,
    fresh: Callable[[str], str],
) -> None:
    """The transaction that is open has committed no offsets yet: an earlier one of its producer id has."""
    source, topic, group, name = fresh("source"), fresh("copied"), fresh("copiers"), fresh("copy")
    for made in (source, topic):
        kafka_4.create_topic(made, 1)
    environment = OFTEN | {"KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "1s"}
    agent = start_agent("--bootstrap-server", kafka_4.bootstrap, *OPTIONS, environment=environment)

    def holder() -> Any:
        return next((stall["holder"] for stall in stalls(agent, topic)), {"text": "", "groups": []})

    with member_of(kafka_4, group, source, f"{name}-pod-7f9c"):
        producer = keep(make_producer(kafka_4, f"{name}-pod-7f9c", timeout=600.0))
        producer.init()
        producer.begin()
        producer.send(topic)
        producer.send_offsets(group, source, 0, 1)
        producer.commit()
        producer.begin()
        producer.send(topic)
        producer.flush()
        agent.wait_until(lambda _: any(own["members"] for own in holder()["groups"]))
        (own,) = holder()["groups"]
        assert own["members"] == [{"client_id": f"{name}-pod-7f9c", "host": "127.0.0.1", "match": "likely"}]
        assert f"its group {group} has 1 member: 127.0.0.1 ({name}-pod-7f9c, likely the holder)" in holder()["text"]
    producer.kill()
    agent.wait_until(lambda _: "has no member since" in holder()["text"])
    assert "unless it is started again, nobody will end it before" in holder()["text"]
    metrics = agent.wait_until(
        lambda seen: seen.value(catalogue.LSO_HOLDER_GROUP_MEMBERS, group=group) == 0,
    )
    assert metrics.value(catalogue.SOURCE_UP, source="groups") == 1
    command = ("transactions", "stalled", "--bootstrap-server", kafka_4.bootstrap, "--stall-after", "2s")
    done = subprocess.run([sys.executable, "-m", "exporter", *command], capture_output=True, text=True, check=False)
    assert f"its group {group} has no member" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def two() -> Iterator[KafkaCluster]:
    """Two brokers, and one partition of the transaction log, with one replica: it needs no follower."""
    properties = {
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "replica.lag.time.max.ms": "4000",
    }
    with KafkaCluster("4.3.1", 2, properties=properties, transaction_partitions=1, heap_mb=384) as kafka:
        yield kafka


def test_a_marker_that_is_not_replicated_is_completing_and_the_missing_replica_is_named(
    two: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    held, free, name = fresh("held"), fresh("free"), fresh("pay")
    producer = keep(RdkafkaProducer(two, f"{name}-1", timeout=300.0))
    producer.init()  # the transaction log is there from now on
    admin = two.admin()
    log = admin.list_topics("__transaction_state", timeout=60).topics["__transaction_state"]
    coordinator: int = log.partitions[0].leader
    follower = next(broker for broker in two.brokers if broker.id != coordinator)
    topics = [
        NewTopic(held, 1, replica_assignment=[[coordinator, follower.id]], config={"min.insync.replicas": "2"}),
        NewTopic(free, 1, replica_assignment=[[coordinator]]),
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)
    agent = start_agent("--bootstrap-server", two.broker(coordinator).address, *OPTIONS, environment=OFTEN)
    producer.begin()
    producer.send(held, 2)
    producer.send(free, 2)
    producer.flush()
    agent.wait_until(lambda seen: seen.value(catalogue.TOPIC_LSO_LAG_OFFSETS, topic=held) == 2)
    follower.pause()
    commit = Thread(target=try_to_commit, args=(producer,), daemon=True)
    try:
        commit.start()
        kind = {"topic": held, "kind": "completing"}
        agent.wait_until(lambda seen: seen.samples(catalogue.LSO_BLOCKER_INFO, **kind))
        missing = {"waits_for": "not_replicated", "missing_replicas": [follower.id], "min_insync_replicas": 2}
        agent.wait_until(
            lambda _: (
                [missing.items() <= (stall["blocker"]["completion"] or {}).items() for stall in stalls(agent, held)]
                == [True]
            ),
        )
        (stall,) = stalls(agent, held)
        assert stall["blocker"]["transactional_id"] == f"{name}-1"
        assert stall["blocker"]["unmarked_partitions"] == [f"{held}-0"]
        assert f"Bring back broker {follower.id}" in stall["next_step"]["text"]
        assert free not in stall["next_step"]["text"]
        assert stall["next_step"]["command"] is None
        assert stalls(agent, free) == []
    finally:
        follower.resume()
    agent.wait_until(lambda seen: seen.value(catalogue.STALLED_PARTITIONS, topic=held) == 0)
    commit.join(60)


def try_to_commit(producer: Producer) -> None:
    try:
        producer.commit()
    except ProducerError:
        return
