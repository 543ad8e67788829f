"""A real Flink job (2.0.0, KafkaSink, exactly once): its rhythm, its death after a checkpoint, and what it loses."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from exporter import catalogue
from exporter.model import Deadline
from testkit.agent import COMMAND, AgentProcess
from testkit.cluster import KafkaCluster
from testkit.flink import FlinkJob, Naming
from testkit.processes import poll
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent, in_proof

INTERVAL = 6.0
STALL_AFTER = 3
OPTIONS = ("--cluster.name", "flink", "--lso.stall-after", f"{STALL_AFTER}s")

OFTEN = {"KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "1s"}
DESTRUCTIVE = ("forceTerminateTransaction", " abort ")


def cluster_of(agent: AgentProcess) -> Any:
    return agent.status()["clusters"][0]


def stalls(agent: AgentProcess, topic: str) -> list[Any]:
    return [partition for partition in cluster_of(agent)["stalled_partitions"] if partition["topic"] == topic]


def completes(job: FlinkJob, more_than: int = 0) -> None:
    """Wait until the job has completed another checkpoint, with a number above this."""
    before, until = job.last_checkpoint, Deadline.after(180)
    while (last := job.last_checkpoint) is None or last == before or int(last.name.split("-")[1]) <= more_than:
        assert poll(until), job.child.tail(40)


def late(job: FlinkJob) -> bool:
    """Whether the job's last checkpoint is older than two of its intervals."""
    last = job.last_checkpoint
    return last is None or time.time() - (last / "_metadata").stat().st_mtime > 2 * INTERVAL


def terminal(kafka: KafkaCluster, *arguments: str) -> str:
    """Return what a look prints."""
    command = [str(COMMAND), "transactions", *arguments, "--bootstrap-server", kafka.bootstrap]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode in {0, 1}, run.stderr
    return run.stdout


def nothing_is_lost_or_twice(kafka: KafkaCluster, topic: str, splits: int) -> None:
    """Read what is committed now, and wait for every number below the largest of them.

    Each of the source's splits counts up from a begin of its own. A number that is lost never comes; one that is there
    twice fails at once.
    """
    admin = kafka.admin()
    places = admin.list_topics(topic, timeout=30).topics[topic].partitions
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    latest = {TopicPartition(topic, number): newest for number in places}
    ends = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
    left = {place.partition for place, end in ends.items() if end.result(30).offset > 0}
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    numbers: set[int] = set()
    wanted: set[int] = set()
    until = Deadline.after(180)
    try:
        while not wanted or not wanted <= numbers:
            assert not until.over, (len(numbers), left, sorted(wanted - numbers)[:20])
            for message in consumer.consume(500, 0.5):
                assert message.error() is None
                number = int((message.value() or b"").decode().removeprefix("record-"))
                assert number not in numbers
                numbers.add(number)
            for place in consumer.position([TopicPartition(topic, number) for number in left]):
                if place.offset >= ends[TopicPartition(topic, place.partition)].result().offset:
                    left.discard(place.partition)
            if not wanted and not left:
                wanted = runs(numbers, splits)
    finally:
        consumer.close()


