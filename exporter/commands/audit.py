"""``audit``: is this topic exactly once? A Spark job that reads the records themselves."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
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
  kafka-eos-exporter audit --config eos.yml orders.yml

SPEC is a YAML file with what to ask: filters, bounds, a source topic, a sink, an outbox. See docs/audit.md.

EXPR is a Spark SQL expression over one record: key, value (texts), key_bytes, value_bytes, headers (a map of texts),
partition, offset, timestamp. The audit reads up to the last stable offset at its start, so a topic that
is being written to has an exact answer.

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
    _add_outputs(parser)
    add_spark_flags(parser)
    parser.set_defaults(command=_command, spec=None)
    words = parser.add_subparsers(
        title="the spec, or another audit", metavar="SPEC.yml | markers", action=_SpecOrMarkers
    )
    audit_markers.add_to(words)
    words.choices = _AnyWord(words.choices)


def _add_questions(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to ask, without SPEC").add_argument
    add("--topic", default="", metavar="NAME", help="the topic to audit")
    add("--id", default="", metavar="EXPR", help="expression whose value only one record may have")
    add("--key", default="", metavar="EXPR", help="key of the numbers of --sequence")
    add("--sequence", default="", metavar="EXPR", help="a number that grows by one with each record of a key")


class _AnyWord(dict[str, argparse.ArgumentParser]):
    """Commands by their word; argparse accepts every other word too: it is a file."""

    def __contains__(self, _: object) -> bool:
        return True


class _SpecOrMarkers(argparse._SubParsersAction):  # type: ignore[type-arg]  # noqa: SLF001 -- argparse's type has no public name
    """Take a word that is no command as the file of a spec."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        word, *rest = list(values or ())
        if word in self._name_parser_map:
            super().__call__(parser, namespace, values, option_string)
            return
        namespace.spec = Path(word)
        parser.parse_args(rest, namespace)


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
    add("--examples", type=int, default=5, metavar="N", help="findings of each kind to show, the worst first (5)")
    add_duration_flag(group, "--timeout", 30.0, "how long each answer of a broker may take")
    group = parser.add_argument_group("an audit that goes on")
    group.add_argument(
        "--follow", action="store_true", help="audit new records by id, or key and sequence, until stopped"
    )
    group.add_argument("--state", default="", metavar="URL", help="folder of what --follow knows, for this audit alone")
    add_duration_flag(group, "--interval", 60.0, "from one batch to the next (1m)")
    add_duration_flag(group, "--window", 86_400.0, "records further apart are not compared (1d)")


def _command(options: argparse.Namespace) -> int:
    flags = [f"--{name}" for name in ("topic", "id", "key", "sequence") if getattr(options, name)]
    if options.spec is None and not options.topic:
        raise UsageError("audit needs SPEC.yml or --topic NAME, or is `audit markers`")
    if options.spec is not None and flags:
        raise UsageError(f"{', '.join(flags)}: belongs into {options.spec}")
    if options.follow != bool(options.state):
        raise UsageError("--follow and --state URL belong together")
    connector = kafka_connector()
    from exporter.commands.audit_run import run_audit  # noqa: PLC0415 -- pyspark, of which there is one now, is an extra

    return run_audit(options, connector)
