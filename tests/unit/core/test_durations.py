from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.durations import format_age, format_duration, parse_duration, parse_go_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("1d", 86400), ("1w2d", 9 * 86400), ("0s", 0)],
)
def test_durations_are_read_in_prometheus_form(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1.5s", "-1s", "30 s", "1m1h", "1s1s", "soon", "1S"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write a number with its unit"):
        parse_duration(text)


def test_a_bare_number_is_answered_with_the_duration_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"30s$"):
        parse_duration("30")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.5s", 1.5), ("1m30s", 90), ("2\u00b5s", 2e-6), ("2\u03bcs", 2e-6), ("250", 2.5e-7), ("0", 0)],
)
def test_durations_of_a_web_config_are_read_in_gos_form(text: str, seconds: float) -> None:
    assert parse_go_duration(text) == pytest.approx(seconds)


@given(st.integers(0, 10**12))
def test_what_is_formatted_reads_back_to_the_millisecond(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (3.9, "3s"),
        (65, "1m 5s"),
        (3600, "1h"),
        (3659, "1h"),
        (3900, "1h 5m"),
        (90000, "1d 1h"),
        (-5, "0s"),
    ],
)
def test_an_age_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert format_age(seconds) == text
