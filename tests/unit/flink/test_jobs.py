"""Flink jobs by their transactions: rhythm, precommitted transactions, losses and clean-ups."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.flink.facts import FlinkId, FlinkTransaction, Loss
from exporter.flink.jobs import COMPLETION_SECONDS, MOST_JOBS, Jobs, judge
from exporter.flink.kafka_sink_job import MOST_SUBTASKS, KafkaSinkJob
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome, Precommit, TransactionState
from tests.helpers.calls import calls_of
from tests.helpers.transactions import finished

T0 = 1_790_000_000.0
INTERVAL = 60.0
TIMEOUT = 900.0
SUBTASKS = 2
Event = Callable[[], object]


class SimulatedSink:
    """A KafkaSink at work, as the log shows it. ``pool`` is for POOLING names."""

    def __init__(self, *, pool: bool = False, prefix: str = "orders") -> None:
        self.jobs = Jobs()
        self.pool = pool
        self.prefix = prefix
        self.now = T0
        self.checkpoint = 1
        self.begun = dict.fromkeys(range(SUBTASKS), T0 + 1)
        for subtask in range(SUBTASKS):
            self._init(subtask, self._number(1), T0)

    def _number(self, checkpoint: int) -> int:
        return checkpoint % 2 if self.pool else checkpoint

    def id(self, subtask: int, checkpoint: int) -> str:
        return f"{self.prefix}-{subtask}-{self._number(checkpoint)}"

    def _init(self, subtask: int, number: int, instant: float) -> None:
        self.jobs.initialised(f"{self.prefix}-{subtask}-{number}", "orders", instant)

    def barrier(self, *, records: bool = True, interval: float = INTERVAL) -> None:
        """Each subtask flushes, and takes its next id."""
        self.now += interval
        self.precommitted = dict(self.begun)
        self.checkpoint += 1
        for subtask in range(SUBTASKS):
            if not self.pool or self.checkpoint <= 2:
                self._init(subtask, self._number(self.checkpoint), self.now)
            if records:
                self.begun[subtask] = self.now + 0.3

    def commit(self, *subtasks: int) -> None:
        for subtask in subtasks or range(SUBTASKS):
            who = self.id(subtask, self.checkpoint - 1)
            begun = self.precommitted[subtask]
            self.jobs.ended(finished(who, "orders", Outcome.COMMITTED, 100 + subtask, begun, self.now + 0.5))

    def run(self, checkpoints: int, interval: float = INTERVAL) -> SimulatedSink:
        for _ in range(checkpoints):
            self.barrier(interval=interval)
            self.commit()
        self.now += 0.5
        return self

    def open(self, subtask: int = 0, *, behind: int = 0) -> OpenTransaction:
        begun = self.precommitted[subtask] if behind else self.begun[subtask]
        who = self.id(subtask, self.checkpoint - behind)
        partitions = frozenset({TopicPartition("out", 0)})
        producer_id = 100 * (1 + behind) + subtask
        return OpenTransaction(
            who, "orders", producer_id, 0, TransactionState.ONGOING, begun, TIMEOUT, None, partitions
        )

    def judged(self, *opened: OpenTransaction, after: float = 0.0) -> FlinkTransaction:
        """Of the first of these."""
        return self.jobs.judge(opened, self.now + after)[opened[0].producer_id]

    def ends(self, opened: OpenTransaction, outcome: Outcome, after: float = 0.0) -> None:
        who = (opened.transactional_id, "orders", outcome, opened.producer_id)
        self.jobs.ended(finished(*who, opened.started, self.now + after))


@pytest.fixture(params=[False, True], ids=["incrementing", "pooling"])
def sink(request: pytest.FixtureRequest) -> SimulatedSink:
    return SimulatedSink(pool=request.param)


@pytest.mark.parametrize(
    ("transactional_id", "parts"),
    [
        ("orders-0-17", FlinkId("orders", 0, 17)),
        ("my-job-3-4", FlinkId("my-job", 3, 4)),
        ("orders-17", None),
        ("-0-17", None),
        ("orders-a-17", None),
        ("orders-0-\N{ARABIC-INDIC DIGIT ONE}", None),
        ("orders-0-" + "9" * 30, None),
        ("", None),
    ],
)
def test_an_id_has_its_prefix_subtask_and_number(transactional_id: str, parts: FlinkId | None) -> None:
    assert FlinkId.parse(transactional_id) == parts


def test_a_job_is_known_and_its_interval_learned_after_a_few_checkpoints(sink: SimulatedSink) -> None:
    sink.run(1)
    assert list(sink.jobs) == []
    sink.run(4)
    (job,) = sink.jobs
    assert job.interval == pytest.approx(INTERVAL)
    assert sink.jobs.is_job("orders-1-5")
    assert not sink.jobs.is_job("pay-1-5")


def test_within_its_rhythm_a_transaction_waits_for_a_checkpoint(sink: SimulatedSink) -> None:
    opened = sink.run(5).open()
    for after in (1.0, INTERVAL, 2.9 * INTERVAL):
        assert sink.judged(opened, after=after).waiting
    late = sink.judged(opened, after=3.2 * INTERVAL)
    assert not late.waiting
    assert (late.precommit, late.at_risk) == (Precommit.LIKELY, False)
    late = sink.judged(opened, after=TIMEOUT / 3)
    assert (late.precommit, late.at_risk) == (Precommit.LIKELY, True)
    assert late.deadline == pytest.approx((opened.started or 0) + TIMEOUT)


@pytest.mark.parametrize(("before", "after"), [(10.0, 60.0), (60.0, 10.0), (10.0, 180.0), (5.0, 30.0)])
def test_another_checkpoint_interval_is_learned_without_a_risk(
    sink: SimulatedSink, before: float, after: float
) -> None:
    sink.run(40, before)
    for _ in range(20):
        opened = sink.open()
        for second in range(int(after)):
            assert not sink.judged(opened, after=second).at_risk
        sink.run(1, after)
        (job,) = sink.jobs
        assert job.interval is not None
        assert job.interval >= min(before, after) - 1
    (job,) = sink.jobs
    assert job.interval == pytest.approx(after, abs=1)
    assert sink.judged(sink.open(), after=1.2 * after).waiting


def test_a_longer_interval_is_known_after_its_first_checkpoint(sink: SimulatedSink) -> None:
    (job,) = sink.run(40, 10.0).run(1, 60.0).jobs
    assert job.interval == pytest.approx(60, abs=1)


def test_a_pause_is_no_longer_interval_from_the_next_checkpoint_on(sink: SimulatedSink) -> None:
    (job,) = sink.run(40, 10.0).run(1, 600.0).run(1, 10.0).jobs
    assert job.interval == pytest.approx(10, abs=1)


def decided(transaction: OpenTransaction, after: float) -> OpenTransaction:
    """The transaction, decided so many seconds after its start."""
    prepared = (transaction.started or 0.0) + after
    return transaction._replace(state=TransactionState.PREPARE_COMMIT, prepared=prepared)


def test_one_that_waited_until_it_was_decided_is_released_for_as_long_as_a_completion_may_take(
    sink: SimulatedSink,
) -> None:
    opened = sink.run(4).open()
    known = decided(opened, INTERVAL)
    at = known.prepared or 0.0
    assert sink.jobs.released([known], at + COMPLETION_SECONDS - 1) == {opened.producer_id}
    assert sink.jobs.judge([known], at) == {}
    assert sink.jobs.released([known], at + COMPLETION_SECONDS + 1) == set()  # its markers are late
    assert sink.jobs.released([known], at - 120) == set()  # our clock is behind
    late = decided(opened, 4 * INTERVAL)
    assert sink.jobs.released([opened, late], late.prepared or 0.0) == set()
    assert Jobs().released([known], at) == set()


def test_one_that_was_at_risk_until_it_was_decided_is_not_released(sink: SimulatedSink) -> None:
    """It was a stall, and is one until its partition goes on."""
    sink.run(4).barrier()
    precommitted = sink.open(behind=1)._replace(timeout=2 * INTERVAL)
    known = decided(precommitted, 1.5 * INTERVAL)
    assert sink.judged(precommitted, sink.open(), after=0.5 * INTERVAL).at_risk
    assert sink.jobs.released([known, sink.open()], known.prepared or 0.0) == set()


def test_what_is_flushed_while_its_checkpoint_completes_waits_and_is_no_risk(sink: SimulatedSink) -> None:
    sink.run(5).barrier()
    found = sink.judged(sink.open(behind=1), sink.open(), after=1.0)
    assert (found.precommit, found.waiting, found.at_risk) == (Precommit.PROVEN, True, False)


def test_a_precommitted_transaction_of_a_dead_job_is_at_risk_before_a_third_of_its_timeout(sink: SimulatedSink) -> None:
    sink.run(5).barrier()
    opened = (sink.open(behind=1), sink.open())
    first = next(after for after in range(1000) if sink.judged(*opened, after=after).at_risk)
    assert sink.now + first - (opened[0].started or 0) <= TIMEOUT / 3
    found = sink.judged(*opened, after=first)
    assert (found.precommit, found.waiting) == (Precommit.PROVEN, False)
    assert found.since == pytest.approx(sink.now, abs=1)


def test_a_checkpoint_that_another_subtask_committed_was_completed() -> None:
    sink = SimulatedSink().run(6)
    sink.barrier()
    sink.commit(1)
    found = sink.judged(sink.open(behind=1), after=1)
    assert found.committing
    assert found.precommit is Precommit.PROVEN


def test_a_number_of_the_pool_that_another_subtask_committed_says_nothing_of_when_a_transaction_was_flushed() -> None:
    job = KafkaSinkJob("orders", "orders")
    subtask = job.subtask(0)
    assert subtask is not None
    subtask.inits = [(T0 + 5.0, 4)]
    job.commit(FlinkId("orders", 1, 3), T0 - 1.0, T0 + 1.0)
    found = judge(job, FlinkId("orders", 0, 3), T0, TIMEOUT, T0, T0 + 6)
    assert (found.precommit, found.since, found.committing) == (Precommit.PROVEN, T0 + 5.0, False)


def test_losses_are_newest_first_in_whatever_order_the_log_is_read() -> None:
    jobs = Jobs()
    for ended in (9.0, 3.0, 12.0):
        jobs._losses.append(Loss(FlinkId("a", 0, 1), "a-0-1", "a", 1, T0 + ended, False, frozenset()))
    assert [loss.ended - T0 for loss in jobs.losses(T0 + 20)] == [12.0, 9.0, 3.0]


def test_a_timeout_of_a_precommitted_transaction_is_a_loss(sink: SimulatedSink) -> None:
    sink.run(5).barrier(records=False)
    lost = sink.open(behind=1)
    sink.ends(lost, Outcome.TIMED_OUT, TIMEOUT)
    found = sink.jobs.losses(sink.now + TIMEOUT)
    # With POOLING the next id is not initialised again, and only a transaction that it begins shows the checkpoint.
    assert [loss.transactional_id for loss in found] == ([] if sink.pool else [lost.transactional_id])
    assert sink.jobs.losses(sink.now + TIMEOUT + 3601) == ()


def test_a_timeout_of_what_was_in_no_checkpoint_is_no_loss(sink: SimulatedSink) -> None:
    sink.run(5)
    sink.ends(sink.open(), Outcome.TIMED_OUT, TIMEOUT)
    assert sink.jobs.losses(sink.now + TIMEOUT) == ()


def test_what_a_start_of_the_job_fences_is_a_clean_up_and_a_storm_only_without_commits(sink: SimulatedSink) -> None:
    sink.run(5)
    (job,) = sink.jobs
    for restart in range(3):
        for subtask in range(SUBTASKS):
            sink.ends(sink.open(subtask), Outcome.FENCED, after=restart * 60 + 1)
        assert job.restarts_without_commit(sink.now + restart * 60 + 2) == restart  # the last had no time to commit
    assert sink.jobs.losses(sink.now) == ()
    assert job.restarts_without_commit(sink.now + 125) == 2
    assert job.restarts_without_commit(sink.now + 121 + 3 * INTERVAL + 6) == 3
    assert job.restarts_without_commit(sink.now + 2000) == 0
    sink.now += 130
    sink.run(1)
    assert job.restarts_without_commit(sink.now) == 0


def test_a_transaction_that_its_subtask_passed_by_is_of_an_earlier_start_and_no_risk(sink: SimulatedSink) -> None:
    sink.run(5)
    left = sink.open()._replace(transactional_id="orders-0-99", producer_id=9)
    sink.run(5)
    found = sink.judged(left, sink.open())
    assert (found.at_risk, found.waiting) == (False, False)


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(1, 50), st.floats(1, 50)), min_size=8, max_size=60))
def test_producers_that_work_beside_each_other_in_any_order_are_no_job(
    transactions: list[tuple[int, float, float]],
) -> None:
    """A pod of a StatefulSet whose producers are numbered has ids of the same form."""
    jobs = Jobs()
    at = T0
    disorder = False
    newest = float("-inf")
    for number, pause, lasts in transactions:
        at += pause
        begun = at - lasts - 60 * number
        disorder |= begun <= newest
        newest = max(newest, begun)
        jobs.ended(finished(f"pod-0-{number}", "pod", Outcome.COMMITTED, number, begun, at))
        if disorder:
            assert list(jobs) == []
    assert jobs.judge((), at) == {}


def test_memory_is_bounded_whatever_ids_there_are() -> None:
    jobs = Jobs()
    for number in range(3 * MOST_JOBS):
        jobs.initialised(f"x{number}-0-1", "x", T0)
    assert len(jobs._jobs) == MOST_JOBS
    for number in range(2 * MOST_SUBTASKS):
        jobs.ended(finished(f"y-{number}-1", "y", Outcome.COMMITTED, 1, T0, T0 + 1))
    assert len(jobs._jobs["y"].subtasks) == MOST_SUBTASKS


@pytest.mark.parametrize("pool", [False, True])
@given(order=st.permutations([(subtask, number) for subtask in range(SUBTASKS) for number in range(6)]))
def test_a_log_that_is_read_partition_by_partition_shows_the_job_that_a_live_one_showed(
    *, pool: bool, order: list[tuple[int, int]]
) -> None:
    """Ids lie in several partitions of the log: each has its own events in order, and one is read after the other."""
    events: dict[tuple[int, int], list[Event]] = {place: [] for place in order}
    live = SimulatedSink(pool=pool)
    replayed = Jobs()

    class Recorded(Jobs):
        def initialised(self, transactional_id: str, application: str, instant: float) -> None:
            live_jobs.initialised(transactional_id, application, instant)
            note(transactional_id, lambda: replayed.initialised(transactional_id, application, instant))

        def ended(self, transaction: Transaction) -> None:
            live_jobs.ended(transaction)
            note(transaction.transactional_id, lambda: replayed.ended(transaction))

    def note(transactional_id: str, event: Event) -> None:
        who = FlinkId.parse(transactional_id)
        assert who is not None
        events[who.subtask, who.number % 6].append(event)

    live_jobs = Jobs()
    live.jobs = Recorded()
    for subtask in range(SUBTASKS):
        live._init(subtask, live._number(1), T0)
    live.run(20)
    live.barrier()
    for place in order:
        for event in events[place]:
            event()
    opened = [live.open(0, behind=1), live.open(1), live.open(1, behind=1)]
    assert [job.interval for job in replayed] == [job.interval for job in live_jobs] == [INTERVAL]
    for late in (1.0, 100.0, 400.0):
        assert replayed.judge(opened, live.now + late) == live_jobs.judge(opened, live.now + late)
    assert replayed.judge(opened, live.now + 1)[opened[1].producer_id].waiting


def test_the_interval_and_the_shortest_timeout_of_a_job_are_given_for_its_posture(sink: SimulatedSink) -> None:
    def opened(subtask: int, timeout: float | None) -> OpenTransaction:
        who = (sink.id(subtask, sink.checkpoint), "orders", subtask, 0)
        return OpenTransaction(*who, TransactionState.ONGOING, sink.now, timeout, None, frozenset())

    assert sink.jobs.times([opened(0, 900.0)]) == ()  # no job yet
    sink.run(6)
    (job,) = sink.jobs.times([opened(0, 900.0), opened(1, 600.0), opened(1, None)])
    assert (job.prefix, job.application, job.timeout) == ("orders", "orders", 600.0)
    assert job.interval == pytest.approx(INTERVAL, abs=1.0)
    assert sink.jobs.times([])[0].timeout is None


def test_an_open_transaction_of_a_job_is_not_a_look_at_all_its_subtasks() -> None:
    jobs, now, subtasks = Jobs(), 1000.0, 60
    for checkpoint in range(1, 7):
        for subtask in range(subtasks):
            jobs.initialised(f"p-{subtask}-{checkpoint + 1}", "p", now - 0.5)
            if checkpoint < 6 or not subtask:
                jobs.ended(finished(f"p-{subtask}-{checkpoint}", "p", Outcome.COMMITTED, subtask, now - 10, now))
        now += 10
    waits = [
        OpenTransaction(f"p-{number}-6", "p", number, 0, TransactionState.ONGOING, now - 20, 900.0, None, frozenset())
        for number in range(1, subtasks)
    ]
    found = calls_of(lambda: jobs.judge(waits, now))
    assert found["Subtask.reused"] <= 2 * subtasks
    assert all(transaction.committing for transaction in jobs.judge(waits, now).values())
    jobs.ended(
        finished("p-1-2", "p", Outcome.COMMITTED, 1, now - 15, now)
    )  # a number that was used before: they are pooled
    assert not any(transaction.committing for transaction in jobs.judge(waits, now).values())
