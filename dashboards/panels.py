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
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Steps = Sequence[tuple[float | None, str]]
"""From this value on, this colour; the first begins at None."""
NEUTRAL: Steps = ((None, BLUE),)
ANY_IS_BAD: Steps = ((None, GREEN), (1, RED))
ANY_IS_ODD: Steps = ((None, GREEN), (1, ORANGE))
OF_THRESHOLD: Steps = ((None, GREEN), (0.5, YELLOW), (1, RED))
"""Of a share of a subject's threshold: 1 is where an alert begins."""


class Query(NamedTuple):
    """PromQL, and the legend of its series: a template such as ``{{topic}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the label or, for a query's result, ``Value #A``, ``Value #B`` and so on.

    ``link`` is a dashboard to go to, with the variable that takes the cell's value; ``page`` title and address of a
    page elsewhere; ``texts`` a text in place of a value; ``empty`` replaces an empty text.
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
    page: tuple[str, str] | None = None


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
    unit, digits = _whole(unit)
    more = {"id": "links", "value": [{"title": "The dashboard that says more", "url": _url(link)}]}
    return core.Stat(
        **_asked(title, description, [Query(expr)], instant=True),
        format=unit,
        decimals=digits.get("decimals"),
        color={"mode": "thresholds"},
        thresholds=_steps(steps),
        noValue=none,
        # Without it Grafana paints a missing value in the colour of the first step, which is green.
        mappings=[_special("null+nan", none)],
        overrides=[{"matcher": {"id": "byRegexp", "options": "/.*/"}, "properties": [more]}] if link else [],
        colorMode="background",
        graphMode="none",
        alignment="center",
        reduceCalc="lastNotNull",
        textMode="value",
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
    return core.TimeSeries(
        **_asked(title, description, [queries] if isinstance(queries, Query) else queries),
        unit=unit,
        thresholds=_steps(steps or ((None, GREEN),)),
        thresholdsStyleMode="dashed" if steps else "off",
        valueMin=None if log or signed else 0,
        scaleDistributionType="log" if log else "linear",
        scaleDistributionLog=10,
        stacking={"group": "A", "mode": "normal" if stacked else "none"},
        fillOpacity=40 if stacked else 8,
        lineWidth=1 if stacked else 2,
        showPoints="never",
        overrides=[
            _override(name, [{"id": "color", "value": {"fixedColor": colour, "mode": "fixed"}}])
            for name, colour in (colours or {}).items()
        ],
        legendCalcs=["lastNotNull", "max"],
        legendDisplayMode="table",
        legendPlacement="right",
        tooltipMode="multi",
        tooltipSort="desc",
    )


def timeline(
    title: str, description: str, query: Query, states: Sequence[tuple[float, str, str]], steps: Steps = ()
) -> core.Panel:
    """A band for each series over time. ``states`` are value, text and colour; others are coloured by ``steps``."""
    mapped = {
        f"{value:g}": {"color": colour, "index": index, "text": text}
        for index, (value, text, colour) in enumerate(states)
    }
    return core.StateTimeline(
        **_asked(title, description, [query]),
        thresholds=_steps(steps or ((None, GREY),)),
        mappings=[{"options": mapped, "type": "value"}],
        fillOpacity=80,
        rowHeight=0.8,
    )


def table(
    title: str,
    description: str,
    queries: Sequence[str],
    columns: Sequence[Column],
    *,
    sort: Sequence[str],
    smallest_first: bool = False,
    none: str = "none known",
    cluster: bool = True,
) -> core.Panel:
    """Return what is now, one row for each set of labels; its cluster is a column, the last where ``columns`` has none.

    ``sort`` are titles of columns, the largest on top, or with ``smallest_first`` the smallest.
    """
    if cluster and all(column.field != "kafka_cluster" for column in columns):
        columns = [*columns, Column("kafka_cluster", "Cluster", width=110)]
    names = {column.field: column.title for column in columns}
    if len(queries) == 1 and "Value #A" in names:
        names["Value"] = names["Value #A"]
    order = {name: index for index, name in enumerate(names)}
    return core.Table(
        **_asked(title, description, [Query(expr) for expr in queries], instant=True, kind="table"),
        unit="short",
        align="left",
        filterable=True,
        thresholds=_steps(((None, GREY),)),
        overrides=[_column(column) for column in columns],
        sortBy=[core.TableSortByField(displayName=title, desc=not smallest_first) for title in sort],
        transformations=[
            {"id": "merge", "options": {}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(names)}}},
            {"id": "organize", "options": {"excludeByName": {}, "indexByName": order, "renameByName": names}},
        ],
        extraJson={"fieldConfig": {"defaults": {"noValue": none}}},  # the one field of these that grafanalib lacks
    )


def _asked(
    title: str, description: str, queries: Sequence[Query], *, instant: bool = False, kind: str = "time_series"
) -> dict[str, Any]:
    """What every panel has: its words, the chosen data source, and its queries at full resolution."""
    targets = [
        core.Target(
            expr=query.expr,
            legendFormat=query.legend,
            refId=chr(ord("A") + index),
            instant=instant,
            format=kind,
            intervalFactor=1,
            datasource=SOURCE,
        )
        for index, query in enumerate(queries)
    ]
    words = {"title": title, "description": description}
    return {**words, "dataSource": SOURCE, "targets": targets, "maxDataPoints": None}


def _whole(unit: str) -> tuple[str, dict[str, int]]:
    """Return how a count is written as one number: whole, with all its digits. Other units stay."""
    return ("locale", {"decimals": 0}) if unit == "short" else (unit, {})


def _special(match: str, text: str) -> dict[str, Any]:
    return {"options": {"match": match, "result": {"color": GREY, "text": text}}, "type": "special"}


def _steps(steps: Steps) -> list[dict[str, object]]:
    return [{"color": colour, "value": value} for value, colour in steps]


def _override(name: str, properties: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    return {"matcher": {"id": "byName", "options": name}, "properties": list(properties)}


def _column(column: Column) -> dict[str, Any]:
    unit, digits = _whole(column.unit)
    properties: dict[str, object] = {"unit": unit, **digits} if unit else {}
    if column.width:
        properties["custom.width"] = column.width
    mapped = {text: {"color": colour, "text": text} for text, colour in (column.colours or {}).items()}
    mapped |= {text: {"text": other} for text, other in (column.texts or {}).items()}
    if mapped:
        options = {text: {"index": index, **result} for index, (text, result) in enumerate(mapped.items())}
        properties["mappings"] = [{"options": options, "type": "value"}]
    if column.empty:
        properties["mappings"] = [_special("empty", column.empty)]
    if column.steps:
        properties["thresholds"] = {"mode": "absolute", "steps": _steps(column.steps)}
    if column.colours or column.steps:
        properties["custom.cellOptions"] = {"type": "color-text"}
    if column.link:
        uid, variable, title = column.link
        properties["links"] = [{"title": title, "url": f"{_url(uid)}&var-{variable}=${{__value.text}}"}]
    if column.page:
        title, url = column.page
        properties["links"] = [{"title": title, "url": url, "targetBlank": True}]
    return _override(column.title, [{"id": name, "value": value} for name, value in properties.items()])


# All variables that every dashboard has; the one that the cell sets comes after them.
_KEPT = "&".join(f"${{{name}:queryparam}}" for name in ("datasource", "job", "instance", "kafka_cluster"))


def _url(uid: str) -> str:
    return f"/d/{uid}?${{__url_time_range}}&{_KEPT}"
