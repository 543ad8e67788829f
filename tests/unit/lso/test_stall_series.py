"""Stalled partitions by the transaction that holds them."""

from __future__ import annotations

import math

import pytest

from exporter import catalogue
from exporter.lso.facts import Blocker, Stall
from exporter.lso.stall_series import MOST_HOLDERS, due, holder_samples, shown
from exporter.model import Distribution, TopicPartition
from exporter.words import BlockerKind


def stall(
    number: int = 0,
    *,
    topic: str = "orders",
    since: float = 1000.0,
    pid: int | None = 7,
    kind: BlockerKind = BlockerKind.OPEN,
    timeout: float | None = None,
) -> Stall:
    blocker = Blocker(f"pay-{pid}", "pay", pid, 1, 42, kind, timeout=timeout)
    return Stall(TopicPartition(topic, number), since, 42, 50, 1, blocker)


@pytest.mark.parametrize(
    ("kind", "timeout", "page"),
    [
        (BlockerKind.OPEN, None, 900),
        (BlockerKind.OPEN, 420, 480),
        (BlockerKind.COMPLETING, 5, 300),
        (BlockerKind.OPEN, 3600, 900),
        (BlockerKind.UNKNOWN, None, 900),
        (BlockerKind.HANGING, None, 0),
    ],
)
def test_a_page_is_due_by_the_threshold_the_holders_timeout_or_at_once(
    kind: BlockerKind, timeout: float | None, page: float
) -> None:
    assert due(stall(kind=kind, timeout=timeout), 300, 900) == (1300, 1000 + page)


@pytest.mark.parametrize("kind", BlockerKind)
def test_an_ignored_topic_is_never_due(kind: BlockerKind) -> None:
    assert due(stall(kind=kind, timeout=5), math.inf, math.inf) == (math.inf, math.inf)


def test_five_thousand_partitions_of_twenty_producers_are_twenty_holders() -> None:
    stalls = [stall(number, pid=number % 20, since=1000.0 + number) for number in range(5000)]
    made = list(holder_samples("prod", stalls, lambda _: (300, 900)))
    counts = [sample for sample in made if sample.metric is catalogue.LSO_HOLDER_PARTITIONS]
    assert [count.value for count in counts] == [250] * 20
    assert {count.labels for count in counts} == {("prod", "pay", f"pay-{pid}", str(pid), "open") for pid in range(20)}
    assert len(made) == 60


def test_a_holder_is_due_with_its_first_partition_by_the_threshold_of_that_topic() -> None:
    stalls = [stall(topic="nightly", since=0.0), stall(topic="orders", since=1000.0)]
    made = holder_samples("prod", stalls, lambda topic: (7200, 9000) if topic == "nightly" else (300, 900))
    dues = {sample.labels[-1]: sample.value for sample in made if sample.metric is not catalogue.LSO_HOLDER_PARTITIONS}
    assert dues == {"warning": 1300, "critical": 1900}


def test_holders_beyond_the_cap_are_one_with_the_earliest_date_and_no_partition_is_lost() -> None:
    stalls = [stall(number, pid=number, since=1000.0 + number) for number in range(MOST_HOLDERS + 50)]
    made = list(holder_samples("prod", stalls, lambda _: (300, 900)))
    counts = {sample.labels[3]: sample.value for sample in made if sample.metric is catalogue.LSO_HOLDER_PARTITIONS}
    assert counts["_other"] == 50
    assert sum(value for value in counts.values() if not isinstance(value, Distribution)) == len(stalls)
    (first,) = (sample.value for sample in made if sample.labels[3] == "_other" and sample.labels[-1] == "warning")
    assert first == 1300 + MOST_HOLDERS


def test_below_the_cap_every_partition_is_shown() -> None:
    stalls = [stall(number) for number in range(10)]
    assert shown(stalls, 10) == stalls


def test_beyond_the_cap_each_holder_has_its_worst_five_and_each_topic_one() -> None:
    old = [stall(number, pid=1, since=float(number)) for number in range(100)]
    young = [stall(number, pid=2, since=500.0 + number, topic=f"topic-{number}") for number in range(20)]
    series = shown([*old, *young], 30)
    assert len(series) == 30
    assert [stall.partition.partition for stall in series if stall.blocker.producer_id == 1][:5] == [0, 1, 2, 3, 4]
    assert {stall.partition.topic for stall in series} == {"orders", *(f"topic-{number}" for number in range(20))}
    assert [stall.since for stall in series] == sorted(stall.since for stall in series)


def test_a_hanging_transaction_is_named_however_many_older_stalls_there_are() -> None:
    old = [stall(number, pid=number, since=float(number)) for number in range(600)]
    orphan = stall(0, topic="payments", pid=9999, since=5000.0, kind=BlockerKind.HANGING)
    assert orphan in shown([*old, orphan], 500)
    made = list(holder_samples("prod", [*old, orphan], lambda _: (300, 900)))
    assert ("prod", "pay", "pay-9999", "9999", "hanging") in {sample.labels for sample in made}
