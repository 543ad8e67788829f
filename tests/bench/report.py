"""The table: what was measured, the target, the same by other means, and the ratio of the two."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class FigureRow(NamedTuple):
    """One figure of the agent. ``beside`` is what the named yardstick gave in the same run, in the same unit.

    ``more`` says that more is better (a rate); else less is. ``load`` is the machine's load average just after.
    """

    what: str
    value: float | None
    unit: str
    load: str
    target: float | None = None
    beside: float | None = None
    yardstick: str = ""
    more: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None or self.value is None:
            return None
        return self.value >= self.target if self.more else self.value <= self.target

    @property
    def ratio(self) -> float | None:
        """How many times better the agent is than the yardstick."""
        if not self.beside or not self.value:
            return None
        return self.value / self.beside if self.more else self.beside / self.value

    def __str__(self) -> str:
        return ", ".join(cell for cell in _cells(self) if cell)


def table(rows: Sequence[FigureRow]) -> str:
    """As Markdown, aligned."""
    head = ("", "agent", "target", "met", "beside it", "ratio", "load")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    text = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    text.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in text)


def as_json(rows: Sequence[FigureRow], about: Mapping[str, object]) -> str:
    return json.dumps(
        {**about, "rows": [{**row._asdict(), "met": row.met, "ratio": row.ratio} for row in rows]}, indent=1
    )


def _cells(row: FigureRow) -> tuple[str, ...]:
    beside = f"{_amount(row.beside, row.unit)} {row.yardstick}" if row.beside is not None else row.yardstick
    sign = "≥" if row.more else "≤"
    return (
        row.what,
        _amount(row.value, row.unit) + (f" ({row.note})" if row.note else ""),
        "" if row.target is None else f"{sign} {_amount(row.target, row.unit)}",
        {True: "yes", False: "NO", None: ""}[row.met],
        beside,
        "" if row.ratio is None else f"{row.ratio:.3g}x",
        row.load,
    )


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    number = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{number} {unit}"
