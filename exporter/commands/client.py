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


class _Looked(NamedTuple):
    """One client of a file: what was found, or why it could not be judged. ``part`` is its place in the file."""

    name: str
    part: str
    kind: Client | None
    found: tuple[ClientFinding, ...] = ()
    misspelt: tuple[Misspelt, ...] = ()
    settings: int = 0
    error: str = ""


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
        "files", nargs="+", type=Path, metavar="FILE", help="settings: .properties, .json, .yml, .env, .sql"
    )
    parser.add_argument(
        "--for",
        dest="goal",
        choices=[goal.value for goal in Goal],
        default=Goal.EXACTLY_ONCE.value,
        help="the guarantee to check for (exactly-once)",
    )
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in Client],
        help="kind of the settings, where their names do not show it",
    )
    parser.add_argument(
        "--client-version",
        type=_version,
        default=(4, 0),
        metavar="X.Y",
        help="version of Kafka's Java clients whose defaults apply (4.0)",
    )
    parser.add_argument(
        "--output", choices=("text", "json", "sarif"), default="text", help="text for people, JSON, or SARIF for CI"
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
    goal = Goal(options.goal)
    limit, problems = _limit(options)
    for problem in problems:
        say(f"could not ask the cluster: {printable(problem)}")
    looked = [part for path in options.files for part in _look(path, goal, options, limit)]
    if options.output == "json":
        print_json({"for": goal.value, "files": [_document(file) for file in looked]})
    elif options.output == "sarif":
        print_json(sarif(__version__, [(file.name, file.found) for file in looked]))
    for file in looked:
        if file.error:
            say(f"{_title(file)}: {printable(file.error)}")
        elif options.output == "text":
            _print(file, goal)
    bad = any(finding.severity is not Level.INFO for file in looked for finding in file.found)
    bad = bad or any(file.misspelt for file in looked)
    return 1 if bad else 2 if problems or any(file.error for file in looked) else 0


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


def _look(path: Path, goal: Goal, options: argparse.Namespace, limit: int | None) -> list[_Looked]:
    try:
        parts = of_kind(forms.parts(read_text(path), path.name), Client(options.kind) if options.kind else None)
    except FileError as error:
        return [_Looked(str(path), "", None, error=str(error))]
    return [_judge(str(path), part, goal, options, limit) for part in parts]


def _judge(name: str, part: ClientPart, goal: Goal, options: argparse.Namespace, limit: int | None) -> _Looked:
    if part.reason:
        return _Looked(name, part.name, part.kind, error=part.reason)
    if part.kind is Client.BROKER:
        text = "these are a broker's settings: ask the running cluster with `check posture`"
        return _Looked(name, part.name, part.kind, error=text)
    if part.kind is None:
        kinds = ", ".join(client.value for client in Client)
        text = (
            f"not understood: no name in it is one of {options.kind}"
            if options.kind
            else (f"not understood: its names do not tell whose settings these are: give --kind ({kinds})")
        )
        return _Looked(name, part.name, None, error=text)
    found = judged(part, goal, options.client_version, limit)
    return _Looked(name, part.name, part.kind, found, misspelt(part.settings), len(part.settings))


def _document(looked: _Looked) -> ClientFileDocument:
    return {
        "file": looked.name,
        "part": looked.part or None,
        "kind": looked.kind.value if looked.kind else None,
        "error": looked.error or None,
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
            for finding in looked.found
        ],
        "misspelt": [
            {"setting": typo.setting.name, "line": typo.setting.line, "meant": typo.meant} for typo in looked.misspelt
        ],
    }


def _title(looked: _Looked) -> str:
    return printable(f"{looked.name} ({looked.part})" if looked.part else looked.name)


def _print(looked: _Looked, goal: Goal) -> None:
    name = printable(looked.name)
    kind = looked.kind.value if looked.kind else ""
    judged = [finding for finding in looked.found if finding.severity is not Level.INFO]
    verdict = "nothing found" if not judged else f"{len(judged)} found"
    print(f"{_title(looked)}: {kind}, {looked.settings} settings, for {goal.value}: {verdict}")
    for finding in looked.found:
        where = f"{name}:{finding.line}" if finding.line else name
        value = f"{printable(finding.setting)}={printable(finding.value)} " if finding.setting else ""
        print(f"  {where}: {finding.severity.value}: {value}{printable(finding.text)} [{finding.rule.name}]")
        print(f"      {finding.rule.why}")
        print(f"      set: {finding.rule.fix} ({finding.rule.sources})")
    for wrong in looked.misspelt:
        print(
            f"  {name}:{wrong.setting.line}: warning: {printable(wrong.setting.name)} is unknown and ignored by "
            f"clients: did you mean {wrong.meant}? [misspelt]"
        )
