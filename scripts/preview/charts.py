"""Charts as SVG: lines, bands of states, heat."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.dates as mdates
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from scripts.preview.answers import AnsweredSeries, written

mpl.rcParams.update({"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8.5, "svg.hashsalt": "fixed"})
PAPER, GRID, INK = "#181b1f", "#2c3033", "#9fa7b3"
PALETTE = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#37872d", "#fade2a", "#e0b400")
NAMED = {
    "green": "#56a64b",
    "yellow": "#e0b400",
    "orange": "#ff780a",
    "red": "#e02f44",
    "blue": "#3274d9",
    "purple": "#a352cc",
}
_GAP_STEPS = 3
Grid = npt.NDArray[np.float64]


class ChartLine(NamedTuple):
    name: str
    colour: str
    series: AnsweredSeries


class Mark(NamedTuple):
    """An annotation: when, and in which colour."""

    at: float
    colour: str


class Frame(NamedTuple):
    """The range shown, and the size in pixels."""

    begin: float
    end: float
    step: float
    width: int
    height: int


def colour(name: str) -> str:
    return NAMED.get(name, name)


def lines(frame: Frame, drawn: Sequence[ChartLine], config: dict[str, Any], marks: Sequence[Mark]) -> str:
    figure, axes = _axes(frame)
    custom, unit = config["defaults"].get("custom", {}), config["defaults"].get("unit", "short")
    grid = np.arange(frame.begin, frame.end + 1, frame.step)
    stacked = "stacking" in custom
    floor = np.zeros(len(grid))
    for line in drawn:
        values = _on_grid(line.series, grid, frame.step)
        if stacked:
            top = floor + np.nan_to_num(values)
            axes.fill_between(_dates(grid), floor, top, color=line.colour, alpha=0.55, linewidth=0)
            axes.plot(_dates(grid), top, color=line.colour, linewidth=1)
            floor = top
        else:
            axes.plot(_dates(grid), values, color=line.colour, linewidth=1.6)
    if custom.get("scaleDistribution", {}).get("type") == "log":
        axes.set_yscale("log")
    elif drawn:
        anything = any(value > 0 for line in drawn for value in line.series.values)
        lowest = min((value for line in drawn for value in line.series.values if value < 0), default=0.0)
        axes.set_ylim(lowest, axes.get_ylim()[1] if anything else 1)
    if "thresholdsStyle" in custom:
        for step in config["defaults"]["thresholds"]["steps"]:
            if step["value"] is not None and step["value"] < axes.get_ylim()[1]:
                axes.axhline(step["value"], color=colour(step["color"]), linestyle="--", linewidth=1)
    for mark in marks:
        if frame.begin <= mark.at <= frame.end:
            axes.plot(
                _dates([mark.at]),
                [0.0],
                marker="^",
                markersize=4 if len(marks) < 60 else 2.5,
                color=colour(mark.colour),
                clip_on=False,
                transform=axes.get_xaxis_transform(),
                alpha=0.8,
            )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, unit) if value else "0"))
    return _svg(figure)


def bands(frame: Frame, drawn: Sequence[ChartLine], config: dict[str, Any]) -> str:
    """A band for each line, coloured by its value."""
    figure, axes = _axes(frame, left=0.0)
    known = config["defaults"]["mappings"][0]["options"] if config["defaults"]["mappings"] else {}
    steps = config["defaults"]["thresholds"]["steps"]
    count = max(1, len(drawn))
    for row, line in enumerate(drawn):
        for begin, end, value in _runs(line.series, frame.step):
            state = known.get(f"{value:g}")
            fill = colour(state["color"] if state else _of_steps(steps, value))
            left, right = _dates([begin])[0], _dates([end])[0]
            axes.barh(
                count - row,
                mdates.date2num(right) - mdates.date2num(left),
                left=mdates.date2num(left),
                height=0.62,
                color=fill,
                alpha=0.85,
                linewidth=0,
            )
            if end - begin > (frame.end - frame.begin) / 18:
                middle = (mdates.date2num(left) + mdates.date2num(right)) / 2
                axes.text(
                    middle,
                    count - row,
                    state["text"] if state else f"{value:g}",
                    color="white",
                    ha="center",
                    va="center",
                    fontsize=8,
                )
    axes.set_yticks(range(1, count + 1), [line.name for line in reversed(drawn)] or [""])
    axes.set_ylim(0.4, count + 0.6)
    axes.grid(visible=False, axis="y")
    return _svg(figure)


def heat(frame: Frame, buckets: Sequence[AnsweredSeries]) -> str:
    """Observations per second by bucket, from cumulative rates by ``le``."""
    figure, axes = _axes(frame)
    grid = np.arange(frame.begin, frame.end + 1, frame.step)
    ordered = sorted(buckets, key=lambda bucket: float(bucket.labels["le"].replace("+Inf", "inf")))
    steps = np.array([np.nan_to_num(_on_grid(series, grid, frame.step)) for series in ordered])
    if len(steps):
        cells = np.clip(np.diff(steps, axis=0, prepend=0), 0, None)
        shown = np.ma.masked_less_equal(np.sqrt(cells), 1e-4)
        edges = np.arange(len(ordered) + 1)
        times = mdates.date2num(_dates([*grid, grid[-1] + frame.step]))
        axes.pcolormesh(times, edges, shown, cmap="inferno", shading="flat", vmin=0)
        names = [
            written(float(series.labels["le"]), "s") if series.labels["le"] != "+Inf" else "more" for series in ordered
        ]
        axes.set_yticks(edges[1:] - 0.5, [f"≤ {name}" if name != "more" else name for name in names])
        axes.grid(visible=False)
    return _svg(figure)


def _axes(frame: Frame, left: float = 0.0) -> tuple[Figure, Any]:
    figure = Figure(figsize=(frame.width / 96, frame.height / 96), dpi=96, facecolor=PAPER, layout="constrained")
    axes = figure.add_subplot(facecolor=PAPER)
    axes.set_xlim(*_dates([frame.begin, frame.end]))
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
    axes.xaxis.set_major_locator(mdates.AutoDateLocator(maxticks=max(3, frame.width // 90)))
    axes.tick_params(colors=INK, length=0)
    axes.grid(color=GRID, linewidth=0.7)
    axes.margins(left, 0.05)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure, axes


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def _dates(instants: Iterable[float]) -> list[datetime]:
    return [datetime.fromtimestamp(at, UTC) for at in instants]


def _on_grid(series: AnsweredSeries, grid: Grid, step: float) -> Grid:
    """Values on the common instants; a gap where there was none."""
    values = np.full(len(grid), np.nan)
    for at, value in zip(series.times, series.values, strict=True):
        index = round((at - grid[0]) / step)
        if 0 <= index < len(values):
            values[index] = value
    return values


def _runs(series: AnsweredSeries, step: float) -> list[tuple[float, float, float]]:
    """Begin, end and value of each stretch in which the value stays."""
    runs: list[tuple[float, float, float]] = []
    for at, value in zip(series.times, series.values, strict=True):
        if runs and runs[-1][2] == value and at - runs[-1][1] <= _GAP_STEPS * step:
            runs[-1] = (runs[-1][0], at + step, value)
        else:
            runs.append((at, at + step, value))
    return runs


def _of_steps(steps: list[dict[str, Any]], value: float) -> str:
    return [str(step["color"]) for step in steps if step["value"] is None or value >= step["value"]][-1]


of_steps = _of_steps
