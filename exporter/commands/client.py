"""``check client``: whether the settings of a client give the guarantee that is wanted."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, NamedTuple

from exporter import __version__
from exporter.bounds.text import printable
from exporter.commands.clusters import opened
from exporter.commands.output import print_json, say
from exporter.commands.settings import add_cluster_flags, add_duration_flag
from exporter.kafka.client import AskError
from exporter.linter import forms
from exporter.linter.all_rules import ClientFinding, Misspelt, judged, misspelt
from exporter.linter.files import FileError, read_text
from exporter.linter.forms import ClientPart, of_kind
from exporter.linter.rule import Goal, Level
from exporter.linter.sarif import sarif
from exporter.linter.views import Client, Version
from exporter.model import Deadline, Fault
from exporter.views.command_documents import ClientFileDocument

_MAX_TIMEOUT = "transaction.max.timeout.ms"
_EXAMPLES = """\
examples:
  kafka-eos-exporter check client producer.properties consumer.properties
  kafka-eos-exporter check client application.yml --for at-least-once
  kafka-eos-exporter check client connector.json --bootstrap-server kafka-1:9092
  kafka-eos-exporter check client config/*.properties --output sarif > eos.sarif

exit codes: 0 nothing found (notes do not count), 1 errors or warnings, 2 a file or the cluster could not be read (and
nothing was found)
"""


class _CheckedClient(NamedTuple):
    """One client of a file: what was found, or why it could not be judged."""

    file: str
    part: ClientPart
    error: str = ""
    found: tuple[ClientFinding, ...] = ()
    misspelt: tuple[Misspelt, ...] = ()


def add_to(checks: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check client``."""
    parser = checks.add_parser(
        "client",
        help="the settings of a producer, consumer, Streams application, connector, worker or job",
        description="Check settings files of Kafka clients (properties, JSON, YAML, .env, Flink SQL) for a guarantee. "
        "Connects to no cluster, unless one is named to compare timeouts with.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="settings: .properties, .json, .yml, .env, .sql",
    )
    parser.add_argument(
        "--for",
        dest="goal",
        choices=[goal.value for goal in Goal],
        default=Goal.EXACTLY_ONCE.value,
        help="the guarantee to check for (exactly-once)",
    )
    kinds = "kind of the settings, where their names do not show it"
    parser.add_argument("--kind", choices=[kind.value for kind in Client], help=kinds)
    parser.add_argument(
        "--client-version",
        type=_version,
        default=(4, 0),
        metavar="X.Y",
        help="version of Kafka's Java clients whose defaults apply (4.0)",
    )
    parser.add_argument(
        "--output",
        choices=("text", "json", "sarif"),
        default="text",
        help="text for people, JSON, or SARIF for CI",
    )
    add_cluster_flags(parser)
    add_duration_flag(parser, "--timeout", 30.0, "how long requests to the cluster may take (30s)")
    parser.set_defaults(command=_command)


def _version(text: str) -> Version:
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\d{1,3})?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 3.9")
    return int(match[1]), int(match[2])


def _command(options: argparse.Namespace) -> int:
    limit, problems = _limit(options)
    for problem in problems:
        say(f"could not ask the cluster: {printable(problem)}")
    checked = [part for path in options.files for part in _check(path, options, limit)]
    if options.output == "json":
        print_json({"for": options.goal, "files": [_document(client) for client in checked]})
    elif options.output == "sarif":
        print_json(sarif(__version__, [(client.file, client.found) for client in checked]))
    for client in checked:
        if client.error:
            say(f"{_title(client)}: {printable(client.error)}")
        elif options.output == "text":
            _print(client, Goal(options.goal))
    if any(client.misspelt or _failures(client) for client in checked):
        return 1
    return 2 if problems or any(client.error for client in checked) else 0


def _limit(options: argparse.Namespace) -> tuple[int | None, list[str]]:
    """The lowest transaction.max.timeout.ms of the named cluster's brokers; None where no cluster is named."""
    given = vars(options)
    if not given.keys() & {"--bootstrap-server", "config", "command_config"}:
        return None, []
    problems: list[str] = []
    limits: list[int] = []
    with opened(options) as clusters:
        for cluster, _ in clusters:
            deadline = Deadline.after(options.timeout)
            try:
                brokers = cluster.metadata(deadline, max_age=60.0).brokers
            except AskError as error:
                problems.append(error.fault.detail)
                continue
            for node in brokers:
                answer = cluster.client.config("broker", str(node), (_MAX_TIMEOUT,), deadline)
                if isinstance(answer, Fault):
                    problems.append(answer.detail)
                elif answer.get(_MAX_TIMEOUT, "").isdigit():
                    limits.append(int(answer[_MAX_TIMEOUT]))
    return min(limits, default=None), list(dict.fromkeys(problems))


def _check(path: Path, options: argparse.Namespace, limit: int | None) -> list[_CheckedClient]:
    goal, kind = Goal(options.goal), Client(options.kind) if options.kind else None
    try:
        parts = of_kind(forms.parts(read_text(path), path.name), kind)
    except FileError as problem:
        return [_CheckedClient(str(path), ClientPart("", None, ()), str(problem))]
    checked = []
    for part in parts:
        error = part.reason or _not_judged(part.kind, kind)
        found = () if error else judged(part, goal, options.client_version, limit)
        checked.append(_CheckedClient(str(path), part, error, found, () if error else misspelt(part.settings)))
    return checked


def _not_judged(kind: Client | None, wanted: Client | None) -> str:
    """Why a part of this kind is not judged; "" where it is."""
    if kind is Client.BROKER:
        return "these are a broker's settings: ask the running cluster with `check posture`"
    if kind is not None:
        return ""
    if wanted is not None:
        return f"not understood: no name in it is one of {wanted}"
    return f"not understood: its names do not tell whose settings these are: give --kind ({', '.join(Client)})"


def _failures(client: _CheckedClient) -> int:
    return sum(finding.severity is not Level.INFO for finding in client.found)


def _document(client: _CheckedClient) -> ClientFileDocument:
    return {
        "file": client.file,
        "part": client.part.name or None,
        "kind": client.part.kind,
        "error": client.error or None,
        "findings": [
            {
                "rule": finding.rule.name,
                "severity": finding.severity,
                "setting": finding.setting or None,
                "value": finding.value or None,
                "line": finding.line or None,
                "text": finding.text,
                "why": finding.rule.why,
                "fix": finding.rule.fix,
                "source": finding.rule.sources,
            }
            for finding in client.found
        ],
        "misspelt": [
            {
                "setting": typo.setting.name,
                "line": typo.setting.line,
                "meant": typo.meant,
            }
            for typo in client.misspelt
        ],
    }


def _title(client: _CheckedClient) -> str:
    return printable(f"{client.file} ({client.part.name})" if client.part.name else client.file)


def _print(client: _CheckedClient, goal: Goal) -> None:
    name, failures = printable(client.file), _failures(client)
    verdict = f"{failures} found" if failures else "nothing found"
    print(f"{_title(client)}: {client.part.kind}, {len(client.part.settings)} settings, for {goal}: {verdict}")
    for finding in client.found:
        where = f"{name}:{finding.line}" if finding.line else name
        value = f"{printable(finding.setting)}={printable(finding.value)} " if finding.setting else ""
        print(f"  {where}: {finding.severity}: {value}{printable(finding.text)} [{finding.rule.name}]")
        print(f"      {finding.rule.why}")
        print(f"      set: {finding.rule.fix} ({finding.rule.sources})")
    for wrong in client.misspelt:
        print(
            f"  {name}:{wrong.setting.line}: warning: {printable(wrong.setting.name)} is unknown and ignored by "
            f"clients: did you mean {wrong.meant}? [misspelt]"
        )
