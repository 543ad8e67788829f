"""One Flink job by what its transactions do: its rhythm, and whether it is a job of Flink at all. No I/O, no clock."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple, TypeVar

from exporter.flink.facts import FlinkId

T = TypeVar("T", bound=tuple[Any, ...])

MOST_SUBTASKS = 1_000
"""Largest number of subtasks of a job that are followed; the others are left out."""
GAPS = 31
"""Number of commits of a job, the newest of all subtasks, that its interval is learned from."""
KEPT = 6
"""Smallest number of commits and initialisations that are kept of each subtask, newest first. A job with few subtasks
keeps more of each.
"""
FEWEST_NUMBERS = 4
"""Commits of a subtask after which its numbers show whether ids are used once."""
FEWEST_HANDOVERS = 3
"""Commits before which a subtask had taken its next id, from which a prefix counts as a job of Flink's."""
LEAST_HANDOVERS = 0.25
"""Share of the last commits that are such. With POOLING names a quick commit may come before the next transaction has
its first record, and then shows no handover.
"""
MOST_OVERLAP = 0.5
"""Share of a transaction's time for which the next one of its subtask is open, too: the rest of a checkpoint."""
FEWEST_GAPS = 2
"""Smallest number of distances between commits of one subtask that give an interval."""
MISSED_CHECKPOINTS = 3
"""Intervals after which a job is silent, and a transaction waits for too long."""
SLACK_SECONDS = 5.0
"""Duration that a checkpoint may have, in addition to its interval."""
UNLEARNED_SECONDS = 60.0
"""Seconds used for three intervals while the interval is not known."""
RESTART_SECONDS = 5.0
"""Clean-ups of one start of a job come this close together."""
WINDOW = 600.0


class _Commit(NamedTuple):
    """A committed transaction of a subtask; ordered by its end."""

    ended: float
    begun: float
    number: int


class Subtask:
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
        """Return whether it initialised another id since."""
        return begun is not None and bool(self.inits) and self.inits[-1][1] != number and self.initialised > begun

    def took_next_before(self, commit: _Commit) -> bool:
        """Return whether another id was initialised between the begin and the end of a committed transaction."""
        return any(number != commit.number and commit.begun < at <= commit.ended for at, number in self.inits)

    @property
    def reused(self) -> bool:
        """Return whether a number was committed twice, or after a higher one."""
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
        self.subtasks: dict[int, Subtask] = {}
        self._newest: list[tuple[_Commit, int]] = []  # commits of all subtasks, each with its subtask
        self.last_commit: float | None = None
        self.committed_at: dict[int, float] = {}  # the newest numbers
        self.restarts: deque[float] = deque(maxlen=100)
        self.cleaned: float | None = None  # when a start of the job last ended a transaction of an earlier one
        self._habits: _Habits | None = None
        self._incrementing: bool | None = None  # until the next commit

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
        return (
            handovers >= FEWEST_HANDOVERS
            and LEAST_HANDOVERS * len(habits.handovers) <= handovers
            and all(habits.orders)
        )

    @property
    def interval(self) -> float | None:
        """How far apart the job's checkpoints are, in seconds; None until enough were seen.

        The newest gaps count where all of them are longer than the usual one: the job has a longer interval now. One
        pause makes that true until its next checkpoint.
        """
        gaps = self.habits.gaps
        if not self.is_flink or len(gaps) < FEWEST_GAPS:
            return None
        return max(median(gaps), min(gaps[-FEWEST_GAPS:]))

    def subtask(self, number: int) -> Subtask | None:
        found = self.subtasks.get(number)
        if found is None and len(self.subtasks) < MOST_SUBTASKS:
            found = self.subtasks[number] = Subtask()
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
            self._habits = self._incrementing = None

    def is_completed(self, who: FlinkId, begun: float | None) -> bool:
        """Return whether the checkpoint is known to be complete: with INCREMENTING names, another subtask has committed
        it.
        """
        instant = self.committed_at.get(who.number)
        return instant is not None and begun is not None and instant > begun and self._is_incrementing()

    def _is_incrementing(self) -> bool:
        """Asked for each open transaction of the job: all subtasks are looked at once after a commit."""
        if self._incrementing is None:
            subtasks = self.subtasks.values()
            self._incrementing = any(len(subtask.commits) >= FEWEST_NUMBERS for subtask in subtasks) and not any(
                subtask.reused for subtask in subtasks
            )
        return self._incrementing

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
        starts = [restart for restart in self.restarts if restart > since]
        in_time = bool(starts) and now - starts[-1] <= patience
        return len(starts) - in_time


def _keep(newest: list[T], item: T, most: int) -> None:
    """Put an item among the newest ones of a subtask, which are at most so many."""
    if newest and item < newest[-1]:
        insort(newest, item)
    else:
        newest.append(item)
    if len(newest) > most:
        del newest[:-most]


def _habits(newest: Iterable[tuple[_Commit, int]], subtasks: Mapping[int, Subtask]) -> _Habits:
    """The habits that the newest commits of a job show, each compared with the one before it of its own subtask."""
    found = _Habits([], [], [])
    for commit, number in newest:
        subtask = subtasks[number]
        place = bisect_left(subtask.commits, commit)
        before = subtask.commits[place - 1] if place else None
        overlaps = (
            before is not None
            and before.begun < commit.begun < before.ended
            and (before.ended - commit.begun <= MOST_OVERLAP * (before.ended - before.begun))
        )
        found.handovers.append(overlaps or subtask.took_next_before(commit))
        found.orders.append(before is None or commit.begun > before.begun)
        if before is not None and commit.ended > before.ended:
            found.gaps.append(commit.ended - before.ended)
    return found
