"""Audits of what pipelines really are: change events, filters, tombstones, compaction, upserts by key, outboxes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from pyspark.sql import functions as f

from exporter.jobs.audit import debezium
from exporter.jobs.audit.columns import ExpressionError, Shape
from exporter.jobs.audit.definition import Audit, KeyedSink, NullId, Outbox
from exporter.jobs.audit.offset_range import parse_bound
from exporter.jobs.audit.outcome import AuditSettings, audit_once
from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.audit.upsert import Comparing, compared
from exporter.jobs.session import SessionError
from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.postgres import Postgres
from testkit.processes import poll
from tests.e2e.spark.auditing import Auditor, PlannedRecord, by_kind, history_writer, part, places, write

Fresh = Callable[[str], str]
ID = "get_json_object(value, '$.id')"
CDC: dict[str, Any] = {
    "shape": Shape(envelope=True),
    "id": debezium.EVENT,
    "key": debezium.ROW_KEY,
    "sequence": debezium.SOURCE_POSITION,
    "sparse": True,
}
COMPACTION_SECONDS = 90.0


@pytest.fixture
def history(audits: Auditor, fresh: Fresh) -> Callable[..., str]:
    """``history(records of each transaction, aborted={3})`` writes a topic of one partition; gives its name."""
    return history_writer(audits, fresh, 1)


def plain(key: str, **fields: object) -> PlannedRecord:
    return PlannedRecord(0, key, json.dumps(fields))


def change(op: str, row: int, lsn: int, *, wrapped: bool = False, table: str = "orders") -> PlannedRecord:
    """A change event as Debezium's PostgreSQL connector writes it, with the JSON converter's schema around or not."""
    key: dict[str, Any] = {"id": row}
    after = None if op == "d" else {"id": row, "total": lsn}
    before = {"id": row, "total": 0} if op == "d" else None
    source = {
        "db": "shop",
        "schema": "public",
        "table": table,
        "lsn": lsn,
        "snapshot": "last" if op == "r" else "false",
    }
    value: dict[str, Any] = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}
    if wrapped:
        key, value = {"schema": {}, "payload": key}, {"schema": {}, "payload": value}
    return PlannedRecord(0, json.dumps(key), json.dumps(value))


@pytest.mark.proof
def test_a_filter_leaves_out_records_and_their_ids_and_not_their_offsets(
    audits: Auditor, history: Callable[..., str]
) -> None:
    topic = history(
        [
            [plain("a", id=1, kind="order")],
            [plain("b", id=1, kind="ping"), plain("a", id=2, kind="order")],
            [plain("z", id=9, kind="order")],
            [plain("a", id=2, kind="order"), plain("c", kind="ping")],
        ],
        aborted=frozenset({2}),
    )
    kind = "get_json_object(value, '$.kind')"
    report = audits.report(topic, id=ID, where=f"{kind} = 'order'")
    (finding,) = report.result.findings
    assert (report.result.records, report.result.aborted_records, finding.kind) == (5, 1, "duplicate")
    assert finding.examples[0]["id"] == "2"
    assert any("2 of 5 records are left out" in note for note in report.notes)
    assert audits.audit(topic, id=ID, where=f"{kind} = 'nothing'").verdict == "unknown"
    for wrong in (kind, "max(offset) > 1"):
        with pytest.raises(ExpressionError, match="where"):
            audits.audit(topic, id=ID, where=wrong)


@pytest.mark.proof
def test_tombstones_and_null_ids_count_as_the_rule_says(audits: Auditor, history: Callable[..., str]) -> None:
    topic = history([[plain("a", id=1), PlannedRecord(0, "a", None), plain("b")]])
    said = "id gives null for 2 records (1 of them tombstones), as at partition 0 offset 1"
    skipping, counting, failing = (audits.report(topic, id=ID, null_id=rule) for rule in NullId)
    assert (failing.result.verdict, failing.result.unknown) == ("unknown", (f"{said} (null_id: count accepts them)",))
    assert (counting.result.verdict, counting.notes) == ("clean", (said,))
    assert (skipping.result.verdict, skipping.notes) == ("clean", ())


def test_change_events_of_debezium_are_clean_and_a_repeated_one_or_a_late_one_is_found(
    audits: Auditor, history: Callable[..., str]
) -> None:
    # Positions grow by row, and not by table: transactions of a database commit in another order than they write.
    good = [change("r", 1, 100), change("r", 2, 100, wrapped=True), change("u", 2, 130, wrapped=True)]
    gone = [change("u", 1, 120), change("d", 1, 140), PlannedRecord(0, good[0].key, None)]
    clean = audits.report(history([good, gone]), **CDC)
    assert (clean.result.verdict, clean.result.records) == ("clean", 6)
    assert "1 of 6 records are left out" in clean.notes[0]
    wrong = [
        good[2],
        change("r", 2, 170),
        change("c", 3, 150),
        change("u", 3, 145),
        PlannedRecord(0, "k", '{"ts_ms": 5}'),
    ]
    topic = history([good, wrong])
    result = audits.audit(topic, **CDC)
    found = by_kind(result)
    # The same change again, and a row that a snapshot read again; then a change behind a later one of its row.
    where = {kind: places(finding) for kind, finding in found.items()}
    assert where == {"duplicate": {(0, 4), (0, 5)}, "reordered": {(0, 7)}}
    assert found["reordered"].examples[0]["key"] == 'shop.public.orders/{"id":3}'
    assert "gives null for 1 records" in result.unknown[0]
    streaming = by_kind(audits.audit(topic, **CDC, where="NOT snapshot"))
    assert places(streaming["duplicate"]) == {(0, 4)}


@pytest.mark.proof
def test_a_topic_that_was_compacted_is_judged_by_what_is_there(audits: Auditor, history: Callable[..., str]) -> None:
    quick = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    topic = history(
        [[plain(f"k{key}", id=f"{key}-{number}", seq=number) for key in range(3)] for number in range(4)], **quick
    )
    # A later record rolls the segment, so that the cleaner may work on it.
    wait_until_compacted(audits.kafka, topic)
    sequence = "get_json_object(value, '$.seq')"
    whole = audits.report(topic, id=ID, key="key", sequence=sequence)
    assert (whole.result.verdict, whole.result.findings) == ("unknown", ())
    assert any("is compacted, and up to" in text for text in whole.result.unknown)
    there = audits.report(topic, id=ID, begin=parse_bound("earliest"))
    assert there.result.verdict == "clean"
    assert any("no longer there" in note for note in there.notes)


def wait_until_compacted(kafka: KafkaCluster, topic: str) -> None:
    until = Deadline.after(COMPACTION_SECONDS)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "enable.partition.eof": True})
    try:
        for number in count():
            write(
                kafka, topic, [([PlannedRecord(0, "roll", json.dumps({"id": f"roll-{number}", "seq": number}))], True)]
            )
            consumer.assign([Position(topic, 0, 0)])
            found = 0
            while (message := consumer.poll(5.0)) is not None and message.error() is None:
                found += message.key() != b"roll"
            if found < 12:
                return
            assert poll(until, 1.0), f"{topic} is not compacted"
    finally:
        consumer.close()


@pytest.mark.proof
def test_a_sink_by_key_is_reported_stale_missing_ahead_phantom_and_aborted(
    audits: Auditor, history: Callable[..., str], postgres: Postgres, tmp_path: Path
) -> None:
    versions = [[plain(f"k{key}", v=number, total=10 * number) for key in range(6)] for number in (1, 2)]
    topic = history(
        [*versions, [plain("k4", v=3, total=666)], [plain("k5", v=3, total=30)], [PlannedRecord(0, "k1", None)]],
        aborted=frozenset({2}),
    )
    question: dict[str, Any] = {
        "key": "key",
        "version": "get_json_object(value, '$.v')",
        "content": "get_json_object(value, '$.total')",
    }

    def sink(rows: list[tuple[str, int, int]]) -> KeyedSink:
        values = ",".join(f"('{key}',{version},{total})" for key, version, total in rows)
        postgres.execute(
            "DROP TABLE IF EXISTS totals; CREATE TABLE totals (id text, version bigint, total int);"  # noqa: S608 -- our own
            f"INSERT INTO totals VALUES {values};"
        )
        return KeyedSink(SinkTable(postgres.jdbc_url, "totals", "postgres"), "id", "version", "total")

    complete = [("k0", 2, 20), ("k2", 2, 20), ("k3", 2, 20), ("k4", 2, 20), ("k5", 3, 30)]
    assert audits.audit(topic, keyed=sink(complete), **question).verdict == "clean"
    wrong = [("k0", 1, 10), ("k1", 2, 20), ("k3", 9, 90), ("k4", 3, 666), ("k5", 3, 30), ("k5", 3, 30), ("k9", 1, 10)]
    found = by_kind(audits.audit(topic, tmp_path, keyed=sink(wrong), **question))
    keys = {kind: {example["key"] for example in finding.examples} for kind, finding in found.items()}
    assert keys == {
        "stale": {"k0"},  # k1 was deleted last: after all that the sink has, so that it may follow
        "missing": {"k2"},
        "ahead": {"k3"},
        "aborted_visible": {"k4"},
        "repeated": {"k5"},
        "phantom": {"k9"},
    }
    expected = {"expected": "version 2: 20", "stored": "version 1: 10"}
    assert part(found["stale"].examples[0], *expected) == expected
    # With --to, all before it is due, the deletion too.
    due = by_kind(audits.audit(topic, keyed=sink([*complete, ("k1", 2, 20)]), end=parse_bound("20"), **question))
    assert {kind: [example["key"] for example in finding.examples] for kind, finding in due.items()} == {
        "stale": ["k1"]
    }
    assert due["stale"].examples[0]["expected"] == "deleted"
    with pytest.raises(SessionError, match=r"sink\.key 'nope'"):
        audits.audit(topic, keyed=KeyedSink(sink(complete).table, "nope"), key="key")
    folder = str(tmp_path / "parquet")
    audits.session.createDataFrame([(key, total) for key, _, total in complete], "id string, total int").write.parquet(
        folder
    )
    by_content = KeyedSink(SinkTable(folder), "id", content="total")
    assert audits.audit(topic, keyed=by_content, key="key", content=question["content"]).verdict == "clean"
    assert audits.audit(topic, keyed=KeyedSink(SinkTable(folder), "id"), key="key").verdict == "clean"


@pytest.mark.proof
def test_what_a_sink_by_key_may_still_get_is_a_note_and_keys_without_an_order_are_unknown(audits: Auditor) -> None:
    schema = "it string, version bigint, content string, deleted boolean, due boolean, partition int, offset bigint"
    records = [
        ("a", 1, "x", False, True, 0, 1), ("a", 2, "y", False, False, 0, 9),  # the newest is not due
        ("b", 1, "x", False, False, 0, 8),  # not due at all
        ("c", 1, "x", False, True, 0, 2), ("c", 2, "y", False, True, 1, 0),  # two partitions
        ("d", 3, "x", False, True, 0, 3), ("d", None, None, True, True, 0, 4), ("d", 4, "z", False, True, 0, 5),
        ("e", 5, "x", False, True, 0, 6), ("e", 4, "w", False, True, 0, 7),  # an older version comes later
        ("g", 2, "y", False, True, 0, 10),  # compaction took its first version
    ]  # fmt: skip
    frame = audits.session.createDataFrame(records, schema).withColumn("timestamp", f.lit(None).cast("timestamp"))
    stored = [("a", 1, "x"), ("c", 2, "y"), ("d", 3, "x"), ("e", 5, "x"), ("g", 1, "x")]
    rows = audits.session.createDataFrame(stored, "it string, version bigint, content string")

    def kinds(comparing: Comparing) -> dict[str, str]:
        return {row["it"]: row["kind"] for row in compared(frame, rows, comparing).collect()}

    assert kinds(Comparing(version=True, content=True)) == {
        "a": "waiting",
        "b": "waiting",
        "d": "stale",
        "g": "phantom",
    }
    assert kinds(Comparing(version=True, content=True, holes=True))["g"] == "stale"
    # A row of a key that no record has is phantom only where all records were read.
    later = rows.union(audits.session.createDataFrame([("z", 1, "x")], rows.schema))

    def of_z(comparing: Comparing) -> list[str]:
        return [row["kind"] for row in compared(frame, later, comparing).where("it = 'z'").collect()]

    assert of_z(Comparing(version=True, content=True)) == ["phantom"]
    assert of_z(Comparing(version=True, content=True, partial=True)) == ["outside"]
    by_place = kinds(Comparing(version=False, content=True))
    assert (by_place["c"], by_place["e"], by_place["d"]) == ("scattered", "stale", "stale")


def test_each_row_of_an_outbox_is_in_the_topic(
    audits: Auditor, history: Callable[..., str], postgres: Postgres
) -> None:
    topic = history([[plain("a", id=number) for number in (1, 2, 3, 3, 77)]])
    postgres.execute(
        "DROP TABLE IF EXISTS outbox; CREATE TABLE outbox (event_id int, state text);"
        "INSERT INTO outbox VALUES (1, 'sent'), (2, 'sent'), (3, 'sent'), (4, 'sent'), (5, 'new');"
    )
    outbox = Outbox(SinkTable(postgres.jdbc_url, "outbox", "postgres"), "event_id", "state = 'sent'")
    report = audits.report(topic, id=ID, outbox=outbox)
    found = by_kind(report.result)
    assert {kind: [example["id"] for example in finding.examples] for kind, finding in found.items()} == {
        "missing": ["4"],
        "duplicate": ["3"],
    }
    assert "1 records have no row in the outbox" in report.notes[0]


@pytest.mark.proof
def test_a_topic_is_compared_with_its_source_by_a_mapping_and_filters(
    audits: Auditor, history: Callable[..., str]
) -> None:
    source = history([[plain("a", order=number, paid=number != 2) for number in range(5)]])
    target = history([[plain("x", id=f"inv-{number}") for number in (0, 1, 3)]])
    mapping = "concat('inv-', get_json_object(value, '$.order'))"
    paid = "get_json_object(value, '$.paid') = 'true'"
    question: dict[str, Any] = {"id": ID, "source_topic": source, "source_id": mapping, "source_where": paid}
    assert audits.audit(target, **question).verdict == "clean"  # 4 is newer than all that arrived
    (finding,) = audits.audit(target, **question, end=parse_bound("5")).findings
    assert (finding.kind, places(finding)) == ("missing", {(0, 4)})
    report = audits.report(target, **question, where="offset != 0")
    assert [(found.kind, places(found)) for found in report.result.findings] == [("missing", {(0, 0)})]
    assert "1 of 3 records are left out, by where or as tombstones" in report.notes


@pytest.mark.proof
def test_a_sink_that_goes_on_while_it_is_audited_is_not_ahead(
    audits: Auditor, history: Callable[..., str], postgres: Postgres
) -> None:
    topic = history([[plain("a", id=1)]])
    table = "kafka_topic text, kafka_partition int, kafka_offset bigint"
    postgres.execute(f"DROP TABLE IF EXISTS live; CREATE TABLE live ({table})")
    postgres.execute(f"INSERT INTO live VALUES ('{topic}', 0, 0);")  # noqa: S608 -- a name of our own
    said: list[str] = []

    def say(text: str) -> None:
        # The topic's end is taken when its offsets are read: what is stored from now on is of records after it.
        if "offsets of" in text and not any("offsets of" in line for line in said):
            write(audits.kafka, topic, [([plain("a", id=2)], True)])
            postgres.execute(f"INSERT INTO live VALUES ('{topic}', 0, 2);")  # noqa: S608 -- as above
        said.append(text)

    audit = Audit(topic, sink=SinkTable(postgres.jdbc_url, "live", "postgres"))
    report = audit_once(audits.session, audits.access, audit, AuditSettings(topic), say)
    assert (report.result.verdict, report.result.findings) == ("clean", ())
