"""Numbers as a curve: within its box, and nothing of a name becomes markup."""

from __future__ import annotations

import re

from exporter.status.curves import HEIGHT, WIDTH, curve


def points(svg: str) -> list[tuple[float, float]]:
    [found] = re.findall(r'points="([^"]*)"', svg)
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in found.split())]


def test_a_curve_ends_at_the_right_and_its_greatest_number_is_at_the_top() -> None:
    found = points(curve([0, 5, 10, 3], "x", "good"))
    assert found[-1] == (float(WIDTH), 1.0)
    assert found[0][1] == HEIGHT - 1
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in found)


def test_nothing_but_zero_is_a_line_at_the_bottom() -> None:
    assert {y for _, y in points(curve([0] * 60, "x", "good"))} == {HEIGHT - 1.0}


def test_the_minute_that_is_not_over_is_neither_drawn_nor_spoken() -> None:
    assert points(curve([4, 4, 0], "x", "good"))[-1][1] == 1.0
    assert "x per minute: at most 4, last 4" in curve([4, 4, 0], "x", "good")
    assert "no full minute yet" in curve([4], "x", "good")


def test_a_label_is_escaped() -> None:
    svg = curve([1, 1], '"><script>alert(1)</script>', "good")
    assert "<script>" not in svg
    assert svg.count("<") == 4
