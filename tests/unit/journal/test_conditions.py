"""Conditions as events: begun once, ended once, and left as they are while a reading does not know them."""

from __future__ import annotations

from dataclasses import replace

from exporter import catalogue
from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector, Task
from exporter.core.source_state import SourceState
from exporter.flink.facts import FlinkId, FlinkTransaction, FlinkTransactions
from exporter.journal.conditions import DOWN_SECONDS, ConditionRules
from exporter.journal.documents import EventDocument
from exporter.journal.facts import Event, EventSubject, LastReads
from exporter.model import Clock, Fact, Fault, Reason
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.evidence import Posture
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.facts import OpenTransaction, OpenTransactions
from exporter.words import EventKind, Precommit, TransactionState
from tests.helpers.journal_events import read_back

NOW = 1_795_255_200.0
DOWN = SourceState("groups", "prod", "prod", up=False, faults=(Fault(Reason.TIMEOUT, "no answer of broker 3"),))
CHECK = PostureCheck("min_isr", "orders", CheckResult.FAILED, "1", "why", "set it to 2")
TASK = Task("sink", "0", "FAILED", "worker-1:8083")


def source(name: str, *facts: Fact, up: bool = True) -> SourceState:
    return SourceState(name, "prod", "prod", up=up, facts=facts)


def events(rules: ConditionRules, *states: SourceState, wall: float = NOW) -> list[Event]:
    return list(rules.events(LastReads(wall, NOW - 100, states)))


def test_a_source_is_down_after_a_while_since_its_first_failed_read_and_back_at_once() -> None:
    rules = ConditionRules()
    assert events(rules, DOWN) == []
    (down,) = events(rules, DOWN, wall=NOW + DOWN_SECONDS)
    assert (down.kind, down.at, down.evidence["reason"]) == (EventKind.SOURCE_DOWN, NOW, "timeout")
    assert "no answer of broker 3" in down.what
    assert events(rules, DOWN, wall=NOW + 60) == []
    (back,) = events(rules, source("groups"), wall=NOW + 65)
    assert (back.kind, back.duration) == (EventKind.SOURCE_BACK, 65.0)


def test_one_failed_read_is_no_event() -> None:
    rules = ConditionRules()
    assert events(rules, DOWN) == events(rules, source("groups"), wall=NOW + 5) == []


def test_a_source_that_may_be_down_by_the_settings_is_no_event() -> None:
    ignored = SourceState("groups", "prod", "prod", up=False, faults=DOWN.faults, ignored="not granted")
    rules = ConditionRules()
    assert events(rules, ignored) == events(rules, ignored, wall=NOW + 60) == []


def down(name: str) -> list[EventDocument]:
    """What the process before recorded a minute ago."""
    of, target = name.split("/")
    subject = EventSubject(source=of, target=target)
    return read_back([Event(EventKind.SOURCE_DOWN, NOW - 60, f"source_down:{name}", "", subject)])


def test_a_source_that_was_not_read_yet_or_is_ignored_while_it_fails_is_not_back() -> None:
    rules = ConditionRules()
    rules.restore(down("groups/prod"))
    unread = SourceState("groups", "prod", "prod")
    ignored = replace(DOWN, ignored="maintenance")
    assert (
        events(rules) == events(rules, unread) == events(rules, ignored) == events(rules, unread, source("lso")) == []
    )
    (back,) = events(rules, source("groups"), wall=NOW + 5)
    assert (back.kind, back.what) == (EventKind.SOURCE_BACK, "The source no longer fails: groups/prod, after 1m 5s")


def test_a_source_that_is_no_longer_read_ends_once_all_others_were_read() -> None:
    rules = ConditionRules()
    rules.restore(down("connect/old"))
    assert events(rules, source("lso"), SourceState("groups", "prod", "prod")) == []
    assert [event.kind for event in events(rules, source("lso"), DOWN)] == [EventKind.SOURCE_BACK]


