"""Flink jobs by what their transactions do: pure bookkeeping and rules, with every instant as an argument.

KafkaSink has one transaction open in each subtask. At a checkpoint it flushes that one (it is precommitted), takes the
next id, and commits the first when the checkpoint is complete (KafkaWriter.prepareCommit, KafkaCommitter). So the next
id of a subtask is initialised, or in use again (POOLING), while the first is open; nothing but Flink does that, and a
prefix counts as a job only once it did. Instants are Unix seconds by the coordinators' clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.flink.facts import FlinkId, FlinkTransaction, JobTimes, Loss
from exporter.flink.kafka_sink_job import SLACK_SECONDS, UNLEARNED_SECONDS, KafkaSinkJob, Subtask
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome, Precommit, TransactionState

MOST_JOBS = 500
"""Largest number of jobs of a cluster; the one that was idle for longest is dropped."""
COMPLETION_SECONDS = 10.0
"""Seconds that a precommitted transaction may always wait for the completion of its checkpoint."""
AT_RISK_SHARE = 1 / 3
"""Share of its timeout after which a transaction that waits is at risk."""
HOUR = 3600.0
MOST_LOSSES = 200
_COMMITTED = Outcome.COMMITTED  # each access to a member of an enum is a call


class _OfJob(NamedTuple):
    """A transaction of a job, with its start in Unix seconds."""

    transaction: OpenTransaction
    id: FlinkId
    job: KafkaSinkJob
    started: float

    def judged(self, newest: Mapping[tuple[str, int], float], now: float) -> FlinkTransaction:
        """Its state; ``newest`` as from ``_newest``."""
        last, timeout = newest[self.id.prefix, self.id.subtask], self.transaction.timeout
        if timeout is not None:
            timeout += self.transaction.scan_behind or 0.0
        return judge(self.job, self.id, self.started, timeout, last, now)


def _newest(found: Iterable[_OfJob]) -> dict[tuple[str, int], float]:
    """The latest start of these, by prefix and subtask."""
    newest: dict[tuple[str, int], float] = {}
    for owned in found:
        place = (owned.id.prefix, owned.id.subtask)
        newest[place] = max(newest.get(place, owned.started), owned.started)
    return newest


class Jobs:
    """All jobs of one cluster, fed with what the transaction log shows. Memory is bounded."""

    def __init__(self) -> None:
        self._jobs: dict[str, KafkaSinkJob] = {}
        self._losses: deque[Loss] = deque(maxlen=MOST_LOSSES)
        self.applications: set[str] = set()
        """The applications that had an id of KafkaSink's form: what ends in others is not of Flink."""

    def __iter__(self) -> Iterator[KafkaSinkJob]:
        return (job for job in self._jobs.values() if job.is_flink)

    def _job(self, who: FlinkId, application: str) -> KafkaSinkJob:
        """The job of an id, the one that was active last; beyond the most, the one that was not for longest goes."""
        job = self._jobs.pop(who.prefix, None) or KafkaSinkJob(who.prefix, application)
        self._jobs[who.prefix] = job
        if len(self._jobs) > MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return job

    def appeared(self, transactional_id: str, application: str) -> None:
        """There is such an id."""
        if application not in self.applications and FlinkId.parse(transactional_id) is not None:
            self.applications.add(application)

    def initialised(self, transactional_id: str, application: str, instant: float) -> None:
        """A producer with this id got its producer id and epoch."""
        who = FlinkId.parse(transactional_id)
        if who is None:
            return
        self._job(who, application).initialise(who, instant)

    def ended(self, transaction: Transaction) -> None:
        """A transaction ended. One that was precommitted and ended by the server is a loss."""
        who = FlinkId.parse(transaction.transactional_id)
        if who is None:
            return
        job = self._job(who, transaction.application)
        begun, instant = transaction.started, transaction.ended
        if transaction.outcome is _COMMITTED:
            job.commit(who, begun, instant)
            return
        if transaction.outcome is Outcome.ABORTED or not job.is_flink:
            return
        completed = job.is_completed(who, begun)
        if transaction.outcome is Outcome.FENCED and not completed:
            job.clean_up(instant)
            return
        subtask = job.subtasks.get(who.subtask)
        if not completed and (subtask is None or not subtask.took_next(who.number, begun)):
            return
        owner = transaction.transactional_id, transaction.application, transaction.producer_id
        partitions = transaction.partitions or frozenset()
        self._losses.append(Loss(who, *owner, instant, completed, partitions, begun=begun))

    def losses(self, now: float) -> tuple[Loss, ...]:
        """The losses of the last hour, newest first."""
        # The log is read partition by partition: what is read later may have happened before.
        latest = sorted(self._losses, key=lambda loss: loss.ended, reverse=True)
        return tuple(loss for loss in latest if loss.ended >= now - HOUR)

    def replace(self, loss: Loss, better: Loss) -> None:
        """Replace a loss by one with more details."""
        for place, known in enumerate(self._losses):
            if known is loss:
                self._losses[place] = better

    def is_job(self, transactional_id: str) -> bool:
        """Return whether this is an id of a job that is known by its behaviour."""
        who = FlinkId.parse(transactional_id)
        job = None if who is None else self._jobs.get(who.prefix)
        return job is not None and job.is_flink

    def times(self, opened: Iterable[OpenTransaction]) -> tuple[JobTimes, ...]:
        """The intervals of the jobs, and the shortest timeout of each that has an open transaction."""
        if not any(self):
            return ()
        shortest: dict[str, float] = {}
        for transaction in opened:
            if transaction.timeout is not None and (who := FlinkId.parse(transaction.transactional_id)) is not None:
                shortest[who.prefix] = min(transaction.timeout, shortest.get(who.prefix, transaction.timeout))
        return tuple(JobTimes(job.prefix, job.application, job.interval, shortest.get(job.prefix)) for job in self)

    def judge(self, opened: Iterable[OpenTransaction], now: float) -> dict[int, FlinkTransaction]:
        """The ongoing transactions that belong to jobs, by producer id."""
        found = [own for own in self._of_jobs(opened) if own.transaction.state is TransactionState.ONGOING]
        newest = _newest(found)
        return {owned.transaction.producer_id: owned.judged(newest, now) for owned in found}

    def released(self, opened: Sequence[OpenTransaction], now: float) -> frozenset[int]:
        """The producer ids of transactions that waited for their checkpoint until they were decided, at most
        ``COMPLETION_SECONDS`` ago. Until its markers are written, such a one holds the last stable offset, and that is
        no stall.
        """
        if not any(self) or all(transaction.prepared is None for transaction in opened):
            return frozenset()
        found = list(self._of_jobs(opened))
        newest = _newest(found)
        return frozenset(
            owned.transaction.producer_id
            for owned in found
            # On either side: our time may be a little behind the coordinators'.
            if (prepared := owned.transaction.prepared) is not None
            and abs(now - prepared) <= COMPLETION_SECONDS
            and owned.judged(newest, prepared).waiting
        )

    def _of_jobs(self, opened: Iterable[OpenTransaction]) -> Iterator[_OfJob]:
        """Those of them that belong to jobs, and whose start is known."""
        if not any(self):
            return
        for transaction in opened:
            who = FlinkId.parse(transaction.transactional_id)
            job = None if who is None else self._jobs.get(who.prefix)
            if who is not None and job is not None and job.is_flink and transaction.started is not None:
                yield _OfJob(transaction, who, job, transaction.started)


