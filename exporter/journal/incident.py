"""The report of an incident: what happened between two instants, by the journals of one cluster. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from exporter.core.documents import document_of
from exporter.core.durations import format_age, instant
from exporter.journal.documents import EventDocument
from exporter.journal.rebuild import (
    Event,
    Gap,
    KeptJournal,
    RebuiltStall,
    common_gaps,
    counted_since,
    events_in,
    gaps_of,
    merged,
    stalls_of,
)
from exporter.journal.segments import DAY
from exporter.words import EventKind, StallEnd


class BlockedDocument(TypedDict):
    """A partition that was stalled."""

    topic: str
    partition: int
    offset: int
    """The last stable offset at which it stood."""
    began: str | None
    began_timestamp: float
    ended: str | None
    """null where it is stalled by the journal."""
    ended_timestamp: float | None
    end_seen: bool
    """False where it ended while no agent looked: ``ended`` is then the latest that it can be."""
    how: StallEnd | None
    seconds: float
    """For how long; where no end is told, up to when an agent looked last in the time of the report."""
    records: int
    """Offsets that read_committed consumers could not read, at the last read."""
    holder: str
    """The kind of the holder: open, completing, hanging, unmarked, unknown."""
    application: str
    transactional_id: str
    producer_id: int | None
    producer_epoch: int | None
    waiting_groups: str
    """Groups whose committed offsets the transaction held back."""


class GapDocument(TypedDict):
    """A time of which no agent can tell."""

    begin: str | None
    begin_timestamp: float
    end: str | None
    end_timestamp: float
    why: str


class IncidentDocument(TypedDict):
    """``incident --format json``: the events and stalls between two instants."""

    cluster: str
    begin: str | None
    begin_timestamp: float
    end: str | None
    end_timestamp: float
    applications: list[str]
    """The filter; empty for all."""
    agents: list[str]
    summary: list[str]
    """Sentences."""
    blocked: list[BlockedDocument]
    ends: dict[str, int]
    """Number of stalls by how they ended."""
    unclean_ends: dict[str, dict[str, int]]
    """Fences and timeouts by application."""
    timeline: list[EventDocument]
    gaps: list[GapDocument]
    unknown: list[str]
    """Sentences on facts that are not known."""


class Wanted(NamedTuple):
    """The range and subjects of a report: Unix seconds, and applications, all where there is none."""

    cluster: str
    begin: float
    end: float
    applications: frozenset[str] = frozenset()


def incident(journals: Sequence[KeptJournal], wanted: Wanted) -> IncidentDocument:
    """Return the report. ``journals`` are those of the agents of one cluster, with events before and after as well."""
    events = merged(journal.events for journal in journals)
    stalls = [
        stall
        for stall in stalls_of(events)
        if stall.since <= wanted.end
        and (stall.end is None or stall.end >= wanted.begin)
        and _is_meant(stall.application, wanted)
    ]
    timeline = [event for event in events_in(events, wanted.begin, wanted.end) if _is_shown(event, wanted)]
    unclean = _unclean(timeline)
    gaps = _within(common_gaps([gaps_of(journal, wanted.end) for journal in journals]), wanted)
    seen_until = min((gap.begin for gap in gaps if gap.end >= wanted.end), default=wanted.end)
    blocked = [_blocked(stall, seen_until) for stall in stalls]
    ends = Counter(stall.how for stall in stalls if stall.end is not None)
    return {
        "cluster": wanted.cluster,
        "begin": instant(wanted.begin),
        "begin_timestamp": wanted.begin,
        "end": instant(wanted.end),
        "end_timestamp": wanted.end,
        "applications": sorted(wanted.applications),
        "agents": sorted(
            {event["agent"] for journal in journals for event in journal.events if _is_late(event, wanted)}
        ),
        "summary": list(_summary(stalls, unclean, timeline, seen_until)),
        "blocked": blocked,
        "ends": dict(ends),
        "unclean_ends": unclean,
        "timeline": timeline,
        "gaps": [_gap(gap) for gap in gaps],
        "unknown": list(_unknown(stalls, gaps, events, timeline)),
    }


def _is_meant(application: str, wanted: Wanted) -> bool:
    """Return whether a stall is shown. One whose application is not known may be of any."""
    return not wanted.applications or not application or application in wanted.applications


def _is_late(event: Event, wanted: Wanted) -> bool:
    """Return whether an agent that is named recorded this in the time of the report, or in the day before it."""
    return bool(event["agent"]) and event["recorded_timestamp"] >= wanted.begin - DAY


def _is_shown(event: Event, wanted: Wanted) -> bool:
    return _is_meant(event["subject"].get("application", ""), wanted)


def _unclean(timeline: Iterable[Event]) -> dict[str, dict[str, int]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for event in timeline:
        if event["kind"] in {EventKind.FENCED.value, EventKind.TIMED_OUT.value}:
            found[event["subject"].get("application", "")][event["kind"]] += event["count"]
    return {application: dict(counts) for application, counts in sorted(found.items())}


def _summary(
    stalls: Sequence[RebuiltStall], unclean: dict[str, dict[str, int]], timeline: Sequence[Event], end: float
) -> Iterable[str]:
    if stalls:
        longest = max(stalls, key=lambda stall: stall.seconds(end))
        most = max(stalls, key=lambda stall: stall.records)
        partitions = len({(stall.topic, stall.partition) for stall in stalls})
        yield (
            f"{_count(len(stalls), 'stall', 'stalls')} of {_count(partitions, 'partition', 'partitions')}, the longest"
            f" for {format_age(longest.seconds(end))} ({longest.topic}-{longest.partition})."
        )
        yield f"In one of them {most.records} records or more waited ({most.topic}-{most.partition})."
    else:
        yield "No partition was stalled, as far as the journal knows."
    if open_ := sum(stall.end is None for stall in stalls):
        yield f"Of {_count(open_, 'stall', 'stalls')} no end is told: when they were looked at last, they lasted."
    for application, counts in unclean.items():
        what = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in sorted(counts.items()))
        yield f"Transactions of {application or 'unknown applications'}: {what}."
    torn = [event for event in timeline if event["kind"] == EventKind.TORN.value]
    if torn:
        whole = {
            (event["subject"].get("transactional_id"), event["subject"].get("producer_id"), event["timestamp"])
            for event in torn
        }
        places = sum(event["count"] for event in torn)
        least = "At least " if places > len(torn) else ""  # some are only counted
        what = _count(len(whole), "torn transaction", "torn transactions")
        yield f"{least}{what}, in {_count(places, 'partition', 'partitions')}."
    for kind, text in (
        (EventKind.FLINK_LOST, "transactions of Flink were lost"),
        (EventKind.LOG_RECORDS_LOST, "times the transaction log lost records"),
    ):
        if number := sum(event["count"] for event in timeline if event["kind"] == kind.value):
            yield f"{number} {text}."


def _unknown(
    stalls: Sequence[RebuiltStall], gaps: Sequence[Gap], events: Sequence[Event], timeline: Sequence[Event]
) -> Iterable[str]:
    if not events:
        yield "No journal has any event of this time."
    if gaps:
        yield f"What happened in {_count(len(gaps), 'gap', 'gaps')} is not known: see the gaps."
    if nameless := sum(not stall.transactional_id and stall.producer_id is None for stall in stalls):
        yield f"The holder of {_count(nameless, 'stall', 'stalls')} is not known."
    if unknown := sum(stall.how == StallEnd.UNKNOWN.value for stall in stalls):
        yield (
            f"How {_count(unknown, 'stall', 'stalls')} ended is not known: no decision of the transaction was read, as"
            " after a marker that was written by hand, or after records that were deleted."
        )
    if len({event["agent"] for event in timeline if counted_since(event) is not None}) > 1:
        yield "Some ends were only counted, and by more than one agent: the numbers may have them twice."


def _within(gaps: Iterable[Gap], wanted: Wanted) -> list[Gap]:
    return [
        Gap(max(gap.begin, wanted.begin), min(gap.end, wanted.end), gap.why)
        for gap in gaps
        if gap.end >= wanted.begin and gap.begin <= wanted.end
    ]


def _blocked(stall: RebuiltStall, end: float) -> BlockedDocument:
    return document_of(
        BlockedDocument,
        stall,
        began=instant(stall.since),
        began_timestamp=stall.since,
        ended=instant(stall.end),
        ended_timestamp=stall.end,
        how=StallEnd(stall.how) if stall.end is not None and stall.how in StallEnd.values() else None,
        seconds=round(stall.seconds(end), 3),
        holder=stall.kind,
    )


def _gap(gap: Gap) -> GapDocument:
    return {
        "begin": instant(gap.begin),
        "begin_timestamp": gap.begin,
        "end": instant(gap.end),
        "end_timestamp": gap.end,
        "why": gap.why,
    }


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
