"""Where reading the log begins, what it counts, and how far log time may run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.progress import CONTEXT_RECORDS, PartitionProgress, begin

offsets = st.integers(0, 5_000)


def test_a_first_start_counts_from_the_end_and_reads_the_last_hour_before_it() -> None:
    progress = begin(100, 60, {}, from_zero=False)
    assert (progress.next, progress.position) == (60, 100)
    assert (begin(100, None, {}, from_zero=False).next, progress.count(99), progress.count(100)) == (100, False, True)


def test_what_appears_while_we_watch_is_counted_from_its_beginning() -> None:
    progress = begin(100, 60, {"next": 90}, from_zero=True)
    assert (progress.next, progress.count(0)) == (0, True)


def test_a_restart_counts_from_where_the_last_process_stopped_and_what_it_left_unsettled_once() -> None:
    progress = begin(9_000, 8_500, {"next": 8_000, "unsettled": [7_990], "open": 3_000}, from_zero=False)
    assert (progress.next, progress.position) == (3_000, 8_000)
    assert [progress.count(each) for each in (7_989, 7_990, 7_990, 8_000)] == [False, True, False, True]
    assert begin(9_000, None, {"next": 8_000}, from_zero=False).next == 8_000 - CONTEXT_RECORDS


@pytest.mark.parametrize(
    "saved",
    [{"next": 101}, {"next": -1}, {"next": "7"}, {"next": None}, {"unsettled": [3]}, {"next": 1.5}],
)
def test_a_position_that_cannot_be_trusted_is_as_good_as_none(saved: dict[str, object]) -> None:
    progress = begin(100, 60, saved, from_zero=False)
    assert (progress.next, progress.position, progress.unsettled) == (60, 100, set())


@given(
    st.integers(0, 200),
    st.none() | st.integers(0, 200),
    st.dictionaries(
        st.sampled_from(["next", "unsettled", "open", "x"]),
        st.none() | st.integers(-5, 300) | st.text(max_size=2) | st.lists(st.none() | st.integers(-5, 300) | st.text()),
    ),
    st.booleans(),
)
def test_whatever_was_saved_reading_begins_within_the_log(
    end: int, hour_ago: int | None, saved: dict[str, object], from_zero: bool
) -> None:
    progress = begin(end, hour_ago, saved, from_zero=from_zero)
    assert 0 <= progress.next <= progress.position <= end
    assert all(each >= progress.next for each in progress.unsettled)


@given(st.sets(offsets, min_size=1), offsets, offsets)
def test_lost_are_the_offsets_to_be_counted_that_never_came(came: set[int], start: int, position: int) -> None:
    start = min(start, position)
    progress = PartitionProgress(start, position)
    read = sorted(each for each in came if each >= start)
    for offset in read:
        progress.read(offset)
    if read:
        assert progress.lost == sum(each not in came for each in range(position, read[-1]))


def test_log_time_runs_on_only_as_far_as_reading_to_the_end_is_proven() -> None:
    progress = PartitionProgress(10, 10)
    progress.asked(10, 100.0)
    assert progress.proven_log_ms() is None
    progress.reached_end(10, 100.5, 5_000)
    assert progress.proven_log_ms() == 5_000
    progress.asked(10, 103.5)
    assert progress.proven_log_ms() == 8_000
    assert progress.log_ms_at(200.0) == 104_500
    progress.asked(12, 104.0)
    assert progress.proven_log_ms() is None
    progress.read(10)
    progress.read(11)
    assert progress.proven_log_ms() is None
    progress.reached_end(12, 104.5, 9_000)
    progress.asked(None, 105.0)
    assert progress.proven_log_ms() is None


def test_the_end_of_a_compacted_log_is_reached_where_kafka_says_it_is() -> None:
    progress = PartitionProgress(10, 10)
    progress.asked(15, 1.0)
    assert progress.lag == 5
    progress.reached_end(15, 2.0, 1)
    assert (progress.lag, progress.next, progress.lost) == (0, 15, 4)
