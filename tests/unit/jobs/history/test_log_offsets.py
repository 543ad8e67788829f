"""Tests of what a batch reads of the log: no offset twice, none left out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from exporter.jobs.history.log_offsets import (
    SETTLED_MS,
    Look,
    PartitionOffset,
    advanced,
    planned,
    shared_out,
)
from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Polled
from exporter.model import Clock, Fault, Reason
from exporter.transactions.source.log_range import BATCH, Range, read_ranges

NOW = 1_790_000_000_000
ends = st.dictionaries(st.integers(0, 8), st.integers(0, 1000), max_size=6)


def look(ends: Mapping[int, int], now_ms: int) -> Look:
    """All that was written is below the high watermarks."""
    return Look(ends, frozenset(ends), now_ms, now_ms)


@given(ends, st.integers(1, 3000))
def test_shares_are_fair_and_use_all_that_there_is(wanted: Mapping[int, int], most: int) -> None:
    shares = shared_out(wanted, most)
    assert sum(shares.values()) == min(most, sum(wanted.values()))
    assert all(0 <= share <= wanted[number] for number, share in shares.items())
    cut = [share for number, share in shares.items() if share < wanted[number]]
    assert max(cut, default=0) - min(cut, default=0) <= 1
    assert all(share <= min(cut, default=share) + 1 for number, share in shares.items() if share == wanted[number])


@given(st.lists(ends, min_size=1, max_size=6), st.integers(1, 700), st.integers(1, 4))
def test_batches_read_every_offset_once_and_the_last_reaches_the_end(
    growth: list[Mapping[int, int]], most: int, tasks: int
) -> None:
    reached: dict[int, int] = {}
    marks: dict[int, PartitionOffset] = {}
    end: dict[int, int] = {}
    for at, more in enumerate([*growth, *([{}] * 50)]):
        end = {number: end.get(number, 0) + more.get(number, 0) for number in end.keys() | more.keys()}
        found = advanced(marks, look(end, NOW + at * 60_000), most)
        pieces = [piece for task in planned(marks, found, tasks) for piece in task]
        assert sorted(piece.range.partition for piece in pieces) == sorted(found)
        assert sum(piece.range.end - piece.range.start for piece in pieces) <= most
        for piece in pieces:
            assert piece.range.start == reached.get(piece.range.partition, 0)
            reached[piece.range.partition] = piece.range.end
        marks = found
    assert reached == end or sum(end.values()) > most * 50


def test_an_idle_log_is_looked_at_once_more_and_then_makes_no_batches() -> None:
    first = advanced({}, look({0: 10}, NOW), 100)
    assert first == {0: PartitionOffset(10, NOW, NOW)}
    assert advanced(first, look({0: 10}, NOW + 1_000), 100) == first
    settled = advanced(first, look({0: 10}, NOW + SETTLED_MS), 100)
    assert settled == {0: PartitionOffset(10, NOW + SETTLED_MS, NOW)}
    (pieces,) = planned(first, settled, 2)
    assert pieces[0].range == Range(0, 10, 10)
    assert pieces[0].quiet_ms == SETTLED_MS
    assert advanced(settled, look({0: 10}, NOW + 3_600_000), 100) == settled


def test_a_partition_without_an_answer_or_with_an_end_below_what_was_read_stays() -> None:
    marks = {0: PartitionOffset(10, NOW, NOW), 1: PartitionOffset(50, NOW, NOW)}
    assert advanced(marks, look({1: 20}, NOW + SETTLED_MS), 100) == marks


def test_while_records_wait_for_replication_an_idle_log_is_not_settled() -> None:
    first = advanced({}, look({0: 10}, NOW), 100)
    waiting = Look({0: 10}, frozenset(), NOW + SETTLED_MS, NOW + SETTLED_MS)
    assert advanced(first, waiting, 100) == first
    grown = Look({0: 12}, frozenset(), NOW + 9_000, NOW + 9_500)
    assert advanced(first, grown, 100) == {0: PartitionOffset(12, -1, NOW + 9_500)}


def test_an_answer_that_took_long_counts_as_no_quiet_time() -> None:
    first = advanced({}, Look({0: 10}, frozenset({0}), NOW, NOW + 4_000), 100)
    assert first == {0: PartitionOffset(10, NOW, NOW + 4_000)}
    ((piece,),) = planned({}, first, 1)
    assert piece.quiet_ms == 0


def test_one_that_was_cut_short_says_that_more_was_waiting() -> None:
    (pieces,) = planned({}, advanced({}, look({0: 500}, NOW), 100), 1)
    assert (pieces[0].range.end, pieces[0].quiet_ms) == (100, -1)


# --- Reading a planned range ---


class Message:
    def __init__(self, partition: int, offset: int, code: int | None = None) -> None:
        self._partition, self._offset, self._code = partition, offset, code

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def partition(self) -> int:
        return self._partition

    def leader_epoch(self) -> int | None:
        return None

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, NOW

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"


class ScriptedReader:
    """Gives these messages, a poll each, and then nothing."""

    def __init__(self, *polls: list[Message], trouble: Fault | None = None) -> None:
        self.polls = list(polls)
        self.left: list[int] = []
        self.now = 0.0
        self._trouble = trouble

    def assign(self, positions: Mapping[int, int]) -> None:
        self.positions = dict(positions)

    def leave(self, partition: int) -> None:
        self.left.append(partition)

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        self.now += seconds
        return list(self.polls.pop(0)) if self.polls else []

    def trouble(self) -> Fault | None:
        return self._trouble

    def close(self) -> None: ...


def offsets(reader: ScriptedReader, *ranges: Range) -> list[tuple[int, int]]:
    clock = Clock(monotonic=lambda: reader.now)
    read = read_ranges(reader, {span.partition: span for span in ranges}, 5.0, clock)
    return [(message.partition(), message.offset()) for messages in read for message in messages]


END = KafkaError._PARTITION_EOF


def test_a_range_ends_at_its_planned_end_though_more_is_there() -> None:
    reader = ScriptedReader([Message(0, 4), Message(0, 5), Message(0, 6)])
    assert offsets(reader, Range(0, 4, 6)) == [(0, 4), (0, 5)]
    assert reader.left == [0]


def test_a_range_ends_where_compaction_took_its_last_offsets() -> None:
    beyond = ScriptedReader([Message(0, 4), Message(0, 9)])
    assert offsets(beyond, Range(0, 4, 8)) == [(0, 4)]
    at_the_end = ScriptedReader([Message(0, 4), Message(0, 8, END)])
    assert offsets(at_the_end, Range(0, 4, 8)) == [(0, 4)]


def test_records_before_the_start_are_passed_over_when_the_position_was_gone() -> None:
    assert offsets(ScriptedReader([Message(0, 0), Message(0, 4), Message(0, 5)]), Range(0, 4, 6)) == [(0, 4), (0, 5)]


def test_each_partition_ends_by_itself_and_an_empty_range_is_not_read() -> None:
    reader = ScriptedReader([Message(0, 0), Message(1, 0, END)], [Message(0, 1)])
    assert offsets(reader, Range(0, 0, 2), Range(1, 0, 3), Range(2, 7, 7)) == [(0, 0), (0, 1)]
    assert (reader.positions, reader.left) == ({0: 0, 1: 0}, [1, 0])


def test_a_refusal_names_the_grant() -> None:
    reader = ScriptedReader([Message(0, -1001, KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(AskError, match="grant READ on Topic:__transaction_state"):
        offsets(reader, Range(0, 0, 2))


def test_a_connection_that_brings_nothing_is_given_up_with_the_reason() -> None:
    down = Fault(Reason.UNREACHABLE, "all brokers are down")
    with pytest.raises(AskError, match="all brokers are down"):
        offsets(ScriptedReader(trouble=down), Range(0, 0, 2))
    with pytest.raises(AskError, match="nothing came from 1 partitions"):
        offsets(ScriptedReader(), Range(0, 0, 2))
    assert BATCH > 1
