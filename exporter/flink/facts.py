"""The transactions of Flink jobs, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Self

from exporter.model import Fact, TopicPartition
from exporter.words import Precommit

MOST_DIGITS = 18


class FlinkId(NamedTuple):
    """A transactional.id of KafkaSink: ``<prefix>-<subtask>-<number>``.

    ``number`` is the checkpoint with INCREMENTING names (TransactionalIdFactory), and counts the ids of the pool with
    POOLING.
    """

    prefix: str
    subtask: int
    number: int

    @classmethod
    def parse(cls, transactional_id: str) -> Self | None:
        """The parts of an id; None for one of another form."""
        parts = transactional_id.rsplit("-", 2)
        if len(parts) < 3 or not parts[0] or not (_is_number(parts[1]) and _is_number(parts[2])):
            return None
        return cls(parts[0], int(parts[1]), int(parts[2]))


def _is_number(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= MOST_DIGITS


class FlinkTransaction(NamedTuple):
    """An open transaction of a job that is known by its behaviour to be Flink's.

    ``interval`` is how far apart the job's checkpoints are, in seconds, None while not learned. ``waiting``: it waits
    for a checkpoint within the job's rhythm. ``at_risk``: it is, or may be, precommitted, and its job does not go on;
    at ``deadline`` (Unix seconds by the coordinators' clock, None where it has none) it is lost. ``committing`` says
    that another subtask has committed the same checkpoint, so that it was completed. ``last_commit`` is the job's.
    """

    id: FlinkId
    interval: float | None
    precommit: Precommit
    since: float | None
    waiting: bool
    at_risk: bool
    deadline: float | None
    committing: bool
    last_commit: float | None


class Loss(NamedTuple):
    """A precommitted transaction that was ended by the server: what it wrote is lost unless the job is replayed.

    ``begun`` (None where unknown) and ``ended`` are Unix seconds of log time. ``completed`` says that its checkpoint is
    known to have been completed.
    ``places`` are where its records lie, as far as that was seen: the first offset and the high watermark then.
    """

    id: FlinkId
    transactional_id: str
    application: str
    producer_id: int
    ended: float
    completed: bool
    partitions: frozenset[TopicPartition]
    places: Mapping[TopicPartition, tuple[int, int]] = MappingProxyType({})
    begun: float | None = None


@dataclass(frozen=True, slots=True)
class FlinkTransactions(Fact):
    """Open transactions of Flink jobs, by producer id. Of partitions of the log that were not read to their end, those
    that wait for a checkpoint.

    ``released`` are the producer ids of those that waited for their checkpoint until they were decided a moment ago:
    their markers are being written.
    """

    by_producer: Mapping[int, FlinkTransaction]
    released: frozenset[int] = frozenset()

    @property
    def any(self) -> bool:
        return bool(self.by_producer or self.released)


class JobTimes(NamedTuple):
    """A job with open transactions: seconds between its checkpoints, None until learned, and its shortest timeout."""

    prefix: str
    application: str
    interval: float | None
    timeout: float | None


@dataclass(frozen=True, slots=True)
class FlinkJobs(Fact):
    """The jobs that are known by what their transactions do."""

    jobs: tuple[JobTimes, ...]


@dataclass(frozen=True, slots=True)
class FlinkLosses(Fact):
    """The losses of the last hour, newest first."""

    losses: tuple[Loss, ...]