def test_a_check_fails_and_passes_once() -> None:
    rules = ConditionRules()
    (failed,) = events(rules, source("posture", Posture((CHECK,))))
    assert (failed.kind, failed.subject.check, failed.subject.target) == (EventKind.CHECK_FAILED, "min_isr", "orders")
    assert events(rules, source("posture", Posture((CHECK,))), wall=NOW + 300) == []
    passed = CHECK._replace(verdict=CheckResult.PASSED)
    (event,) = events(rules, source("posture", Posture((passed,))), wall=NOW + 600)
    assert (event.kind, event.duration) == (EventKind.CHECK_PASSED, 600.0)


def test_a_check_that_cannot_be_made_any_more_is_not_passed() -> None:
    rules = ConditionRules()
    events(rules, source("posture", Posture((CHECK,))))
    unknown = CHECK._replace(verdict=CheckResult.UNKNOWN, subject="cluster")
    assert events(rules, source("posture", Posture((unknown,))), wall=NOW + 300) == []
    assert events(rules, source("posture"), wall=NOW + 600) == []


def test_a_failed_task_is_told_with_its_connector_and_its_return_only_by_a_complete_read() -> None:
    def connect(*tasks: Task, up: bool = True) -> SourceState:
        return source("connect", ConnectState("c1", (Connector("sink", "sink", tasks=tasks),), by_rest=True), up=up)

    rules = ConditionRules()
    (failed,) = events(rules, connect(TASK))
    assert (failed.kind, failed.subject.connector, failed.subject.task) == (EventKind.TASK_FAILED, "sink", "0")
    assert events(rules, connect(up=False), wall=NOW + 5) == []
    (back,) = events(rules, connect(Task("sink", "0", "RUNNING")), wall=NOW + 10)
    assert back.kind is EventKind.TASK_BACK


def test_a_fence_storm_begins_and_is_over() -> None:
    hour = LastHour(Clock())
    hour.note({}, (catalogue.RECENT_PRODUCER_FENCES(7.0, "prod", "pay", "pay-1"),))
    rules = ConditionRules()
    (storm,) = events(rules, source("txnlog", hour))
    assert (storm.kind, storm.subject.transactional_id) == (EventKind.FENCE_STORM_BEGUN, "pay-1")
    hour.note({}, None)  # the log was not read to its end
    assert events(rules, source("txnlog", hour)) == []
    hour.note({}, ())
    assert events(rules, source("txnlog", hour, up=False), wall=NOW + 5) == []  # gauges were not read
    (over,) = events(rules, source("txnlog", hour), wall=NOW + 600)
    assert over.kind is EventKind.FENCE_STORM_ENDED


def test_a_flink_transaction_at_risk_is_told_with_its_deadline() -> None:
    opened = OpenTransaction("job-0-7", "job", 9, 1, TransactionState.ONGOING, NOW - 60, 900.0, None, frozenset())
    risk = FlinkTransaction(
        FlinkId("job", 0, 7), 60.0, Precommit.PROVEN, NOW - 50, waiting=False, at_risk=True,
        deadline=NOW + 840, committing=False, last_commit=NOW - 60,
    )  # fmt: skip
    state = source("txnlog", FlinkTransactions({9: risk}), OpenTransactions("txnlog", (opened,), complete=True))
    rules = ConditionRules()
    (event,) = events(rules, state)
    assert (event.kind, event.evidence["lost_at_timestamp"]) == (EventKind.FLINK_AT_RISK, NOW + 840)


def test_what_is_open_goes_on_over_a_restart() -> None:
    rules = ConditionRules()
    events(rules, DOWN)
    events(rules, DOWN, wall=NOW + 60)
    again = ConditionRules()
    again.restore(read_back([*rules.open, Event(EventKind.FENCED, NOW, "fenced:x", "")]))
    assert events(again, DOWN, wall=NOW + 90) == []
    (back,) = events(again, source("groups"), wall=NOW + 100)
    assert (back.kind, back.duration) == (EventKind.SOURCE_BACK, 100.0)
