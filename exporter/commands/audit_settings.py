"""The command line of ``audit`` as values of the job."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from exporter.commands.audit_post import secret_of_file, text_of_file
from exporter.commands.settings import UsageError
from exporter.jobs.audit import debezium
from exporter.jobs.audit.columns import Shape
from exporter.jobs.audit.definition import Audit, KeyedSink, NullId, Outbox
from exporter.jobs.audit.follow import Following
from exporter.jobs.audit.offset_range import Bound, BoundError, parse_bound
from exporter.jobs.audit.outcome import AuditSettings, is_name
from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.lakes.formats import LAKES

_NEEDS = (
    ("source_topic", ("id",), "--source-topic needs --id: by what its records are known in --topic"),
    ("source_id", ("source_topic",), "--source-id needs --source-topic"),
    ("sequence", ("key",), "--sequence needs --key"),
    ("follow", ("checkpoint",), "--follow needs --checkpoint"),
    ("checkpoint", ("follow",), "--checkpoint needs --follow"),
    ("source_where", ("source_topic",), "--source-where needs --source-topic"),
    ("sink_table", ("sink",), "--sink-table needs --sink"),
    ("sink_format", ("sink",), "--sink-format needs --sink: the path of the format, or a name for the report"),
    ("sink_option", ("sink_format",), "--sink-option needs --sink-format"),
    ("sink_key", ("sink", "key"), "--sink-key needs --sink, and --key: what its rows are known by in --topic"),
    ("version", ("sink_version",), "--version needs --sink-version"),
    ("sink_version", ("version", "sink_key"), "--sink-version needs --version and --sink-key"),
    ("content", ("sink_content",), "--content needs --sink-content"),
    ("sink_content", ("content", "sink_key"), "--sink-content needs --content and --sink-key"),
    ("deleted", ("sink_key",), "--deleted needs --sink-key"),
    ("outbox", ("outbox_id", "id"), "--outbox needs --outbox-id, and --id: what its rows are known by in --topic"),
    ("outbox_id", ("outbox",), "--outbox-id needs --outbox"),
    ("outbox_where", ("outbox",), "--outbox-where needs --outbox"),
    ("outbox_table", ("outbox",), "--outbox-table needs --outbox"),
)


_LAKE = re.compile(rf"(?P<format>{'|'.join(LAKES)}):(?P<url>.+?)(?:@(?P<snapshot>\d+))?")


def audit_of(options: argparse.Namespace) -> Audit:
    """Return the audit of these flags. Raises UsageError for a contradiction or a file that cannot be read."""
    envelope = options.format == "debezium"
    if envelope:
        _fill_in(options)
    _check(options, envelope=envelope)
    sink, keyed = _sinks(options)
    schema = None if options.value_schema is None else _schema(options.value_schema)
    deleted = options.deleted or (debezium.DELETED if envelope else "value_bytes IS NULL")
    return Audit(
        topic=options.topic,
        id=options.id,
        key=options.key,
        sequence=options.sequence,
        shape=Shape(schema, options.value_framing == "confluent", envelope),
        begin=_bound("--from", options.begin),
        end=None if options.end is None else _bound("--to", options.end),
        source_topic=options.source_topic,
        source_id=options.source_id,
        source_group=options.source_group,
        sink=sink,
        where=options.where,
        source_where=options.source_where,
        null_id=NullId(options.null_id),
        sparse=options.sparse,
        version=options.version,
        content=options.content,
        deleted=deleted,
        keyed=keyed,
        outbox=_outbox(options),
    )


def _fill_in(options: argparse.Namespace) -> None:
    """The defaults for Debezium's change events, where the flags do not say it."""
    if not options.id and not options.key:
        options.id, options.key, options.sequence = debezium.EVENT, debezium.ROW_KEY, debezium.SOURCE_POSITION
    options.sparse = options.sparse or options.sequence == debezium.SOURCE_POSITION


