"""``audit``: is this topic exactly once? A Spark job that reads the records themselves."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.cluster.cluster import Cluster
from exporter.commands import audit_markers
from exporter.commands.audit_output import post, print_report, spark_progress
from exporter.commands.audit_settings import AgentAddress, agent_of, audit_of, following_of, settings_of
from exporter.commands.clusters import opened
from exporter.commands.history_run import until_stopped
from exporter.commands.output import say
from exporter.commands.settings import UsageError, add_cluster_flags, duration
from exporter.commands.spark import add_spark_flags, spark_conf
from exporter.jobs.session import SessionError, is_local, kafka_connector, spark_module, spark_session
from exporter.kafka.client import AskError

if TYPE_CHECKING:
    from exporter.jobs.audit.definition import Audit
    from exporter.jobs.audit.follow import Follow
    from exporter.jobs.audit.outcome import AuditReport, AuditSettings

CODES = {"clean": 0, "findings": 1, "unknown": 2}

_EXAMPLES = """\
examples:
  kafka-eos-exporter audit --bootstrap-server kafka-1:9092 --topic orders --id "get_json_object(value, '$.id')"
  kafka-eos-exporter audit --config eos.yml --topic orders --key key --sequence "headers['seq']"
  kafka-eos-exporter audit --config eos.yml --topic totals --id key --source-topic orders --source-group totals
  kafka-eos-exporter audit --config eos.yml --topic orders --sink jdbc:postgresql://db/shop --sink-table orders
  kafka-eos-exporter audit --config eos.yml --topic orders --sink iceberg:lake.shop.orders@4358109269873137077
  kafka-eos-exporter audit --config eos.yml --topic orders --id key --from 2026-11-21T10:00Z --to 2026-11-21T11:00Z

EXPR is a Spark SQL expression over one record: key, value (texts), key_bytes, value_bytes, headers (a map of texts),
partition, offset, timestamp. With --value-schema, value has the fields of the Avro record. The audit reads up to the
last stable offset at its start, so a topic that is being written to has an exact answer.

Needs READ on the topics, Java 17 and pip install 'kafka-eos-exporter[spark]'.

exit codes: 0 clean, 1 found, 2 could not be determined
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``audit``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "audit",
        help=summary,
        description="Read a topic's records and report whether each is there exactly once, with the evidence.",
        epilog=_EXAMPLES,
    )
    add_cluster_flags(parser)
    _add_questions(parser)
    _add_tables(parser)
    _add_outputs(parser)
    add_spark_flags(parser)
    parser.set_defaults(command=_command)
    audit_markers.add_to(parser.add_subparsers(title="other audits", metavar="markers"))


