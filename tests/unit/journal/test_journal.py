"""The journal's files: bounded, torn lines skipped, a full disk told and outlived, and pages from memory and disk."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.core.state import lock_state
from exporter.journal.conditions import ConditionRules
from exporter.journal.facts import Event, EventSubject, HeldPartition
from exporter.journal.journal import MOST_WAITING_BYTES, Instants, Journal, JournalSettings, restored
from exporter.journal.query import EventQuery, page_of
from exporter.journal.rebuild import counted_since
from exporter.journal.segments import DAY, LEAST_SEGMENT_BYTES, KeptLimits, segments
from exporter.journal.stall_rules import StallRules
from exporter.words import EventKind, StallEnd

NOW = 1_795_255_200.0
LIMITS = KeptLimits(50 * 1024**2, 30 * DAY)
SMALL = KeptLimits(1024**2, 30 * DAY)
HELD = HeldPartition("orders", 7, 100, NOW, 42, 30.0)
BEGUN = Event(EventKind.STALL_BEGUN, NOW, "stall_begun:orders-7@100", "orders-7", EventSubject("pay", "pay-3"), (HELD,))
ENDED = Event(
    EventKind.STALL_ENDED,
    NOW,
    "stall_ended:orders-7@100",
    "",
    EventSubject("pay"),
    (HELD,),
    {},
    StallEnd.COMMITTED,
    30.0,
)


def event(number: int, kind: EventKind = EventKind.FENCED) -> Event:
    return Event(kind, NOW + number, f"{kind}:{number}", f"event {number}", EventSubject("pay", f"pay-{number}"))


def journal(folder: Path | None, limits: KeptLimits = LIMITS, begun: Iterable[Event] = ()) -> Journal:
    made = Journal(JournalSettings(folder, limits, Instants()), lambda: "prod", lambda _: begun)
    made.open("id-1")
    return made


def nothing_open(_: float) -> list[Event]:
    return []


def keys(query: EventQuery, *journals: Journal) -> list[str]:
    return [event["key"] for event in page_of(query, [one.lines for one in journals], None)["events"]]


def files(folder: Path) -> list[Path]:
    return segments(folder / "id-1" / "journal")


def test_events_wait_while_another_process_has_locked_the_folder(tmp_path: Path) -> None:
    held = lock_state(tmp_path)
    assert held is not None
    made = Journal(JournalSettings(tmp_path, LIMITS, Instants(), held=held), lambda: "prod", nothing_open)
    made.open("id-1")
    shutil.rmtree(tmp_path)
    other = lock_state(tmp_path)
    assert other is not None
    made.record([event(1)], NOW)
    assert "in use by process" in made.trouble
    assert not (tmp_path / "id-1").exists()
    other.close()
    made.record([event(2)], NOW)
    assert made.trouble == ""
    assert len(files(tmp_path)[0].read_bytes().splitlines()) == 3
    held.close()


def test_events_are_lines_of_a_private_file_and_read_back_newest_first(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.record([event(1), event(2)], NOW)
    (path,) = files(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert keys(EventQuery(), made) == ["fenced:2", "fenced:1"]
    assert keys(EventQuery(since=0.0), made) == ["fenced:1", "fenced:2"]


def test_a_reader_that_follows_gets_each_event_once(tmp_path: Path) -> None:
    made = journal(tmp_path)
    seen: list[str] = []
    query = EventQuery(since=0.0, limit=2)
    for number in range(5):
        made.record([event(number)], NOW)
        page = page_of(query, [made.lines], None)
        seen += [event["key"] for event in page["events"]]
        query = EventQuery.parse(page["next"] or "")
    assert seen == [f"fenced:{number}" for number in range(5)]


def test_pages_of_several_journals_go_back_in_one_order_without_gap_or_double(tmp_path: Path) -> None:
    instants = Instants()
    both = [Journal(JournalSettings(tmp_path / name, LIMITS, instants), lambda: "c", nothing_open) for name in "ab"]
    for number in range(20):
        both[number % 2].open("id") if number < 2 else None
        both[number % 2].record([event(number)], NOW)  # at one instant
    seen: list[str] = []
    query: EventQuery | None = EventQuery(limit=3)
    while query is not None:
        page = page_of(query, [journal.lines for journal in both], None)
        seen += [event["key"] for event in page["events"]]
        query = EventQuery.parse(page["next"]) if page["next"] else None
    assert seen == [f"fenced:{number}" for number in reversed(range(20))]


def test_the_size_on_disk_stays_below_the_limit_and_the_oldest_events_go(tmp_path: Path) -> None:
    made = journal(tmp_path, SMALL)
    for number in range(8_000):
        made.record([event(number)], NOW + number)
    size = sum(path.stat().st_size for path in files(tmp_path))
    assert SMALL.size / 2 < size <= SMALL.size
    assert made.size == size
    assert keys(EventQuery(limit=1), made) == ["fenced:7999"]
    assert "fenced:0" not in keys(EventQuery(since=0.0, limit=1000), made)


def test_events_that_are_too_old_are_dropped_by_segments(tmp_path: Path) -> None:
    made = journal(tmp_path, KeptLimits(1024**2, DAY))
    filler = [event(number) for number in range(LEAST_SEGMENT_BYTES // 200)]
    for day in range(4):
        made.record(filler, NOW + day * DAY)
    made.record([event(9)], NOW + 5 * DAY)
    assert made.kept_since is not None
    assert made.kept_since >= NOW + 3 * DAY


@pytest.mark.parametrize("cut", [2, 40, 150])
def test_a_torn_last_line_is_skipped_and_said_and_the_next_one_is_whole(tmp_path: Path, cut: int) -> None:
    journal(tmp_path).record([event(1), event(2)], NOW)
    (path,) = files(tmp_path)
    os.truncate(path, path.stat().st_size - cut)
    again = Journal(JournalSettings(tmp_path, LIMITS, Instants()), lambda: "prod", nothing_open)
    assert again.open("id-1").torn == 1
    again.record([event(3)], NOW + 10)
    assert files(tmp_path) == [path]
    assert keys(EventQuery(), again) == ["fenced:3", "fenced:1"]


def test_lines_that_are_no_events_are_skipped(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.record([event(1)], NOW)
    (path,) = files(tmp_path)
    evil = [b"{}", b"[" * 100_000, b'{"recorded_timestamp":1e999}', b"\x00\xff", b'{"recorded_timestamp":5,"kind":7}']
    with path.open("ab") as file:
        file.write(b"\n".join(evil) + b"\n")
    again = journal(tmp_path)
    again.record([event(2)], NOW + 1)
    assert keys(EventQuery(), again) == ["fenced:2", "fenced:1"]


def test_a_link_in_place_of_the_file_is_not_written_to(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.record([event(1)], NOW)
    (path,) = files(tmp_path)
    victim = tmp_path / "victim"
    path.rename(victim)
    path.symlink_to(victim)
    before = victim.read_bytes()
    made.record([event(2)], NOW + 1)
    assert victim.read_bytes() == before
    assert made.trouble


# --- Over a restart ---


def test_what_is_open_is_restored_from_the_header_and_the_events_after_it(tmp_path: Path) -> None:
    place = HELD._replace(topic="billing", partition=1, offset=5)
    other = replace(BEGUN, key="stall_begun:billing-1@5", partitions=(place,))
    down = Event(EventKind.SOURCE_DOWN, NOW, "source_down:lso/prod", "", EventSubject(source="lso"))

    def open_after() -> tuple[list[str], list[str]]:
        events = restored(files(tmp_path)[0].parent).events
        stalls, conditions = StallRules(), ConditionRules()
        stalls.restore(events)
        conditions.restore(events)
        return sorted(event.key for event in stalls.open(NOW)), [event.key for event in conditions.open]

    made = journal(tmp_path, begun=[other, down])
    made.record([BEGUN], NOW)
    # Of one holder, as the header has them, are both.
    assert open_after() == (["stall_begun:billing-1@5"], ["source_down:lso/prod"])
    stalls = StallRules()
    assert stalls.restore(restored(files(tmp_path)[0].parent).events) == 2
    made.record([ENDED, Event(EventKind.SOURCE_BACK, NOW, "source_back:lso/prod", "")], NOW)
    assert open_after() == (["stall_begun:billing-1@5"], [])
    assert StallRules().restore(restored(files(tmp_path)[0].parent).events) == 1
    made.record([replace(event(7), evidence={"since_timestamp": NOW}, count=40)], NOW)
    assert counted_since(restored(files(tmp_path)[0].parent).events[-1]) == NOW


def test_the_end_of_the_process_before_is_known_from_the_last_write_or_the_last_sign_of_life(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.record([event(1)], NOW)
    made.record([], NOW + 100)  # nothing happened
    found = journal(tmp_path).open("id-1")
    assert (found.last, found.stopped) == (NOW + 100, False)
    made.record([event(2, EventKind.AGENT_STOPPED)], NOW + 130)
    assert journal(tmp_path).open("id-1").stopped


def test_the_page_has_the_events_from_before_a_restart(tmp_path: Path) -> None:
    journal(tmp_path).record([event(1), event(2)], NOW)
    assert [event_document["key"] for event_document in journal(tmp_path).newest()] == ["fenced:2", "fenced:1"]


# --- A disk that takes nothing ---


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond so many bytes: a write takes a part of a line, the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_nothing_is_torn_and_what_waited_is_written_later(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.record([event(1)], NOW)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    with full_disk(len(whole) + 50):
        made.record([event(2)], NOW + 1)
        assert made.trouble == "File too large"
        assert path.read_bytes() == whole
        assert keys(EventQuery(), made) == ["fenced:2", "fenced:1"]  # read from memory
    made.record([event(3)], NOW + 2)
    assert made.trouble == ""
    assert keys(EventQuery(), made) == ["fenced:3", "fenced:2", "fenced:1"]
    assert made.lost == 0


@pytest.mark.parametrize("query", [EventQuery(), EventQuery(since=0.0)], ids=["back", "on"])
def test_an_event_that_is_written_while_a_page_is_read_is_in_it_once(tmp_path: Path, query: EventQuery) -> None:
    made = journal(tmp_path, SMALL)
    made.record([event(number) for number in range(2000)], NOW)
    with full_disk(files(tmp_path)[-1].stat().st_size):
        made.record([event(2000)], NOW)
    pages = made.lines(query.since, query.before)
    line = next(pages)
    made.record([], NOW)
    recorded = [line[0], *(other[0] for other in pages)]
    assert len(recorded) == len(set(recorded)) == 2001


def test_events_beyond_what_may_wait_are_counted_and_told_as_lost(tmp_path: Path) -> None:
    made = journal(tmp_path)
    made.record([event(1)], NOW)
    number = MOST_WAITING_BYTES // 200
    with full_disk(files(tmp_path)[0].stat().st_size):
        made.record([event(event_document) for event_document in range(number + 2000)], NOW + 1)
    assert made.lost > 0
    made.record([], NOW + 2)
    (told,) = page_of(EventQuery(kinds=frozenset({"events_lost"})), [made.lines], None)["events"]
    assert told["count"] == made.lost


# --- In memory ---


def test_without_a_folder_events_are_kept_in_memory_for_a_day(tmp_path: Path) -> None:
    made = journal(None)
    made.record([event(1)], NOW)
    made.record([event(2)], NOW + DAY - 1)
    assert keys(EventQuery(), made) == ["fenced:2", "fenced:1"]
    made.record([], NOW + DAY + 1)
    assert keys(EventQuery(), made) == ["fenced:2"]
    assert made.size is None
    assert list(tmp_path.iterdir()) == []


def test_memory_is_bounded_with_and_without_a_disk(tmp_path: Path) -> None:
    long = Event(EventKind.FENCED, NOW, "k" * 10_000, "w" * 10_000, EventSubject("a" * 40_000, "t" * 40_000))
    for folder, most in ((None, 2 * 1024**2), (tmp_path, 256 * 1024)):
        made = journal(folder)
        made.record([long] * 3_000, NOW)
        assert sum(len(json.dumps(event_document)) for event_document in made.newest()) <= most * 1.1