def _check(options: argparse.Namespace, *, envelope: bool) -> None:
    for name, needed, text in _NEEDS:
        if getattr(options, name) and not all(getattr(options, option) for option in needed):
            raise UsageError(text)
    if options.source_group and not (options.source_topic or options.sink):
        raise UsageError("--source-group needs --source-topic, or --sink")
    if options.key and not (options.sequence or options.sink_key):
        raise UsageError("--key needs --sequence, or --sink-key")
    if options.sparse and not options.sequence:
        raise UsageError("--sparse needs --sequence")
    if envelope and options.value_schema is not None:
        raise UsageError("--format debezium reads JSON; for Avro, name the fields: value.op, value.source.lsn")
    if options.source_topic and options.source_topic == options.topic:
        raise UsageError("--source-topic is --topic itself")
    if sum(map(bool, (options.source_topic, options.sink, options.outbox))) > 1:
        raise UsageError("--source-topic, --sink and --outbox are different audits: ask for one at a time")
    whole = options.source_topic or options.sink or options.outbox or options.end
    if options.follow and (whole or not (options.id or options.key)):
        raise UsageError(
            "--follow is for --id, or --key with --sequence; without --to, --sink, --source-topic, --outbox"
        )


def _sinks(options: argparse.Namespace) -> tuple[SinkTable | None, KeyedSink | None]:
    """The sink by the positions of its rows, or by key."""
    table = _table(options, "sink")
    if table is None:
        return None, None
    if options.sink_key:
        return None, KeyedSink(table, options.sink_key, options.sink_version, options.sink_content)
    if options.where:
        raise UsageError("--where and --sink need --sink-key: by positions, each record must be in the sink")
    return table, None


def _outbox(options: argparse.Namespace) -> Outbox | None:
    table = _table(options, "outbox")
    return None if table is None else Outbox(table, options.outbox_id, options.outbox_where)


def _table(options: argparse.Namespace, flag: str) -> SinkTable | None:
    given = vars(options)
    url, table = given[flag], given[f"{flag}_table"]
    if not url:
        return None
    if url.startswith("jdbc:") != bool(table):
        raise UsageError(f"--{flag} is a JDBC URL with --{flag}-table, or a table of a lake or a folder without")
    if named := given.get(f"{flag}_format"):
        return SinkTable(url, format=named, options=tuple(map(_option, given[f"{flag}_option"])))
    if (lake := _LAKE.fullmatch(url)) is not None:
        return SinkTable(lake["url"], format=lake["format"], snapshot=lake["snapshot"] or "")
    password = secret_of_file(f"--{flag}-password-file", given[f"{flag}_password_file"])
    return SinkTable(url.removeprefix("parquet:"), table, given[f"{flag}_user"], password)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--sink-option {text!r}: must be NAME=VALUE")
    return name, value


def settings_of(options: argparse.Namespace) -> AuditSettings:
    """Where the result goes. Raises UsageError for a name that no file can have."""
    name = options.name or options.topic
    if not is_name(name):
        raise UsageError(f"--name {name!r}: letters, digits, dots, dashes and underscores only")
    if options.examples < 0:
        raise UsageError("--examples must not be negative")
    # Only an explicit name: otherwise the agent uses the name of its own settings.
    cluster = vars(options).get("--cluster.name", "")
    return AuditSettings(name, cluster, options.output_dir, options.examples)


def following_of(options: argparse.Namespace) -> Following | None:
    """Return how a continuous audit runs; None for a single run. Raises UsageError."""
    if not options.follow:
        return None
    if "://" in str(options.checkpoint) or ":/" in str(options.checkpoint):
        raise UsageError("--checkpoint: must be a folder that this machine and all workers mount")
    return Following(options.checkpoint.absolute(), options.window, options.interval)


def _bound(flag: str, text: str) -> Bound:
    try:
        return parse_bound(text)
    except BoundError as error:
        raise UsageError(f"{flag}: {error}") from None


def _schema(file: Path) -> str:
    text = text_of_file("--value-schema", file)
    try:
        json.loads(text)
    except ValueError as error:
        raise UsageError(f"--value-schema {file}: is no JSON: {error}") from None
    return text
