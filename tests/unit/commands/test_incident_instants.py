from __future__ import annotations

import pytest

from exporter.commands.incident import parse_instant
from exporter.commands.settings import UsageError

NOW = 1_795_255_200.0
"""2026-11-21T10:00:00Z."""
DAY = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("09:00", -3600),
        ("10:00:00", 0),
        ("11:30", 5400 - DAY),
        ("2h", -7200),
        ("2026-11-21T09:59", -60),
        ("2026-11-21T09:59:00Z", -60),
        ("2026-11-21T11:59+02:00", -60),
        ("1795255140", -60),
    ],
)
def test_an_instant_is_a_time_of_the_day_a_duration_ago_rfc_3339_or_unix_seconds(text: str, seconds: float) -> None:
    assert parse_instant(text, NOW) == NOW + seconds


def test_what_is_no_instant_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_instant("yesterday", NOW)
