from __future__ import annotations

import pytest

from exporter.core.durations import instant


@pytest.mark.parametrize("seconds", [None, 1e30, -1e30, float("nan")])
def test_an_instant_that_is_unknown_or_impossible_is_none(seconds: float | None) -> None:
    assert instant(seconds) is None
