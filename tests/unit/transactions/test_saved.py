"""Tests of what the tail keeps over a restart, and where a start begins with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.progress import CONTEXT_RECORDS, LogPosition, PartitionProgress
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.saved import (
    FORMAT,
    Saved,
    SavedPartition,
    UnusableState,
    begin,
    kept_document,
    partition_document,
    partition_position,
    read,
)
from tests.helpers.coordinator import GeneratedLog, histories


def document(partitions: dict[str, Any], **counters: Any) -> dict[str, Any]:
    found = {"format": FORMAT, "generation": 4, "log_partitions": 2, "partitions": partitions, "counters": counters}
    again: dict[str, Any] = json.loads(json.dumps(found))
    return again


@given(histories(), st.data())
def test_open_ids_and_waiting_aborts_come_back_as_they_were(history: GeneratedLog, data: st.DataObject) -> None:
    machine, progress = StateMachine(0), PartitionProgress(0, LogPosition(0))
    for record in history.records[: data.draw(st.integers(0, len(history.records)))]:
        if record.partition == 0:
            machine.ahead_ms = data.draw(st.sampled_from([0, 90_000, -90_000]), label="distance of the clock")
            machine.apply(record.offset, record.ms - machine.ahead_ms, record.key, record.value)
            progress.read(record.offset)
    kept = read(document({"0": partition_document(progress, machine)}), ()).partitions[0]
    assert (kept.position.offset, kept.taken_at) == (progress.next, progress.next)
    assert kept.position.unsettled == {entry.pending.offset for entry in machine.unsettled if entry.pending}
    again = read(document({"0": kept_document(kept)}), ()).partitions[0]
    for saved in (kept, again):
        fresh = StateMachine(0)
        fresh.restore(saved.ids)
        assert states(fresh.entries.values()) == states(
            entry for entry in machine.entries.values() if entry.open or entry.pending is not None
        )
        assert fresh.open.keys() == machine.open.keys()


def states(entries: Any) -> dict[str, Any]:
    return {entry.transactional_id: fields(entry) for entry in entries}


def fields(entry: Entry) -> tuple[Any, ...]:
    kept = [
        getattr(entry, name)
        for name in Entry.__slots__
        if name not in ("view", "application", "ended_start_ms", "due_ms")
    ]
    return (*kept, entry.due_ms if entry.pending else None)


def test_the_journal_of_the_same_generation_goes_on_from_the_snapshot() -> None:
    kept = document(
        {"0": {"position": [7, 1, [], 0, [], -1, [[], []]], "taken_at": 7, "ids": []}},
        applications={"a": [1], "b": [2]},
        tasks={"t": 1},
        undecodable=0,
    )
    saved = read(
        kept,
        [
            {
                "generation": 3,
                "partitions": {"0": [1, 1, [], 0, [], -1, [[], []]]},
                "counters": {"applications": {"a": [9]}},
            },
            {
                "generation": 4,
                "partitions": {"0": [9, 2, [8], 3, [], -1, [[], []]]},
                "counters": {"applications": {"a": [3], "b": None}},
            },
            {"generation": 4, "partitions": {"1": [2, 0, [], 0, [], -1, [[], []]]}, "counters": {"undecodable": 5}},
        ],
    )
    zero = saved.partitions[0]
    assert (zero.position.offset, zero.position.epoch, zero.position.lost, zero.taken_at) == (9, 2, 3, 7)
    assert zero.position.unsettled == frozenset({8})
    assert (saved.partitions[1].position.offset, saved.partitions[1].taken_at) == (2, None)
    assert saved.counters == {"applications": {"a": [3]}, "tasks": {"t": 1}, "undecodable": 5}


@pytest.mark.parametrize(
    "broken",
    [
        {"format": 3},
        {"partitions": 3},
        {"partitions": {"0": 7}},
        {"partitions": {"0": {"next": 8, "unsettled": []}}},
        {"partitions": {"x": {}}},
        {"format": FORMAT},
        document({"0": {"position": [-1, 0, [], 0], "taken_at": 0, "ids": []}}),
        document({"0": {"position": [1, 0, []], "taken_at": 0, "ids": []}}),
        document({"0": {"position": [1, 0, [], 0, [], -1, [[], []]], "taken_at": 0, "ids": [["a", [1, 2], ""]]}}),
        document({"0": {"position": [1, 0, [], 0, [], -1, [[], []]], "taken_at": 0, "ids": [["a", [0] * 13, "%%%"]]}}),
    ],
)
def test_a_document_that_cannot_be_used_says_so(broken: dict[str, Any]) -> None:
    with pytest.raises(UnusableState):
        read(broken, ())


ONE_ID = ["a", [1] * 13, ""]


@pytest.mark.parametrize(
    "row",
    [
        [5, *ONE_ID[1:]],
        [None, *ONE_ID[1:]],
        [[], *ONE_ID[1:]],
        [*ONE_ID[:2], "/w=="],
        [*ONE_ID, [1, "committed", [1] * 9, "/w==", [1], [1]]],
    ],
)
def test_an_id_that_is_no_text_and_a_section_without_partitions_are_refused(row: list[Any]) -> None:
    def saved(row: list[Any]) -> dict[str, Any]:
        return document({"0": {"position": [1, 0, [], 0, [], -1, [[], []]], "taken_at": 0, "ids": [row]}})

    assert read(saved([*ONE_ID, [1, "committed", [1] * 9, "", [1], [1]]]), ()).partitions[0].ids
    with pytest.raises(UnusableState):
        read(saved(row), ())


@pytest.mark.parametrize("clocks", [{"known": {"1": float("inf")}}, {"known": [1]}, {"led": {"0": [[1]]}}])
def test_clocks_that_cannot_be_used_say_so(clocks: dict[str, Any]) -> None:
    with pytest.raises(UnusableState):
        read({**document({}), "clocks": clocks}, ())


def test_nothing_kept_is_nothing() -> None:
    assert read({}, ()) == Saved()


# --- Where to begin ---


def test_a_first_start_counts_from_the_end_and_reads_the_last_hour_before_it() -> None:
    progress = begin(100, 60, None, from_zero=False)
    assert (progress.next, progress.position) == (60, 100)
    assert begin(100, None, None, from_zero=False).next == 100


def test_what_appears_while_we_watch_is_counted_from_its_beginning() -> None:
    assert begin(100, 60, None, from_zero=True).position == 0


def test_a_restart_counts_from_where_the_last_process_stopped_and_reads_what_it_needs_before() -> None:
    saved = SavedPartition(LogPosition(8_000, 5, frozenset({7_990}), 2), taken_at=7_500)
    progress = begin(9_000, 8_500, saved, from_zero=False)
    assert (progress.next, progress.position) == (7_500 - CONTEXT_RECORDS, 8_000)
    assert (progress.epoch, progress.lost, progress.unsettled) == (5, 2, {7_990})
    assert begin(9_000, 3_000, saved, from_zero=False).next == 3_000
    assert begin(9_000, None, SavedPartition(LogPosition(10)), from_zero=False).next == 0


def test_while_what_was_counted_is_read_again_the_position_stays() -> None:
    progress = begin(9_000, None, SavedPartition(LogPosition(8_000, 5, frozenset({7_990}))), from_zero=False)
    assert partition_position(progress, StateMachine(0)).document() == [8_000, 5, [7_990], 0, [], -1, [[], []]]