def judge(
    job: KafkaSinkJob, who: FlinkId, started: float, timeout: float | None, newest: float, now: float
) -> FlinkTransaction:
    """The state of an open transaction of a job; ``newest`` is the start of the newest open one of its subtask.

    1. Within the job's rhythm it waits for a checkpoint: open for less than three intervals.
    2. It is precommitted for certain when its subtask has taken the next id, or another subtask has committed its
       checkpoint; likely when it is open past a checkpoint of its job, or for much longer than an interval.
    3. At risk is what is precommitted and no longer within the rhythm, and what is or may be precommitted and has
       nearly a third of its timeout behind it: before that, a job that is silent may only have a longer interval now.
       A transaction that its own subtask passed by is of an earlier start, and is not.
    """
    interval, age = job.interval, now - started
    subtask = job.subtasks.get(who.subtask)
    committing = job.is_completed(who, started)
    precommit, since = Precommit.NO, None
    over = interval is not None and age > 1.5 * interval + SLACK_SECONDS
    if committing or newest > started or (subtask is not None and subtask.took_next(who.number, started)):
        precommit = Precommit.PROVEN
        completed = job.committed_at[who.number] if committing else 0.0
        since = _since(subtask, started, newest, completed)
    elif over or (interval is not None and (job.last_commit or started) > started + SLACK_SECONDS):
        precommit = Precommit.LIKELY
    patience = job.patience
    in_rhythm = patience is not None and age <= patience
    committed = None if subtask is None else subtask.committed
    passed_by = patience is not None and committed is not None and committed - started > patience
    late = timeout is not None and age >= timeout * AT_RISK_SHARE - COMPLETION_SECONDS
    if since is not None:
        waited = now - since
        risky = waited >= COMPLETION_SECONDS and (
            late or (not in_rhythm and (interval is not None or waited >= UNLEARNED_SECONDS))
        )
    else:
        risky = precommit is Precommit.LIKELY and late and over
    at_risk = risky and timeout is not None and not passed_by
    waiting = in_rhythm and not at_risk and not passed_by
    deadline = None if timeout is None else started + timeout
    return FlinkTransaction(who, interval, precommit, since, waiting, at_risk, deadline, committing, job.last_commit)


def _since(subtask: Subtask | None, started: float, newest: float, completed: float) -> float:
    """The earliest instant at which the transaction was seen to be precommitted; ``completed`` is that of its
    checkpoint, 0 where it is not known.
    """
    instants = [completed, newest, 0.0 if subtask is None else subtask.initialised]
    return min(instant for instant in instants if instant > started)
