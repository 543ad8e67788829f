"""Offsets outside of transactions: the findings of the posture, and that single commits and other groups cause none."""

from __future__ import annotations

from exporter.groups.facts import CommitTimes, GroupCommits
from exporter.kafka.requests.by_coordinator import coordinator_partition
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.offsets import offset_checks
from exporter.transactions.facts import OffsetPartitions

HABIT = (0.0, 30.0, 90.0)
PLACE = coordinator_partition("copier", 50)


Times = tuple[float, ...]


def judge(transactional: Times = (), plain: Times = (), **used: OffsetPartitions) -> list[PostureCheck]:
    return list(offset_checks(GroupCommits({"copier": CommitTimes(transactional, plain)}), used, 50))


def test_a_group_that_commits_in_transactions_alone_passes() -> None:
    (check,) = judge((1.0, 2.0))
    assert (check.subject, check.verdict) == ("copier", CheckResult.PASSED)


def test_a_group_that_commits_in_and_out_of_transactions_fails_by_proof() -> None:
    (check,) = judge((1.0, 2.0), HABIT)
    assert check.verdict is CheckResult.FAILED
    assert "for 90 s and more outside of any (proven" in check.found
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


def test_without_the_offsets_topic_nothing_is_said() -> None:
    assert list(offset_checks(None, {"copier": OffsetPartitions(99, frozenset())}, 50)) == []
