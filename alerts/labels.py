"""Labels that are not the agent's: selectors, group labels that survive aggregation, and their places in a rule.

An expression and a description first get marks, at each selector, each list of labels and each argument of a query.
``generate alerts --set`` fills them here; the mixin is compiled by jsonnet, and fills them there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

SELECT, BY, MATCH, ARGUMENTS = "<<select>>", "<<by>>", "<<match>>", "<<arguments>>"
_SERIES = r"(?<![\w:.|\"])(?:kafka_eos_\w+|process_start_time_seconds|up)(?![\w:])"
_RECORDED = r"(?<![\w:.|\"])(?:[a-z_]+:kafka_eos_[\w:]+|ALERTS\b)"
_LABELS = re.compile(r"\b(by|on) \((?=[^)])([^)]*)\)")
_QUERY = re.compile(r"\(printf `([^`]*)`((?: [$.][\w.]+)*)\)")


def marked_expression(expr: str) -> str:
    """Return the expression with marks. A recorded series has no selector: its recording rule has it."""
    selected = re.sub(rf"({_SERIES})(\{{?)", lambda match: f"{match[1]}{{{SELECT}{'' if match[2] else '}'}", expr)
    return _LABELS.sub(lambda match: f"{match[1]} ({match[2]}{BY})", selected)


def marked_description(text: str) -> str:
    """Return the description with marks: its queries see the series of its own group labels only."""
    return _QUERY.sub(_marked_query, text)


def _marked_query(match: re.Match[str]) -> str:
    """Each selector takes the group labels first, so their arguments come before its own."""
    query, arguments = match[1], iter(match[2].split())
    written = []
    rest = []
    place = 0
    selectors = list(re.finditer(rf"({_SERIES}|{_RECORDED})(\{{[^}}]*\}})?", query))
    for found in selectors:
        between = query[place : found.start()]
        rest += [next(arguments) for _ in range(between.count("%q"))]
        inside = (found[2] or "{}")[1:-1]
        select = SELECT if re.fullmatch(_SERIES, found[1]) else ""
        written.append(f"{between}{found[1]}{{{MATCH}{select}{inside}}}")
        rest += [ARGUMENTS, *(next(arguments) for _ in range(inside.count("%q")))]
        place = found.end()
    written.append(query[place:])
    rest += list(arguments)
    words = "".join(word if word == ARGUMENTS else f" {word}" for word in rest)
    return f"(printf `{''.join(written)}`{words})"


def with_marks(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups of a rules file with marks in expressions, summaries, descriptions and labels."""
    for rule in (rule for group in groups for rule in group["rules"]):
        rule["expr"] = marked_expression(rule["expr"])
        if "annotations" in rule:
            texts = {name: marked_description(rule["annotations"][name]) for name in ("summary", "description")}
            rule["annotations"] |= texts
            rule["labels"] = {name: marked_description(text) for name, text in rule["labels"].items()}
    return groups


def filled(text: str, selector: str, group_labels: Iterable[str]) -> str:
    """Return a marked text with a selector such as ``env="prod"`` and labels such as ``namespace`` in place."""
    names = tuple(group_labels)
    for mark, content in (
        (SELECT, f"{selector}, " if selector else ""),
        (BY, "".join(f", {name}" for name in names)),
        (MATCH, "".join(f"{name}=%q, " for name in names)),
        (ARGUMENTS, "".join(f" $labels.{name}" for name in names)),
    ):
        text = text.replace(mark, content)
    return text.replace(", }", "}").replace("{}", "")
