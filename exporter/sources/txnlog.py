"""The transaction log: a live tail of ``__transaction_state``, the only place where Kafka says how transactions end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from exporter import catalogue
from exporter.books import Books, Caps
from exporter.kafka.client import AskError
from exporter.kafka.coordinators import ask_coordinators
from exporter.kafka.offsets import Isolation, end_offsets
from exporter.kafka.properties import Properties
from exporter.kafka.tail import Polled, Tail, TailReader, fault_of, is_end
from exporter.kafka.transaction_log import TOPIC, UndecodableRecord
from exporter.kafka.transactions import coordinator_partition
from exporter.ledger import Ledger
from exporter.log_progress import PartitionProgress, begin
from exporter.log_use import transaction_use
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
from exporter.open_transactions import open_transaction_samples
from exporter.sources.cluster import Cluster

log = logging.getLogger(__name__)

PACE = 1.0
"""Seconds from one read to the next: what the log settles is on /metrics within two of them."""
CHECK_INTERVAL = 5.0
"""Seconds between two looks at the log's end, which is what makes a read current; gauges live by it."""
CENSUS_INTERVAL = 15.0
OPEN_PER_SECOND = 500
"""Open transactions that may be turned into samples in a second, for what that costs."""
USE_INTERVAL = 60.0
HOUR = 3600.0
BATCH = 1_000
"""Messages taken at once: few enough to be still in the processor's cache when their turn comes."""
MOST_FAULTS = 10
"""Undecodable records that are named in one read; a counter has them all."""
MOST_UNREAD = 1000
DELIVERY_SLACK_MS = 500
"""At the end of the log its time runs this far behind the clock, for records that are on their way."""


@dataclass(frozen=True, slots=True)
class TxnlogSettings:
    """``open_transactions`` is how many open transactions are shown by id, beside the blockers."""

    caps: Caps = field(default_factory=Caps)
    open_transactions: int = 20
    timeout: float = 10.0


