"""The inventory of one cluster, as frozen values; its applications from records of the transaction log, bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.catalogue import INTERNAL_TOPICS
from exporter.transactions.machine.records import NO_TIMEOUT_MS, LogValue, Status


class ApplicationUse(NamedTuple):
    """An application in the part of the transaction log that was read.

    ``committed`` and ``aborted`` are lower bounds: compaction takes records. ``timeouts`` are seconds. ``clients``
    counts ids by the transaction version of their client, 0 and 1 for one of before Transactions V2. ``groups`` are
    those whose offsets its producers committed in transactions, as far as these were sampled.
    """

    application: str
    ids: int
    committed: int
    aborted: int
    topics: frozenset[str]
    timeouts: tuple[float, ...]
    clients: Mapping[int, int]
    commits_offsets: bool
    groups: frozenset[str] = frozenset()


class WrittenOutside(NamedTuple):
    """The newest batches of a topic that transactions write to and groups read.

    ``outside`` of ``batches`` were written without a transaction, by ``producer_ids`` (idempotent ones); ``newest`` is
    the largest timestamp of these, Unix seconds by their producers' clocks. Of ``partitions``, ``sampled`` were read.
    """

    topic: str
    groups: tuple[str, ...]
    partitions: int
    sampled: int
    batches: int
    outside: int
    producer_ids: tuple[int, ...]
    newest: float | None


class GroupedIds(NamedTuple):
    """One application: how many ids a rule assigns to it, and one of these ids."""

    application: str
    kind: str
    rule: str
    ids: int
    example: str


class Inventory(NamedTuple):
    """``seconds`` is how much of the log was read. ``missing`` says what could not be. ``grouped`` are the ids that the
    coordinators list, None where they were not asked.
    """

    seconds: float
    applications: tuple[ApplicationUse, ...]
    topics: tuple[WrittenOutside, ...]
    missing: tuple[str, ...]
    grouped: tuple[GroupedIds, ...] | None = None


MOST_APPLICATIONS = 2_000
MOST_TOPICS = 1_000
"""Topics kept of one application."""
MOST_NAMES = 100_000
"""Topics kept of all applications together."""
MOST_IDS = 1_000_000
_OF_CLIENT = frozenset({Status.ONGOING, Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT})
"""The server's own abort has the server's version."""


@dataclass(slots=True)
class _Sums:
    committed: int = 0
    aborted: int = 0
    topics: set[str] = field(default_factory=set)
    timeouts: set[float] = field(default_factory=set)
    ids: dict[int, int] = field(default_factory=dict)  # by hash: an id may have 32,767 characters


class ApplicationsInLog:
    """Sums by application. ``dropped`` counts applications, ids and topics beyond the limits."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sums] = {}
        self._by_producer: dict[int, str] = {}
        self._names = 0
        self.dropped = 0

    def take(self, application: str, transactional_id: str, value: LogValue) -> None:
        """Take in one record."""
        sums = self._sums.get(application)
        if sums is None:
            if len(self._sums) >= MOST_APPLICATIONS:
                self.dropped += 1
                return
            sums = self._sums[application] = _Sums()
        key = hash(transactional_id)
        if key not in sums.ids and len(self._by_producer) >= MOST_IDS:
            self.dropped += 1
            return
        known = sums.ids.setdefault(key, 0)
        if value.status in _OF_CLIENT:
            sums.ids[key] = max(known, value.tags.client_version)
        self._by_producer[value.producer_id] = application
        sums.committed += value.status is Status.COMPLETE_COMMIT
        sums.aborted += value.status is Status.COMPLETE_ABORT
        # An administrator's fence has a timeout of its own, in an Empty record.
        if value.status is Status.ONGOING and 0 <= value.timeout_ms < NO_TIMEOUT_MS:
            sums.timeouts.add(value.timeout_ms / 1000)
        for topic in {place.topic for place in value.partitions or ()} - sums.topics:
            if len(sums.topics) < MOST_TOPICS and self._names < MOST_NAMES:
                sums.topics.add(topic)
                self._names += 1
            else:
                self.dropped += 1

    def application_of(self, producer_id: int) -> str | None:
        """The application of a producer id; None where no record has it."""
        return self._by_producer.get(producer_id)

    @property
    def topics(self) -> AbstractSet[str]:
        """The topics that any of them wrote to, without the internal ones."""
        return {topic for sums in self._sums.values() for topic in sums.topics} - set(INTERNAL_TOPICS)

    def uses(self, groups: Mapping[str, AbstractSet[str]]) -> Iterator[ApplicationUse]:
        """The applications by name; ``groups`` are those whose offsets they commit in transactions."""
        for name, sums in sorted(self._sums.items()):
            yield ApplicationUse(
                name,
                len(sums.ids),
                sums.committed,
                sums.aborted,
                frozenset(sums.topics - set(INTERNAL_TOPICS)),
                tuple(sorted(sums.timeouts)),
                dict(sorted(Counter(sums.ids.values()).items())),
                bool(sums.topics & set(INTERNAL_TOPICS)),
                frozenset(groups.get(name, ())),
            )
