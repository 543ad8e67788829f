"""Panels as this project uses them: grafanalib's, with our defaults. Colours mean the same on every dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from grafanalib import core

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = "green", "yellow", "orange", "red", "blue", "purple", "#8e8e8e"
OUTCOME_COLOURS = {"committed": GREEN, "aborted": BLUE, "timed_out": ORANGE, "fenced": RED}
KIND_COLOURS = {"open": YELLOW, "completing": BLUE, "hanging": RED, "unmarked": ORANGE, "unknown": PURPLE}
STATE_COLOURS = {"ongoing": GREEN, "prepare_commit": BLUE, "prepare_abort": ORANGE}

Steps = Sequence[tuple[float | None, str]]
"""From this value on, this colour; the first begins at None."""
NEUTRAL: Steps = ((None, BLUE),)
ANY_IS_BAD: Steps = ((None, GREEN), (1, RED))


class Query(NamedTuple):
    """PromQL, and the legend of its series: a template such as ``{{topic}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the label or, for a query's result, ``Value #A``, ``Value #B`` and so on.

    ``link`` is a dashboard to go to, with the variable that takes the cell's value; ``empty`` replaces an empty text.
    """

    field: str
    title: str
    unit: str = ""
    colours: Mapping[str, str] | None = None
    steps: Steps = ()
    link: tuple[str, str, str] | None = None
    width: int = 0
    empty: str = ""
    texts: Mapping[str, str] | None = None
    """A text in place of a value."""
    page: tuple[str, str] | None = None
    """Title and address of a page elsewhere."""


class _Heatmap(core.Panel):  # type: ignore[misc]  # grafanalib ships no types
    """Grafanalib's own is of before Grafana 9."""

    def to_json_data(self) -> dict[str, Any]:
        made: dict[str, Any] = self.panel_json({"type": "heatmap"})
        return made


def stat(
    title: str,
    description: str,
    expr: str,
    unit: str = "short",
    steps: Steps = ANY_IS_BAD,
    *,
    none: str = "unknown",
    link: str = "",
) -> core.Panel:
    """One number as it is now. ``none`` is shown when the value is not known: never an old value, never 0. ``link``
    is the uid of the dashboard that says more.
    """
    links = {"links": [{"title": "The dashboard that says more", "url": _url(link)}]} if link else {}
    unit, digits = _whole(unit)
    return core.Stat(
        title=title,
        description=description,
        targets=_targets(Query(expr), instant=True),
        extraJson={
            "fieldConfig": _fields(unit, steps, noValue=none, mappings=[_nobody_knows(none)], **digits, **links),
            "options": {
                "colorMode": "background",
                "graphMode": "none",
                "justifyMode": "center",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "textMode": "value",
            },
        },
    )


def lines(
    title: str,
    description: str,
    queries: Query | Sequence[Query],
    unit: str = "short",
    *,
    colours: Mapping[str, str] | None = None,
    stacked: bool = False,
    steps: Steps = (),
    log: bool = False,
    signed: bool = False,
) -> core.Panel:
    """Values over time; ``colours`` by legend, ``steps`` are drawn as threshold lines. The axis begins at 0 unless the
    values are ``signed``: Grafana does not draw what is below the smallest value of an axis.
    """
    custom: dict[str, Any] = {
        "drawStyle": "line",
        "fillOpacity": 40 if stacked else 8,
        "lineWidth": 1 if stacked else 2,
        "showPoints": "never",
        "spanNulls": False,
    }
    if stacked:
        custom["stacking"] = {"group": "A", "mode": "normal"}
    if steps:
        custom["thresholdsStyle"] = {"mode": "dashed"}
    if log:
        custom["scaleDistribution"] = {"log": 10, "type": "log"}
    config = _fields(unit, steps or ((None, GREEN),), custom=custom, color={"mode": "palette-classic"})
    if not (log or signed):
        config["defaults"]["min"] = 0
    config["overrides"] = [_coloured(name, colour) for name, colour in (colours or {}).items()]
    return core.TimeSeries(
        title=title,
        description=description,
        targets=_targets(queries),
        extraJson={
            "fieldConfig": config,
            "options": {
                "legend": {
                    "calcs": ["lastNotNull", "max"],
                    "displayMode": "table",
                    "placement": "right",
                    "sortBy": "Last *",
                    "sortDesc": True,
                },
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
        },
    )


def timeline(
    title: str,
    description: str,
    queries: Query | Sequence[Query],
    states: Sequence[tuple[float, str, str]],
    steps: Steps = (),
) -> core.Panel:
    """A band for each series over time. ``states`` are value, text and colour; others are coloured by ``steps``."""
    mapped = {
        f"{value:g}": {"color": colour, "index": index, "text": text}
        for index, (value, text, colour) in enumerate(states)
    }
    config = _fields("none", steps or ((None, GREY),), custom={"fillOpacity": 80, "lineWidth": 0})
    config["defaults"]["mappings"] = [{"options": mapped, "type": "value"}]
    return core.StateTimeline(
        title=title,
        description=description,
        targets=_targets(queries),
        extraJson={
            "fieldConfig": config,
            "options": {
                "alignValue": "left",
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
                "mergeValues": True,
                "rowHeight": 0.8,
                "showValue": "auto",
                "tooltip": {"mode": "single"},
            },
        },
    )


def heat(title: str, description: str, expr: str) -> core.Panel:
    """A histogram over time, from its buckets' rates by ``le``."""
    return _Heatmap(
        title=title,
        description=description,
        targets=_targets(Query(expr, "{{le}}"), kind="heatmap"),
        extraJson={
            "fieldConfig": {"defaults": {"custom": {"scaleDistribution": {"type": "linear"}}}, "overrides": []},
            "options": {
                "calculate": False,
                "cellGap": 1,
                "cellValues": {"unit": "ops"},
                "color": {
                    "exponent": 0.5,
                    "fill": "dark-orange",
                    "mode": "scheme",
                    "reverse": False,
                    "scale": "exponential",
                    "scheme": "Oranges",
                    "steps": 64,
                },
                "exemplars": {"color": "rgba(255,0,255,0.7)"},
                "filterValues": {"le": 1e-09},
                "legend": {"show": True},
                "rowsFrame": {"layout": "auto"},
                "tooltip": {"mode": "single", "yHistogram": False},
                "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
            },
        },
    )


def table(
    title: str,
    description: str,
    queries: Sequence[str],
    columns: Sequence[Column],
    *,
    sort: Sequence[str],
    smallest_first: bool = False,
    none: str = "",
    cluster: bool = True,
) -> core.Panel:
    """Return what is now, one row for each set of labels; its cluster is a column, the last where ``columns`` has none.

    ``sort`` are titles of columns, the largest on top, or with ``smallest_first`` the smallest.
    """
    config = _fields("short", ((None, GREY),), custom={"align": "left", "filterable": True})
    if none:
        config["defaults"]["noValue"] = none
    if cluster and all(column.field != "kafka_cluster" for column in columns):
        columns = [*columns, Column("kafka_cluster", "Cluster", width=110)]
    config["overrides"] = [_column(column) for column in columns]
    names = {column.field: column.title for column in columns}
    if len(queries) == 1 and "Value #A" in names:
        names["Value"] = names["Value #A"]
    return core.Table(
        title=title,
        description=description,
        targets=_targets([Query(expr) for expr in queries], instant=True, kind="table"),
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "filterFieldsByName",
                "options": {"include": {"names": list(names)}},
            },
            {
                "id": "organize",
                "options": {
                    "excludeByName": {},
                    "indexByName": {name: index for index, name in enumerate(names)},
                    "renameByName": names,
                },
            },
        ],
        extraJson={
            "fieldConfig": config,
            "options": {
                "cellHeight": "sm",
                "showHeader": True,
                "sortBy": [{"desc": not smallest_first, "displayName": title} for title in sort],
            },
        },
    )


