"""Offsets outside of transactions: the findings of the posture, and that single commits and other groups cause none."""

from __future__ import annotations

from exporter.kafka.log.offset_commits import OffsetCommits
from exporter.kafka.requests.by_coordinator import coordinator_partition
from exporter.model import Fault, Reason
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.offsets import (
    MOST_GROUPS,
    SPACING,
    CommitTimes,
    commit_times,
    offset_checks,
    partitions_to_sample,
)
from exporter.transactions.facts import OffsetPartitions

HABIT = (0.0, 30.0, 90.0)
PLACE = coordinator_partition("copier", 50)


Times = tuple[float, ...]


def judge(transactional: Times = (), plain: Times = (), **used: OffsetPartitions) -> list[PostureCheck]:
    return list(offset_checks({"copier": CommitTimes(transactional, plain)}, used, 50))


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


def test_few_transactions_and_groups_without_an_application_give_no_finding() -> None:
    assert judge((), HABIT, copier=OffsetPartitions(9, frozenset())) == []
    assert judge((), HABIT, other=OffsetPartitions(99, frozenset())) == []
    assert judge((), HABIT) == []


def test_commits_that_cannot_be_read_are_unknown_with_the_grant() -> None:
    refused = Fault(Reason.AUTHORIZATION, "grant READ on Topic:__consumer_offsets")
    (check,) = offset_checks(refused, {"copier": OffsetPartitions(99, frozenset())}, 50)
    assert (check.verdict, check.error) == (CheckResult.UNKNOWN, refused.detail)


def commit(at: float, *, group: str = "copier", transactional: bool = False) -> OffsetCommits:
    return OffsetCommits(group, "orders", transactional, 2, round(at * 1000))


def test_a_group_that_commits_all_the_time_is_remembered_thinly() -> None:
    times = commit_times((commit(1000 + number / 10) for number in range(20_000)), 0.0)["copier"]
    assert len(times.plain) == 2000 / SPACING
    assert times.plain[-1] - times.plain[0] >= 1900
    assert times.transactional == ()


def test_older_commits_are_not_those_of_now() -> None:
    assert commit_times([commit(99.0), commit(100.0, transactional=True)], 100.0) == {"copier": CommitTimes((100.0,))}


def test_names_that_a_client_makes_up_take_a_bounded_number_of_places() -> None:
    made_up = (commit(1.0, group=f"g{number}") for number in range(MOST_GROUPS + 10))
    assert len(commit_times(made_up, 0.0)) == MOST_GROUPS


def test_only_partitions_that_transactions_or_names_point_at_are_sampled() -> None:
    used = {"copier": OffsetPartitions(3, frozenset({PLACE + 1, 99}))}
    assert partitions_to_sample(used, 50) == {PLACE, PLACE + 1}
    assert partitions_to_sample({}, 50) == frozenset()
    assert partitions_to_sample(used, 0) == frozenset()
    assert partitions_to_sample(None, 3) == {0, 1, 2}, "the log is not read"
