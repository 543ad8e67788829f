"""Failures of production, made on real brokers: the audit finds what happened to the records, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from exporter.jobs.audit.tables import SinkTable
from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.connect import ConnectCluster
from testkit.processes import poll
from testkit.workloads.producers import EndedError, JavaProducer, RdkafkaProducer
from tests.e2e.conftest import EnterContext
from tests.e2e.spark.auditing import Auditor, by_kind, places

Fresh = Callable[[str], str]
LINES = 200
SECONDS = 120.0


@pytest.fixture(scope="module")
def kafka(clusters: Callable[..., KafkaCluster]) -> KafkaCluster:
    return clusters("4.3.1")


@pytest.fixture
def topic(kafka: KafkaCluster, fresh: Fresh) -> str:
    name = fresh("scenario")
    kafka.create_topic(name)
    return name


@pytest.mark.proof
def test_a_producer_killed_in_the_middle_of_a_transaction_leaves_no_duplicate(
    audits: Auditor, kafka: KafkaCluster, topic: str, keep: EnterContext, fresh: Fresh
) -> None:
    name = fresh("killed")
    first = keep(RdkafkaProducer(kafka, name, timeout=600))
    first.init()
    first.run(3, topic, 5)
    first.begin()
    first.send(topic, 4)
    first.flush()
    first.kill()
    held = audits.report(topic, id="value")
    assert (held.result.verdict, held.result.records) == ("clean", 15)
    assert held.notes == ("4 offsets at the end are not decided yet, and not audited",)
    # Its successor ends what was open, and writes its first records once more under the same values.
    second = keep(RdkafkaProducer(kafka, name))
    second.init()
    result = audits.audit(topic, id="value")
    assert (result.verdict, result.records, result.aborted_records) == ("clean", 15, 4)
    second.run(1, topic, 5)
    (finding,) = audits.audit(topic, id="value").findings
    assert (finding.kind, finding.count) == ("duplicate", 5)


@pytest.mark.proof
def test_what_a_fenced_zombie_wrote_is_aborted_and_seen_by_no_committed_reader(
    audits: Auditor, kafka: KafkaCluster, topic: str, keep: EnterContext, fresh: Fresh
) -> None:
    name = fresh("zombie")
    zombie, successor = keep(JavaProducer(kafka, name)), keep(JavaProducer(kafka, name))
    zombie.init()
    zombie.begin()
    zombie.send(topic, 3)
    zombie.flush()
    successor.init()
    successor.run(1, topic, 3)
    with pytest.raises(EndedError):
        zombie.commit()
    result = audits.audit(topic, id="value")
    assert (result.verdict, result.records, result.aborted_records) == ("clean", 3, 3)


@pytest.mark.proof
def test_a_reader_that_takes_uncommitted_records_for_good_is_found_out_by_its_sink(
    audits: Auditor, kafka: KafkaCluster, topic: str, keep: EnterContext, fresh: Fresh, tmp_path: Path
) -> None:
    producer = keep(RdkafkaProducer(kafka, fresh("writer"), timeout=600))
    producer.init()
    producer.run(2, topic, 2)
    producer.run(1, topic, 2, commit=False)
    producer.run(1, topic, 2)
    producer.begin()
    producer.send(topic, 1)
    producer.flush()
    for level, expected in (
        ("read_committed", {}),
        ("read_uncommitted", {"aborted_visible": {(0, 6), (0, 7)}, "ahead": {(0, 12)}}),
    ):
        rows = consumed(kafka, topic, level)
        folder = str(tmp_path / level)
        schema = "kafka_topic string, kafka_partition int, kafka_offset bigint"
        audits.session.createDataFrame(rows, schema).write.parquet(folder)
        found = by_kind(audits.audit(topic, sink=SinkTable(folder)))
        assert {kind: places(finding) for kind, finding in found.items()} == expected
    producer.abort()


@pytest.mark.proof
def test_connect_repeats_what_its_source_wrote_before_a_kill_unless_it_is_exactly_once(
    audits: Auditor, kafka: KafkaCluster, fresh: Fresh, tmp_path: Path
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"line {number}\n" for number in range(LINES)))
    with ExitStack() as stack:
        groups = {}
        for support in ("enabled", "disabled"):
            # Offsets that are never flushed in time: what at-least-once looks like on its worst day.
            properties = {"exactly.once.source.support": support, "offset.flush.interval.ms": "3600000"}
            connect = ConnectCluster(kafka, fresh(f"eos-{support}"), 1, properties=properties)
            groups[support] = (connect, fresh(f"lines-{support}"))
            stack.callback(connect.close)
            connect.workers[0].start()
        for connect, name in groups.values():
            kafka.create_topic(name)
            connect.wait_ready(Deadline.after(SECONDS))
            connect.create_file_source(name, file, name)
        for connect, name in groups.values():
            wait_for(kafka, name, LINES)
            connect.workers[0].kill()
        with file.open("a") as more:
            more.writelines(f"more {number}\n" for number in range(LINES))
        for connect, _ in groups.values():
            connect.workers[0].start()
        for support, (_, name) in groups.items():
            wait_for(kafka, name, 2 * LINES if support == "enabled" else 3 * LINES)
    exactly, at_least = (audits.audit(groups[support][1], id="value") for support in ("enabled", "disabled"))
    assert (exactly.verdict, exactly.records, exactly.findings) == ("clean", 2 * LINES, ())
    (finding,) = at_least.findings
    assert (finding.kind, finding.count, at_least.records) == ("duplicate", LINES, 3 * LINES)


def consumed(kafka: KafkaCluster, topic: str, level: str) -> list[tuple[str, int, int]]:
    """The places of all records that a reader gets: what a sink that tracks offsets stores."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": f"{topic}-{level}",
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[str, int, int]] = []
    try:
        consumer.assign([Position(topic, 0, 0)])
        until = Deadline.after(SECONDS)
        while not until.over:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:  # the end of the only partition
                return found
            found.append((topic, message.partition() or 0, message.offset() or 0))
    finally:
        consumer.close()
    raise TimeoutError(f"{topic} has no end")


def wait_for(kafka: KafkaCluster, topic: str, records: int) -> None:
    """Wait until a committed reader gets so many records."""
    until = Deadline.after(SECONDS)
    while (count := len(consumed(kafka, topic, "read_committed"))) < records:
        if not poll(until, 0.2):
            raise TimeoutError(f"{topic} has {count} records")
