"""One turn of the canary: its phases, and what it calls a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from exporter.canary.clients import ClientError
from exporter.canary.turn import Turn, TurnPlan, TurnResult
from exporter.model import Clock
from exporter.words import CanaryOutcome, CanaryPhase

PLAN = TurnPlan("kafka-eos-canary-1", "kafka-eos-canary", (0, 1), "a-1", aborts=True, fences=True)


class FakeLog:
    """Two partitions with transactions: committed records can be read, those of a fenced producer cannot."""

    def __init__(
        self, *, fails: str = "", shows_aborted: bool = False, fencing: bool = True, loses: bool = False
    ) -> None:
        self.fails, self.shows_aborted, self.fencing, self.loses = fails, shows_aborted, fencing, loses
        self.committed: list[tuple[str, str]] = []
        self.epoch = 0
        self.calls: list[str] = []
        self.now = 100.0

    def call(self, name: str) -> None:
        self.calls.append(name)
        self.now += 0.5
        if name == self.fails:
            raise ClientError("timed_out", "no answer")

    def producer(self, _: str) -> FakeTurnProducer:
        return FakeTurnProducer(self)

    # --- The reader ---

    @property
    def group(self) -> Any:
        return "group"

    def start(self, partitions: Sequence[int]) -> dict[tuple[str, int], int]:
        self.call("start")
        return {("kafka-eos-canary", number): 0 for number in partitions}

    def read(self, seconds: float) -> tuple[str, str] | None:
        self.call("read")
        if self.committed:
            return self.committed.pop(0)
        self.now += seconds
        return None


class FakeTurnProducer:
    """A producer of the fake log."""

    def __init__(self, log: FakeLog) -> None:
        self._log, self._epoch, self._records = log, 0, list[tuple[str, str]]()

    def init(self) -> None:
        self._log.call("init")
        self._log.epoch += 1
        self._epoch = self._log.epoch

    def begin(self) -> None:
        self._records = []

    def send(self, _: str, partitions: Sequence[int], key: str, value: str) -> None:
        self._log.call("send")
        self._records += [(key, value)] * len(partitions)

    def send_offsets(self, *_: object) -> None:
        self._log.call("offsets")

    def commit(self) -> None:
        self._log.call("commit")
        if self._log.fencing and self._epoch != self._log.epoch:
            raise ClientError("fenced", "fenced by a newer instance")
        self._log.committed += self._records[: 1 if self._log.loses else None]

    def abort(self) -> None:
        self._log.call("abort")
        if self._log.shows_aborted:
            self._log.committed += self._records

    def close(self) -> None:
        self._log.calls.append("close")


def run(log: FakeLog, plan: TurnPlan = PLAN) -> TurnResult:
    pauses = log.calls.append
    return Turn(plan, log, log.producer, lambda: pauses("pause"), 10.0, Clock(lambda: log.now)).run()


def test_a_turn_aborts_commits_reads_and_fences_and_times_each_phase() -> None:
    log = FakeLog()
    found = run(log)
    assert found.failure is None
    assert found.outcomes == (CanaryOutcome.ABORTED, CanaryOutcome.COMMITTED, CanaryOutcome.FENCED)
    assert {phase for phase, _ in found.phases} == set(CanaryPhase)
    assert all(seconds >= 0.5 for _, seconds in found.phases)
    assert log.calls.count("pause") == 3, "each transaction is within the budget"
    assert log.calls.count("close") == 2


def test_a_turn_without_abort_and_fence_is_one_transaction() -> None:
    log = FakeLog()
    found = run(log, PLAN._replace(aborts=False, fences=False))
    assert (found.failure, found.outcomes) == (None, (CanaryOutcome.COMMITTED,))
    assert log.calls.count("pause") == 1


@pytest.mark.parametrize(
    ("call", "phase"),
    [
        ("start", CanaryPhase.READ),
        ("init", CanaryPhase.INIT),
        ("send", CanaryPhase.PRODUCE),
        ("abort", CanaryPhase.ABORT),
        ("offsets", CanaryPhase.OFFSETS),
        ("commit", CanaryPhase.COMMIT),
        ("read", CanaryPhase.READ),
    ],
)
def test_a_request_that_fails_is_a_failure_of_its_phase(call: str, phase: CanaryPhase) -> None:
    log = FakeLog(fails=call)
    failure = run(log).failure
    assert failure is not None
    assert (failure.phase, failure.error, failure.text) == (phase, "timed_out", "no answer")
    assert call == "start" or log.calls[-1] == "close"


@pytest.mark.parametrize(
    ("log", "phase", "error"),
    [
        (FakeLog(shows_aborted=True), CanaryPhase.READ, "aborted_record_read"),
        (FakeLog(loses=True), CanaryPhase.READ, "record_not_read"),
        (FakeLog(fencing=False), CanaryPhase.FENCE, "not_fenced"),
    ],
)
def test_a_broken_guarantee_is_a_failure(log: FakeLog, phase: CanaryPhase, error: str) -> None:
    failure = run(log).failure
    assert failure is not None
    assert (failure.phase, failure.error) == (phase, error)


def test_records_of_an_earlier_turn_are_no_records_of_this_one() -> None:
    log = FakeLog(loses=True)
    log.committed = [("earlier", str(CanaryOutcome.COMMITTED))] * 5
    failure = run(log).failure
    assert failure is not None
    assert failure.error == "record_not_read"
