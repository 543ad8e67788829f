"""Offsets outside of transactions: the findings of the posture, and that single commits and other groups cause none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from exporter.kafka.ask import coordinator_partition
from exporter.kafka.log.offset_commits import OffsetCommits
from exporter.model import Fault, Reason
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.offsets import (
    MOST_GROUPS,
    SPACING,
    CommitHistory,
    CommitTimes,
    offset_checks,
)
from exporter.transactions.facts import OffsetPartitions

HABIT = (0.0, 30.0, 90.0)
PLACE = coordinator_partition("copier", 50)


Times = tuple[float, ...]


def judge(
    transactional: Times = (), plain: Times = (), group: str = "copier", **used: OffsetPartitions
) -> list[PostureCheck]:
    times = CommitTimes(transactional, plain, frozenset({"orders"}))
    return list(offset_checks({group: times}, used, 50, "prod"))


def test_a_group_that_commits_in_transactions_alone_passes() -> None:
    (check,) = judge((1.0, 2.0))
    assert (check.subject, check.verdict) == ("copier", CheckResult.PASSED)


def test_a_group_that_commits_in_and_out_of_transactions_fails_by_proof() -> None:
    (check,) = judge((1.0, 2.0), HABIT)
    assert check.verdict is CheckResult.FAILED
    assert "over 90 s and more outside of any (proven" in check.found
    assert "sendOffsetsToTransaction" in check.fix


def test_a_reset_of_the_groups_offsets_is_a_single_act_and_fails_nothing() -> None:
    (check,) = judge((1.0, 2.0), (5.0,) * 50)
    assert check.verdict is CheckResult.PASSED


def test_a_group_named_as_an_application_whose_transactions_name_none_of_its_offsets_fails() -> None:
    (check,) = judge((), HABIT, copier=OffsetPartitions(10, frozenset({PLACE + 1})))
    assert check.verdict is CheckResult.FAILED
    assert "taken from their name" in check.found


def test_a_partition_that_is_named_may_be_for_the_group_and_gives_no_finding() -> None:
    assert judge((), HABIT, copier=OffsetPartitions(10, frozenset({PLACE}))) == []


@pytest.mark.parametrize("group", ["copier-group", "Copier_Consumer", "cg.copier-2", "tx-copier-input"])
def test_a_group_whose_name_has_the_same_words_is_that_of_the_application(group: str) -> None:
    (check,) = judge((), HABIT, group, copier=OffsetPartitions(10, frozenset(), frozenset({"totals"})))
    assert (check.subject, check.verdict) == (group, CheckResult.FAILED)
    assert "application copier" in check.found


def test_a_group_that_reads_what_the_application_writes_is_not_its_own() -> None:
    assert judge((), HABIT, "copier-consumer", copier=OffsetPartitions(10, frozenset(), frozenset({"orders"}))) == []


def test_whether_a_group_of_another_name_is_that_of_an_application_is_unknown_once_for_the_cluster() -> None:
    used = {"ledger": OffsetPartitions(99, frozenset(), frozenset({"totals"}))}
    (check,) = judge((), HABIT, "copier-reader", **used)
    assert (check.subject, check.verdict) == ("prod", CheckResult.UNKNOWN)
    assert "transactions of ledger commit no offsets, and copier-reader commit outside of any" in check.error


def test_few_transactions_and_groups_without_an_application_give_no_finding() -> None:
    assert judge((), HABIT, copier=OffsetPartitions(9, frozenset())) == []
    assert judge((), HABIT, other=OffsetPartitions(99, frozenset({1}))) == [], "it commits offsets, of another group"
    assert judge((), HABIT) == []


def test_commits_that_cannot_be_read_are_unknown_with_the_grant() -> None:
    refused = Fault(Reason.AUTHORIZATION, "grant READ on Topic:__consumer_offsets")
    (check,) = offset_checks(refused, {"copier": OffsetPartitions(99, frozenset())}, 50, "prod")
    assert (check.verdict, check.error) == (CheckResult.UNKNOWN, refused.detail)


def commit(at: float, *, group: str = "copier", transactional: bool = False) -> OffsetCommits:
    return OffsetCommits(group, "orders", transactional, 2, round(at * 1000))


def history(commits: Iterable[OffsetCommits], since: float = 0.0) -> dict[str, CommitTimes]:
    kept = CommitHistory()
    kept.take(commits, since)
    return kept.times()


def test_a_group_that_commits_all_the_time_is_remembered_thinly() -> None:
    times = history(commit(1000 + number / 10) for number in range(20_000))["copier"]
    assert len(times.plain) == 2000 / SPACING
    assert times.plain[-1] - times.plain[0] >= 1900
    assert not times.transactional
    assert times.topics == {"orders"}


def test_older_commits_are_not_those_of_now() -> None:
    kept = CommitHistory()
    kept.take([commit(99.0), commit(100.0, transactional=True)], 100.0)
    assert kept.times() == {"copier": CommitTimes((100.0,))}
    kept.take([commit(130.0)], 101.0)
    assert kept.times() == {"copier": CommitTimes((), (130.0,), frozenset({"orders"}))}
    kept.take([], 131.0)
    assert kept.times() == {}


def test_short_samples_of_several_reads_show_a_habit() -> None:
    kept = CommitHistory()
    for begin in (1000.0, 1300.0):
        for _ in range(2):  # what was read before is read again
            kept.take([commit(begin + number) for number in range(15)], 0.0)
    assert kept.times()["copier"].plain == (1000.0, 1010.0, 1300.0, 1310.0)


def test_names_that_a_client_makes_up_take_a_bounded_number_of_places() -> None:
    made_up = (commit(1.0, group=f"g{number}") for number in range(MOST_GROUPS + 10))
    assert len(history(made_up)) == MOST_GROUPS
