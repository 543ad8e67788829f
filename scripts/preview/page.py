"""A dashboard as a static page: numbers and tables in HTML, charts in SVG."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from scripts.preview.answers import AnsweredSeries, PrometheusQueries, legend, written
from scripts.preview.charts import PALETTE, ChartLine, Frame, Mark, bands, colour, heat, lines, of_steps

WIDTH, HEIGHT, COLUMNS = 1680, 38, 24
_LEGEND_SHARE = 0.36
_ROWS_OF_A_LEGEND = 11
_STYLE = """
body{margin:0;background:#111217;color:#ccccdc;font:13px/1.35 "Inter","Helvetica Neue",Arial,sans-serif;width:WIDTHpx}
header{display:flex;align-items:baseline;gap:16px;padding:14px 16px 6px}h1{font-size:20px;margin:0;font-weight:500}
header span{color:#9fa7b3}main{display:grid;grid-template-columns:repeat(24,1fr);grid-auto-rows:HEIGHTpx;padding:0 10px}
section{margin:4px;background:#181b1f;border:1px solid #26292e;border-radius:3px;overflow:hidden;display:flex;
flex-direction:column}h2{font-size:13px;font-weight:500;margin:0;padding:6px 10px 2px}h3{font-size:15px;font-weight:500;
margin:0;padding:12px 6px 0;align-self:end}.stat{text-align:center;color:#fff}.stat h2{font-size:12.5px;opacity:.92}
.stat b{flex:1;display:flex;align-items:center;justify-content:center;font-weight:600;letter-spacing:-.5px}
.chart{display:flex;flex:1;min-height:0}.chart svg{flex:none}.legend{flex:1;padding:4px 10px 0 4px;overflow:hidden}
.legend table{width:100%;border-collapse:collapse;font-size:11px}.legend td{padding:1.5px 3px;white-space:nowrap;
text-align:right}.legend td:first-child{text-align:left;max-width:0;width:99%;overflow:hidden;text-overflow:ellipsis}
.legend i{display:inline-block;width:12px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
.legend th{color:#6e9fff;font-weight:500;text-align:right;padding:1px 3px}.table{padding:2px 10px;overflow:hidden}
.table table{width:100%;border-collapse:collapse}.table th{color:#6e9fff;text-align:left;font-weight:500;
border-bottom:1px solid #33373d;padding:4px 8px;white-space:nowrap}.table td{padding:4.5px 8px;border-bottom:1px solid
#24272c;white-space:nowrap;max-width:420px;overflow:hidden;text-overflow:ellipsis}
.table a{color:#6e9fff}.none{margin:auto;color:#9fa7b3;font-size:15px}
""".replace("WIDTH", str(WIDTH)).replace("HEIGHT", str(HEIGHT))


def page(board: dict[str, Any], prometheus: PrometheusQueries) -> str:
    """The whole page."""
    marks = tuple(_marks(board, prometheus))
    missing = {f"${{{name}}}": text for name, text in _missing(board, prometheus)}
    panels = [{**panel, "title": _filled(panel["title"], missing)} for panel in board["panels"]]
    cells = "".join(_cell(panel, prometheus, marks) for panel in panels)
    at = datetime.fromtimestamp(prometheus.end, UTC)
    began = datetime.fromtimestamp(prometheus.begin, UTC)
    span = f"{began:%H:%M} to {at:%H:%M} UTC"
    return (
        f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style><header><h1>{_text(board['title'])}</h1>"
        f"<span>{_text(board['description'])}</span><span style='margin-left:auto'>{span}</span></header>"
        f"<main>{cells}</main>"
    )


def _missing(board: dict[str, Any], prometheus: PrometheusQueries) -> Iterator[tuple[str, str]]:
    """Yield what the hidden variables say in titles of rows: nothing where their source is there."""
    for variable in board["templating"]["list"]:
        if variable["type"] == "query" and (asked := re.fullmatch(r"query_result\((.+)\)", variable["query"]["query"])):
            yield variable["name"], " ".join(series.labels["says"] for series in prometheus.instant(asked[1]))


def _filled(title: str, texts: dict[str, str]) -> str:
    for name, text in texts.items():
        title = title.replace(name, text)
    return title


def _marks(board: dict[str, Any], prometheus: PrometheusQueries) -> Iterator[Mark]:
    for note in board["annotations"]["list"]:
        if "target" not in note:
            continue
        for series in prometheus.range(note["target"]["expr"]):
            if note["useValueForTime"]:
                yield from (Mark(at / 1000, note["iconColor"]) for at in set(series.values))
            else:
                yield from (Mark(at, note["iconColor"]) for at in series.times[:1])


def _cell(panel: dict[str, Any], prometheus: PrometheusQueries, marks: Sequence[Mark]) -> str:
    at = panel["gridPos"]
    place = f"grid-column:{at['x'] + 1}/span {at['w']};grid-row:{at['y'] + 1}/span {at['h']}"
    if panel["type"] == "row":
        return f"<h3 style='{place}'>{_text(panel['title'])}</h3>"
    if panel["type"] == "stat":
        return _stat(panel, prometheus, place)
    body = _table(panel, prometheus) if panel["type"] == "table" else _chart(panel, prometheus, marks)
    return f"<section style='{place}'><h2>{_text(panel['title'])}</h2>{body}</section>"


def _stat(panel: dict[str, Any], prometheus: PrometheusQueries, place: str) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    found = prometheus.instant(panel["targets"][0]["expr"])
    if found:
        value = found[0].values[0]
        text, fill = written(value, defaults.get("unit", "")), colour(of_steps(defaults["thresholds"]["steps"], value))
    else:
        text, fill = defaults["noValue"], "#55595f"
    size = 42 if panel["gridPos"]["h"] > 3 else 28
    size = size if len(text) < 8 or size < 30 else size * 0.7
    return (
        f"<section class=stat style='{place};background:{fill}'><h2>{_text(panel['title'])}</h2>"
        f"<b style='font-size:{size:.0f}px'>{_text(text)}</b></section>"
    )


def _chart(panel: dict[str, Any], prometheus: PrometheusQueries, marks: Sequence[Mark]) -> str:
    config, kind = panel["fieldConfig"], panel["type"]
    width = panel["gridPos"]["w"] * (WIDTH - 20) // COLUMNS - 12
    height = panel["gridPos"]["h"] * HEIGHT - 46
    with_legend = kind == "timeseries"
    frame = Frame(
        prometheus.begin,
        prometheus.end,
        prometheus.step,
        int(width * (1 - _LEGEND_SHARE)) if with_legend else width,
        height,
    )
    if kind == "heatmap":
        return f"<div class=chart>{heat(frame, prometheus.range(panel['targets'][0]['expr']))}</div>"
    drawn = _lines(panel, prometheus)
    if not drawn:
        return "<div class=none>No data</div>"
    if kind == "state-timeline":
        return f"<div class=chart>{bands(frame, drawn, config)}</div>"
    return f"<div class=chart>{lines(frame, drawn, config, marks)}{_legend(drawn, config)}</div>"


def _lines(panel: dict[str, Any], prometheus: PrometheusQueries) -> list[ChartLine]:
    fixed = {
        override["matcher"]["options"]: colour(override["properties"][0]["value"]["fixedColor"])
        for override in panel["fieldConfig"]["overrides"]
    }
    named = [
        (legend(target["legendFormat"], series.labels), series)
        for target in panel["targets"]
        for series in prometheus.range(target["expr"])
    ]
    if panel["type"] == "state-timeline":
        named.sort(key=lambda pair: pair[0])
    return [
        ChartLine(name, fixed.get(name, PALETTE[index % len(PALETTE)]), series)
        for index, (name, series) in enumerate(named)
    ]


def _legend(drawn: Sequence[ChartLine], config: dict[str, Any]) -> str:
    unit = config["defaults"].get("unit", "short")
    rows = "".join(
        f"<tr><td><i style='background:{line.colour}'></i>{_text(line.name)}<td>{written(line.series.values[-1], unit)}"
        f"<td>{written(max(_numbers(line.series.values), default=0), unit)}"
        for line in sorted(drawn, key=_last, reverse=True)[:_ROWS_OF_A_LEGEND]
    )
    return f"<div class=legend><table><tr><th><th>Last<th>Max{rows}</table></div>"


def _last(line: ChartLine) -> float:
    return next(iter(reversed(_numbers(line.series.values))), 0.0)


def _numbers(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _table(panel: dict[str, Any], prometheus: PrometheusQueries) -> str:
    order, names = (panel["transformations"][-1]["options"][key] for key in ("indexByName", "renameByName"))
    overrides = {
        override["matcher"]["options"]: override["properties"] for override in panel["fieldConfig"]["overrides"]
    }
    rows = _merged([prometheus.instant(target["expr"]) for target in panel["targets"]])
    if not rows:
        return f"<div class=none>{_text(panel['fieldConfig']['defaults'].get('noValue', 'No data'))}</div>"
    fields = sorted((field for field in names if field != "Value"), key=lambda field: int(order[field]))
    for sort in reversed(panel["options"]["sortBy"]):
        key = next(field for field in fields if names[field] == sort["displayName"])
        rows.sort(key=lambda row, key=key: (key in row, row.get(key, 0)), reverse=sort["desc"])  # type: ignore[misc]
    room = panel["gridPos"]["h"] * HEIGHT // 29 - 2
    head = "".join(f"<th>{_text(names[field])}" for field in fields)
    body = "".join(
        "<tr>" + "".join(f"<td>{_value(row.get(field, ''), overrides[names[field]])}" for field in fields)
        for row in rows[:room]
    )
    return f"<div class=table><table><tr>{head}{body}</table></div>"


def _merged(frames: Sequence[Sequence[AnsweredSeries]]) -> list[dict[str, Any]]:
    """Grafana's transformation ``merge``: rows with the same labels become one."""
    rows: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for index, frame in enumerate(frames):
        for series in frame:
            row = rows.setdefault(tuple(sorted(series.labels.items())), dict(series.labels))
            row[f"Value #{chr(ord('A') + index)}"] = series.values[0]
    return list(rows.values())


def _value(value: float | str, properties: Sequence[dict[str, Any]]) -> str:
    by_id = {entry["id"]: entry["value"] for entry in properties}
    text = written(value, by_id.get("unit", "short")) if isinstance(value, float) else str(value)
    ink = ""
    if "thresholds" in by_id and isinstance(value, float):
        ink = of_steps(by_id["thresholds"]["steps"], value)
    for mapping in by_id.get("mappings", ()):
        if mapping["type"] == "special":
            text = text or mapping["options"]["result"]["text"]
        else:
            found = mapping["options"].get(str(value), {})
            ink, text = found.get("color", ""), found.get("text", text)
    if ink:
        return f"<b style='color:{colour(ink)};font-weight:600'>{_text(text)}</b>"
    return f"<a>{_text(text)}</a>" if "links" in by_id else _text(text)


def _text(text: str) -> str:
    return html.escape(text)
