"""Numbers by minute as a small curve: one inline SVG, without script, style attributes or external resources."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH = 180
HEIGHT = 32
MINUTES = 60


def curve(numbers: Sequence[int], label: str, kind: str) -> Markup:
    """Return the curve of ``numbers`` by minute, of which the last is not over and is not drawn.

    The newest is at the right end of an hour; ``kind`` is its class in the styles. A screen reader reads ``label``, the
    greatest number and the newest in its place. Everything that comes from outside is escaped.
    """
    numbers = numbers[:-1]
    top = max(numbers, default=0)
    step = WIDTH / (MINUTES - 1)
    begin = WIDTH - step * (len(numbers) - 1)
    spoken = f"{label} per minute: at most {top}, last {numbers[-1]}" if numbers else f"{label}: no full minute yet"
    points = " ".join(
        f"{begin + step * place:.1f},{HEIGHT - 1 - (HEIGHT - 2) * (number / top if top else 0):.1f}"
        for place, number in enumerate(numbers)
    )
    return Markup(
        '<svg class="curve {kind}" role="img" aria-label="{label}" width="{width}" height="{height}"'
        ' viewBox="0 0 {width} {height}"><polyline points="{points}"></polyline></svg>'
    ).format(kind=kind, label=spoken, width=WIDTH, height=HEIGHT, points=points)
