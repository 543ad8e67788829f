"""How far a partition was read: what is counted and what is lost, and how far log time may run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.machine.progress import Agreement, LogPosition, PartitionProgress

offsets = st.integers(0, 5_000)


@given(st.sets(offsets, min_size=1), offsets, offsets)
def test_lost_are_the_offsets_to_be_counted_that_never_came(came: set[int], start: int, position: int) -> None:
    start = min(start, position)
    progress = PartitionProgress(start, LogPosition(position))
    read = sorted(offset for offset in came if offset >= start)
    for offset in read:
        progress.read(offset)
    if read:
        assert progress.lost == sum(number not in came for number in range(position, read[-1]))


def test_what_was_left_unsettled_is_counted_once() -> None:
    progress = PartitionProgress(3_000, LogPosition(8_000, unsettled=frozenset({7_990})))
    assert [progress.count(number) for number in (7_989, 7_990, 7_990, 8_000)] == [False, True, False, True]


def test_log_time_runs_on_from_the_newest_record_until_another_one_is_read() -> None:
    progress = PartitionProgress(10, LogPosition(10))
    assert progress.log_ms_at(100.0) is None
    progress.timed(-1, 100.0)
    assert progress.log_ms_at(100.0) is None
    progress.read(10)
    progress.timed(5_000, 100.0)
    progress.timed(5_000, 101.0)
    assert (progress.log_ms_at(99.0), progress.log_ms_at(103.5)) == (5_000, 8_500)
    progress.read(11)
    assert progress.log_ms_at(104.0) is None
    progress.timed(6_000, 104.0)
    assert progress.log_ms_at(105.0) == 7_000


def test_a_partition_is_current_when_it_was_read_to_the_end_of_the_last_answer() -> None:
    progress = PartitionProgress(10, LogPosition(10))
    found = [(progress.current, progress.lag)]
    for end, read in ((12, None), (12, 10), (12, 11), (None, None), (5, None)):  # 5: of a broker that is behind
        if read is not None:
            progress.read(read)
        progress.asked(end, 1.0)
        found.append((progress.current, progress.lag))
    assert found == [(False, 0), (False, 2), (False, 1), (True, 0), (False, 0), (True, 0)]
    assert progress.next == 12


def test_the_end_of_a_compacted_log_is_reached_where_kafka_says_it_is() -> None:
    progress = PartitionProgress(10, LogPosition(10))
    progress.asked(15, 1.0)
    assert progress.lag == 5
    progress.reached_end(15)
    assert (progress.lag, progress.next, progress.lost) == (0, 15, 4)


def test_what_a_truncated_log_lost_is_read_on_from_its_end() -> None:
    progress = PartitionProgress(10, LogPosition(10, 3, frozenset({7, 9})))
    progress.truncated(8, 2, seen=True)
    assert (progress.next, progress.position, progress.epoch, progress.lost) == (8, 8, 2, 0)
    assert progress.unsettled == {7}


def test_what_an_earlier_process_counted_of_a_truncated_log_is_not_counted_again() -> None:
    progress = PartitionProgress(4, LogPosition(10, 3))
    progress.truncated(8, 2, seen=False)
    assert (progress.next, progress.position, progress.lost) == (4, 10, 2)


def test_records_that_were_deleted_are_lost() -> None:
    progress = PartitionProgress(4, LogPosition(10))
    progress.deleted(15)
    assert (progress.next, progress.lost) == (15, 5)
    progress.read(15)
    assert progress.lost == 5


def test_a_position_that_is_given_up_loses_the_whole_log() -> None:
    progress = PartitionProgress(90, LogPosition(100, unsettled=frozenset({95})))
    progress.given_up(40)
    assert (progress.next, progress.position, progress.lost, progress.unsettled) == (40, 40, 40, set())


# --- How far another leader's log agrees ---


def read_in_epochs(*first_offsets: tuple[int, int], end: int = 30) -> PartitionProgress:
    progress = PartitionProgress(0, LogPosition(0))
    for epoch, offset in first_offsets:
        progress.led.in_epoch(epoch, offset)
        progress.epoch = epoch
    progress.next = end
    return progress


@pytest.mark.parametrize(
    ("epoch", "end", "agreed"),
    [
        (1, 40, Agreement(40)),  # it has the last record, and more
        (1, 25, Agreement(25)),
        (0, 35, Agreement(20)),  # its epoch 0 goes on where another leader's epoch 1 began: both logs have 0 to 19
        (0, 12, Agreement(12)),
    ],
)
def test_a_leader_without_the_epoch_of_the_last_record_has_nothing_of_that_epoch(
    epoch: int, end: int, agreed: Agreement
) -> None:
    assert read_in_epochs((0, 0), (1, 20)).led.agreed(1, epoch, end) == agreed


def test_a_leader_that_names_an_epoch_which_was_not_read_is_asked_for_the_one_before() -> None:
    progress = read_in_epochs((0, 0), (3, 20))
    assert progress.led.agreed(3, 2, 28).ask == 0
    assert progress.led.agreed(0, 0, 10) == Agreement(10)
    assert progress.led.agreed(0, 0, 24) == Agreement(20)


def test_a_leader_without_any_epoch_that_was_read_has_none_of_its_records() -> None:
    assert read_in_epochs((4, 10), (5, 20)).led.agreed(5, 3, 28) == Agreement(10)


def test_a_record_of_a_leader_that_was_not_confirmed_does_not_continue_what_was_read() -> None:
    progress = read_in_epochs((0, 0), (2, 20))
    progress.led.confirmed = 3
    assert [progress.continues(epoch) for epoch in (None, -1, 0, 1, 2, 3, 4)] == [
        *(True, True),
        *(False, False),  # no log goes back to an earlier epoch: these are of another one
        *(True, True),
        False,
    ]


def test_a_truncated_log_has_the_epoch_of_the_record_before_its_end() -> None:
    progress = read_in_epochs((0, 0), (1, 20))
    progress.truncated(20, 0, seen=True)
    assert (progress.next, progress.epoch, progress.led.epochs) == (20, 0, [(0, 0)])
