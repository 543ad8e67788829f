"""``audit``: is this topic exactly once? A Spark job that reads the records themselves."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from exporter.commands import audit_markers
from exporter.commands.audit_post import add_agent_flags
from exporter.commands.settings import UsageError, add_cluster_flags, add_duration_flag
from exporter.commands.spark import add_spark_flags
from exporter.jobs.session import kafka_connector

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
        help="what this group has committed of --source-topic, or of --topic with --sink, must be downstream",
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
    group = parser.add_argument_group("where the answer goes")
    add = group.add_argument
    add("--name", default="", metavar="NAME", help="name of the audit in metrics and files (the topic's name)")
    add(
        "--output",
        choices=("text", "json", "html"),
        default="text",
        help="for people, machines, a browser or a pipeline",
    )
    add(
        "--output-dir", type=Path, metavar="DIR", help="NAME.json for the agent, NAME.html, and all findings as Parquet"
    )
    add_agent_flags(parser)
    add("--follow", action="store_true", help="continue with records written from now on, until stopped")
    add("--checkpoint", type=Path, metavar="DIR", help="with --follow: folder of its position and seen values")
    add_duration_flag(group, "--window", 3600.0, "with --follow: length of the window (1h)")
    add_duration_flag(group, "--interval", 60.0, "with --follow: time between two batches (1m)")
    add("--examples", type=int, default=5, metavar="N", help="findings of each kind to show, the worst first (5)")
    add_duration_flag(group, "--timeout", 30.0, "how long each answer of a broker may take")


def _command(options: argparse.Namespace) -> int:
    if not options.topic:
        raise UsageError("audit needs --topic NAME, or is `audit markers`")
    connector = kafka_connector()
    from exporter.commands.audit_run import run_audit  # noqa: PLC0415 -- pyspark, of which there is one now, is an extra

    return run_audit(options, connector)