def _targets(
    queries: Query | Sequence[Query], *, instant: bool = False, kind: str = "time_series"
) -> list[core.Target]:
    return [
        core.Target(
            expr=query.expr, legendFormat=query.legend, refId=chr(ord("A") + index), instant=instant, format=kind
        )
        for index, query in enumerate([queries] if isinstance(queries, Query) else queries)
    ]


def _fields(unit: str, steps: Steps, **defaults: object) -> dict[str, Any]:
    return {
        "defaults": {
            "color": {"mode": "thresholds"},
            "mappings": [],
            "thresholds": {"mode": "absolute", "steps": _steps(steps)},
            "unit": unit,
            **defaults,
        },
        "overrides": [],
    }


def _whole(unit: str) -> tuple[str, dict[str, Any]]:
    """Return how a count is written as one number: whole, with all its digits. Other units stay."""
    return ("locale", {"decimals": 0}) if unit == "short" else (unit, {})


def _nobody_knows(text: str) -> dict[str, Any]:
    """Without it Grafana paints a missing value in the colour of the first step, which is green."""
    return {"options": {"match": "null+nan", "result": {"color": GREY, "text": text}}, "type": "special"}


def _steps(steps: Steps) -> list[dict[str, object]]:
    return [{"color": colour, "value": value} for value, colour in steps]


def _coloured(name: str, colour: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "color", "value": {"fixedColor": colour, "mode": "fixed"}}],
    }


def _column(column: Column) -> dict[str, Any]:
    properties: list[dict[str, Any]] = []
    unit, digits = _whole(column.unit)
    if unit:
        properties.append({"id": "unit", "value": unit})
    properties += [{"id": name, "value": value} for name, value in digits.items()]
    if column.width:
        properties.append({"id": "custom.width", "value": column.width})
    if column.colours:
        mapped = {
            text: {"color": colour, "index": index, "text": text}
            for index, (text, colour) in enumerate(column.colours.items())
        }
        properties.append({"id": "mappings", "value": [{"options": mapped, "type": "value"}]})
    if column.texts:
        written = {text: {"index": index, "text": other} for index, (text, other) in enumerate(column.texts.items())}
        properties.append({"id": "mappings", "value": [{"options": written, "type": "value"}]})
    if column.empty:
        nothing = {"options": {"match": "empty", "result": {"color": GREY, "text": column.empty}}, "type": "special"}
        properties.append({"id": "mappings", "value": [nothing]})
    if column.steps:
        properties.append({"id": "thresholds", "value": {"mode": "absolute", "steps": _steps(column.steps)}})
    if column.colours or column.steps:
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
    if column.link:
        uid, variable, title = column.link
        url = f"{_url(uid)}&var-{variable}=${{__value.text}}"
        properties.append({"id": "links", "value": [{"title": title, "url": url}]})
    if column.page:
        title, url = column.page
        properties.append({"id": "links", "value": [{"title": title, "url": url, "targetBlank": True}]})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}


# All variables that every dashboard has; the one that the cell sets comes after them.
_KEPT = "&".join(f"${{{name}:queryparam}}" for name in ("datasource", "job", "instance", "kafka_cluster"))


def _url(uid: str) -> str:
    return f"/d/{uid}?${{__url_time_range}}&{_KEPT}"
