"""The transaction log: a live tail of ``__transaction_state``, the only place where Kafka says how transactions end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter import catalogue
from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Tail, TailReader
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.coordinators import ask_coordinators
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.kafka.requests.transactions import coordinator_partition
from exporter.model import (
    Deadline,
    Fact,
    Facts,
    Fault,
    KnownIds,
    OpenTransaction,
    OpenTransactions,
    Reason,
    ReleaseTimes,
    Sample,
    Stalls,
    TopicPartition,
    TransactionUse,
    UncleanEnds,
)
from exporter.sources.cluster import Cluster
from exporter.transactions.aggregates import Aggregates, Caps
from exporter.transactions.entries import Entry
from exporter.transactions.open_samples import open_transaction_samples
from exporter.transactions.progress import PartitionProgress, begin
from exporter.transactions.records import TOPIC
from exporter.transactions.tail import LogTail
from exporter.transactions.usage import transaction_use

PACE = 1.0
"""Seconds from one read to the next: what the log settles is on /metrics within two of them."""
CHECK_INTERVAL = 5.0
"""Seconds between two looks at the log's end, which is what makes a read current; gauges live by it."""
CENSUS_INTERVAL = 15.0
OPEN_PER_SECOND = 500
"""Open transactions that may be turned into samples in a second, for what that costs."""
USE_INTERVAL = 60.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class TxnlogSettings:
    """``open_transactions`` is how many open transactions are shown by id, beside the blockers."""

    caps: Caps = field(default_factory=Caps)
    open_transactions: int = 20
    timeout: float = 10.0


