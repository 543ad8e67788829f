"""Flink jobs by what their transactions do: pure bookkeeping and rules, with every instant as an argument.

KafkaSink has one transaction open in each subtask. At a checkpoint it flushes that one (it is precommitted), takes the
next id, and commits the first when the checkpoint is complete (KafkaWriter.prepareCommit, KafkaCommitter). So the next
id of a subtask is initialised, or in use again (POOLING), while the first is open; nothing but Flink does that, and a
prefix counts as a job only once it did. Instants are Unix seconds by the coordinators' clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple, TypeVar

from exporter.flink.facts import Loss
from exporter.flink.ids import parse
from exporter.model import FlinkId, FlinkTransaction, OpenTransaction, Outcome, Precommit, TransactionState

T = TypeVar("T", bound=tuple[Any, ...])

MOST_JOBS = 500
MOST_SUBTASKS = 1_000
"""Jobs of a cluster, and subtasks of each job: of what is beyond nothing is known."""
GAPS = 31
"""Commits of a job that are looked at: the newest of all subtasks."""
KEPT = 6
"""Commits and initialisations of each subtask that are kept at least: the newest. Of few subtasks more are kept."""
FEWEST_NUMBERS = 4
"""Commits of a subtask after which its numbers show whether ids are used once."""
FEWEST_HANDOVERS = 3
"""Commits before which a subtask had taken its next id, from which a prefix counts as a job of Flink's, if half of the
last commits are such.
"""
MOST_OVERLAP = 0.5
"""Share of a transaction's time for which the next one of its subtask is open, too: the rest of a checkpoint."""
FEWEST_GAPS = 2
"""Distances between commits of one subtask from which a job's interval is learned."""
MISSED_CHECKPOINTS = 3
"""Intervals after which a job is silent, and a transaction waits for too long."""
SLACK_SECONDS = 5.0
"""What a checkpoint may take, beside its interval."""
COMPLETION_SECONDS = 10.0
"""For how long at least a precommitted transaction may wait for its checkpoint's completion."""
AT_RISK_SHARE = 1 / 3
"""Of a timeout: when so much is gone, a transaction that waits is at risk."""
UNLEARNED_SECONDS = 60.0
"""Seconds used for three intervals while the interval is not known."""
RESTART_SECONDS = 5.0
"""Clean-ups of one start of a job come this close together."""
WINDOW = 600.0
HOUR = 3600.0
MOST_LOSSES = 200


class _Commit(NamedTuple):
    """A committed transaction of a subtask; ordered by its end."""

    ended: float
    begun: float
    number: int


class _Subtask:
    """One subtask: the ids that it took last, and its last commits, both by their instants.

    The transaction log is read partition by partition, and the ids of a subtask lie in several: what is read later may
    have happened before. So nothing is decided by the order of reading.
    """

    __slots__ = ("commits", "inits")

    def __init__(self) -> None:
        self.inits: list[tuple[float, int]] = []  # when which number was initialised
        self.commits: list[_Commit] = []

    @property
    def committed(self) -> float | None:
        """When it committed last."""
        return self.commits[-1].ended if self.commits else None

    @property
    def initialised(self) -> float:
        """When its last id was initialised."""
        return self.inits[-1][0] if self.inits else float("-inf")

    def took_next(self, number: int, begun: float | None) -> bool:
        """Whether it initialised another id since."""
        return begun is not None and bool(self.inits) and self.inits[-1][1] != number and self.initialised > begun

    def took_next_before(self, commit: _Commit) -> bool:
        """Whether another id was initialised between the begin and the end of a committed transaction."""
        return any(number != commit.number and commit.begun < at <= commit.ended for at, number in self.inits)

    @property
    def reused(self) -> bool:
        """Whether a number was committed twice, or after a higher one."""
        return any(later.number <= earlier.number for earlier, later in pairwise(self.commits))


class _Habits(NamedTuple):
    """The last commits of a job, oldest first: whether the next id was taken before, whether they came in order."""

    handovers: list[bool]
    orders: list[bool]
    gaps: list[float]


