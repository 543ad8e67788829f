"""The content of the agent's journal, rebuilt from its events alone: stalls, unclean ends, and gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.chaos.agent import AgentRun
from tests.chaos.evidence import Place

START_SECONDS = 60.0
"""A start is told once the cluster's id is known, or after a minute."""
UNCLEAN = ("fenced", "timed_out")
_HELD = ("stall_begun", "stall_named", "hanging_proven", "unmarked_commit", "stall_ended")


@dataclass
class ToldStall:
    """A stall. Instants are Unix seconds, the right one among them: an agent whose clock is wrong may not know yet."""

    place: Place
    offset: int
    kind: str = ""
    transactional_id: str = ""
    producer_id: int | None = None
    ends: tuple[float, ...] = ()
    end_seen: bool = True
    how: str = ""


class ToldEnd(NamedTuple):
    """Unclean ends: one, or ``transactions`` of an application that are not listed."""

    outcome: str
    application: str
    transactional_id: str
    producer_id: int | None
    at: float
    transactions: int


class ToldGap(NamedTuple):
    begin: float
    end: float


class _DatedEvent(NamedTuple):
    """``clock`` is how many seconds ahead the clock of the life that recorded it was, ``before`` that of the last."""

    event: Mapping[str, Any]
    clock: int
    before: int


def stalls(journal: Sequence[Mapping[str, Any]], lives: Sequence[AgentRun]) -> dict[tuple[Place, int], ToldStall]:
    """The stalls by partition and last stable offset."""
    found: dict[tuple[Place, int], ToldStall] = {}
    for event, clock, _ in _dated(journal, lives):
        if event["kind"] not in _HELD:
            continue
        subject, evidence = event["subject"], event.get("evidence", {})
        for held in event.get("partitions", ()):
            key = (held["topic"], held["partition"]), held["offset"]
            told = found.setdefault(key, ToldStall(*key))
            told.kind = evidence.get("holder") or told.kind
            told.transactional_id = subject.get("transactional_id") or told.transactional_id
            told.producer_id = subject.get("producer_id", told.producer_id)
            if event["kind"] == "stall_ended":
                end = held["since_timestamp"] + held["seconds"]
                told.ends = (end, end - clock)
                told.how = event.get("how", "")
                told.end_seen = evidence.get("end_seen") is not False
    return found


def unclean_ends(journal: Sequence[Mapping[str, Any]]) -> list[ToldEnd]:
    """Fences and timeouts, dated by the log."""
    return [
        ToldEnd(
            event["kind"],
            event["subject"].get("application", ""),
            event["subject"].get("transactional_id", ""),
            event["subject"].get("producer_id"),
            event["timestamp"],
            event.get("count", 1),
        )
        for event in journal
        if event["kind"] in UNCLEAN
    ]


def gaps(journal: Sequence[Mapping[str, Any]], lives: Sequence[AgentRun], over: float) -> list[ToldGap]:
    """The times up to ``over`` of which the journal says that it cannot tell.

    One that would begin after its end follows an agent whose clock was ahead: it begins with the end of that agent.
    """
    found: list[ToldGap] = []
    down: dict[str, float] = {}
    for event, clock, before in _dated(journal, lives):
        kind, at = event["kind"], event["timestamp"] - clock
        if kind in {"agent_started", "agent_paused"}:
            since = event.get("evidence", {}).get("not_seen_from_timestamp")
            earlier = clock if kind == "agent_paused" else before
            begin = 0.0 if since is None else since - earlier
            ends = [live.ended for live in lives if live.ended <= at]
            found.append(ToldGap(begin if begin <= at else max(ends, default=at), at))
        elif kind == "source_down" and event["subject"]["source"] in {"lso", "txnlog"}:
            down.setdefault(event["subject"]["source"], at)
        elif kind == "source_back" and (begun := down.pop(event["subject"]["source"], None)) is not None:
            found.append(ToldGap(begun, at))
    return [*found, *(ToldGap(begun, over) for begun in down.values())]


def _dated(journal: Iterable[Mapping[str, Any]], lives: Sequence[AgentRun]) -> Iterator[_DatedEvent]:
    """The events with the clocks of the lives that recorded them. Each start is of a later life than the last one: of
    that which began last before it, as a life of milliseconds tells none.
    """
    life, clock, before = -1, 0, 0
    started = None
    for event in journal:
        # A start is told again once the journal of the process before is open.
        if event["kind"] == "agent_started" and event["timestamp"] != started:
            started = event["timestamp"]
            after = [(event["timestamp"] - live.began - live.clock, number) for number, live in enumerate(lives)]
            begun = [(seconds, number) for seconds, number in after if number > life and 0 <= seconds <= START_SECONDS]
            life = min(begun)[1] if begun else life
            before, clock = clock, lives[life].clock if life >= 0 else 0
        yield _DatedEvent(event, clock, before)
