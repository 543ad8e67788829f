"""Conditions that begin and end: sources down, failed checks and tasks, fence storms, Flink at risk. Pure rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.connect.facts import ConnectState
from exporter.core.durations import format_age
from exporter.core.source_state import SourceState
from exporter.flink.facts import FlinkTransactions
from exporter.journal.documents import EventDocument
from exporter.journal.facts import Event, EventSubject, LastReads, Text
from exporter.posture.check import CheckResult
from exporter.posture.evidence import Posture
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.facts import OpenTransactions
from exporter.words import EventKind

DOWN_SECONDS = 15.0
"""Seconds for which a source fails before that is an event: one failed read is none."""
MOST_CONDITIONS = 5_000

ENDS: Mapping[EventKind, EventKind] = {
    EventKind.SOURCE_DOWN: EventKind.SOURCE_BACK,
    EventKind.CHECK_FAILED: EventKind.CHECK_PASSED,
    EventKind.TASK_FAILED: EventKind.TASK_BACK,
    EventKind.FENCE_STORM_BEGUN: EventKind.FENCE_STORM_ENDED,
    EventKind.FLINK_AT_RISK: EventKind.FLINK_RISK_ENDED,
}
"""The kinds that begin something, each with the kind of its end."""
_BEGINS = {end: begin for begin, end in ENDS.items()}


class Condition(NamedTuple):
    """A condition that holds at this read. ``name`` identifies it among those of its kind."""

    kind: EventKind
    name: str
    what: str
    subject: EventSubject = EventSubject()
    evidence: Mapping[str, Text] = {}


class OpenCondition(NamedTuple):
    """A condition and since when, in Unix seconds. ``told``: its begin is an event."""

    condition: Condition
    since: float
    told: bool = True

    @property
    def begin(self) -> Event:
        """The event of its begin."""
        kind, name, what, subject, evidence = self.condition
        return Event(kind, self.since, f"{kind.value}:{name}", what, subject, evidence=evidence)


class ConditionRules:
    """Compares the conditions of a reading with those before. What a reading does not know is left as it is."""

    def __init__(self) -> None:
        self._open: dict[tuple[EventKind, str], OpenCondition] = {}

    @property
    def open(self) -> list[Event]:
        """The begin of each condition without an end, for the header of a segment."""
        return [known.begin for known in self._open.values() if known.told]

    def restore(self, events: Iterable[EventDocument]) -> None:
        """Take the conditions that these events of the process before this one leave open."""
        found: dict[tuple[EventKind, str], OpenCondition] = {}
        for event in events:
            kind = event["kind"]
            name = event["key"].removeprefix(f"{kind}:")
            if kind in ENDS:
                subject = EventSubject.of(event["subject"])
                begun = Condition(EventKind(kind), name, event["what"], subject, event["evidence"])
                found[begun.kind, name] = OpenCondition(begun, event["timestamp"])
            elif kind in _BEGINS:
                found.pop((_BEGINS[kind], name), None)
        self._open = found | self._open

    def events(self, reading: LastReads) -> Iterator[Event]:
        """Compare with the last reading."""
        doubtful = _doubtful_checks(reading)
        for kind, known in _known(reading).items():
            now = {condition.name: condition for condition in known}
            for name, condition in now.items():
                yield from self._begin(condition, (kind, name), reading.wall)
            for key in [key for key in self._open if key[0] is kind and key[1] not in now]:
                if kind is EventKind.CHECK_FAILED and self._open[key].condition.subject.check in doubtful:
                    continue
                if kind is EventKind.SOURCE_DOWN and not _answers(key[1], reading):
                    continue
                yield from self._end(self._open.pop(key), reading.wall)

    def _begin(self, condition: Condition, key: tuple[EventKind, str], wall: float) -> Iterator[Event]:
        before = self._open.get(key)
        if before is None and len(self._open) >= MOST_CONDITIONS:
            return
        since = wall if before is None else before.since
        told = before is not None and before.told
        due = condition.kind is not EventKind.SOURCE_DOWN or wall - since >= DOWN_SECONDS
        self._open[key] = OpenCondition(condition, since, told or due)
        if due and not told:
            yield self._open[key].begin

    def _end(self, ended: OpenCondition, wall: float) -> Iterator[Event]:
        if not ended.told:
            return
        condition, seconds = ended.condition, wall - ended.since
        kind = ENDS[condition.kind]
        what = f"{_ENDED[kind]}: {condition.name}, after {format_age(max(0.0, seconds))}"
        yield Event(kind, wall, f"{kind.value}:{condition.name}", what, condition.subject, duration=seconds)


_ENDED: Mapping[EventKind, str] = {
    EventKind.SOURCE_BACK: "The source no longer fails",
    EventKind.CHECK_PASSED: "The check no longer fails",
    EventKind.TASK_BACK: "The task no longer fails",
    EventKind.FENCE_STORM_ENDED: "The fence storm is over",
    EventKind.FLINK_RISK_ENDED: "No longer at risk",
}


def _known(reading: LastReads) -> dict[EventKind, list[Condition]]:
    """The conditions by kind, of the kinds of which this reading has all."""
    found = {EventKind.SOURCE_DOWN: list(_sources(reading))}
    if (posture := reading.fact(Posture)) is not None:
        found[EventKind.CHECK_FAILED] = list(_checks(posture))
    connects = [(state, fact) for state, fact in reading.facts(ConnectState)]
    asked = [state for state in reading.states if state.source == "connect"]
    if connects and len(connects) == len(asked) and all(state.up for state in asked):
        found[EventKind.TASK_FAILED] = [task for _, fact in connects for task in _tasks(fact)]
    state, hour = next(reading.facts(LastHour), (None, None))
    if hour is not None and state is not None and state.up and (storms := hour.storms) is not None:
        found[EventKind.FENCE_STORM_BEGUN] = [
            Condition(
                EventKind.FENCE_STORM_BEGUN,
                storm.transactional_id,
                f"Fence storm: {storm.transactional_id} was fenced {storm.fences} times in 10 minutes",
                EventSubject(storm.application, storm.transactional_id),
                {"fences": storm.fences},
            )
            for storm in storms
        ]
    state, flink = next(reading.facts(FlinkTransactions), (None, None))
    opened = reading.fact(OpenTransactions)
    if flink is not None and state is not None and state.up and opened is not None and opened.complete:
        found[EventKind.FLINK_AT_RISK] = list(_at_risk(flink, opened))
    return found


def _doubtful_checks(reading: LastReads) -> frozenset[str]:
    """The names of checks that could not be made for a subject: none of them is known to pass."""
    posture = reading.fact(Posture)
    checks = posture.checks if posture is not None else ()
    return frozenset(check.name for check in checks if check.verdict is CheckResult.UNKNOWN)


def _answers(name: str, reading: LastReads) -> bool:
    """Return whether a source was read without a fault, or is none of this cluster's any more: not before the first
    read, and not where its faults are ignored now.
    """
    states = [state for state in reading.states if _name(state) == name] or reading.states
    return bool(states) and all(state.up is not None and (_name(state) != name or not state.faults) for state in states)


def _name(state: SourceState) -> str:
    return f"{state.source}/{state.target}"


def _sources(reading: LastReads) -> Iterator[Condition]:
    for state in reading.states:
        if state.ignored is not None:
            continue
        for fault in state.faults[:1]:
            yield Condition(
                EventKind.SOURCE_DOWN,
                _name(state),
                f"The source {state.source} of {state.target} does not answer in full: {fault.detail}",
                EventSubject(source=state.source, target=state.target),
                {"reason": fault.reason.value, "faults": len(state.faults)},
            )


def _checks(posture: Posture) -> Iterator[Condition]:
    for check in posture.checks:
        if check.verdict is CheckResult.FAILED:
            yield Condition(
                EventKind.CHECK_FAILED,
                f"{check.name}:{check.subject}",
                f"The check {check.name} of {check.subject} fails: {check.found}",
                EventSubject(check=check.name, target=check.subject),
                {"fix": check.fix},
            )


def _tasks(connect: ConnectState) -> Iterator[Condition]:
    for connector in connect.connectors:
        for task in connector.tasks:
            if task.state.lower() == "failed":
                name = f"{connect.name}/{connector.name}/{task.task}"
                cause = "" if task.cause is None else task.cause.value
                yield Condition(
                    EventKind.TASK_FAILED,
                    name,
                    f"A task failed in Connect: {name}",
                    EventSubject(connect=connect.name, connector=connector.name, task=task.task),
                    {"cause": cause, "worker": task.worker} if cause else {"worker": task.worker},
                )


def _at_risk(flink: FlinkTransactions, opened: OpenTransactions) -> Iterator[Condition]:
    for transaction in opened.transactions:
        of_job = flink.by_producer.get(transaction.producer_id)
        if of_job is not None and of_job.at_risk:
            evidence: dict[str, Text] = {"precommit": of_job.precommit.value}
            if of_job.deadline is not None:
                evidence["lost_at_timestamp"] = round(of_job.deadline, 3)
            yield Condition(
                EventKind.FLINK_AT_RISK,
                f"{transaction.transactional_id}/{transaction.producer_id}",
                f"At risk: {transaction.transactional_id} is precommitted, and lost unless its job returns",
                EventSubject(transaction.application, transaction.transactional_id, transaction.producer_id),
                evidence,
            )
