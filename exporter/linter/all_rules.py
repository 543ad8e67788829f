"""Every rule, and what the rules find in a file."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from exporter.linter import client_rules, engine_rules
from exporter.linter.files import Setting, table
from exporter.linter.forms import ClientPart
from exporter.linter.rule import PLACEHOLDER, ClientRule, Context, Goal, Level, Scope, values
from exporter.linter.views import Client, File, Version, file_of

BROKER_MAX_TIMEOUT_MS = 900_000
"""The default of transaction.max.timeout.ms (TransactionStateManagerConfig)."""
_FUNCTIONS = {**vars(client_rules), **vars(engine_rules)}
RULES: tuple[ClientRule, ...] = tuple(
    ClientRule(
        name,
        Scope(row["clients"]),
        Level(row["severity"]),
        values(row["values"]) if "values" in row else _FUNCTIONS[name.replace("-", "_")],
        row["why"],
        row["set"],
        row["source"],
        tuple(map(Goal, row.get("for", Goal))),
        tuple(map(Client, row.get("kinds", Client))),
    )
    for name, row in table("rules.toml").items()
)
_OF_IDS = {"unstable-transactional-id", "fixed-transactional-id"}
_CLOSE = 0.92
_MOST_WORDS = 12
"""Last words of a dotted name that are compared. Known names have up to 6, and one with 6 more is not close to any."""
_KNOWN_SPELLED = {name.replace("-", "."): name for name in table("names.toml")["read"]}


class ClientFinding(NamedTuple):
    """One finding: ``line`` is 0 where a setting is missing."""

    rule: ClientRule
    severity: Level
    setting: str
    value: str
    line: int
    text: str


def findings(file: File, goal: Goal, max_timeout_ms: int | None = None) -> tuple[ClientFinding, ...]:
    """Everything the rules find. ``max_timeout_ms`` is the brokers' transaction.max.timeout.ms, None where unknown."""
    limit = BROKER_MAX_TIMEOUT_MS if max_timeout_ms is None else max_timeout_ms
    context = Context(file, limit, max_timeout_ms is not None)
    views = {Scope.MAIN: (file.main,), Scope.PRODUCER: file.producers, Scope.CONSUMER: file.consumers}
    found: list[ClientFinding] = []
    for rule in RULES:
        if goal not in rule.goals or file.kind not in rule.kinds:
            continue
        for view in views[rule.scope]:
            for mistake in rule.look(view, context):
                setting = view.settings.get(mistake.name)
                name, value, line = ("", "", 0) if setting is None else (setting.name, setting.shown, setting.line)
                found.append(ClientFinding(rule, mistake.severity or rule.severity, name, value, line, mistake.text))
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: (finding.line == 0, finding.line)))


def judged(
    part: ClientPart, goal: Goal, version: Version, max_timeout_ms: int | None = None
) -> tuple[ClientFinding, ...]:
    """What the rules find in a part of a file; nothing where its kind is not known.

    A setting is missing if no profile has it. In a part of a configuration that is a note: it may be set elsewhere.
    A value that another program puts in is not judged, but for the stability of ids.
    """
    kind = part.kind
    if kind is None:
        return ()
    by_profile = [findings(file_of(settings, kind, version), goal, max_timeout_ms) for settings in part.profiles]
    found: list[ClientFinding] = []
    for finding in dict.fromkeys(finding for of_profile in by_profile for finding in of_profile):
        missing = finding.line == 0  # or a default of the framework
        if finding.rule.name in part.skips or (missing and not all(finding in one for one in by_profile)):
            continue
        if finding.rule.name not in _OF_IDS and PLACEHOLDER.search(finding.value):
            continue
        if missing and part.partial and finding.severity is not Level.INFO:
            text = f"{finding.text}; this is only a part of a configuration: it may be set elsewhere"
            found.append(finding._replace(severity=Level.INFO, text=text))
        else:
            found.append(finding)
    return tuple(found)


class Misspelt(NamedTuple):
    """A setting whose name is close to one that a rule reads."""

    setting: Setting
    meant: str


def misspelt(settings: Iterable[Setting]) -> tuple[Misspelt, ...]:
    """The settings that are probably misspelt: a client ignores an unknown name with at most a log line."""
    found = []
    for setting in settings:
        words = setting.name.lower().split(".")[-_MOST_WORDS:]
        tails = [".".join(words[at:]) for at in range(len(words))]
        spelled = [tail.replace("-", ".").replace("_", ".") for tail in tails]
        if any(tail in _KNOWN_SPELLED for tail in spelled):
            continue
        for tail in spelled:
            near = get_close_matches(tail[:80], _KNOWN_SPELLED, n=1, cutoff=_CLOSE)
            if near:
                found.append(Misspelt(setting, _KNOWN_SPELLED[near[0]]))
                break
    return tuple(found)


def rules_table() -> str:
    """Every rule as a row of the table in docs/client-settings.md."""
    lines = ["| rule | for | severity | why | set | source |", "|---|---|---|---|---|---|"]
    for rule in RULES:
        cells = (f"`{rule.name}`", ", ".join(rule.goals), rule.severity, rule.why, rule.fix, rule.sources)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
