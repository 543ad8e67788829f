"""Plots as SVG that takes its colours from the page: bars over time, and lanes of intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH = 1120
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 10, 26, 24
_LANE = 24
_NAME_WIDTH = 250
_LONGEST_NAME = 38
_STEPS_MS = (
    100, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000,
    21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000, 2_592_000_000,
)  # fmt: skip


class PlotSpan(NamedTuple):
    """An interval, in Unix milliseconds; ``kind`` is its colour's name, ``title`` its tooltip."""

    begin_ms: int
    end_ms: int
    kind: str
    title: str


def bars(starts_ms: Sequence[int], width_ms: int, stacks: Mapping[str, Sequence[int]], *, height: int = 220) -> Markup:
    """Stacked counts over time: ``stacks`` has a series for each kind (a colour's name), drawn bottom up in order."""
    totals = [sum(counts) for counts in zip(*stacks.values(), strict=True)]
    highest = max(totals, default=0) or 1
    begin, end = starts_ms[0], starts_ms[-1] + width_ms
    plot = height - _TOP - _BOTTOM
    scale_x = (WIDTH - _LEFT - _RIGHT) / (end - begin)
    out = [_open(height, "counts over time"), *_legend(stacks), *_counts_axis(highest, height)]
    out += _time_axis(begin, end, _LEFT, scale_x, height)
    for at, start in enumerate(starts_ms):
        base = float(height - _BOTTOM)
        x = _LEFT + (start - begin) * scale_x
        wide = max(1.0, width_ms * scale_x - 1)
        for kind, counts in stacks.items():
            if not counts[at]:
                continue
            # A single fence beside ten thousand commits must be visible.
            tall = max(2.0, plot * counts[at] / highest)
            base -= tall
            title = f"{clock(start, width_ms)}: {counts[at]:,} {kind.replace('_', ' ')}"
            out.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{base:.1f}" width="{wide:.1f}" height="{tall:.1f}">'
                f"<title>{escape(title)}</title></rect>"
            )
    return Markup("\n".join([*out, "</svg>"]))  # noqa: S704 -- numbers, and texts that were escaped


def lanes(rows: Sequence[tuple[str, Sequence[PlotSpan]]], begin_ms: int, end_ms: int) -> Markup:
    """One lane for each name, with its intervals. An interval shorter than a pixel is drawn a pixel and a half wide."""
    height = _TOP + _LANE * len(rows) + _BOTTOM
    left = _NAME_WIDTH
    scale_x = (WIDTH - left - _RIGHT) / max(1, end_ms - begin_ms)
    kinds = dict.fromkeys(span.kind for _, spans in rows for span in spans)
    out = [_open(height, "what lasted when"), *_legend(kinds), *_time_axis(begin_ms, end_ms, left, scale_x, height)]
    for at, (name, spans) in enumerate(rows):
        y = _TOP + _LANE * at + 4
        shown = name if len(name) <= _LONGEST_NAME else "…" + name[-_LONGEST_NAME + 1 :]
        out.append(
            f'<text class="name" x="{left - 8}" y="{y + 12}" text-anchor="end">'
            f"<title>{escape(name)}</title>{escape(shown)}</text>"
        )
        wide = WIDTH - left - _RIGHT
        out.append(f'<rect class="lane" x="{left}" y="{y}" width="{wide}" height="{_LANE - 8}"></rect>')
        for span in spans:
            first, last = max(span.begin_ms, begin_ms), min(span.end_ms, end_ms)
            if last < first:
                continue
            x = left + (first - begin_ms) * scale_x
            long = max(1.5, (last - first) * scale_x)
            out.append(
                f'<rect class="{escape(span.kind)}" x="{x:.1f}" y="{y}" width="{long:.1f}" height="{_LANE - 8}">'
                f"<title>{escape(span.title)}</title></rect>"
            )
    return Markup("\n".join([*out, "</svg>"]))  # noqa: S704 -- as above


def bucket_ms(begin_ms: int, end_ms: int, most: int = 120) -> int:
    """A round width of time that cuts the range into at most ``most`` pieces."""
    wanted = max(1, end_ms - begin_ms) / most
    return next((step for step in _STEPS_MS if step >= wanted), _STEPS_MS[-1])


def clock(instant_ms: int, step_ms: int) -> str:
    """An instant (UTC) as precise as steps of this width need it."""
    instant = datetime.fromtimestamp(instant_ms / 1000, UTC)
    if step_ms >= 86_400_000:
        return instant.strftime("%Y-%m-%d")
    if step_ms >= 3_600_000:
        return instant.strftime("%m-%d %H:%M")
    if step_ms >= 1_000:
        return instant.strftime("%H:%M" if step_ms >= 60_000 else "%H:%M:%S")
    return instant.strftime("%H:%M:%S.%f")[:-3]


def _open(height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg">'


def _legend(kinds: Mapping[str, object]) -> list[str]:
    out, x = [], _LEFT
    for kind in kinds:
        name = kind.replace("_", " ")
        out.append(f'<rect class="{escape(kind)}" x="{x}" y="6" width="10" height="10" rx="2"></rect>')
        out.append(f'<text x="{x + 15}" y="15">{escape(name)}</text>')
        x += 40 + 7 * len(name)
    return out


def _counts_axis(highest: int, height: int) -> list[str]:
    plot = height - _TOP - _BOTTOM
    out = []
    for part in (0, 0.5, 1):
        count = round(highest * part)
        y = height - _BOTTOM - plot * count / highest
        out.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"></line>')
        out.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{count:,}</text>')
    return out


def _time_axis(begin: int, end: int, left: int, scale: float, height: int) -> list[str]:
    step = bucket_ms(begin, end, 9)
    out = []
    for instant in range(-(-begin // step) * step, end + 1, step):
        x = left + (instant - begin) * scale
        out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"></line>')
        if left + 24 <= x <= WIDTH - 40:
            out.append(f'<text x="{x:.1f}" y="{height - 7}" text-anchor="middle">{clock(instant, step)}</text>')
    return out