def _add_questions(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to ask").add_argument
    add("--topic", default="", metavar="NAME", help="the topic to audit (required)")
    add("--id", default="", metavar="EXPR", help="expression whose value only one record may have")
    add("--key", default="", metavar="EXPR", help="key of the numbers of --sequence")
    add("--sequence", default="", metavar="EXPR", help="a number that grows by one with each record of a key")
    add("--source-topic", default="", metavar="NAME", help="a topic whose records must all be in --topic, by --id")
    add("--source-id", default="", metavar="EXPR", help="the id of a record of the source topic (as --id)")
    add(
        "--source-group",
        default="",
        metavar="GROUP",
        help="records of the source that this group committed must be there",
    )
    add("--where", default="", metavar="EXPR", help="audit only records for which this is true")
    add("--source-where", default="", metavar="EXPR", help="the same for the source topic")
    add("--sparse", action="store_true", help="numbers of --sequence grow, and a missing number is no gap")
    add(
        "--null-id",
        choices=("skip", "count", "fail"),
        default="fail",
        help="records without id, key or number: ignore, note, or result unknown (fail)",
    )
    add("--format", choices=("plain", "debezium"), default="plain", help="format of the values (plain)")
    add("--from", dest="begin", default="beginning", metavar="BOUND", help="beginning, earliest, offset(s) or instant")
    add("--to", dest="end", default=None, metavar="BOUND", help="exclusive end; default: the last stable offset")
    add("--value-schema", type=Path, metavar="FILE", help="the values are Avro, by this schema")
    add(
        "--value-framing",
        choices=("confluent", "plain"),
        default="confluent",
        help="Avro with Confluent's 5 bytes before it, or plain (confluent)",
    )


def _add_tables(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("tables").add_argument
    add(
        "--sink",
        default="",
        metavar="URL",
        help="what stores the topic: a JDBC URL, parquet:, iceberg: or delta:URL|TABLE[@SNAPSHOT]",
    )
    add(
        "--sink-table",
        default="",
        metavar="TABLE",
        help="table with kafka_topic, kafka_partition and kafka_offset of each record, or with --sink-key",
    )
    add("--sink-format", default="", metavar="FORMAT", help="a format of Spark that reads --sink, such as orc")
    add("--sink-option", action="append", default=[], metavar="NAME=VALUE", help="an option of --sink-format")
    add("--sink-user", default="", metavar="USER", help="user of the sink's database")
    add("--sink-password-file", type=Path, metavar="FILE", help="file with the password")
    add("--sink-key", default="", metavar="EXPR", help="key of a row, if the sink keeps one row for each --key")
    add("--sink-version", default="", metavar="EXPR", help="version of a row, compared with --version of a record")
    add("--sink-content", default="", metavar="EXPR", help="content of a row, compared with --content of its record")
    add("--version", default="", metavar="EXPR", help="a number that grows with each record of a key")
    add("--content", default="", metavar="EXPR", help="content of a record, compared with --sink-content of its row")
    add("--deleted", default="", metavar="EXPR", help="true for a record that deletes its key's row (a null value)")
    add("--outbox", default="", metavar="URL", help="a table, or Parquet files, whose rows must all be in --topic")
    add("--outbox-table", default="", metavar="TABLE", help="the table of a JDBC URL")
    add("--outbox-user", default="", metavar="USER", help="user of the outbox's database")
    add("--outbox-password-file", type=Path, metavar="FILE", help="file with the password")
    add("--outbox-id", default="", metavar="EXPR", help="the --id of a row, of the table's columns")
    add("--outbox-where", default="", metavar="EXPR", help="only rows for which this is true, of the table's columns")


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("where the answer goes").add_argument
    add("--name", default="", metavar="NAME", help="name of the audit in metrics and files (the topic's name)")
    add(
        "--output",
        choices=("text", "json", "html", "junit"),
        default="text",
        help="for people, machines, a browser or a pipeline",
    )
    add(
        "--output-dir", type=Path, metavar="DIR", help="NAME.json for the agent, NAME.html, and all findings as Parquet"
    )
    add("--agent", default="", metavar="URL", help="post the result to this agent, such as http://eos-exporter:10618")
    add("--agent-token-file", type=Path, metavar="FILE", help="the agent's ingest token")
    add("--follow", action="store_true", help="continue with records written from now on, until stopped")
    add("--checkpoint", type=Path, metavar="DIR", help="with --follow: folder of its position and seen values")
    add("--window", type=duration, default=3600.0, metavar="DURATION", help="with --follow: length of the window (1h)")
    add(
        "--interval",
        type=duration,
        default=60.0,
        metavar="DURATION",
        help="with --follow: time between two batches (1m)",
    )
    add("--examples", type=int, default=5, metavar="N", help="findings of each kind to show, the worst first (5)")
    add("--timeout", type=duration, default=30.0, metavar="DURATION", help="how long each answer of a broker may take")


def _command(options: argparse.Namespace) -> int:
    if not options.topic:
        raise UsageError("audit needs --topic NAME, or is `audit markers`")
    try:
        connector = kafka_connector()
        audit, settings, agent = audit_of(options), settings_of(options), agent_of(options)
        with opened(options) as clusters:
            if len(clusters) != 1:
                raise UsageError(f"one audit is of one cluster: choose one of {len(clusters)} with --cluster.name")
            cluster, _ = clusters[0]
            try:
                return _audit(options, cluster, audit, settings, agent, connector)
            except AskError as error:
                say(f"could not ask {cluster.target}: {error.fault.detail}")
    except SessionError as error:
        say(str(error))
    return 2


def _audit(
    options: argparse.Namespace,
    cluster: Cluster,
    audit: Audit,
    settings: AuditSettings,
    agent: AgentAddress | None,
    connector: str,
) -> int:
    # These need pyspark, of which kafka_connector has made sure.
    from exporter.jobs.audit import follow, offset_range, outcome, read  # noqa: PLC0415
    from exporter.jobs.audit.spark_settings import JAVA_OPTIONS, PLAIN_SHUFFLE  # noqa: PLC0415

    following = following_of(options)
    access = read.TopicAccess(cluster.client, cluster.properties, options.timeout)
    for topic in filter(None, (audit.topic, audit.source_topic)):
        offset_range.described(cluster.client, topic, access.deadline())
    packages = [connector, *{package for table in audit.tables for package in table.packages}]
    if audit.shape.avro_schema is not None:
        packages.append(spark_module("spark-avro"))
    # What is compared with a table is shuffled as text.
    shuffle = PLAIN_SHUFFLE if is_local(options.master) and not audit.tables else {}
    # A value that is not a number becomes null, and is counted, instead of failing the job.
    conf = {"spark.sql.ansi.enabled": "false", "spark.sql.mapKeyDedupPolicy": "LAST_WIN", **shuffle}
    for table in audit.tables:
        conf |= table.conf
    conf |= spark_conf(options)
    # Spark's refusal is reported in one line.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    say("starting Spark ...")
    with (
        spark_session(
            "kafka-eos-audit", master=options.master, packages=packages, conf=conf, java_options=JAVA_OPTIONS
        ) as session,
        spark_progress(lambda: read.tasks_of(session)) as tell,
    ):
        if following is not None:
            return _follow(follow.Follow(session, access, audit, settings, following, _teller(agent), tell))
        report: AuditReport = outcome.audit_once(session, access, audit, settings, tell)
    print_report(report, options.output)
    if settings.folder is not None:
        say(f"written to {settings.folder}: {settings.name}.json, .html and {outcome.EVIDENCE_FILE}")
    delivered = agent is None or post(agent, report.result)
    code = CODES[report.result.verdict]
    return code if delivered else max(code, 2)


def _follow(follow: Follow) -> int:
    """Run until it is stopped, then report the result of all batches."""
    with until_stopped() as over:
        last = follow.run(over)
    if last is None:
        say("nothing was written since it began")
        return CODES["unknown"]
    return CODES["findings" if last.findings else "unknown" if last.unknown else "clean"]


def _teller(agent: AgentAddress | None) -> Callable[[AuditReport], None]:
    """Report the result after each batch, and post it to the agent."""

    def on_report(report: AuditReport) -> None:
        found = ", ".join(f"{finding.count:,} {finding.kind}" for finding in report.result.findings) or "nothing found"
        say(f"{report.result.records or 0:,} records, {report.result.aborted_records or 0:,} aborted: {found}")
        if agent is not None:
            post(agent, report.result)

    return on_report