def runs(numbers: set[int], splits: int) -> set[int]:
    """All numbers from the begin of each split to the largest of its numbers. A split has a part of all longs."""
    part = -(-(2**63 - 1) // splits)
    begins = {number // part * part for number in numbers}
    return {
        number for begin in begins for number in range(begin, max(n for n in numbers if n // part * part == begin) + 1)
    }


@pytest.mark.parametrize("naming", ["INCREMENTING", *in_proof("POOLING")])
def test_a_job_that_dies_after_a_checkpoint_is_reported_its_deadline_and_loses_nothing(
    kafka_4: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str], naming: Naming
) -> None:
    topic, prefix = fresh("flink"), fresh("job")
    kafka_4.create_topic(topic, 2)
    job = keep(FlinkJob(kafka_4, topic, prefix, naming, interval=INTERVAL, timeout=90))
    agent = start_agent("--bootstrap-server", kafka_4.bootstrap, *OPTIONS, environment=OFTEN)
    interval = catalogue.FLINK_CHECKPOINT_INTERVAL_SECONDS
    agent.wait_until(
        lambda now: (now.value(interval, transactional_id_prefix=prefix) or 0) == pytest.approx(INTERVAL, rel=0.4)
    )

    # Before its rhythm was known, a wait was a stall, and the last read of the offsets may be of that time.
    agent.wait_until(lambda _: not stalls(agent, topic))

    # Healthy: the last stable offset does not move for most of the time, and that is no stall.
    waits, until = 0, Deadline.after(2 * INTERVAL)
    while poll(until, 0.5):
        opened = [
            transaction
            for transaction in cluster_of(agent)["open_transactions"]
            if transaction["application"] == prefix
        ]
        # On a busy machine a checkpoint may be late by itself, and then it is a stall.
        assert stalls(agent, topic) == [] or late(job), opened
        found = [
            transaction
            for transaction in opened
            if transaction["flink"] is not None and transaction["seconds"] > STALL_AFTER
        ]
        waits += any(transaction["flink"]["waiting_for_checkpoint"] for transaction in found)
    assert waits
    assert agent.metrics().value(catalogue.STALLED_PARTITIONS, topic=topic) == 0
    assert topic not in terminal(kafka_4, "stalled", "--stall-after", f"{STALL_AFTER}s")

    # A checkpoint completes, and the job is killed before it commits.
    job.hold()
    completes(job)
    job.kill()
    deadline = catalogue.FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS
    seen = agent.wait_until(lambda now: now.samples(deadline, application=prefix, precommitted="proven"))
    # One for each transaction that holds a partition: those of two subtasks, at times.
    dues = seen.samples(catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS, application=prefix, severity="critical")
    assert {due.value for due in dues} <= {float("inf")}, "a restart may still commit what they hold"
    agent.wait_until(lambda _: stalls(agent, topic))
    for stall in stalls(agent, topic):
        step = stall["next_step"]
        assert step["command"] is None
        assert "Start the job from its last checkpoint before" in step["text"]
        assert prefix in step["text"]
    printed = terminal(kafka_4, "stalled", "--stall-after", f"{STALL_AFTER}s")
    assert topic in printed
    assert "Start the job from its last checkpoint before" in " ".join(printed.replace("\n# ", "\n").split())
    pages = (printed, agent.get("/").text, agent.get("/api/v1/status").text, terminal(kafka_4))
    assert not [word for page in pages for word in DESTRUCTIVE if word in page]

    # Started from that checkpoint, it commits what was precommitted.
    job.release()
    job.start()
    agent.wait_until(lambda now: not now.samples(deadline, application=prefix))
    nothing_is_lost_or_twice(kafka_4, topic, splits=2)
    seen = agent.metrics()
    assert seen.samples(catalogue.FLINK_LOSS_TIMESTAMP_SECONDS, application=prefix) == []
    assert seen.value(catalogue.TRANSACTIONS_TOTAL, application=prefix, outcome="timed_out") == 0
    assert seen.samples(catalogue.RECENT_PRODUCER_FENCES, application=prefix) == []


def job_of_one(kafka: KafkaCluster, topic: str, prefix: str, timeout: float) -> FlinkJob:
    """A job of one subtask, with a checkpoint every 2 s, on a topic of one partition."""
    kafka.create_topic(topic, 1)
    return FlinkJob(kafka, topic, prefix, "INCREMENTING", interval=2, timeout=timeout, parallelism=1)


def watched(kafka: KafkaCluster, start_agent: StartAgent, prefix: str) -> AgentProcess:
    """An agent that knows the job's checkpoint interval."""
    agent = start_agent("--bootstrap-server", kafka.bootstrap, *OPTIONS, environment=OFTEN)
    interval = catalogue.FLINK_CHECKPOINT_INTERVAL_SECONDS
    agent.wait_until(lambda now: now.value(interval, transactional_id_prefix=prefix))
    return agent


@pytest.mark.proof
def test_a_job_that_is_not_started_in_time_loses_what_it_precommitted(
    kafka_4: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic, prefix = fresh("flink"), fresh("job")
    job = keep(job_of_one(kafka_4, topic, prefix, timeout=30))
    agent = watched(kafka_4, start_agent, prefix)
    job.hold()
    completes(job)
    number = str(int((job.last_checkpoint or job.checkpoints).name.split("-")[1]))
    job.kill()
    loss = catalogue.FLINK_LOSS_TIMESTAMP_SECONDS
    seen = agent.wait_until(lambda now: now.samples(loss, application=prefix))
    (sample,) = seen.samples(loss, application=prefix)
    assert sample.labels["checkpoint"] == number
    (place,) = seen.samples(catalogue.FLINK_LOSS_INFO, application=prefix)
    assert place.labels["topic"] == topic
    assert 0 <= int(place.labels["start_offset"]) < int(place.labels["end_offset"])


@pytest.mark.proof
def test_a_transaction_of_a_subtask_that_a_running_job_has_no_more_is_not_told_to_be_ended_by_a_start(
    kafka_4: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic, prefix = fresh("flink"), fresh("job")
    keep(job_of_one(kafka_4, topic, prefix, timeout=300))
    agent = watched(kafka_4, start_agent, prefix)
    with RdkafkaProducer(kafka_4, f"{prefix}-1-1", timeout=300.0) as left:
        left.init()
        left.begin()
        left.send(topic)
        left.flush()
        until = Deadline.after(120)
        while not any("as after a downscale" in stall["next_step"]["text"] for stall in stalls(agent, topic)):
            assert poll(until), stalls(agent, topic)
        [stall] = stalls(agent, topic)
        assert stall["blocker"]["transactional_id"] == f"{prefix}-1-1"
        assert "The job runs, and committed later checkpoints" in stall["next_step"]["text"]
        assert "start the job" not in stall["next_step"]["text"].lower()
        assert stall["next_step"]["command"] is None
        left.commit()
