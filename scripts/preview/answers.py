"""The answers of a Prometheus to a dashboard's queries, and how Grafana would name and write it."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

_RATE_INTERVAL = "1m"


class AnsweredSeries(NamedTuple):
    """One series: its labels, instants in Unix seconds, values."""

    labels: dict[str, str]
    times: list[float]
    values: list[float]


class PrometheusQueries:
    """Asks about the minutes before an instant, every variable set to all."""

    def __init__(self, url: str, minutes: int, end: float) -> None:
        self._url = url
        self.end = end
        self.begin = self.end - minutes * 60
        self.step = max(2, minutes * 60 // 240)

    def range(self, expr: str) -> list[AnsweredSeries]:
        found = self._ask("query_range", query=_plain(expr), start=self.begin, end=self.end, step=self.step)
        return [
            AnsweredSeries(
                series["metric"], [at for at, _ in series["values"]], [float(value) for _, value in series["values"]]
            )
            for series in found
        ]

    def instant(self, expr: str) -> list[AnsweredSeries]:
        found = self._ask("query", query=_plain(expr), time=self.end)
        return [AnsweredSeries(series["metric"], [series["value"][0]], [float(series["value"][1])]) for series in found]

    def _ask(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 -- whatever JSON it is
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 -- the address that the caller gave
            return json.load(answer)["data"]["result"]


def _plain(expr: str) -> str:
    # Not $1 of a label_replace.
    return re.sub(r"\$[a-z_]\w*", ".*", expr.replace("$__rate_interval", _RATE_INTERVAL))


def legend(template: str, labels: dict[str, str]) -> str:
    """The name of a series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), template) or str(labels)


def written(value: float, unit: str) -> str:
    """A value in its unit, as short as Grafana writes it."""
    if unit == "s":
        return _seconds(value)
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        return f"{value / 2**20:.4g} MiB"
    if unit == "locale":
        return f"{value:,.0f}"
    text = _short(value)
    return f"{text} /s" if unit in {"ops", "reqps"} else text


def _short(value: float) -> str:
    for size, letter in ((1e9, " Bil"), (1e6, " Mil"), (1e3, " K")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _seconds(value: float) -> str:
    if abs(value) < 1:
        return f"{value * 1000:.3g} ms"
    for size, word in ((86400, "days"), (3600, "hours"), (60, "mins")):
        if abs(value) >= size:
            return f"{value / size:.3g} {word}"
    return f"{value:.3g} s"
