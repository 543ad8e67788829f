"""Tests of what the canary counted, as samples and as a table."""

from __future__ import annotations

from exporter import catalogue
from exporter.canary.canary import MOST_ERRORS, NO_PARTITION, CanaryTally
from exporter.canary.turn import Failure, TurnResult
from exporter.model import Distribution, Metric
from exporter.words import CanaryOutcome, CanaryPhase

GOOD = TurnResult(((CanaryPhase.INIT, 0.02), (CanaryPhase.COMMIT, 20.0)), (CanaryOutcome.COMMITTED,), None)
BAD = TurnResult(((CanaryPhase.INIT, 0.02),), (), Failure(CanaryPhase.PRODUCE, "timed_out", "no answer"))


def samples(tally: CanaryTally, *coordinators: str) -> dict[tuple[Metric, tuple[str, ...]], object]:
    found = list(tally.samples("prod", frozenset(coordinators)))
    assert len({(sample.metric, sample.labels) for sample in found}) == len(found)
    return {(sample.metric, sample.labels): sample.value for sample in found}


def test_turns_are_counted_by_the_broker_that_coordinated_them() -> None:
    tally = CanaryTally(1.0)
    tally.add(0, "1", GOOD, 10.0)
    tally.add(1, "2", BAD, 11.0)
    found = samples(tally, "1", "2")
    assert found[catalogue.CANARY_TRANSACTIONS_TOTAL, ("prod", "1", "committed")] == 1
    assert found[catalogue.CANARY_TRANSACTIONS_TOTAL, ("prod", "2", "committed")] == 0
    assert found[catalogue.CANARY_FAILURES_TOTAL, ("prod", "2", "produce", "timed_out")] == 1
    assert found[catalogue.CANARY_FAILING_PARTITIONS, ("prod", "1")] == 0
    assert found[catalogue.CANARY_FAILING_PARTITIONS, ("prod", "2")] == 1
    assert found[catalogue.CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS, ("prod",)] == 10.0
    commit = found[catalogue.CANARY_PHASE_SECONDS, ("prod", "1", "commit")]
    assert isinstance(commit, Distribution)
    assert (commit.count, commit.total, commit.steps[-1]) == (1, 20.0, (10, 0.0))


def test_a_partition_fails_until_a_turn_of_it_succeeds_whoever_coordinates_it() -> None:
    tally = CanaryTally(1.0)
    tally.add(7, "1", BAD, 2.0)
    assert tally.failing == {7}
    tally.add(7, "2", BAD, 3.0)
    assert samples(tally, "1", "2")[catalogue.CANARY_FAILING_PARTITIONS, ("prod", "1")] == 0
    tally.add(7, "2", GOOD, 4.0)
    assert tally.failing == frozenset()


def test_the_failure_to_reach_the_cluster_ends_with_the_first_turn_of_a_partition() -> None:
    tally = CanaryTally(1.0)
    tally.add(NO_PARTITION, "", BAD, 2.0)
    assert tally.failing == {NO_PARTITION}
    tally.add(7, "1", BAD, 3.0)
    assert tally.failing == {7}


def test_before_the_first_success_the_start_is_its_instant() -> None:
    assert samples(CanaryTally(5.0))[catalogue.CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS, ("prod",)] == 5.0


def test_errors_are_bounded() -> None:
    tally = CanaryTally(1.0)
    for number in range(2 * MOST_ERRORS):
        tally.add(0, "1", BAD._replace(failure=Failure(CanaryPhase.INIT, f"e{number}", "")), 2.0)
    assert sum(metric is catalogue.CANARY_FAILURES_TOTAL for metric, _ in samples(tally)) == MOST_ERRORS


def test_the_table_has_a_row_for_each_phase_in_their_order() -> None:
    tally = CanaryTally(1.0)
    assert tally.exit_code == 2, "no transaction was made"
    tally.add(0, "1", GOOD, 10.0)
    assert tally.exit_code == 0
    tally.add(0, "1", BAD, 11.0)
    assert tally.exit_code == 1
    assert tally.table() == [
        ("1", "init", 2, "20 ms", "20 ms", 0, ""),
        ("1", "produce", 0, "", "", 1, "timed_out"),
        ("1", "commit", 1, "20 s", "20 s", 0, ""),
    ]