class TxnlogSource:
    """Source ``txnlog`` of one cluster. Counters and gauges of transactions, from the log, while READ on it is
    granted.
    """

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
        self._books = Books(cluster.grouping, settings.caps, self._counted)
        self._ledger = Ledger(self._books, self._books.group)
        self._progress: dict[int, PartitionProgress] = {}
        self._tail: TailReader | None = None
        self._at_start: frozenset[int] | None = None  # log partitions that were there at the first look
        self._unseeded: set[int] | None = None  # log partitions whose state at the start is not known yet; None: all
        self._seed_missing: tuple[str, ...] = ()
        self._seed_at = 0.0  # monotonic instant of the next try
        self._seed_wait = CHECK_INTERVAL
        self._known_ids = KnownIds({})
        self._open_made: tuple[Sample, ...] = ()
        self._open_made_at = float("-inf")
        self._use: TransactionUse | None = None
        self._used_at = 0.0
        self._undecodable = 0
        self._unread: dict[bytes, Fault] = {}  # keys whose newest record could not be decoded
        self._faults: list[Fault] = []
        self._checked_at: float | None = None
        self._check_faults: tuple[Fault, ...] = ()
        self._current = False
        self._census_at: float | None = None
        self._release_times: ReleaseTimes | None = None
        self._readable = False

    @property
    def target(self) -> str:
        return self._cluster.target

    @property
    def cluster(self) -> str:
        return self._cluster.name

    def close(self) -> None:
        self._save()
        if self._tail is not None:
            self._tail.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        self._faults = []
        try:
            if self._check_due():
                self._check(deadline)
        except AskError as error:
            self._check_faults = (error.fault,)
            self._current = False
            for progress in self._progress.values():
                progress.asked(None, self._cluster.clock.monotonic())
        yield from self._check_faults
        if self._tail is not None:
            self._follow(deadline)
        yield from self._faults
        yield from self._refusals()
        if self._readable or self._empty:
            yield from self._counters()
            yield self._books.task_commits
            if self._empty or any(progress.end is not None for progress in self._progress.values()):
                yield catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS(float(self._lag()), self.cluster)
                if self._caught_up():
                    yield from self._gauges(facts)
        self._save()

    # --- Reaching the log ---

    def _check_due(self) -> bool:
        # While there is no log to tail, its appearance is all there is to wait for: look at every read.
        interval = CHECK_INTERVAL if self._progress or self._check_faults else PACE
        now = self._cluster.clock.monotonic()
        return self._checked_at is None or now - self._checked_at >= interval or self._settles_by(now)

    def _settles_by(self, now: float) -> bool:
        """Whether an abort has waited long enough by the clock, and only a look at the log's end is missing."""
        for number, progress in self._progress.items():
            waiting = self._ledger.partition(number).unsettled
            if waiting and not self._check_faults:
                log_ms = progress.log_ms_at(now)
                if log_ms is not None and log_ms - DELIVERY_SLACK_MS > waiting[0][0]:
                    return True
        return False

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
        for number, progress in self._progress.items():
            if number in found and found[number] < progress.next and progress.ended_at is not None:
                log.warning(
                    "%s-%s ends at %s, before %s: it was truncated", TOPIC, number, found[number], progress.next
                )
                progress.truncated(found[number])
                self._assign()
            progress.asked(found.get(number), asked_at)
        self._start(found, asked_at, deadline)
        if any(progress.refused for progress in self._progress.values()):
            # librdkafka says an end once: only a new assignment tells that reading is granted again.
            self._assign()
        if partitions and self._unseeded != set() and self._cluster.clock.monotonic() >= self._seed_at:
            self._seed(len(partitions), deadline)

    def _start(self, ends: Mapping[int, int], asked_at: float, deadline: Deadline) -> None:
        fresh = {number: end for number, end in ends.items() if number not in self._progress}
        if not fresh:
            return
        if self._tail is None:
            self._tail = self._open_tail(self._cluster.properties, TOPIC)
        saved = self._cluster.state.load(self._cluster.cluster_id, self.name).get("partitions")
        if not isinstance(saved, dict):
            saved = None
        # What the last process did not know is as new as what appears while this one watches.
        old = [
            number for number in fresh if number in (self._at_start or ()) and (saved is None or str(number) in saved)
        ]
        hour_ago: Mapping[int, int | None] = {}
        if old:
            hour_ago = self._tail.offsets_since(old, self._cluster.clock.wall() - HOUR, deadline)
        for number, end in fresh.items():
            left = (saved or {}).get(str(number))
            left = left if isinstance(left, dict) else {}
            progress = begin(end, hour_ago.get(number), left, from_zero=number not in old)
            progress.asked(end, asked_at)
            self._progress[number] = progress
        self._current = False
        self._assign()

    def _assign(self) -> None:
        if self._tail is not None:
            self._tail.assign({number: progress.next for number, progress in self._progress.items()})

    def _seed(self, partitions: int, deadline: Deadline) -> None:
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
            self._ledger.seed(coordinator_partition(known.transactional_id, partitions), known)
        for transactional_id, number in asked.ids:
            self._ledger.seed_id(number, transactional_id)
        self._unseeded = set(asked.silent)
        self._seed_missing = tuple(fault.detail for fault in asked.faults) if asked.silent else ()

    # --- Reading it ---

    def _follow(self, deadline: Deadline) -> None:
        """Read what is there, for about one pace while behind; a shorter batch than asked for means that all was
        read.
        """
        if self._tail is None:
            return
        pause = deadline.within(PACE)
        while True:
            messages = self._tail.poll(BATCH, min(0.5, max(0.05, pause.remaining())))
            self._take(messages)
            if len(messages) < BATCH or pause.over:
                break
        for number, progress in self._progress.items():
            if (log_ms := progress.proven_log_ms()) is not None:
                self._ledger.advance(self._ledger.partition(number), log_ms - DELIVERY_SLACK_MS)

    def _take(self, messages: list[Polled]) -> None:
        apply = self._ledger.apply
        logs = {number: self._ledger.partition(number) for number in self._progress}
        progresses = self._progress
        unread = self._unread
        for message in messages:
            if message.error() is not None:
                self._event(message)
                continue
            number = message.partition()
            offset = message.offset()
            progress = progresses[number]
            if offset == progress.next:
                progress.next = offset + 1
            else:
                progress.read(offset)
            key = message.key() or b""
            try:
                apply(logs[number], offset, message.timestamp()[1], key, message.value())
            except UndecodableRecord as problem:
                self._undecodable_record(progress, number, offset, key, problem)
            else:
                if unread:
                    unread.pop(key, None)
            self._readable = True

    def _event(self, message: Polled) -> None:
        error, number = message.error(), message.partition()
        if error is None:
            return
        progress = self._progress.get(number)
        if progress is None:
            self._faults.append(fault_of(error, TOPIC))
        elif is_end(error):
            self._readable = True
            logged = self._ledger.partition(number)
            progress.reached_end(message.offset(), self._cluster.clock.monotonic(), logged.log_ms)
        else:
            fault = fault_of(error, TOPIC)
            if fault.reason is Reason.AUTHORIZATION:
                progress.refused = True
                progress.ended_at = None
            else:
                self._faults.append(fault)

    def _undecodable_record(
        self, progress: PartitionProgress, number: int, offset: int, key: bytes, problem: UndecodableRecord
    ) -> None:
        if offset >= progress.position:
            self._undecodable += 1
        reason = Reason.UNSUPPORTED if problem.newer else Reason.MALFORMED
        advice = ": upgrade kafka-eos-exporter" if problem.newer else ""
        fault = Fault(reason, f"{TOPIC}-{number} offset {offset} has {problem}{advice}")
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(fault)
        # Beyond the most, one that is never read stands for all.
        self._unread[key if len(self._unread) < MOST_UNREAD else b""] = fault

    # --- What it says ---

    def _counted(self, number: int, offset: int) -> bool:
        progress = self._progress.get(number)
        return progress is not None and progress.count(offset)

    def _caught_up(self) -> bool:
        return all(progress.ended_at is not None for progress in self._progress.values())

    @property
    def _empty(self) -> bool:
        """Whether the cluster has no transaction log yet: nothing ran a transaction, and that is an answer."""
        return self._at_start is not None and not self._progress and not self._check_faults

    def _refusals(self) -> Iterator[Fault]:
        refused = sum(progress.refused for progress in self._progress.values())
        if refused:
            detail = f"reading {TOPIC} is refused for {refused} partitions: grant READ on Topic:{TOPIC}"
            yield Fault(Reason.AUTHORIZATION, detail)
        elif self._tail is not None and not self._check_faults and (trouble := self._tail.trouble()) is not None:
            yield trouble

    def _counters(self) -> Iterator[Sample]:
        name = self.cluster
        lost = sum(progress.lost for progress in self._progress.values())
        yield catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL(float(self._undecodable), name)
        yield catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL(float(lost), name)
        yield from self._books.counters(name)

    def _lag(self) -> int:
        return sum(progress.lag for progress in self._progress.values())

    def _gauges(self, facts: Facts) -> Iterator[Sample | Fact]:
        clock = self._cluster.clock
        wall = clock.wall()
        if self._census_at is None or clock.monotonic() - self._census_at >= CENSUS_INTERVAL:
            self._census_at = clock.monotonic()
            self._books.census(iter(self._ledger.entries.values()), wall)
            self._known_ids = self._count_ids()
        yield self._known_ids
        if self._use is None or clock.monotonic() - self._used_at >= USE_INTERVAL:
            self._used_at = clock.monotonic()
            of = self._cluster.grouping.of
            self._use = transaction_use(self._ledger.entries.values(), self._books.topics, of, (wall - HOUR) * 1000)
        yield self._use
        transactions = tuple(entry.transaction() for entry in self._ledger.open.values())
        yield from self._books.gauges(self.cluster, wall)
        yield from self._open_samples(transactions, facts.get(Stalls), wall)
        missing = self._missing()
        yield OpenTransactions(self.name, transactions, not missing, missing)
        yield UncleanEnds(self._books.unclean_ends(wall))
        if self._release_times is None:
            self._release_times = self._releases()
        yield self._release_times

    def _open_samples(
        self, transactions: tuple[OpenTransaction, ...], stalls: Stalls | None, wall: float
    ) -> tuple[Sample, ...]:
        """Made anew at every read while few are open, at most every CHECK_INTERVAL when there are thousands."""
        age = self._cluster.clock.monotonic() - self._open_made_at
        if age >= min(CHECK_INTERVAL - PACE / 2, len(transactions) / OPEN_PER_SECOND):
            self._open_made_at = self._cluster.clock.monotonic()
            most, applications = self._settings.open_transactions, self._books.applications
            self._open_made = tuple(
                open_transaction_samples(self.cluster, transactions, applications, stalls, most, wall)
            )
        return self._open_made

    def _missing(self) -> tuple[str, ...]:
        """Why the open transactions may not be all there are."""
        missing = list(self._seed_missing)
        if self._unseeded is None and self._progress:
            missing.append("the coordinators were not asked for the state at the start yet")
        missing += [fault.detail for fault in self._check_faults]
        if not self._current:
            missing.append(f"the tail of {TOPIC} is behind its end")
        missing += [fault.detail for fault in list(self._unread.values())[:3]]
        return tuple(dict.fromkeys(missing))

    def _count_ids(self) -> KnownIds:
        by_partition: dict[int, dict[str, int]] = {}
        for entry in self._ledger.entries.values():
            applications = by_partition.setdefault(entry.log_partition, {})
            applications[entry.application] = applications.get(entry.application, 0) + 1
        return KnownIds(by_partition)

    def _releases(self) -> ReleaseTimes:
        """Made once, when the tail first caught up: it dates stalls that are older than this process."""
        ended: dict[TopicPartition, float] = {}
        for entry in self._ledger.entries.values():
            if entry.open or not entry.section:
                continue
            for partition in entry.partitions():
                ended[partition] = max(ended.get(partition, 0.0), entry.record_ms / 1000)
        return ReleaseTimes(ended)

    def _save(self) -> None:
        if self._at_start is None or not (self._progress or self._empty):
            return
        # Partitions that were there at the start and gave no answer yet are known, without a position.
        partitions: dict[str, dict[str, int | list[int]]] = {str(number): {} for number in self._at_start}
        opened = self._began()
        for number, progress in self._progress.items():
            unsettled = set(progress.unsettled)  # not met yet, while this one reads what is only dated
            for _, entry, each in self._ledger.partition(number).unsettled:
                if entry.pending is each and each.offset >= progress.position:
                    unsettled.add(each.offset)
            kept: dict[str, int | list[int]] = {
                "next": max(progress.next, progress.position),
                "unsettled": sorted(unsettled),
            }
            if number in opened:
                kept["open"] = opened[number]
            partitions[str(number)] = kept
        self._cluster.state.save(self._cluster.cluster_id, self.name, {"partitions": partitions})

    def _began(self) -> dict[int, int]:
        """From where on to read each log partition to see how the open transactions of the last hour began."""
        first: dict[int, int] = {}
        for entry in self._ledger.open.values():
            number = entry.log_partition
            recent = entry.start_ms >= self._ledger.partition(number).log_ms - HOUR * 1000
            if recent and entry.begun_offset >= 0:
                first[number] = min(first.get(number, entry.begun_offset), entry.begun_offset)
        return first
