"""What earlier versions had and this one has not: commands, flags and settings, each with what to use instead.

A row here gives the error that names the page of upgrading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

UPGRADING = "docs/upgrading.md"

OFFSETS = "check offsets_in_transaction of the posture samples the newest commits"
OUTCOMES = "outcomes are read from the transaction log, or are absent"
_AUDIT_KEYS = {
    "source-topic": "source.topic",
    "source-id": "source.id",
    "source-group": "source.group or sink.group",
    "source-where": "source.where",
    "where": "where",
    "sparse": "sparse",
    "null-id": "null_id",
    "format": "format",
    "from": "begin",
    "to": "end",
    "value-schema": "value_schema",
    "value-framing": "value_framing",
    "version": "version",
    "content": "content",
    "deleted": "deleted",
    "sink": "sink.url",
    "sink-option": "sink.options",
    **{f"sink-{name}": f"sink.{name}" for name in ("table", "format", "user", "key", "version", "content")},
    "sink-password-file": "sink.password_file",
    "outbox": "outbox.url",
    **{f"outbox-{name}": f"outbox.{name}" for name in ("table", "user", "id", "where")},
    "outbox-password-file": "outbox.password_file",
}
"""Flags of ``audit`` that are keys of its spec, and these."""

MARKERS = "run `audit markers --agent URL`"

ARGUMENTS: Mapping[str, str] = {
    "audit --output junit": "use --output json",
    **{f"audit --{flag}": f"write {key} in audit SPEC.yml" for flag, key in _AUDIT_KEYS.items()},
    "audit --checkpoint": "give --state",
    "check connection --connect": "kafka-acls.sh --list shows the grants",
    "check connection --connector": "kafka-acls.sh --list shows the grants",
    "check connection --topic": "kafka-acls.sh --list shows the grants",
    "check applications": "use applications",
    "transactions inventory": "use applications",
    "fleet": "use the table of agents on the overview dashboard",
    "run --shard": "one agent reads the whole cluster",
    "incident --format html": "use --format markdown or json",
    "incident --history": "use history report for the same time",
    "incident --output html": "use --format markdown or json",
    "generate alerts --format grafana": "load the rules into Prometheus or Mimir",
    "generate alerts --format relabel": "alerts have the label owner",
    "generate completion": "use `shtab --shell=bash exporter.cli.parser`",
    "generate man": "use --help",
    "generate slo": "use the recording rules of objectives, and their dashboard",
    "top --agents": "give the address of one agent",
    "history run": "give its flags to `history`",
    "history --max-records-per-batch": "the first batch has all that the log has",
}
"""By the words of the command line: ``"name"`` for a command, ``"generate man"`` for one of another command,
``"name --flag"`` for its flag, ``"audit --output junit"`` for a value of its flag, ``"--flag"`` for one of any command.
The value is the end of a sentence, such as ``"use the overview board"``.
"""

SETTINGS: Mapping[str, str] = {
    "shard": "one agent reads the whole cluster",
    "clusters[].transactions.outcomes": OUTCOMES,
    "transactions.outcomes": OUTCOMES,
    "clusters[].groups.offset_commits": OFFSETS,
    "groups.offset_commits": OFFSETS,
    "clusters[].transactions.compare_markers": MARKERS,
    "clusters[].transactions.markers_per_minute": MARKERS,
    "transactions.compare_markers": MARKERS,
    "transactions.markers_per_minute": MARKERS,
}
"""By path, such as ``"section"`` for a whole one, ``"clusters[].lso.interval"`` for a key in one of a list."""


def removed_argument(arguments: Sequence[str], rows: Mapping[str, str] = ARGUMENTS) -> str:
    """Return the error on the first removed command, flag or value among the arguments, "" where there is none."""
    words = [word for argument in arguments for word in _split(argument)]
    for row, instead in rows.items():
        parts = row.split()
        named = next((at for at, part in enumerate(parts) if part.startswith("-")), len(parts))
        command, flag = parts[:named], parts[named:]
        rest = words[named:]
        places = range(len(rest) - len(flag) + 1)
        if words[:named] == command and any(rest[at : at + len(flag)] == flag for at in places):
            return f"{row} {_sentence(instead)}"
    return ""


def removed_setting(path: Sequence[str | int], rows: Mapping[str, str] = SETTINGS) -> str:
    """Return the end of the error on a setting that was removed, "" for one that never was."""
    text = ""
    for step in path:
        text += "[]" if isinstance(step, int) else f".{step}" if text else step
    return _sentence(rows[text]) if text in rows else ""


def _split(argument: str) -> list[str]:
    """``--flag=value`` as two words."""
    flag, equals, value = argument.partition("=")
    return [flag, value] if equals and flag.startswith("--") else [argument]


def _sentence(instead: str) -> str:
    return f"was removed: {instead}; see {UPGRADING}"
