"""Labels that are not the agent's, for ``generate --set``: a selector, and group labels that survive aggregation.

An expression takes them at each series and in each list of labels. A query of a text begins each selector with
``kafka_cluster=%q``, which the group labels of its alert follow.
"""

from __future__ import annotations

import re

from exporter.alerts.settings import Settings

_SERIES = re.compile(r"(?<![\w:.|\"])((?:kafka_eos_\w+|process_start_time_seconds|up)(?![\w:]))(\{?)")
_LISTS = re.compile(r"\b(by|on) \(([^)]+)\)")
_PLACE = re.compile(r"([\w:]+)\{kafka_cluster=%q")
_ARGUMENT = re.compile(r"(?<!\{) \$labels\.kafka_cluster\b")


def expression(expr: str, settings: Settings) -> str:
    """Return the expression with selector and group labels. Only raw series have a selector: recorded ones kept it."""
    if settings.selector:
        expr = _SERIES.sub(lambda match: f"{match[1]}{{{settings.selector}{', ' if match[2] else '}'}", expr)
    if settings.groups:
        expr = _LISTS.sub(lambda match: f"{match[1]} ({', '.join((match[2], *settings.groups))})", expr)
    return expr


def text(template: str, settings: Settings) -> str:
    """Return the template of a text whose queries see the series of its alert's group labels only."""
    groups = "".join(f", {name}=%q" for name in settings.groups)
    selector = f", {settings.selector}" if settings.selector else ""

    def placed(match: re.Match[str]) -> str:
        recorded = ":" in match[1] or match[1] == "ALERTS"
        return f"{match[0]}{groups}{'' if recorded else selector}"

    arguments = "".join(f" $labels.{name}" for name in settings.groups)
    return _ARGUMENT.sub(lambda match: match[0] + arguments, _PLACE.sub(placed, template))


def query_of_panel(query: str, settings: Settings) -> str:
    """Return the query of a dashboard's panel or variable with the selector."""
    return re.sub(r'(\w+\{)(?=job=~"\$job")', rf"\1{settings.selector}, ", query) if settings.selector else query
