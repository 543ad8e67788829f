"""Groups beyond the last stable offset: those that read uncommitted records, and those that were only reset there."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from exporter import catalogue
from exporter.model import Deadline
from testkit.agent import Metrics
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import Producer, RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent


@pytest.fixture
def holder(kafka_4: KafkaCluster, keep: EnterContext, fresh: Callable[[str], str]) -> Producer:
    """An open transaction over most of a topic that is called as its transactional.id."""
    name = fresh("held")
    kafka_4.create_topic(name, 1)
    producer = keep(RdkafkaProducer(kafka_4, name, timeout=600.0))
    producer.init()
    producer.begin()
    producer.send(name, 3)
    producer.flush()
    return producer


@contextmanager
def group_of(kafka: KafkaCluster, topic: str, group: str, isolation: str) -> Iterator[None]:
    """A running member of a group, until it has committed an offset above the last stable one and on."""
    reader = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
        }
    )
    reader.subscribe([topic])
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            reader.poll(0.1)

    reading = threading.Thread(target=run, daemon=True)
    reading.start()
    try:
        until = Deadline.after(180)
        while not is_beyond(kafka, topic, group):
            assert poll(until, 0.2), "the group is not beyond the last stable offset"
        yield
    finally:
        over.set()
        reading.join(10)
        reader.close()


def is_beyond(kafka: KafkaCluster, topic: str, group: str) -> bool:
    """Whether the group has members, and has committed above the last stable offset."""
    admin, place = kafka.admin(), TopicPartition(topic, 0)
    wanted = [ConsumerGroupTopicPartitions(group, [place])]
    found = admin.list_consumer_group_offsets(wanted)[group].result(10).topic_partitions or []
    latest = {place: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
    stable = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
    last = next(iter(stable.values())).result(10).offset
    members = admin.describe_consumer_groups([group])[group].result(10).members
    return bool(members) and any(observation.offset > last for observation in found)


def last_read(metrics: Metrics) -> float:
    """When the groups were last read, Unix seconds; 0.0 for not yet."""
    return metrics.value(catalogue.SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS, source="groups") or 0.0


def posture(kafka: KafkaCluster) -> dict[tuple[str, str], str]:
    """The verdicts of ``check posture``, by check and subject."""
    command = (sys.executable, "-m", "exporter", "check", "posture", "--bootstrap-server", kafka.bootstrap)
    done = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, timeout=90, check=False)
    document: Any = json.loads(done.stdout)
    return {
        (check["name"], check["subject"]): check["verdict"]
        for cluster in document["clusters"]
        for check in cluster["checks"]
    }


def test_a_group_that_reads_uncommitted_gives_itself_away(
    kafka_4: KafkaCluster, holder: Producer, start_agent: StartAgent, fresh: Callable[[str], str]
) -> None:
    group, topic = fresh("impatient"), holder.transactional_id
    agent = start_agent("--bootstrap-server", kafka_4.bootstrap, environment=OFTEN)
    with group_of(kafka_4, topic, group, "read_uncommitted"):
        over = threading.Event()

        def write() -> None:
            while not over.wait(0.1):
                holder.send(topic, 1)
                holder.flush()

        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        try:
            assert posture(kafka_4)["group_isolation", group] == "failed"
            agent.wait_until(
                lambda seen: seen.value(catalogue.POSTURE_CHECK, check="group_isolation", subject=group) == 0,
            )
        finally:
            over.set()
            writing.join(10)
    holder.abort()


OFTEN = {
    "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "2s",
    "KAFKA_EOS_CLUSTERS__0__POSTURE__INTERVAL": "2s",
    "KAFKA_EOS_CLUSTERS__0__NAME": "isolation",
}


@pytest.mark.proof
def test_a_read_committed_group_that_was_reset_to_the_latest_offset_is_not_accused(
    kafka_4: KafkaCluster, holder: Producer, start_agent: StartAgent, fresh: Callable[[str], str]
) -> None:
    group, topic = fresh("patient"), holder.transactional_id
    done = kafka_4.tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--group", group, "--topic", topic, "--reset-offsets", "--to-latest", "--execute"),
    )
    assert done.returncode == 0, done.stderr
    agent = start_agent("--bootstrap-server", kafka_4.bootstrap, environment=OFTEN)
    with group_of(kafka_4, topic, group, "read_committed"):
        assert ("group_isolation", group) not in posture(kafka_4)
        first = last_read(agent.wait_until(last_read))
        metrics = agent.wait_until(lambda seen: last_read(seen) > first + 10)
        assert metrics.value(catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS, group=group, topic=topic) == 0
        assert metrics.value(catalogue.POSTURE_CHECK, check="group_isolation", subject=group) is None
    holder.abort()
