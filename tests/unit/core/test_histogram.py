"""A histogram has every observation in the right bucket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue
from exporter.core.histogram import Histogram


@given(st.lists(st.integers(-5_000, 5_000_000)))
def test_a_histogram_is_cumulative_and_whole(observed: list[int]) -> None:
    histogram = Histogram(catalogue.TRANSACTION_OPEN_SECONDS)
    for ms in observed:
        histogram.observe(ms)
    found = histogram.value()
    assert [count for _, count in found.steps] == [
        sum(ms / 1000 <= bound for ms in observed) for bound in catalogue.TRANSACTION_OPEN_SECONDS.buckets
    ]
    assert found.count == len(observed)
    # From Python 3.12 on, sum makes up for what single additions round away.
    assert found.total == pytest.approx(sum(ms / 1000 for ms in observed if ms > 0))