class KafkaSinkJob:
    """One prefix of ids. Its commits show whether it is Flink's: those of a subtask overlap a little, in order."""

    def __init__(self, prefix: str, application: str) -> None:
        self.prefix = prefix
        self.application = application
        self.subtasks: dict[int, _Subtask] = {}
        self._newest: list[tuple[_Commit, int]] = []  # commits of all subtasks, each with its subtask
        self.last_commit: float | None = None
        self.committed_at: dict[int, float] = {}  # the newest numbers
        self.restarts: deque[float] = deque(maxlen=100)
        self.cleaned: float | None = None  # when a start of the job ended the last of what an earlier one left
        self._habits: _Habits | None = None

    @property
    def habits(self) -> _Habits:
        if self._habits is None:
            self._habits = _habits(self._newest, self.subtasks)
        return self._habits

    @property
    def is_flink(self) -> bool:
        """Two producers that work beside each other overlap, too, and commit in any order."""
        habits = self.habits
        handovers = sum(habits.handovers)
        return handovers >= FEWEST_HANDOVERS and 2 * handovers >= len(habits.handovers) and all(habits.orders)

    @property
    def interval(self) -> float | None:
        """How far apart the job's checkpoints are, in seconds; None until enough were seen."""
        gaps = self.habits.gaps
        return median(gaps) if self.is_flink and len(gaps) >= FEWEST_GAPS else None

    def subtask(self, number: int) -> _Subtask | None:
        found = self.subtasks.get(number)
        if found is None and len(self.subtasks) < MOST_SUBTASKS:
            found = self.subtasks[number] = _Subtask()
        return found

    @property
    def _most(self) -> int:
        return max(KEPT, (GAPS + 1) // len(self.subtasks))

    def initialise(self, who: FlinkId, instant: float) -> None:
        subtask = self.subtask(who.subtask)
        if subtask is not None:
            _keep(subtask.inits, (instant, who.number), self._most)
            self._habits = None

    def commit(self, who: FlinkId, begun: float | None, instant: float) -> None:
        self.last_commit = max(instant, self.last_commit or instant)
        self.committed_at[who.number] = max(instant, self.committed_at.get(who.number, instant))
        if len(self.committed_at) > GAPS:
            del self.committed_at[min(self.committed_at, key=self.committed_at.__getitem__)]
        subtask = self.subtask(who.subtask)
        if subtask is not None and begun is not None:
            commit = _Commit(instant, begun, who.number)
            _keep(subtask.commits, commit, self._most)
            _keep(self._newest, (commit, who.subtask), GAPS)
            self._habits = None

    def is_completed(self, who: FlinkId, begun: float | None) -> bool:
        """Whether the checkpoint is known to be complete: with INCREMENTING names, another subtask has committed it."""
        instant = self.committed_at.get(who.number)
        return instant is not None and begun is not None and instant > begun and self._is_incrementing()

    def _is_incrementing(self) -> bool:
        subtasks = self.subtasks.values()
        return any(len(each.commits) >= FEWEST_NUMBERS for each in subtasks) and not any(
            each.reused for each in subtasks
        )

    def clean_up(self, instant: float) -> None:
        """A start of the job ended a transaction of an earlier one; those that come close together are one start."""
        self.cleaned = max(instant, self.cleaned or instant)
        if not self.restarts or instant - self.restarts[-1] > RESTART_SECONDS:
            self.restarts.append(instant)

    @property
    def patience(self) -> float | None:
        """Seconds after which a job that commits nothing is silent; None while its interval is not known."""
        interval = self.interval
        return None if interval is None else MISSED_CHECKPOINTS * interval + SLACK_SECONDS

    def restarts_without_commit(self, now: float) -> int:
        """How often the job was started in ten minutes and since it committed last, by its clean-ups.

        The last start does not count before it had the time to commit: a job that was started from its checkpoint just
        now is no job that starts in vain.
        """
        patience = UNLEARNED_SECONDS if self.patience is None else self.patience
        since = max(now - WINDOW, self.last_commit or float("-inf"))
        starts = [each for each in self.restarts if each > since]
        in_time = bool(starts) and now - starts[-1] <= patience
        return len(starts) - in_time


def _keep(newest: list[T], item: T, most: int) -> None:
    """Put an item among the newest ones of a subtask, which are at most so many."""
    insort(newest, item)
    del newest[:-most]


def _habits(newest: Iterable[tuple[_Commit, int]], subtasks: Mapping[int, _Subtask]) -> _Habits:
    """What the newest commits of a job show, each beside the one before it of its own subtask."""
    found = _Habits([], [], [])
    for each, number in newest:
        subtask = subtasks[number]
        place = bisect_left(subtask.commits, each)
        before = subtask.commits[place - 1] if place else None
        overlaps = (
            before is not None
            and before.begun < each.begun < before.ended
            and (before.ended - each.begun <= MOST_OVERLAP * (before.ended - before.begun))
        )
        found.handovers.append(overlaps or subtask.took_next_before(each))
        found.orders.append(before is None or each.begun > before.begun)
        if before is not None and each.ended > before.ended:
            found.gaps.append(each.ended - before.ended)
    return found


class Jobs:
    """All jobs of one cluster, fed with what the transaction log shows. Memory is bounded."""

    def __init__(self) -> None:
        self._jobs: dict[str, KafkaSinkJob] = {}
        self._losses: deque[Loss] = deque(maxlen=MOST_LOSSES)

    def __iter__(self) -> Iterator[KafkaSinkJob]:
        return (job for job in self._jobs.values() if job.is_flink)

    def _job(self, who: FlinkId, application: str) -> KafkaSinkJob:
        """The job of an id, the one that was active last; beyond the most, the one that was not for longest goes."""
        job = self._jobs.pop(who.prefix, None) or KafkaSinkJob(who.prefix, application)
        self._jobs[who.prefix] = job
        if len(self._jobs) > MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return job

    def initialised(self, transactional_id: str, application: str, instant: float) -> None:
        """A producer with this id got its producer id and epoch."""
        who = parse(transactional_id)
        if who is None:
            return
        self._job(who, application).initialise(who, instant)

    def ended(
        self,
        transactional_id: str,
        application: str,
        outcome: Outcome,
        producer_id: int,
        begun: float | None,
        instant: float,
    ) -> Loss | None:
        """A transaction ended. Gives back the loss, where it was precommitted and the server ended it."""
        who = parse(transactional_id)
        if who is None:
            return None
        job = self._job(who, application)
        if outcome is Outcome.COMMITTED:
            job.commit(who, begun, instant)
            return None
        if outcome is Outcome.ABORTED or not job.is_flink:
            return None
        completed = job.is_completed(who, begun)
        if outcome is Outcome.FENCED and not completed:
            job.clean_up(instant)
            return None
        subtask = job.subtasks.get(who.subtask)
        if not completed and (subtask is None or not subtask.took_next(who.number, begun)):
            return None
        loss = Loss(who, transactional_id, application, producer_id, instant, completed, frozenset())
        self._losses.append(loss)
        return loss

    def losses(self, now: float) -> tuple[Loss, ...]:
        """The losses of the last hour, newest first."""
        return tuple(each for each in reversed(self._losses) if each.ended >= now - HOUR)

    def replace(self, loss: Loss, better: Loss) -> None:
        """Say more about a loss."""
        for place, each in enumerate(self._losses):
            if each is loss:
                self._losses[place] = better

    def is_job(self, transactional_id: str) -> bool:
        """Whether this is an id of a job that is known by its behaviour."""
        who = parse(transactional_id)
        job = None if who is None else self._jobs.get(who.prefix)
        return job is not None and job.is_flink

    def judge(self, opened: Iterable[OpenTransaction], now: float) -> dict[int, FlinkTransaction]:
        """The open transactions that belong to jobs, by producer id."""
        if not any(self):
            return {}
        found: list[tuple[OpenTransaction, FlinkId, KafkaSinkJob, float]] = []
        newest: dict[tuple[str, int], float] = {}
        for each in opened:
            who = parse(each.transactional_id)
            job = None if who is None else self._jobs.get(who.prefix)
            ongoing = each.state is TransactionState.ONGOING
            if who is None or job is None or not job.is_flink or not ongoing or each.started is None:
                continue
            found.append((each, who, job, each.started))
            place = (who.prefix, who.subtask)
            newest[place] = max(newest.get(place, each.started), each.started)
        return {
            each.producer_id: judge(job, who, started, each.timeout, newest[who.prefix, who.subtask], now)
            for each, who, job, started in found
        }


def judge(
    job: KafkaSinkJob, who: FlinkId, started: float, timeout: float | None, newest: float, now: float
) -> FlinkTransaction:
    """What an open transaction of a job is; ``newest`` is the start of the newest open one of its subtask.

    1. Within the job's rhythm it waits for a checkpoint: open for less than three intervals.
    2. It is precommitted for certain when its subtask has taken the next id, or another subtask has committed its
       checkpoint; likely when it is open past a checkpoint of its job, or for much longer than an interval.
    3. At risk is what is or may be precommitted and no longer within the rhythm, or what has nearly a third of its
       timeout behind it. A transaction that its own subtask passed by is of an earlier start, and is not.
    """
    interval, age = job.interval, now - started
    subtask = job.subtasks.get(who.subtask)
    committing = job.is_completed(who, started)
    precommit, since = Precommit.NO, None
    over = interval is not None and age > 1.5 * interval + SLACK_SECONDS
    if committing or newest > started or (subtask is not None and subtask.took_next(who.number, started)):
        precommit, since = Precommit.PROVEN, _since(job, subtask, who, started, newest)
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
        risky = precommit is Precommit.LIKELY and (not in_rhythm or (late and over))
    at_risk = risky and timeout is not None and not passed_by
    waiting = in_rhythm and not at_risk and not passed_by
    deadline = None if timeout is None else started + timeout
    return FlinkTransaction(who, interval, precommit, since, waiting, at_risk, deadline, committing, job.last_commit)


def _since(job: KafkaSinkJob, subtask: _Subtask | None, who: FlinkId, started: float, newest: float) -> float:
    """Since when a transaction is known to be precommitted: the earliest of what shows it."""
    instants = [job.committed_at.get(who.number, 0.0), newest, 0.0 if subtask is None else subtask.initialised]
    return min(instant for instant in instants if instant > started)
