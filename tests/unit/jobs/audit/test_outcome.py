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
from exporter.commands.audit_post import AgentAddress, agent_of, exit_code
from exporter.commands.audit_spec import audit_of, spec_of_file
from exporter.commands.settings import UsageError
from exporter.config import ConfigError
from exporter.jobs.audit import job
from exporter.jobs.audit.definition import Audit, AuditOutcome
from exporter.jobs.audit.findings import worst_of
from exporter.jobs.audit.job import failure
from exporter.jobs.audit.offset_range import BoundError, OffsetSpan, parse_bound
from exporter.jobs.audit.outcome import AuditSettings, is_name, report_of, unfinished
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


KEYED = {"key": "key", "sink": {"url": "d", "key": "id"}}


@pytest.mark.parametrize(
    ("spec", "path", "said"),
    [
        ({"sequence": "offset"}, "sequence", "needs key"),
        ({"source": {"topic": "s"}}, "source", "needs id"),
        ({"source": {"topic": "orders"}, "id": "key"}, "source.topic", "is the audited topic itself"),
        ({"source": {"where": "true"}, "id": "key"}, "source.topic", "is required"),
        ({"sink": {"url": "jdbc:postgresql://x/y"}}, "sink.table", "belongs to a JDBC URL"),
        ({"sink": {"url": "/d", "table": "t"}}, "sink.table", "belongs to a JDBC URL"),
        ({"sink": {"format": "orc"}}, "sink.url", "is required"),
        ({"sink": {"url": "d", "options": {"a": "b"}}}, "sink.options", "needs sink.format"),
        ({"key": "key"}, "key", "needs sequence, or sink.key"),
        ({"sparse": "true", "id": "key"}, "sparse", "needs sequence"),
        ({"sink": {"url": "d", "key": "id"}}, "sink.key", "needs key"),
        ({**KEYED, "version": "offset"}, "version", "needs sink.version"),
        ({"deleted": "true", "id": "key"}, "deleted", "needs sink.key"),
        ({"sink": {"url": "d"}, "where": "true"}, "where", "needs sink.key"),
        ({"outbox": {"url": "d"}, "id": "key"}, "outbox.id", "is required"),
        ({"outbox": {"url": "d", "id": "id"}}, "outbox", "needs id"),
        ({"outbox": {"url": "d", "id": "id"}, "id": "key", "sink": {"url": "d"}}, "outbox", "different audits"),
        ({"group": "billing", "id": "key"}, "group", "unknown key"),
        ({"sink": {"url": "d", "optoins": {}}}, "sink.optoins", "did you mean options?"),
        ({"null_id": "never"}, "null_id", "must be one of"),
        ({"format": "debezium", "value_schema": "x.avsc"}, "value_schema", "reads JSON"),
        ({"id": "key", "value_schema": "no.avsc"}, "value_schema", "no.avsc cannot be read"),
        ({"id": "key", "begin": "yesterday"}, "begin", "'yesterday' is no bound"),
        ({"sink": {"url": "d", "password_file": "none"}}, "sink.password_file", "none cannot be read"),
    ],
)
def test_a_problem_of_a_spec_has_its_path(spec: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        audit_of({"topic": "orders", **spec}, "orders.yml")
    assert any(str(problem).startswith(f"{path} (from orders.yml): ") and said in str(problem)
               for problem in refused.value.problems)  # fmt: skip


def test_all_problems_of_a_spec_are_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "orders.yml"
    file.write_text("topic: orders\nsequence: offset\nbegin: x\nsource: {topic: orders}\n")
    assert main(["audit", str(file), "--bootstrap-server", "127.0.0.1:1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" (from ")[0] for line in lines] == ["source", "sequence", "source.topic", "begin"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "needs SPEC.yml or --topic NAME"),
        (("--topic", "orders", "--id", "key", "--name", "../x"), "--name"),
        (("--topic", "orders", "--id", "key", "--examples", "-1"), "--examples"),
        (("--topic", "orders", "--id", "key", "--agent", "agent:1"), "must begin with http"),
        (("--topic", "orders", "--key", "key"), "needs sequence, or sink.key"),
        (("orders.yml", "--id", "key"), "--id: belongs into orders.yml"),
        (("no.yml",), "no.yml: cannot be read"),
        (("--topic", "orders", "--sink", "d"), "write sink.url in audit SPEC.yml; see docs/upgrading.md"),
        (("--topic", "orders", "--checkpoint", "d"), "give --state; see docs/upgrading.md"),
        (("--topic", "orders", "--id", "key", "--follow"), "--follow and --state URL belong together"),
    ],
)
def test_flags_that_cannot_be_used_are_refused_in_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--bootstrap-server", "127.0.0.1:1", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_spec_conforms_to_its_schema_and_names_files_from_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    sink = {"url": "jdbc:postgresql://db/x", "table": "orders", "user": "a", "password_file": "password", "group": "g"}
    spec = {"topic": "orders", "begin": "0:7", "sink": sink}
    conform("audit-spec", spec)
    file = tmp_path / "orders.yml"
    file.write_text(json.dumps(spec))
    audit = spec_of_file(file)
    assert audit.sink == SinkTable("jdbc:postgresql://db/x", "orders", "a", "hunter2")
    assert (audit.source_group, audit.begin.offsets) == ("g", {0: 7})


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


def audit_of_keys(**keys: Any) -> Audit:
    return audit_of({"topic": "orders", **keys}, "orders.yml")


def test_change_events_of_debezium_are_audited_by_event_row_and_source_position_unless_asked_otherwise() -> None:
    audit = audit_of_keys(format="debezium")
    assert (audit.id, audit.key, audit.sequence, audit.sparse) == ("event", "row_key", "source_position", True)
    assert audit.checks == ("duplicate", "reordered")
    own = audit_of_keys(format="debezium", id="concat(op, key)")
    assert (own.id, own.key, own.checks) == ("concat(op, key)", "", ("duplicate",))


def test_a_sink_by_key_is_asked_for_by_its_key_and_searched_for_what_it_can_lack() -> None:
    audit = audit_of_keys(key="key", sink={"url": "/data", "key": "id"})
    assert audit.sink is None
    assert audit.keyed is not None
    assert audit.checks == ("stale", "missing", "ahead", "phantom", "repeated", "aborted_visible")
    outbox = audit_of_keys(id="key", outbox={"url": "/d", "id": "id"})
    assert outbox.checks == ("duplicate", "missing")
    settings = report(key="key", keyed=audit.keyed).result.more["settings"]
    assert (settings["sink"], settings["sink.key"], settings["deleted"]) == ("/data", "id", "value_bytes IS NULL")


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
    sink = audit_of_keys(sink={"url": given}).sink
    assert sink == table
    assert sink.name == name


def test_a_sink_may_be_of_any_format_that_spark_reads_with_its_options() -> None:
    options = {"keyspace": "shop", "table": "a=b"}
    read = {"url": "shop.orders", "format": "org.apache.spark.sql.cassandra", "options": options}
    sink = audit_of_keys(sink=read).sink
    assert sink is not None
    assert (sink.format, sink.url) == ("org.apache.spark.sql.cassandra", "shop.orders")
    assert sink.options == (("keyspace", "shop"), ("table", "a=b"))
    assert (sink.name, sink.packages, sink.conf) == ("org.apache.spark.sql.cassandra:shop.orders", (), {})
    assert "shop" not in repr(SinkTable("/d", options=(("password", "shop"),)))


def test_tables_of_a_lake_are_read_at_one_snapshot() -> None:
    keyed = audit_of_keys(key="key", sink={"url": "iceberg:a.b", "key": "id"})
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
