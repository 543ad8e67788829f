"""Histories with exactly one thing wrong on a real broker: the audit finds exactly that, and else nothing."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from exporter import catalogue
from exporter.audit_results.result import parse_result
from exporter.cli import main
from exporter.jobs.audit.columns import ExpressionError, Shape
from exporter.jobs.audit.offset_range import parse_bound
from exporter.jobs.audit.tables import SinkTable
from testkit.postgres import Postgres
from tests.e2e.conftest import StartAgent
from tests.e2e.spark.auditing import Auditor, PlannedRecord, by_kind, history_writer, part, places

Fresh = Callable[[str], str]
ID = "get_json_object(value, '$.id')"
COMMAND = [sys.executable, "-m", "exporter"]
SEQUENCE = "get_json_object(value, '$.seq')"
KEYS = 6


def record(key: int, sequence: int, partition: int | None = None) -> PlannedRecord:
    value = json.dumps({"id": f"{key}-{sequence}", "seq": sequence})
    return PlannedRecord(key % 2 if partition is None else partition, f"k{key}", value)


def steps(count: int = 12) -> list[list[PlannedRecord]]:
    """``count`` transactions, each with the next number of every key. Offsets: 3 records and a marker a partition."""
    return [[record(key, sequence) for key in range(KEYS)] for sequence in range(count)]


def offset_of(key: int, sequence: int) -> int:
    """Where a record of ``steps`` is in its partition."""
    return sequence * (KEYS // 2 + 1) + key // 2


@pytest.fixture
def history(audits: Auditor, fresh: Fresh) -> Callable[..., str]:
    """``history(records of each transaction, aborted={3})`` writes a topic of two partitions; gives its name."""
    return history_writer(audits, fresh, 2)


def test_a_history_without_an_anomaly_is_clean_by_every_check(
    audits: Auditor, history: Callable[..., str], tmp_path: Path
) -> None:
    topic = history(steps())
    result = audits.audit(topic, tmp_path, id=ID, key="key", sequence=SEQUENCE)
    assert (result.verdict, result.records, result.aborted_records, result.findings) == ("clean", 72, 0, ())
    assert pq.read_table(tmp_path / f"{topic}.findings.parquet").num_rows == 0
    assert parse_result((tmp_path / f"{topic}.json").read_bytes()).verdict == "clean"


def test_one_duplicate_is_found_with_both_places_also_when_all_hashes_collide(
    audits: Auditor, history: Callable[..., str], tmp_path: Path
) -> None:
    topic = history([*steps(), [record(3, 7)]])
    example: Mapping[str, Any] = {}
    for bits in (64, 1):
        result = audits.audit(topic, tmp_path, id=ID, hash_bits=bits)
        (finding,) = result.findings
        assert (result.verdict, finding.kind, finding.count) == ("findings", "duplicate", 1)
        (example,) = finding.examples
        assert part(example, "partition", "offset", "first_partition", "first_offset", "times", "id", "key") == {
            "partition": 1,
            "offset": 48,
            "first_partition": 1,
            "first_offset": offset_of(3, 7),
            "times": 2,
            "id": "3-7",
            "key": "k3",
        }
        assert example["producer_id"] >= 0
        assert example["timestamp"].endswith("+00:00")
    (row,) = pq.read_table(tmp_path / f"{topic}.findings.parquet").to_pylist()
    assert (row["partition"], row["offset"], row["producer_id"]) == (1, 48, example["producer_id"])


@pytest.mark.proof
def test_one_gap_is_found_and_control_records_are_none(audits: Auditor, history: Callable[..., str]) -> None:
    lost = record(2, 5)
    topic = history([[row for row in step if row != lost] for step in steps()])
    result = audits.audit(topic, id=ID, key="key", sequence=SEQUENCE)
    (finding,) = result.findings
    assert (finding.kind, finding.count) == ("gap", 1)
    expected = {"partition": 0, "key": "k2", "sequence": 6, "before_sequence": 4, "missing": 1}
    assert part(finding.examples[0], *expected) == expected


@pytest.mark.proof
def test_one_record_out_of_order_is_found_and_nothing_else(audits: Auditor, history: Callable[..., str]) -> None:
    planned = steps()
    planned[5][0], planned[6][0] = planned[6][0], planned[5][0]
    topic = history(planned)
    for bits in (64, 1):
        (finding,) = audits.audit(topic, key="key", sequence=SEQUENCE, hash_bits=bits).findings
        assert (finding.kind, finding.count) == ("reordered", 1)
        expected = {"partition": 0, "offset": offset_of(0, 6), "sequence": 5, "before_sequence": 6}
        assert part(finding.examples[0], *expected) == expected


def test_aborted_records_are_counted_and_are_no_finding(audits: Auditor, history: Callable[..., str]) -> None:
    # What was aborted is written once more, as a producer does.
    topic = history([*steps(4), steps(5)[4], *steps(12)[4:]], aborted=frozenset({4}))
    result = audits.audit(topic, id=ID, key="key", sequence=SEQUENCE)
    assert (result.verdict, result.records, result.aborted_records) == ("clean", 72, KEYS)


def test_bounds_are_offsets_and_what_they_leave_out_is_not_audited(
    audits: Auditor, history: Callable[..., str]
) -> None:
    topic = history([*steps(), [record(3, 7)]])
    before = audits.audit(topic, id=ID, end=parse_bound("0:48,1:48"))
    assert (before.verdict, before.records) == ("clean", 72)
    assert audits.audit(topic, id=ID, begin=parse_bound("1:48")).records == 36 + 1


@pytest.mark.proof
def test_what_cannot_be_known_is_unknown(audits: Auditor, history: Callable[..., str]) -> None:
    compacted = history(steps(2), cleanup_policy="compact")
    report = audits.report(compacted, id=ID)
    assert (report.result.verdict, report.notes) == (
        "clean",
        (f"{compacted} is compacted, and compaction has taken nothing of these offsets",),
    )
    topic = history([*steps(2), [PlannedRecord(0, "k0", "no JSON"), PlannedRecord(1, None, None)]])
    result = audits.audit(topic, id=ID)
    assert (result.verdict, result.records) == ("unknown", 14)
    assert "id gives null for 2 records (1 of them tombstones), as at partition 0 offset 8" in result.unknown[0]
    assert "nothing was asked" in audits.audit(topic).unknown[0]
    empty = history([])
    assert "no records" in audits.audit(empty, id=ID).unknown[0]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("count(key)", "is an aggregate"),
        ("(select max(1))", "is a subquery"),
        ("row_number() over (order by key)", "is a window function"),
        ("java_method('java.lang.System', 'exit', 1)", "is a call into Java"),
        ("explode(split(value, ','))", "is a generator"),
        ("uuid()", "not the same at every reading"),
        ("*", "list of columns"),
        ("key as id", "is a name"),
        ("no_such_column", "Columns: key string, value string"),
        ("value.field", "value.field"),
        ("upper(", "upper("),
        ("  ", "is empty"),
    ],
)
def test_an_expression_that_is_none_or_does_more_is_refused_with_its_text(
    audits: Auditor, expression: str, said: str
) -> None:
    with pytest.raises(ExpressionError) as refused:
        audits.audit("__consumer_offsets", id=expression)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.proof
def test_avro_values_are_read_by_their_schema_in_both_framings(audits: Auditor, history: Callable[..., str]) -> None:
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'
    plain = [b"\x06a-1", b"\x06a-2", b"\x06a-1"]  # a length of 3, zigzag, then the text
    framed = [b"\x00" + struct.pack(">i", 7) + row for row in plain]
    for values, confluent in ((plain, False), (framed, True)):
        topic = history([[PlannedRecord(0, "k", value) for value in values]])
        (finding,) = audits.audit(topic, id="value.id", shape=Shape(schema, confluent)).findings
        assert (finding.count, finding.examples[0]["id"], places(finding)) == (1, "a-1", {(0, 2)})
        if not confluent:  # the other mistake, framed data read as plain, gives texts that nobody can doubt
            assert audits.audit(topic, id="value.id", shape=Shape(schema, confluent=True)).verdict == "unknown"


@pytest.mark.proof
def test_headers_are_a_map_of_texts(audits: Auditor, history: Callable[..., str]) -> None:
    topic = history([[PlannedRecord(0, None, "a", (("seq", str(number).encode()),)) for number in (1, 2, 4)]])
    result = audits.audit(topic, key="'all'", sequence="headers['seq']")
    assert by_kind(result)["gap"].examples[0]["missing"] == 1


@pytest.mark.proof
def test_sparks_log_has_no_line_for_each_record(audits: Auditor, history: Callable[..., str]) -> None:
    assert audits.audit(history(steps()), id=ID).verdict == "clean"
    gateway: Any = audits.session.sparkContext._gateway
    log = Path(f"/proc/{gateway.proc.pid}/fd/2").read_text()
    assert "NativeCodeLoader" in log
    assert "UninterruptibleThread" not in log


@pytest.mark.proof
def test_a_topic_is_compared_with_the_topic_it_was_made_of(audits: Auditor, history: Callable[..., str]) -> None:
    source = history([*steps(), [record(1, 90)]], aborted=frozenset({12}))
    lost = record(4, 3)
    complete = history([*steps()])
    assert audits.audit(complete, id=ID, source_topic=source).verdict == "clean"
    (finding,) = audits.audit(
        history([[row for row in step if row != lost] for step in steps()]), id=ID, source_topic=source
    ).findings
    assert (finding.kind, places(finding)) == ("missing", {(0, offset_of(4, 3))})
    (finding,) = audits.audit(history([*steps(), [record(1, 90)]]), id=ID, source_topic=source).findings
    assert (finding.kind, finding.examples[0]["id"]) == ("aborted_visible", "1-90")
    # The newest may be on their way: they are missing only when the question says that they must be there.
    late = history(steps(10))
    report = audits.report(late, id=ID, source_topic=source)
    assert (report.result.verdict, report.notes) == (
        "clean",
        (f"12 records of {source} are newer than all that {late} has of it",),
    )
    (finding,) = audits.audit(late, id=ID, source_topic=source, end=parse_bound("48")).findings
    assert (finding.kind, finding.count) == ("missing", 12)


def test_a_sink_is_compared_record_by_record(
    audits: Auditor, history: Callable[..., str], postgres: Postgres, tmp_path: Path
) -> None:
    topic = history(steps(), aborted=frozenset({3}))
    committed = [(key % 2, offset_of(key, sequence)) for sequence in range(12) if sequence != 3 for key in range(KEYS)]

    def sink(rows: list[tuple[int, int]]) -> SinkTable:
        values = ",".join(f"('{topic}',{partition},{offset})" for partition, offset in rows)
        postgres.execute(
            "DROP TABLE IF EXISTS orders;"  # noqa: S608 -- numbers, and a name of our own
            "CREATE TABLE orders (kafka_topic text, kafka_partition int, kafka_offset bigint);"
            f"INSERT INTO orders VALUES ('other', 0, 1), {values};"
        )
        return SinkTable(postgres.jdbc_url, "orders", "postgres")

    assert audits.audit(topic, sink=sink(committed)).verdict == "clean"
    planted = [row for row in committed if row != (1, offset_of(3, 6))]
    planted += [(0, offset_of(2, 8)), (0, offset_of(2, 3)), (1, 4711)]
    found = by_kind(audits.audit(topic, tmp_path, sink=sink(planted)))
    assert {kind: places(finding) for kind, finding in found.items()} == {
        "missing": {(1, offset_of(3, 6))},
        "repeated": {(0, offset_of(2, 8))},
        "aborted_visible": {(0, offset_of(2, 3))},
        "ahead": {(1, 4711)},
    }
    assert found["missing"].examples[0]["key"] == "k3"
    assert found["repeated"].examples[0]["times"] == 2
    assert "k2" in (tmp_path / f"{topic}.html").read_text()
    report = audits.report(topic, sink=sink(committed[:-6]))
    assert (report.result.verdict, report.notes) == ("clean", ("6 records after the sink's newest are not in it yet",))
    parquet = tmp_path / "sink"
    audits.session.createDataFrame(
        [(topic, *place) for place in committed], "kafka_topic string, kafka_partition int, kafka_offset bigint"
    ).write.parquet(str(parquet))
    assert audits.audit(topic, sink=SinkTable(str(parquet))).verdict == "clean"
    later = tmp_path / "later"
    audits.session.range(5000, 5301).selectExpr(
        f"'{topic}' AS kafka_topic", "1 AS kafka_partition", "id AS kafka_offset"
    ).write.parquet(str(later))
    assert by_kind(audits.audit(topic, sink=SinkTable(str(later))))["ahead"].count == 301
    files = tmp_path / "sink.csv"
    lines = ["kafka_topic;kafka_partition;kafka_offset", *(f"{topic};{at};{offset}" for at, offset in committed[1:])]
    files.write_text("\n".join(lines))
    read = SinkTable(str(files), format="csv", options=(("sep", ";"), ("header", "true")))
    (finding,) = audits.audit(topic, sink=read).findings
    assert (finding.kind, places(finding)) == ("missing", {committed[0]})


def test_rows_of_a_prepared_transaction_of_the_sink_are_missing_and_the_transaction_is_named(
    audits: Auditor, history: Callable[..., str], postgres: Postgres
) -> None:
    topic = history([[record(key, 0) for key in range(3)]])
    postgres.execute(
        "CREATE TABLE prepared (kafka_topic text, kafka_partition int, kafka_offset bigint);"  # noqa: S608 -- our own
        f"INSERT INTO prepared VALUES ('{topic}', 0, 0), ('{topic}', 1, 0);"
        f"BEGIN; INSERT INTO prepared VALUES ('{topic}', 0, 1); PREPARE TRANSACTION 'flink-7';"
    )
    question: dict[str, Any] = {"sink": SinkTable(postgres.jdbc_url, "prepared", "postgres"), "end": parse_bound("2")}
    report = audits.report(topic, **question)
    assert [(finding.kind, places(finding)) for finding in report.result.findings] == [("missing", {(0, 1)})]
    [note] = [note for note in report.notes if "prepared (XA)" in note]
    assert "1 transaction(s)" in note
    assert "flink-7 of postgres since " in note
    postgres.execute("COMMIT PREPARED 'flink-7';")
    after = audits.report(topic, **question)
    assert (after.result.findings, [note for note in after.notes if "prepared" in note]) == ((), [])


def test_the_command_prints_the_result_and_the_agent_shows_it(
    audits: Auditor,
    history: Callable[..., str],
    start_agent: StartAgent,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = history([*steps(3), [record(3, 1)]])
    bootstrap = audits.kafka.bootstrap
    token = tmp_path / "token"
    token.write_text("sesame\n")
    settings = {
        "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": bootstrap}}],
        "ingest": {"enabled": True, "token_file": str(token)},
        "audits": [{"path": str(tmp_path / "from-files" / "*.json")}],
    }
    config = tmp_path / "agent.yml"
    config.write_text(json.dumps(settings))
    agent = start_agent("--config", str(config))
    flags = ["audit", "--bootstrap-server", bootstrap, "--topic", topic, "--master", "local[1]"]
    spark = ["--conf", "spark.driver.memory=512m"]
    handed = ["--name", "handed-in", "--agent", agent.url, "--agent-token-file", str(token), "--output", "json"]
    done = subprocess.run(
        [*COMMAND, *flags, *spark, *handed, "--id", ID, "--output-dir", str(tmp_path / "from-files")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    result = parse_result(done.stdout)
    assert [(finding.kind, finding.count) for finding in result.findings] == [("duplicate", 1)]
    assert "sesame" not in done.stdout + done.stderr
    name = {"kafka_cluster": "prod", "audit": "handed-in", "topic": topic}
    agent.wait_until(lambda page: page.value(catalogue.AUDIT_FINDINGS, kind="duplicate", **name) == 1)
    assert sorted(path.suffix for path in (tmp_path / "from-files").iterdir()) == [".html", ".json", ".parquet"]
    for wrong, said in (
        (["--topic", "no-such-topic", "--id", "key"], "no-such-topic"),
        (["--key", "key"], "key (from the flags): needs sequence"),
    ):
        assert main([*flags, *wrong]) == 2
        assert said in capsys.readouterr().err
    spec = tmp_path / "orders.yml"
    spec.write_text(json.dumps({"topic": topic, "id": ID, "begin": "0:0,1:0", "end": "0:12,1:12"}))
    where = ["--bootstrap-server", bootstrap, "--master", "local[1]", *spark, "--output", "json"]
    done = subprocess.run(
        [*COMMAND, "audit", str(spec), *where], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert parse_result(done.stdout).records == 18
