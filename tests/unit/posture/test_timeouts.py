"""Timeouts against durations, and two-phase commit: each side of every limit, and what is not known."""

from __future__ import annotations

import pytest

from exporter.posture.check import CheckResult
from exporter.posture.timeouts import TWO_PHASE_KEY, timeout_checks, two_phase_checks
from exporter.transactions.facts import ApplicationTimeouts, CommitDurations

ONE_SECOND = CommitDurations(1000, 1.0)


def timeouts(shortest: float | None, longest: float | None) -> dict[str, ApplicationTimeouts]:
    return {"pay": ApplicationTimeouts(shortest, longest)}


@pytest.mark.parametrize(
    ("durations", "limits", "verdict"),
    [
        (ONE_SECOND, timeouts(10.0, 99.0), CheckResult.PASSED),
        (ONE_SECOND, timeouts(10.0, 100.0), CheckResult.INFORMATION),
        (CommitDurations(1000, 60.0), timeouts(60.0, 60.0), CheckResult.PASSED),
        (CommitDurations(1000, 60.0), timeouts(59.0, 60.0), CheckResult.INFORMATION),
        (CommitDurations(999, 1.0), timeouts(900.0, 900.0), None),
        (CommitDurations(1000, None), timeouts(900.0, 900.0), None),
        (ONE_SECOND, timeouts(None, None), None),
        (ONE_SECOND, {}, None),
    ],
    ids=["fits", "far above", "as long", "shorter", "few", "above the buckets", "without timeout", "not known"],
)
def test_a_timeout_is_compared_with_999_of_1000_of_its_own_transactions(
    durations: CommitDurations, limits: dict[str, ApplicationTimeouts], verdict: CheckResult | None
) -> None:
    found = list(timeout_checks({"pay": durations}, limits))
    assert [check.verdict for check in found] == ([] if verdict is None else [verdict])


def test_the_suggestion_is_three_times_as_long_and_no_shorter_than_ten_seconds() -> None:
    limits = {name: ApplicationTimeouts(900.0, 900.0) for name in ("pay", "ship")}
    found = list(timeout_checks({"pay": ONE_SECOND, "ship": CommitDurations(5000, 5.0)}, limits))
    assert [check.fix.partition(",")[0] for check in found] == [
        "transaction.timeout.ms=10000",
        "transaction.timeout.ms=15000",
    ]


def test_a_job_of_flink_is_left_out_because_its_timeout_covers_a_restart() -> None:
    assert not list(timeout_checks({"pay": ONE_SECOND}, timeouts(900.0, 900.0), {"pay"}))


@pytest.mark.parametrize(
    ("values", "verdicts"),
    [
        (["false", "false"], [CheckResult.PASSED]),
        (["false", "true"], [CheckResult.INFORMATION]),
        ([], []),
    ],
)
def test_what_brokers_allow_of_two_phase_commit_is_told(values: list[str], verdicts: list[CheckResult]) -> None:
    brokers = [{TWO_PHASE_KEY: value} for value in values] or [{}]
    assert [check.verdict for check in two_phase_checks("prod", brokers, "", {})] == verdicts


def test_brokers_that_forbid_two_phase_commit_prove_nothing_about_one_that_did_not_answer() -> None:
    [check] = two_phase_checks("prod", [{TWO_PHASE_KEY: "false"}], "broker 2: timed out", {})
    assert (check.verdict, check.error) == (CheckResult.UNKNOWN, "broker 2: timed out")
    [check] = two_phase_checks("prod", [{TWO_PHASE_KEY: "true"}], "broker 2: timed out", {})
    assert check.verdict is CheckResult.INFORMATION


def test_an_application_with_ids_without_a_timeout_is_named() -> None:
    limits = {"pay": ApplicationTimeouts(None, None, 2), "ship": ApplicationTimeouts(60.0, 60.0)}
    [check] = two_phase_checks("prod", [], "", limits)
    assert (check.subject, check.verdict) == ("pay", CheckResult.INFORMATION)
    assert check.found == "2 of its transactional ids have no timeout"
