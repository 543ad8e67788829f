"""The journal's size on a busy cluster, and what is left of it when its process is killed in the middle of a write."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.journal.facts import Event, EventSubject, HeldPartition
from exporter.journal.findings import Bursts
from exporter.journal.journal import Instants, Journal, JournalSettings
from exporter.journal.query import EventQuery, page_of
from exporter.journal.rebuild import KeptJournal, gaps_of, merged, stalls_of
from exporter.journal.segments import DAY, KeptLimits, segments
from exporter.words import EventKind, StallEnd

NOW = 1_795_255_200.0
DEFAULT = KeptLimits(50 * 1024**2, 30 * DAY)
IDS = 20_000
UNCLEAN_A_DAY = 2_000
STALLS_A_DAY = 50
KILLS = 30
EVENTS = 30
"""Events of one process at most, so that none are dropped."""


def journal(folder: Path) -> Journal:
    made = Journal(JournalSettings(folder, DEFAULT, Instants()), lambda: "prod", lambda _: ())
    made.open("id-1")
    return made


def unclean(kind: EventKind, number: int, at: float) -> Event:
    who = f"payments-service-{number}-0123456789ab"
    subject = EventSubject(f"payments-{number % 200}", who, number, 3)
    evidence = {"transaction_began_timestamp": at - 60}
    text = f"The transaction of {who} was fenced"
    return Event(kind, at, f"{kind.value}:{number}:3:{at:.3f}", text, subject, evidence=evidence, duration=60.0)


def stall(partitions: int, at: float) -> Iterator[Event]:
    """A stall's begin and end, of so many partitions of one holder."""
    subject = EventSubject("payments", "payments-service-17-0123456789ab", 4711, 5)
    for kind, how in ((EventKind.STALL_BEGUN, None), (EventKind.STALL_ENDED, StallEnd.COMMITTED)):
        for first in range(0, partitions, 100):
            held = tuple(
                HeldPartition(f"payments.orders.v{number % 40}", number, 10**6 + number, at, 4242, 35.0)
                for number in range(first, min(partitions, first + 100))
            )
            what = f"payments.orders.v1-{first} and 99 more partitions are stalled, transaction of payments-service-17"
            yield Event(kind, at, f"{kind.value}:{first}", what, subject, held, {"holder": "open"}, how, 35.0)


