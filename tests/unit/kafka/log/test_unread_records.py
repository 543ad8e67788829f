"""How many records lie between a commit and the last stable offset: control records and aborted ones are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.kafka.log.unread_records import count_records
from tests.helpers.batches import batch, data, marker


def test_the_control_record_at_the_end_of_a_topic_is_no_lag() -> None:
    assert count_records(marker(10, 7), [], 10, 11) == 0


def test_records_after_the_commit_count_and_those_before_it_do_not() -> None:
    assert count_records(data(5, 10, 7) + marker(15, 7), [], 12, 16) == 3


def test_records_at_the_last_stable_offset_do_not_count() -> None:
    assert count_records(data(5, 10, 7), [], 5, 9) == 4


def test_aborted_records_are_no_lag_until_their_marker() -> None:
    log = data(0, 3, 7) + data(3, 2, 8) + marker(5, 7) + data(6, 4, 7) + marker(10, 7) + marker(11, 8)
    assert count_records(log, [(7, 0)], 0, 12) == 2 + 4
    assert count_records(log, [(7, 0), (7, 6)], 0, 12) == 2
    assert count_records(log, [(7, 0)], 1, 12) == 2 + 4
    assert count_records(log, [(8, 3)], 0, 12) == 3 + 4
    assert count_records(log, [], 0, 12) == 9


def test_records_without_a_transaction_count_whatever_is_aborted() -> None:
    assert count_records(batch(0, 3, 7), [(7, 0)], 0, 3) == 3


def test_a_batch_that_compaction_thinned_counts_what_it_has() -> None:
    assert count_records(batch(0, 2, span=50), [], 0, 50) == 2


@pytest.mark.parametrize("log", [b"", data(0, 3, 7), data(0, 9, 7)[:-1], b"\xff" * 100, b"\0" * 100])
def test_what_is_not_there_or_is_garbage_is_not_known(log: bytes) -> None:
    assert count_records(log, [], 0, 9) is None


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 99)), max_size=4))
def test_no_bytes_raise(log: bytes, aborted: list[tuple[int, int]]) -> None:
    count_records(log, aborted, 0, 50)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), st.booleans()), max_size=12), st.integers(0, 20))
def test_it_counts_what_a_consumer_would_get(transactions: list[tuple[int, int, bool]], start: int) -> None:
    """Transactions one after the other, each with its marker."""
    log, at, aborted, visible = b"", 0, [], set()
    for records, producer_id, commits in transactions:
        log += data(at, records, producer_id) + marker(at + records, producer_id)
        if commits:
            visible |= set(range(at, at + records))
        else:
            aborted.append((producer_id, at))
        at += records + 1
    if start < at:
        assert count_records(log, aborted, start, at) == sum(offset >= start for offset in visible)
