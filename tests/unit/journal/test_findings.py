"""Findings as events, each told once; and a burst of them, counted beyond a budget."""

from __future__ import annotations

from exporter.audit_results.result import AuditResults
from exporter.audit_results.torn_markers import markers_result
from exporter.core.source_state import SourceState
from exporter.flink.facts import FlinkId, FlinkLosses, Loss
from exporter.journal.facts import Event, LastReads
from exporter.journal.findings import BURST, MOST_SEEN, TELL_SECONDS, Bursts, FindingRules
from exporter.kafka.log.batches import Marker
from exporter.model import Fact, TopicPartition
from exporter.transactions.decided.torn import MarkerComparison, Torn
from exporter.transactions.machine.log_changes import LogChanges, PartitionChanges, Window
from exporter.transactions.recent import Newest, Recent
from exporter.transactions.transaction import Transaction
from exporter.words import EventKind, Outcome
from tests.helpers.journal_events import read_back
from tests.helpers.transactions import unclean_end

NOW = 1_795_255_200.0
END = unclean_end("pay-3", "pay", 4711, 5, "timed_out", NOW - 3, NOW - 60)


def events(rules: FindingRules, *facts: Fact) -> list[Event]:
    return list(rules.events(LastReads(NOW, NOW - 100, (SourceState("txnlog", "p", "p", up=True, facts=facts),))))


def logged(*ends: Transaction, first: int = 0) -> Recent:
    """The unclean ends that a process read, of which the first ones are not handed on any more."""
    return Recent(unclean=Newest(first, (ends,)))


def test_an_unclean_end_is_told_once_at_the_time_of_the_log() -> None:
    rules = FindingRules()
    (event,) = events(rules, logged(END))
    assert (event.kind, event.at, event.duration) == (EventKind.TIMED_OUT, NOW - 3, 57.0)
    assert events(rules, logged(END)) == []
    fenced = END._replace(outcome=Outcome.FENCED, producer_epoch=6)
    (event,) = events(rules, logged(END, fenced))
    assert (event.kind, event.subject.producer_epoch) == (EventKind.FENCED, 6)


def test_an_end_is_told_once_by_the_timestamp_of_its_record_whatever_the_clocks_are_taken_for() -> None:
    rules, later = FindingRules(), END._replace(completed_ms=round(1000 * END.ended) - 90_012, ahead_ms=90_012)
    assert len(events(rules, logged(END))) == 1
    assert events(rules, logged(END, later)) == []


def test_ends_that_came_faster_than_they_are_handed_on_are_counted_as_lost() -> None:
    *_, lost = events(FindingRules(), logged(END, first=9))
    assert (lost.kind, lost.count) == (EventKind.EVENTS_LOST, 9)


def test_a_torn_transaction_is_told_with_what_its_partition_has() -> None:
    decision = Transaction(
        "pay-3",
        4711,
        frozenset({5}),
        frozenset({6}),
        commit=True,
        begun_ms=1_000,
        prepared_ms=2_000,
        completed_ms=3_000,
    )
    marker = Torn(decision, TopicPartition("orders", 7), Marker(99, 1_500, 4711, 6, False, 0))
    torn = AuditResults((markers_result(MarkerComparison((marker,), 12, ()), (), "prod", 9.0),))
    rules = FindingRules()
    (event,) = events(rules, torn)
    assert event.what == "Torn: pay-3 was decided COMMIT, and orders-7 has the marker of ABORT"
    assert (event.evidence["marker_offset"], event.at) == (99, 3.0)
    assert events(rules, torn) == []
    ends = [END._replace(producer_id=number) for number in range(MOST_SEEN)]
    for taken, end in enumerate(ends):
        assert not [event for event in events(rules, torn, logged(end, first=taken)) if event.kind == "torn"]


def test_a_loss_of_flink_is_told_once() -> None:
    loss = Loss(FlinkId("job", 0, 7), "job-0-7", "job", 9, NOW, completed=True, partitions=frozenset())
    rules = FindingRules()
    (event,) = events(rules, FlinkLosses((loss,)))
    assert (event.kind, event.evidence["checkpoint"]) == (EventKind.FLINK_LOST, 7)
    assert events(rules, FlinkLosses((loss,))) == []


def test_coordinators_that_moved_together_are_one_event_and_those_of_an_earlier_process_none() -> None:
    old = Window(NOW - 500, NOW - 400, 7)
    new = Window(NOW - 5, NOW - 1, 9, 10.0, 14.0)
    changes = LogChanges({3: PartitionChanges((old, new)), 4: PartitionChanges((new,)), 5: PartitionChanges((old,))})
    rules = FindingRules()
    (event,) = events(rules, changes)
    assert (event.kind, event.evidence["log_partitions"]) == (EventKind.COORDINATOR_MOVED, "3, 4")
    assert event.what.endswith("with a new leader epoch (their coordinator moved, or was elected again): 3, 4")
    assert events(rules, changes) == []
    after_the_wall_clock_was_set_back = Window(NOW - 3600, NOW - 3590, 12, 20.0, 30.0)
    (event,) = events(rules, LogChanges({3: PartitionChanges((old, new, after_the_wall_clock_was_set_back))}))
    assert event.evidence["log_partitions"] == "3"


def test_lost_records_of_the_log_are_an_event() -> None:
    window = Window(NOW - 5, NOW - 1, 9, 10.0, 14.0)
    (event,) = events(FindingRules(), LogChanges({3: PartitionChanges((), (window,))}))
    assert event.kind is EventKind.LOG_RECORDS_LOST


def test_a_burst_is_listed_up_to_a_budget_and_counted_beyond_it_by_application() -> None:
    bursts = Bursts()
    ends = [END._replace(transactional_id=f"pay-{number}", producer_id=number) for number in range(BURST + 100)]
    found = events(FindingRules(), logged(*ends))
    assert len(list(bursts.events(found, NOW))) == BURST
    (more,) = bursts.events((), NOW + TELL_SECONDS)
    assert (more.kind, more.count, more.subject.application) == (EventKind.TIMED_OUT, 100, "pay")
    assert more.what == "Timed out transactions of pay: 100 more"
    assert list(bursts.close(NOW + TELL_SECONDS)) == []


def test_ends_that_the_process_before_only_counted_are_not_told_when_they_are_read_again() -> None:
    ends = tuple(END._replace(producer_id=number, again=True) for number in range(BURST + 100))
    before, bursts = FindingRules(), Bursts()
    told = [*bursts.events(events(before, logged(*ends)), NOW), *bursts.close(NOW)]
    after = FindingRules()
    after.restore(read_back(told))
    assert events(after, logged(*ends)) == []
    new = END._replace(producer_id=9999)  # it was not read before
    late = END._replace(
        completed_ms=round(1000 * NOW) + 1000, again=True
    )  # read, and neither listed nor counted: the process was killed
    other = END._replace(application="etl", producer_id=9998, again=True)
    assert len(events(after, logged(*ends, new, late, other))) == 3


def test_torn_transactions_beyond_the_budget_are_counted_by_partition_and_of_no_application() -> None:
    bursts, torn = Bursts(), Event(EventKind.TORN, NOW, "k", "w")
    assert len(list(bursts.events([torn] * (BURST + 7), NOW))) == BURST
    assert [more.what for more in bursts.close(NOW)] == ["Partitions with torn transactions: 7 more"]


def test_other_kinds_have_no_budget() -> None:
    moved = Event(EventKind.COORDINATOR_MOVED, NOW, "k", "w")
    assert len(list(Bursts().events([moved] * (BURST + 5), NOW))) == BURST + 5
