"""Samples of Flink jobs, and stalls that are not reported."""

from __future__ import annotations

from exporter import catalogue
from exporter.flink.facts import FlinkId, FlinkTransaction, FlinkTransactions, Loss
from exporter.flink.jobs import Jobs
from exporter.flink.places import PrecommitPlaces
from exporter.flink.samples import MOST_AT_RISK, flink_samples
from exporter.lso.facts import Blocker, Stall
from exporter.lso.holders import with_checkpoints
from exporter.lso.stall_series import due
from exporter.model import Sample, TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import BlockerKind, Precommit, TransactionState

NOW = 1_790_000_000.0
OUT = TopicPartition("out", 0)


def transaction(number: int = 7, *, waiting: bool = False, at_risk: bool = True) -> FlinkTransaction:
    return FlinkTransaction(
        FlinkId("sums", 0, number), 60.0, Precommit.PROVEN, NOW - 60, waiting, at_risk, NOW + number, False, NOW - 60
    )


WAITING = transaction(waiting=True, at_risk=False)


def opened(number: int) -> OpenTransaction:
    who = (f"sums-0-{number}", "sums", number, 0)
    return OpenTransaction(*who, TransactionState.ONGOING, NOW - 120, 900.0, None, frozenset({OUT}))


def stall(producer_id: int, kind: BlockerKind = BlockerKind.OPEN) -> Stall:
    return Stall(OUT, NOW - 60, 1, 9, 1, Blocker("sums-0-7", "sums", producer_id, 0, 1, kind))


def samples(jobs: Jobs, numbers: range) -> list[Sample]:
    judged = {number: transaction(number) for number in numbers}
    return list(flink_samples("prod", jobs, [opened(number) for number in numbers], judged, NOW))


def test_a_transaction_that_waits_for_a_checkpoint_in_time_is_no_stall() -> None:
    flink = FlinkTransactions({7: WAITING})
    assert list(with_checkpoints([stall(7)], flink)) == []
    other, hanging = stall(8), stall(7, BlockerKind.HANGING)
    assert list(with_checkpoints([other, hanging], flink)) == [other, hanging]


def test_one_that_its_job_decided_a_moment_ago_is_no_stall() -> None:
    """The open transactions are a moment older than what the job did: in them it may be open, or decided."""
    flink = FlinkTransactions({}, frozenset({7}))
    for stalled in (stall(7), stall(7, BlockerKind.COMPLETING)):
        assert list(with_checkpoints([stalled], flink)) == []
    older = FlinkTransactions({7: WAITING})  # by the read of the log before that
    assert list(with_checkpoints([stall(7, BlockerKind.COMPLETING)], older)) == []
    others = [stall(8), stall(7, BlockerKind.HANGING), stall(7, BlockerKind.UNKNOWN)]
    assert list(with_checkpoints(others, flink)) == others


def test_one_that_is_at_risk_is_a_stall_that_other_alerts_tell_of() -> None:
    (found,) = with_checkpoints([stall(7)], FlinkTransactions({7: transaction()}))
    assert found.blocker.flink
    assert due(found, 300, 900) == (float("inf"), float("inf"))
    (found,) = with_checkpoints([stall(7)], FlinkTransactions({7: transaction(at_risk=False)}))
    assert due(found, 300, 900) == (found.since + 300, found.since + 900)


def test_the_first_deadlines_are_series_and_the_others_are_counted() -> None:
    found = samples(Jobs(), range(MOST_AT_RISK + 3))
    deadlines = [sample for sample in found if sample.metric is catalogue.FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS]
    assert [deadline.value for deadline in deadlines] == [NOW + number for number in range(MOST_AT_RISK)]
    (dropped,) = [sample.value for sample in found if sample.metric is catalogue.SERIES_DROPPED]
    assert dropped == 3


def test_a_loss_names_its_partitions_and_the_offsets_that_were_seen() -> None:
    jobs = Jobs()
    seen = Loss(
        FlinkId("sums", 0, 7), "sums-0-7", "sums", 7, NOW - 5, True, frozenset({OUT, TopicPartition("out", 1)}),
        {OUT: (4, 9)},
    )  # fmt: skip
    jobs._losses.append(seen)
    found = samples(jobs, range(0))
    assert [sample.labels for sample in found] == [
        ("prod", "sums", "sums-0-7", "7", "7", "yes"),
        ("prod", "sums", "sums-0-7", "7", "out", "0", "4", "9"),
        ("prod", "sums", "sums-0-7", "7", "out", "1", "", ""),
    ]


def test_the_places_of_a_loss_are_of_its_own_transaction_and_not_of_an_earlier_one_of_its_producer() -> None:
    held = stall(7)
    held = held._replace(blocker=held.blocker._replace(checkpoint=transaction(), started=NOW - 120))
    places, jobs = PrecommitPlaces(), Jobs()
    places.note([held])
    for begun in (NOW - 120, NOW - 30, None):
        who = (FlinkId("sums", 0, 7), "sums-0-7", "sums", 7)
        jobs._losses.append(Loss(*who, NOW, False, frozenset({OUT}), begun=begun))
    places.complete(jobs, NOW)
    assert [dict(loss.places) for loss in jobs._losses] == [{OUT: (1, 9)}, {}, {}]