class TxnlogSource:
    """Source ``txnlog`` of one cluster: what became of transactions, from the log, while READ on it is granted."""

    name = "txnlog"
    interval = CHECK_INTERVAL
    pace = PACE

    def __init__(
        self, cluster: Cluster, settings: TxnlogSettings, open_tail: Callable[[Properties, str], TailReader] = Tail
    ) -> None:
        self._cluster = cluster
        self._open_tail = open_tail
        self._settings = settings
        self.timeout = settings.timeout
        self._aggregates = Aggregates(cluster.grouping, settings.caps, cluster.shard)
        self._log: LogTail | None = None  # None until the topic was seen
        self._at_start: frozenset[int] | None = None  # log partitions that were there at the first look
        self._unseeded: set[int] | None = None  # log partitions whose state at the start is not known yet; None: all
        self._seed_missing: tuple[str, ...] = ()
        self._seed_at = 0.0  # monotonic instant of the next try
        self._seed_wait = CHECK_INTERVAL
        self._known_ids = KnownIds({})
        self._open_made: tuple[Sample, ...] = ()
        self._open_made_at = float("-inf")
        self._exposed_at = float("-inf")  # monotonic instant of the last read that made samples of them
        self._use: TransactionUse | None = None
        self._used_at = 0.0
        self._checked_at: float | None = None
        self._check_faults: tuple[Fault, ...] = ()
        self._current = False
        self._census_at: float | None = None
        self._release_times: ReleaseTimes | None = None

    @property
    def target(self) -> str:
        return self._cluster.target

    @property
    def cluster(self) -> str:
        return self._cluster.name

    def close(self) -> None:
        self._save()
        if self._log is not None:
            self._log.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        try:
            if self._check_due():
                self._check(deadline)
        except AskError as error:
            self._check_faults = (error.fault,)
            self._current = False
            if self._log is not None:
                self._log.asked({}, self._cluster.clock.monotonic())
        yield from self._check_faults
        if self._log is not None:
            yield from self._log.follow(deadline.within(PACE))
        yield from self._trouble()
        # Longer ago, and polling may have taken over since.
        exposed = self._cluster.clock.monotonic() - self._exposed_at < 2 * self.interval
        self._exposed_at = float("-inf")
        if self._empty or (self._log is not None and self._log.readable):
            yield from self._counters()
            yield self._aggregates.task_commits
            if self._empty or any(progress.end is not None for progress in self._progress.values()):
                lag = self._log.lag if self._log is not None else 0
                yield catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS(float(lag), self.cluster)
                if self._log is None or self._log.caught_up:
                    yield from self._gauges(facts, exposed=exposed)
        self._save()

    # --- Reaching the log ---

    def _check_due(self) -> bool:
        # While there is no log to tail, its appearance is all there is to wait for: look at every read.
        interval = CHECK_INTERVAL if self._progress or self._check_faults else PACE
        now = self._cluster.clock.monotonic()
        if self._checked_at is None or now - self._checked_at >= interval:
            return True
        return self._log is not None and not self._check_faults and self._log.settles_by(now)

    def _check(self, deadline: Deadline) -> None:
        """Look at the topic and its ends; start what is new. Raises AskError when the cluster does not answer."""
        asked_at = self._checked_at = self._cluster.clock.monotonic()
        metadata = self._cluster.metadata(deadline, (TOPIC,))
        fault = metadata.errors.get(TOPIC)
        if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
            raise AskError(fault)
        partitions = metadata.topics.get(TOPIC, {})
        if self._at_start is None:
            self._at_start = frozenset(partitions)
        reached = {number: progress.next for number, progress in self._progress.items()}
        ends = end_offsets(
            self._cluster.client,
            metadata,
            [TopicPartition(TOPIC, number) for number in partitions],
            Isolation.READ_UNCOMMITTED,
            deadline,
        )
        self._check_faults = ends.faults
        found = {partition.partition: end for partition, end in ends.values.items()}
        # Current: everything that was there at the last look has been read by this one.
        self._current = not ends.unanswered and all(
            progress.end is None or reached[number] >= progress.end for number, progress in self._progress.items()
        )
        if self._log is not None:
            self._log.asked(found, asked_at)
        self._start(found, asked_at, deadline)
        if (
            partitions
            and self._log is not None
            and self._unseeded != set()
            and self._cluster.clock.monotonic() >= self._seed_at
        ):
            self._seed(self._log, len(partitions), deadline)

    def _start(self, ends: Mapping[int, int], asked_at: float, deadline: Deadline) -> None:
        fresh = {number: end for number, end in ends.items() if number not in self._progress}
        if not fresh:
            return
        if self._log is None:
            tail = self._open_tail(self._cluster.properties, TOPIC)
            self._log = LogTail(self._aggregates, tail, self._cluster.clock)
        saved = self._cluster.state.load(self._cluster.cluster_id, self.name).get("partitions")
        if not isinstance(saved, dict):
            saved = None
        # What the last process did not know is as new as what appears while this one watches.
        old = [
            number for number in fresh if number in (self._at_start or ()) and (saved is None or str(number) in saved)
        ]
        hour_ago: Mapping[int, int | None] = {}
        if old:
            hour_ago = self._log.offsets_since(old, self._cluster.clock.wall() - HOUR, deadline)
        begun: dict[int, PartitionProgress] = {}
        for number, end in fresh.items():
            left = (saved or {}).get(str(number))
            left = left if isinstance(left, dict) else {}
            progress = begin(end, hour_ago.get(number), left, from_zero=number not in old)
            progress.asked(end, asked_at)
            begun[number] = progress
        self._log.begin(begun)
        self._current = False

    def _seed(self, log: LogTail, partitions: int, deadline: Deadline) -> None:
        """The state at the start, from the coordinators: transactions that began before what is read of the log.

        Asked only after the positions were taken, so that nothing falls between. Repeated for coordinators that did not
        answer; ids that the log has spoken of since are left alone.
        """
        if not self._at_start:  # the topic is younger than this process: the log has it all
            self._unseeded = set()
            return
        self._seed_at = self._cluster.clock.monotonic() + self._seed_wait
        self._seed_wait = min(60.0, self._seed_wait * 2)
        asked = ask_coordinators(self._cluster.client, deadline, lambda _: "", states=())
        for known in asked.transactions:
            number = coordinator_partition(known.transactional_id, partitions)
            log.take(number, log.machine(number).seed(known))
        for transactional_id, number in asked.ids:
            log.take(number, log.machine(number).seed_id(transactional_id))
        self._unseeded = set(asked.silent)
        self._seed_missing = tuple(fault.detail for fault in asked.faults) if asked.silent else ()

    # --- What it says ---

    def _entries(self) -> Iterator[Entry]:
        return self._log.entries() if self._log is not None else iter(())

    @property
    def _progress(self) -> Mapping[int, PartitionProgress]:
        return self._log.progress if self._log is not None else {}

    @property
    def _empty(self) -> bool:
        """Whether the cluster has no transaction log yet: nothing ran a transaction, and that is an answer."""
        return self._at_start is not None and not self._progress and not self._check_faults

    def _trouble(self) -> Iterator[Fault]:
        fault = self._log.trouble() if self._log is not None else None
        # What the look at the log's end found says more than librdkafka's general "all brokers are down".
        if fault is not None and (fault.reason is Reason.AUTHORIZATION or not self._check_faults):
            yield fault

    def _counters(self) -> Iterator[Sample]:
        name = self.cluster
        undecodable, lost = (self._log.undecodable, self._log.lost) if self._log is not None else (0, 0)
        yield catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL(float(undecodable), name)
        yield catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL(float(lost), name)
        yield from self._aggregates.counters(name)

    def _gauges(self, facts: Facts, *, exposed: bool) -> Iterator[Sample | Fact]:
        clock = self._cluster.clock
        wall = clock.wall()
        counted_at = self._census_at
        if counted_at is None or clock.monotonic() - counted_at >= CENSUS_INTERVAL or self._aggregates.uncounted:
            self._census_at = clock.monotonic()
            self._aggregates.census(self._entries(), wall)
            self._known_ids = self._count_ids()
        yield self._known_ids
        yield from self._transaction_use(wall)
        transactions = tuple(entry.transaction() for entry in self._log.open()) if self._log is not None else ()
        yield from self._aggregates.gauges(self.cluster, wall)
        # What polling exposes goes first: it stops once it hears of this source, with its next read.
        others = (each for each in facts.all(OpenTransactions) if each.origin != self.name)
        exposes = exposed or not any(each.exposes for each in others)
        if exposes:
            self._exposed_at = clock.monotonic()
            yield from self._open_samples(transactions, facts.get(Stalls), wall)
        missing = self._missing()
        yield OpenTransactions(self.name, transactions, not missing, missing, exposes)
        yield UncleanEnds(self._aggregates.unclean_ends(wall))
        if self._release_times is None:
            self._release_times = self._releases()
        yield self._release_times

    def _transaction_use(self, wall: float) -> Iterator[TransactionUse]:
        """What the posture of the cluster is judged by: the first shard's."""
        if not self._cluster.shard.first:
            return
        now = self._cluster.clock.monotonic()
        if self._use is None or now - self._used_at >= USE_INTERVAL:
            self._used_at = now
            known, topics = self._entries(), self._aggregates.topics
            self._use = transaction_use(known, topics, self._cluster.grouping.is_connect_task, (wall - HOUR) * 1000)
        yield self._use

    def _open_samples(
        self, transactions: tuple[OpenTransaction, ...], stalls: Stalls | None, wall: float
    ) -> tuple[Sample, ...]:
        """Made anew at every read while few are open, at most every CHECK_INTERVAL when there are thousands."""
        age = self._cluster.clock.monotonic() - self._open_made_at
        if age >= min(CHECK_INTERVAL - PACE / 2, len(transactions) / OPEN_PER_SECOND):
            self._open_made_at = self._cluster.clock.monotonic()
            most, applications = self._settings.open_transactions, self._aggregates.applications
            own = [each for each in transactions if self._cluster.shard.tells_of(each.application)]
            self._open_made = tuple(open_transaction_samples(self.cluster, own, applications, stalls, most, wall))
        return self._open_made

    def _missing(self) -> tuple[str, ...]:
        """Why the open transactions may not be all there are."""
        missing = list(self._seed_missing)
        if self._unseeded is None and self._progress:
            missing.append("the coordinators were not asked for the state at the start yet")
        missing += [fault.detail for fault in self._check_faults]
        unread = list(self._log.unread.values()) if self._log is not None else []
        if not self._current:
            missing.append(f"the tail of {TOPIC} is behind its end")
        missing += [fault.detail for fault in unread[:3]]
        return tuple(dict.fromkeys(missing))

    def _count_ids(self) -> KnownIds:
        by_partition: dict[int, dict[str, int]] = {}
        own = frozenset(self._aggregates.applications)
        for entry in self._entries():
            if entry.application in own:
                applications = by_partition.setdefault(entry.log_partition, {})
                applications[entry.application] = applications.get(entry.application, 0) + 1
        return KnownIds(by_partition)

    def _releases(self) -> ReleaseTimes:
        """Made once, when the tail first caught up: it dates stalls that are older than this process."""
        ended: dict[TopicPartition, float] = {}
        for entry in self._entries():
            if entry.open or not entry.section:
                continue
            for partition in entry.partitions():
                ended[partition] = max(ended.get(partition, 0.0), entry.record_ms / 1000)
        return ReleaseTimes(ended)

    def _save(self) -> None:
        if self._at_start is None or not (self._progress or self._empty):
            return
        # Partitions that were there at the start and gave no answer yet are known, without a position.
        partitions: dict[str, dict[str, Any]] = {str(number): {} for number in self._at_start}
        if self._log is not None:
            partitions |= self._log.memory()
        self._cluster.state.save(self._cluster.cluster_id, self.name, {"partitions": partitions})