def a_busy_day(random_: random.Random) -> Iterator[tuple[float, list[Event]]]:
    """Minute by minute: fences and timeouts, stalls, one of a thousand partitions, and a deployment of every id."""
    for minute in range(24 * 60):
        at = NOW + 60 * minute
        events = [
            unclean(random_.choice((EventKind.FENCED, EventKind.TIMED_OUT)), random_.randrange(IDS), at)
            for _ in range(UNCLEAN_A_DAY // 1440 + (random_.random() < UNCLEAN_A_DAY / 1440 % 1))
        ]
        if minute == 600:
            events += [unclean(EventKind.FENCED, number, at) for number in range(IDS)]
            events += stall(1_000, at)
        if random_.random() < STALLS_A_DAY / 1440:
            events += stall(random_.choice((1, 3, 12)), at)
        yield at, events


def test_thirty_days_of_a_busy_cluster_of_20_000_ids_fit_into_50_mb(tmp_path: Path) -> None:
    made, bursts = journal(tmp_path), Bursts()
    for at, events in a_busy_day(random.Random(7)):
        made.record(bursts.events(events, at), at)
    day = sum(path.stat().st_size for path in segments(tmp_path / "id-1" / "journal"))
    assert 200_000 < day < 50_000_000 / 30
    assert made.lost == 0
    assert made.counts[EventKind.FENCED] > IDS  # those beyond the budget are counted


def test_what_was_recorded_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    check_kills(tmp_path, KILLS)


def check_kills(tmp_path: Path, kills: int) -> None:
    """Each child goes on with the journal, and acknowledges each event in a pipe after it was recorded."""
    random_ = random.Random(11)
    acknowledged: list[int] = []
    for life in range(kills):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _write_until_killed(tmp_path, writer, life)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            first = pipe.readline()
            time.sleep(random_.random() * 0.004)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            whole, _, _ = (first + pipe.read()).rpartition(b"\n")
        acknowledged += map(int, whole.split())
    written: list[int] = []
    query: EventQuery | None = EventQuery(since=0.0, limit=1000)
    made = journal(tmp_path)
    while query is not None:
        page = page_of(query, [made.lines], None)
        written += [int(event["key"].partition(":")[2]) for event in page["events"]]
        query = EventQuery.parse(page["next"] or "") if page["events"] else None
    assert len(acknowledged) >= kills
    assert set(acknowledged) <= set(written)
    assert len(written) == len(set(written))
    assert len(written) - len(acknowledged) <= kills  # at most the one that was not acknowledged any more


def _write_until_killed(folder: Path, acknowledge: int, life: int) -> None:
    try:
        made = journal(folder)
        event = unclean(EventKind.FENCED, 1, NOW)
        for number in range(life * EVENTS, (life + 1) * EVENTS):
            made.record([replace(event, key=f"fenced:{number}")], NOW)
            os.write(acknowledge, b"%d\n" % number)
        signal.pause()
    finally:
        os._exit(1)


HELD = {"topic": "t", "partition": 0, "offset": 1, "since_timestamp": NOW, "records": 1, "seconds": 1.0}
GOOD = {"recorded_timestamp": NOW, "timestamp": NOW, "kind": "stall_begun", "key": "k", "subject": {}}


NAN, ENDLESS = float("nan"), float("inf")
WRONG: Mapping[str, tuple[Any, ...]] = {
    "recorded_timestamp": (1e308, -1, 1e10, NAN, None, "x"),
    "timestamp": (NAN, ENDLESS, 1e300, []),
    "partitions": (
        *(5, "x", [5], [{}], [{**HELD, "topic": []}], [{**HELD, "offset": "1"}]),
        *([{**HELD, "since_timestamp": ENDLESS}], [{**HELD, "seconds": None}]),
    ),
    "subject": (
        *([], {"application": []}, {"application": 7}, {"application": None}),
        *({"topic": {}}, {"topic": 7}, {"partition": NAN}),
    ),
    "evidence": (5, [], [5], {"holder": []}, {"since_timestamp": ENDLESS}),
    "count": ("2", None),
    "cluster": (None, [1], {}),
    **dict.fromkeys(("kind", "key", "agent", "what", "how", "owner", "duration_seconds"), ([1], {})),
}


@pytest.mark.parametrize("wrong", [{key: value} for key, values in WRONG.items() for value in values], ids=str)
def test_a_line_of_another_form_is_skipped_by_all_readers_and_by_the_next_writer(
    wrong: Mapping[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "id-1" / "journal"
    folder.mkdir(parents=True)
    lines = [{"journal": 1, "open_stalls": [[[], {}, 1], 5], "open": [[[], "x", None, {}]]}, {**GOOD, **wrong}]
    (folder / f"{round(NOW * 1e6)}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = journal(tmp_path)
    made.record([Event(EventKind.AGENT_STARTED, NOW, "mine", "")], NOW)
    assert not made.trouble
    page = page_of(EventQuery(applications=frozenset(), topics=frozenset()), [made.lines], made.kept_since)
    assert [event["key"] for event in page["events"]] == ["mine"] == [event["key"] for event in made.newest()]
    assert stalls_of(merged([page["events"]])) == []
    assert gaps_of(KeptJournal(page["events"], made.kept_since), NOW)


@pytest.mark.parametrize("gone", ["", "id-1/journal", f"id-1/journal/{round(NOW * 1e6)}.jsonl"])
def test_a_segment_that_vanished_is_followed_by_a_new_one_with_its_header(tmp_path: Path, gone: str) -> None:
    made = journal(tmp_path / "state")
    made.record([Event(EventKind.AGENT_STARTED, NOW, "first", "")], NOW)
    path = tmp_path / "state" / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    made.record([Event(EventKind.AGENT_PAUSED, NOW + 1, "second", "")], NOW + 1)
    assert not made.trouble
    (segment,) = segments(tmp_path / "state" / "id-1" / "journal")
    assert ["journal" in json.loads(line) for line in segment.read_text().splitlines()] == [True, False]
    assert made.size == segment.stat().st_size


def test_a_file_with_another_name_is_no_segment(tmp_path: Path) -> None:
    for name in ("9" * 240, "0" * 15, "\u0663" * 16):
        (tmp_path / f"{name}.jsonl").touch()
    assert segments(tmp_path) == []
