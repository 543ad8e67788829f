"""The command line of ``audit`` as values of the job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from exporter.commands.settings import UsageError

if TYPE_CHECKING:
    from exporter.jobs.audit.definition import Audit
    from exporter.jobs.audit.follow import Following
    from exporter.jobs.audit.offset_range import Bound
    from exporter.jobs.audit.outcome import AuditSettings

_NEEDS = (
    ("source_topic", ("id",), "--source-topic needs --id: by what its records are known in --topic"),
    ("source_id", ("source_topic",), "--source-id needs --source-topic"),
    ("source_group", ("source_topic",), "--source-group needs --source-topic"),
    ("key", ("sequence",), "--key needs --sequence"),
    ("sequence", ("key",), "--sequence needs --key"),
    ("follow", ("checkpoint",), "--follow needs --checkpoint"),
    ("checkpoint", ("follow",), "--checkpoint needs --follow"),
    ("sink_table", ("sink",), "--sink-table needs --sink"),
)


class AgentAddress(NamedTuple):
    """Where a result is posted; ``token`` is "" for none."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"AgentAddress({self.url})"


def audit_of(options: argparse.Namespace) -> Audit:
    """Return the audit of these flags. Raises UsageError for a contradiction or a file that cannot be read."""
    from exporter.jobs.audit.columns import Shape  # noqa: PLC0415 -- these need pyspark, an extra
    from exporter.jobs.audit.definition import Audit  # noqa: PLC0415 -- as above
    from exporter.jobs.audit.sink import SinkTable  # noqa: PLC0415 -- as above

    for name, needed, text in _NEEDS:
        if getattr(options, name) and not all(getattr(options, each) for each in needed):
            raise UsageError(text)
    if options.source_topic and options.source_topic == options.topic:
        raise UsageError("--source-topic is --topic itself")
    if options.source_topic and options.sink:
        raise UsageError("--source-topic and --sink are two audits: ask for one at a time")
    if options.follow and (options.source_topic or options.sink or options.end or not (options.id or options.key)):
        raise UsageError("--follow is for --id, or --key with --sequence; without --to, --sink and --source-topic")
    sink = None
    if options.sink:
        if options.sink.startswith("jdbc:") != bool(options.sink_table):
            raise UsageError("--sink is a JDBC URL with --sink-table, or a folder of Parquet files without")
        password = _secret("--sink-password-file", options.sink_password_file)
        sink = SinkTable(options.sink, options.sink_table, options.sink_user, password)
    schema = None if options.value_schema is None else _schema(options.value_schema)
    return Audit(
        topic=options.topic,
        id=options.id,
        key=options.key,
        sequence=options.sequence,
        shape=Shape(schema, options.value_framing == "confluent"),
        begin=_bound("--from", options.begin),
        end=None if options.end is None else _bound("--to", options.end),
        source_topic=options.source_topic,
        source_id=options.source_id,
        source_group=options.source_group,
        sink=sink,
    )


def settings_of(options: argparse.Namespace) -> AuditSettings:
    """Where the result goes. Raises SettingsError for a name that no file can have."""
    from exporter.jobs.audit.outcome import AuditSettings, is_name  # noqa: PLC0415 -- as above

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
    from exporter.jobs.audit.follow import Following  # noqa: PLC0415 -- as above

    if not options.follow:
        return None
    if "://" in str(options.checkpoint) or ":/" in str(options.checkpoint):
        raise UsageError("--checkpoint: must be a folder that this machine and all workers mount")
    return Following(options.checkpoint.absolute(), options.window, options.interval)


def agent_of(options: argparse.Namespace) -> AgentAddress | None:
    """Where to post the result, None for nowhere."""
    if not options.agent:
        if options.agent_token_file is not None:
            raise UsageError("--agent-token-file needs --agent")
        return None
    if not options.agent.startswith(("http://", "https://")):
        raise UsageError(f"--agent {options.agent!r}: must begin with http:// or https://")
    return AgentAddress(options.agent.rstrip("/"), _secret("--agent-token-file", options.agent_token_file))


def _bound(flag: str, text: str) -> Bound:
    from exporter.jobs.audit.offset_range import BoundError, parse_bound  # noqa: PLC0415 -- as above

    try:
        return parse_bound(text)
    except BoundError as error:
        raise UsageError(f"{flag}: {error}") from None


def _secret(flag: str, file: Path | None) -> str:
    return "" if file is None else _text(flag, file).strip()


def _schema(file: Path) -> str:
    text = _text("--value-schema", file)
    try:
        json.loads(text)
    except ValueError as error:
        raise UsageError(f"--value-schema {file}: is no JSON: {error}") from None
    return text


def _text(flag: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{flag} {file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag} {file}: is no UTF-8 text") from None
