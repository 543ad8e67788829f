"""Bounds, verdicts, evidence and files of an audit, without Spark."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exporter.audit_results.result import Finding, dump_result, parse_result
from exporter.cli import main
from exporter.commands.audit import add_to
from exporter.commands.audit_post import AgentAddress, agent_of, exit_code
from exporter.commands.audit_settings import audit_of
from exporter.commands.settings import UsageError
from exporter.jobs.audit import job
from exporter.jobs.audit.definition import Audit, AuditOutcome
from exporter.jobs.audit.findings import merged, worst_of
from exporter.jobs.audit.fold import OffsetSpan
from exporter.jobs.audit.follow import Follow, Following, FollowState, planned
from exporter.jobs.audit.job import failure
from exporter.jobs.audit.offset_range import BoundError, parse_bound
from exporter.jobs.audit.outcome import AuditSettings, is_name, report_of, unfinished
from exporter.jobs.audit.read import TopicAccess
from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.session import SessionError
from exporter.words import AuditVerdict
from tests.helpers.schemas import conform

SPANS = {0: OffsetSpan(0, 10, 20)}


def report(*findings: Finding, unknown: tuple[str, ...] = (), **question: Any) -> Any:
    outcome = AuditOutcome(9, 1, SPANS, unknown, ("2 offsets at the end are not decided yet",))
    return report_of(Audit("orders", **question), AuditSettings("nightly"), outcome, findings, 1795255200.0, 2.0)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("beginning", "whole", True),
        ("earliest", "earliest", True),
        ("100", "offset", 100),
        ("0:100,12:7", "offsets", {0: 100, 12: 7}),
        ("2026-11-21T10:00:00Z", "instant_ms", 1795255200000),
        ("2026-11-21T11:00+01:00", "instant_ms", 1795255200000),
        ("2026-11-21T10:00", "instant_ms", 1795255200000),
        ("1969-12-31T23:59:59.999Z", "instant_ms", 0),  # -1 asks for the end
    ],
)
def test_a_bound_is_an_offset_or_an_instant(text: str, field: str, value: object) -> None:
    assert getattr(parse_bound(text), field) == value


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "0:", "1:2,", "2026-13-01", "99999999999999999999"])
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(BoundError):
        parse_bound(text)


def test_a_finding_outweighs_what_is_not_known_and_clean_is_only_what_is_known() -> None:
    found = Finding("duplicate", "orders", 1, ({"partition": 0, "offset": 12},))
    assert report(found, unknown=("x",), id="key").result.verdict is AuditVerdict.FINDINGS
    assert report(unknown=("x",), id="key").result.verdict is AuditVerdict.UNKNOWN
    assert report(id="key").result.verdict is AuditVerdict.CLEAN


def test_what_was_looked_for_is_said_so_that_nothing_found_means_none() -> None:
    assert report(id="key").result.checked == ("duplicate",)
    assert report(key="key", sequence="offset").result.checked == ("duplicate", "gap", "reordered")
    assert report(id="key", source_topic="s").result.checked == ("duplicate", "missing", "aborted_visible", "ahead")
    assert report(sink=SinkTable("/data")).result.checked == ("missing", "repeated", "aborted_visible", "ahead")


def test_the_page_shows_hostile_keys_as_text() -> None:
    evil = Finding("duplicate", "orders", 7, ({"partition": 0, "offset": 12, "key": "<script>x</script>"},))
    html = report(evil, id="key").html
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "and 6 more" in html


def test_a_password_is_in_no_text_of_a_sink() -> None:
    sink = SinkTable("jdbc:postgresql://db/x?user=a&password=hunter2", "orders", "a", "hunter2")
    assert "hunter2" not in repr(sink) + sink.name + report(sink=sink).html
    assert "sesame" not in repr(AgentAddress("http://a", "sesame"))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("jdbc:sqlserver://h:1433;databaseName=x;user=sa;password=hunter2", "jdbc:sqlserver://h:1433 t"),
        ("jdbc:oracle:thin:scott/hunter2@//h:1521/s", "jdbc:oracle:***@//h:1521/s t"),
        ("jdbc:mysql://root:hunt@hunter2@h/db?x=1", "jdbc:mysql:***@h/db t"),
        ("jdbc:oracle:thin:@//h:1521/s", "jdbc:oracle:***@//h:1521/s t"),
        ("jdbc:postgresql://h/db", "jdbc:postgresql://h/db t"),
    ],
)
def test_a_table_by_jdbc_is_named_without_what_its_url_has_of_credentials(url: str, name: str) -> None:
    sink = SinkTable(url, "t")
    assert sink.name == name
    assert "hunt" not in repr(sink)


def test_a_report_of_a_continuous_audit_has_the_duration_of_its_last_batch() -> None:
    access: Any = TopicAccess(None, {})  # type: ignore[arg-type]
    nothing: Any = None
    following = Following(Path("/checkpoint"), 60.0, 10.0)
    follow = Follow(nothing, access, Audit("orders", id="key"), AuditSettings("nightly"), following, nothing, nothing)
    result = follow._report(FollowState(0, 0, {"0": [3, 9]}, {"0": 1}), 2.34).result
    assert (result.more["seconds"], result.more["offsets"]) == (2.3, {"orders": {"0": [1, 9]}})


def test_a_jvm_that_ends_is_no_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class LostJvm:
        def __init__(self, *_: object) -> None:
            raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr(job, "_Run", LostJvm)
    nothing: Any = None
    with pytest.raises(SessionError, match="not finished"), unfinished(AuditSettings("nightly", folder=tmp_path)):
        job.run(nothing, nothing, Audit("orders"), nothing, nothing)


def test_files_are_replaced_at_the_end_or_not_at_all(tmp_path: Path) -> None:
    settings = AuditSettings("nightly", folder=tmp_path)
    done = report(id="key")
    with unfinished(settings) as folder:
        assert folder is not None
        done.write(folder, "nightly")
    kept = (tmp_path / "nightly.json").read_bytes()
    assert parse_result(kept).audit == "nightly"

    def fails() -> None:
        with unfinished(settings) as folder:
            assert folder is not None
            (folder / "nightly.json").write_text("half")
            raise SessionError("a broker was lost")

    with pytest.raises(SessionError):
        fails()
    assert (tmp_path / "nightly.json").read_bytes() == kept
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nightly.html", "nightly.json"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SessionError, match="--output-dir"),
        unfinished(AuditSettings("x", folder=tmp_path / "file" / "x")),
    ):
        pass


def test_the_worst_are_those_repeated_most_then_the_earliest() -> None:
    found = [{"partition": 1, "offset": 1, "times": 2}, {"partition": 0, "offset": 5, "times": 2},
             {"partition": 3, "offset": 9, "times": 4}]  # fmt: skip
    assert [row["partition"] for row in worst_of(found, 2)] == [3, 0]


def test_findings_of_two_batches_add_up() -> None:
    first = [Finding("gap", "t", 3, ({"partition": 0, "offset": 1, "missing": 2},))]
    second = [Finding("gap", "t", 2, ({"partition": 0, "offset": 9, "missing": 5},)), Finding("duplicate", "t", 9)]
    both = merged(first, second, 1)
    assert [(finding.kind, finding.count) for finding in both] == [("duplicate", 9), ("gap", 5)]
    assert both[1].examples[0]["offset"] == 9


def test_a_batch_ends_where_sparks_checkpoint_says(tmp_path: Path) -> None:
    file = tmp_path / "0"
    file.write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795255200000,"conf":{}}\n{"orders":{"0":17,"1":3}}')
    assert planned(file, "orders") == ({0: 17, 1: 3}, 1795255200000)
    for broken in ("", "v1\n{}\n{}", "v1\n{\n", 'v1\n{"batchTimestampMs":1}\n{"other":{}}'):
        file.write_text(broken)
        with pytest.raises(SessionError, match="begin with a new checkpoint"):
            planned(file, "orders")


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("Caused by: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x", "was deleted while"),
        ("java.util.concurrent.TimeoutException: Cannot fetch record", "did not answer in time"),
        ("org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired", "did not answer in time"),
        ("java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]", "Job aborted"),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory"),
    ],
)
def test_a_failure_on_the_way_is_one_sentence(trace: str, said: str) -> None:
    text = failure(RuntimeError(f"Job aborted\n\tat x\n{trace}\n\tat y"))
    assert said in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sequence", "offset"], "--sequence needs --key"),
        (["--source-topic", "s"], "--source-topic needs --id"),
        (["--source-topic", "orders", "--id", "key"], "is --topic itself"),
        (["--sink", "jdbc:postgresql://x/y"], "with --sink-table"),
        (["--sink-format", "orc"], "--sink-format needs --sink"),
        (["--sink", "d", "--sink-option", "a=b"], "--sink-option needs --sink-format"),
        (["--sink", "d", "--sink-format", "orc", "--sink-option", "a"], "must be NAME=VALUE"),
        (["--follow", "--id", "key"], "--follow needs --checkpoint"),
        (["--follow", "--checkpoint", "c", "--sink", "d"], "--follow is for --id"),
        (["--id", "key", "--name", "../x"], "--name"),
        (["--key", "key"], "--key needs --sequence, or --sink-key"),
        (["--sparse", "--id", "key"], "--sparse needs --sequence"),
        (["--sink", "d", "--sink-key", "id"], "--sink-key needs --sink, and --key"),
        (["--sink", "d", "--sink-key", "id", "--key", "key", "--version", "offset"], "--version needs --sink-version"),
        (["--sink", "d", "--where", "true"], "--where and --sink need --sink-key"),
        (["--outbox", "d", "--id", "key"], "--outbox needs --outbox-id"),
        (["--outbox", "jdbc:postgresql://x/y", "--id", "key", "--outbox-id", "id"], "with --outbox-table"),
        (["--outbox", "d", "--id", "key", "--outbox-id", "id", "--sink", "d"], "different audits"),
        (["--source-group", "billing", "--id", "key"], "--source-group needs --source-topic, or --sink"),
        (["--source-where", "true", "--id", "key"], "--source-where needs --source-topic"),
        (["--format", "debezium", "--value-schema", "x.avsc"], "reads JSON"),
        (["--id", "key", "--agent", "agent:1"], "must begin with http"),
        (["--id", "key", "--value-schema", "no.avsc"], "--value-schema no.avsc: cannot be read"),
    ],
)
def test_a_question_that_contradicts_itself_is_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--bootstrap-server", "127.0.0.1:1", "--topic", "orders", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_token_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" sesame\n")
    options = argparse.Namespace(agent="http://agent:10618/", agent_token_file=tmp_path / "token")
    assert agent_of(options) == AgentAddress("http://agent:10618", "sesame")
    with pytest.raises(UsageError):
        agent_of(argparse.Namespace(agent="", agent_token_file=tmp_path / "token"))


@pytest.mark.parametrize(("name", "good"), [("orders", True), ("a.b-c_1", True), (".x", False), ("a/b", False)])
def test_a_name_is_one_that_a_file_can_have(name: str, good: bool) -> None:
    assert is_name(name) is good


def test_the_result_has_what_was_covered() -> None:
    document = conform("audit", json.loads(dump_result(report(id="key").result)))
    assert document["offsets"] == {"orders": {"0": [10, 20]}}
    assert datetime.fromtimestamp(document["finished_at"], UTC).year == 2026


def audit_of_flags(*flags: str) -> Audit:
    parser = argparse.ArgumentParser()
    add_to(parser.add_subparsers(), "")
    return audit_of(parser.parse_args(["audit", "--topic", "orders", *flags]))


def test_change_events_of_debezium_are_audited_by_event_row_and_source_position_unless_asked_otherwise() -> None:
    audit = audit_of_flags("--format", "debezium")
    assert (audit.id, audit.key, audit.sequence, audit.sparse) == ("event", "row_key", "source_position", True)
    assert audit.checks == ("duplicate", "reordered")
    own = audit_of_flags("--format", "debezium", "--id", "concat(op, key)")
    assert (own.id, own.key, own.checks) == ("concat(op, key)", "", ("duplicate",))


def test_a_sink_by_key_is_asked_for_by_its_key_and_searched_for_what_it_can_lack() -> None:
    audit = audit_of_flags("--key", "key", "--sink", "/data", "--sink-key", "id")
    assert audit.sink is None
    assert audit.keyed is not None
    assert audit.checks == ("stale", "missing", "ahead", "phantom", "repeated", "aborted_visible")
    assert audit_of_flags("--id", "key", "--outbox", "/d", "--outbox-id", "id").checks == ("duplicate", "missing")
    settings = report(key="key", keyed=audit.keyed).result.more["settings"]
    assert (settings["--sink"], settings["--sink-key"], settings["--deleted"]) == ("/data", "id", "value_bytes IS NULL")


@pytest.mark.parametrize(
    ("given", "table", "name"),
    [
        ("iceberg:lake.shop.orders", SinkTable("lake.shop.orders", format="iceberg"), "iceberg:lake.shop.orders"),
        ("delta:s3a://b/o@12", SinkTable("s3a://b/o", format="delta", snapshot="12"), "delta:s3a://b/o@12"),
        ("parquet:/data", SinkTable("/data"), "/data"),
        ("delta:/data@x", SinkTable("/data@x", format="delta"), "delta:/data@x"),
        ("/data/iceberg:x", SinkTable("/data/iceberg:x"), "/data/iceberg:x"),
    ],
)
def test_a_table_of_a_lake_is_given_by_format_and_perhaps_snapshot(given: str, table: SinkTable, name: str) -> None:
    sink = audit_of_flags("--sink", given).sink
    assert sink == table
    assert sink.name == name


def test_a_sink_may_be_of_any_format_that_spark_reads_with_its_options() -> None:
    options = ("--sink-option", "keyspace=shop", "--sink-option", "table=a=b")
    sink = audit_of_flags("--sink", "shop.orders", "--sink-format", "org.apache.spark.sql.cassandra", *options).sink
    assert sink is not None
    assert (sink.format, sink.url) == ("org.apache.spark.sql.cassandra", "shop.orders")
    assert sink.options == (("keyspace", "shop"), ("table", "a=b"))
    assert (sink.name, sink.packages, sink.conf) == ("org.apache.spark.sql.cassandra:shop.orders", (), {})
    assert "shop" not in repr(SinkTable("/d", options=(("password", "shop"),)))


def test_tables_of_a_lake_are_read_at_one_snapshot() -> None:
    keyed = audit_of_flags("--key", "key", "--sink", "iceberg:a.b", "--sink-key", "id")
    pinned = keyed.pinned(lambda table: replace(table, snapshot="7"))
    assert pinned.keyed is not None
    assert pinned.keyed.table.name == "iceberg:a.b@7"
    assert Audit("orders").pinned(lambda table: table) == Audit("orders")


def test_findings_are_found_and_a_clean_result_is_not_known_where_the_agent_did_not_take_it() -> None:
    codes = {
        verdict: [exit_code(verdict, delivered=delivered) for delivered in (True, False)] for verdict in AuditVerdict
    }
    assert codes == {AuditVerdict.CLEAN: [0, 2], AuditVerdict.FINDINGS: [1, 1], AuditVerdict.UNKNOWN: [2, 2]}


@pytest.mark.parametrize(
    ("question", "due"),
    [
        ({}, {0: 13, 1: 0}),
        ({"end": parse_bound("17")}, {0: 20, 1: 20}),
        ({"source_group": "g", "due": {0: 15, 1: 12}}, {0: 15, 1: 12}),
        ({"source_group": "g", "due": {0: 11}}, {0: 13, 1: 0}),
        ({"source_group": "g", "due": {0: 15}, "end": parse_bound("17")}, {0: 15, 1: 0}),
    ],
)
def test_a_sink_must_have_what_is_before_its_newest_row_the_end_and_the_offsets_of_the_group(
    question: dict[str, Any], due: dict[int, int]
) -> None:
    spans = {number: OffsetSpan(number, 10, 20) for number in (0, 1)}
    assert Audit("orders", **question).due_before(spans, {0: 13}) == due
