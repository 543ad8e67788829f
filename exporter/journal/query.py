"""Which events are asked for, and the page of them: filters of ``/api/v1/events``, the page and the report."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

from exporter.journal.documents import EventDocument, EventsDocument
from exporter.words import EventKind

MOST_VALUES = 20
MOST_CHARACTERS = 4_000
MOST_EVENTS = 1_000
USUAL_EVENTS = 100
MOST_SCANNED_BYTES = 16 * 1024 * 1024
"""Bytes of lines that one request looks at. The next page goes on from there."""
LATE_SECONDS = 3_600.0
"""An event that was recorded so much after ``to`` is not looked at: it happened later."""

Line = tuple[float, int, Callable[[], EventDocument | None]]
"""When a line was recorded, its bytes, and what it says; None for one that is no event."""
Lines = Callable[[float | None, float | None], Iterable[Line]]
"""The lines of a journal: after an instant in the order in which they were recorded, or before one, the newest first.
One of the two is None.
"""


class QueryError(ValueError):
    """A value of the query cannot be understood. The text is a sentence."""


class EventQuery(NamedTuple):
    """Filters; an empty set is all. ``begin`` and ``end`` are when it happened. With ``since`` events follow in the
    order in which they were recorded; otherwise the newest comes first, from ``before`` on where that is set.
    """

    clusters: frozenset[str] = frozenset()
    applications: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    begin: float | None = None
    end: float | None = None
    since: float | None = None
    before: float | None = None
    limit: int = USUAL_EVENTS

    @classmethod
    def parse(cls, query: str) -> EventQuery:
        """Return what a URL's query asks for. Raises QueryError."""
        if len(query) > MOST_CHARACTERS:
            raise QueryError(f"The query has more than {MOST_CHARACTERS} characters.")
        try:
            given = parse_qs(query, max_num_fields=5 * MOST_VALUES)
        except ValueError:
            raise QueryError("The query has too many fields.") from None
        names = {"cluster", "application", "topic", "owner", "kind", "from", "to", "since", "before", "limit"}
        if unknown := sorted(given.keys() - names):
            raise QueryError(f"{unknown[0]!r} is no filter; there are {', '.join(sorted(names))}.")
        sets = {name: frozenset(given.get(name, ())) for name in ("cluster", "application", "topic", "owner", "kind")}
        if unknown := sorted(sets["kind"] - set(EventKind.values())):
            raise QueryError(f"{unknown[0]!r} is no kind; there are {', '.join(EventKind.values())}.")
        one = {name: given[name][-1] for name in ("from", "to", "since", "before", "limit") if name in given}
        limit = one.get("limit", str(USUAL_EVENTS))
        if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit) <= MOST_EVENTS):
            raise QueryError(f"limit is a number from 1 to {MOST_EVENTS}.")
        times = {name: instant_of(one[name]) for name in ("from", "to", "since", "before") if name in one}
        if "since" in times and "before" in times:
            raise QueryError("since and before exclude each other.")
        return cls(
            *(sets["cluster"], sets["application"], sets["topic"], sets["owner"], sets["kind"]),
            *(times.get("from"), times.get("to"), times.get("since"), times.get("before")),
            limit=int(limit),
        )

    def next(self, recorded: float) -> str:
        """Return the query of the page that follows the event that was recorded then."""
        pairs: list[tuple[str, object]] = []
        for name, values in zip(("cluster", "application", "topic", "owner", "kind"), self[:5], strict=True):
            pairs += [(name, value) for value in sorted(values)]
        pairs += [(name, instant) for name, instant in (("from", self.begin), ("to", self.end)) if instant is not None]
        pairs += [("before" if self.since is None else "since", f"{recorded:.6f}"), ("limit", self.limit)]
        return urlencode(pairs)

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event is asked for."""
        if self.clusters and event["cluster"] not in self.clusters:
            return False
        if self.kinds and event["kind"] not in self.kinds:
            return False
        at = event["timestamp"]
        if (self.begin is not None and at < self.begin) or (self.end is not None and at > self.end):
            return False
        subject = event["subject"]
        if self.applications and subject.get("application") not in self.applications:
            return False
        if self.owners and event["owner"] not in self.owners:
            return False
        return not self.topics or bool(self.topics & topics_of(event))


def topics_of(event: Mapping[str, Any]) -> set[str]:
    """Return the topics that an event names."""
    named = {partition["topic"] for partition in event["partitions"]}
    topic = event["subject"].get("topic")
    return named if topic is None else {topic, *named}


def instant_of(text: str) -> float:
    """Return Unix seconds of RFC 3339 or of Unix seconds. Raises QueryError."""
    try:
        if text and text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < MOST_VALUES:
            return float(text)
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise QueryError(f"{text[:40]!r} is no instant: give RFC 3339, or Unix seconds.") from None


def page_of(query: EventQuery, journals: Iterable[Lines], kept_since: float | None) -> EventsDocument:
    """Return one page of the events of several journals."""
    ascending = query.since is not None
    streams = [journal(query.since, query.before) for journal in journals]
    merged = heapq.merge(*streams, key=lambda line: line[0] if ascending else -line[0])
    found: list[EventDocument] = []
    scanned, last, more, truncated = 0, None, False, False
    for recorded, size, read in merged:
        if truncated or len(found) >= query.limit:
            more = True
            break
        if ascending and query.end is not None and recorded > query.end + LATE_SECONDS:
            break
        if not ascending and query.begin is not None and recorded < query.begin:
            break
        scanned += size
        last = recorded
        event = read()
        if event is not None and query.matches(event):
            found.append(event)
        truncated = scanned > MOST_SCANNED_BYTES
    # Whoever follows asks again from the last event on, also where there is none after it yet.
    follow = last if last is not None else query.since
    following = follow is not None and (more or ascending)
    return {
        "events": found,
        "next": query.next(follow) if following and follow is not None else None,
        "truncated": truncated and more,
        "kept_since_timestamp": kept_since,
    }
