"""The partitions of the transaction log: which there are, where reading begins and goes on, and where the log ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from exporter.cluster import Cluster
from exporter.kafka.client import AskError
from exporter.kafka.log.tail import TailReader
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.configs import scans_late
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import NONE_LATER, Isolation, end_offsets, log_end_offsets, offsets_at
from exporter.model import Deadline, Fault, KnownLogEnd, KnownLogEnds, Reason, TopicPartition
from exporter.transactions.counting.aggregates import HOUR, Aggregates
from exporter.transactions.known_log import STUCK_SECONDS
from exporter.transactions.machine.log_changes import BEFORE, NO_CHANGES, LogChanges, Window
from exporter.transactions.machine.progress import NO_EPOCH, PartitionProgress
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.saved import begin
from exporter.transactions.source.positions import check_positions
from exporter.transactions.source.saved_log import SavedLog
from exporter.transactions.tail import LogTail

CHECK_INTERVAL = 5.0
"""Seconds between two requests for the log's end, which make a read current; gauges expire by it."""
RETRY_INTERVAL = 1.0
"""The same while the log, or a part of it, is missing."""
ENDS_INTERVAL = 60.0
"""Seconds between two ends of the log that ``lso`` is told."""
SCANS_INTERVAL = 600.0
"""Seconds between two looks at the brokers' settings."""
METADATA_SECONDS = 3.0
LOG_END_SECONDS = 1.0
"""Shares of a read for metadata and for log ends: a broker that does not answer affects only its own partitions."""


class LogPartitions:
    """Starts the tail, and checks its positions against the leaders. Not thread-safe: for the worker of ``txnlog``.

    ``tail`` reads the partitions that were begun, ``log`` has what is known of them. ``seen`` is how many the topic has
    by the last metadata.
    """

    def __init__(
        self,
        cluster: Cluster,
        aggregates: Aggregates,
        saved: SavedLog,
        open_tail: Callable[[Properties, str], TailReader],
    ) -> None:
        self._cluster = cluster
        self._saved = saved
        self.tail = LogTail(aggregates, lambda: open_tail(cluster.properties, TOPIC), cluster.clock)
        self.log = self.tail.known
        self.seen = 0
        self.is_new = False
        """Whether the topic is newer than this process."""
        self.faults: tuple[Fault, ...] = ()
        """Of the last check."""
        self.lost: dict[int, int] = {}
        """Partitions that lost records, and from which offset on."""
        self._checked_at: float | None = None
        self._reconnected_at = -math.inf
        self._ends: KnownLogEnds | None = None
        self._scans_asked_at = -math.inf

    @property
    def progress(self) -> Mapping[int, PartitionProgress]:
        return self.log.progress

    @property
    def readable(self) -> bool:
        """Return whether the log was readable in this process: a grant that was taken away since is a fault."""
        return self.tail.records.readable

    @property
    def empty(self) -> bool:
        """Return whether the cluster has no transaction log yet, since no transaction was run. That is no fault."""
        return self._saved.loaded and not self.progress and not self.faults and not self.seen

    @property
    def due(self) -> bool:
        """Return whether the metadata is to be requested. While a part of the log is missing, every read does."""
        behind = len(self.progress) < self.seen or self.log.gone or self.tail.unconfirmed
        interval = CHECK_INTERVAL if (self.progress and not behind) or self.faults else RETRY_INTERVAL
        now = self._cluster.clock.monotonic()
        return self._checked_at is None or now - self._checked_at >= interval

    def check(self, deadline: Deadline) -> None:
        """Read the topic's metadata and ends, start new partitions, and check the others. Raises AskError without an
        answer.
        """
        if self.progress and self.tail.unconfirmed:
            self._cluster.client.verify_identity(deadline.within(METADATA_SECONDS))
        self._check(deadline.within(METADATA_SECONDS))
        if self.tail.unconfirmed and self.seen:
            self.tail.confirm()

    def failed(self, fault: Fault) -> None:
        """Note that ``check`` had no answer."""
        self.faults = (fault,)
        self._checked_at = self._cluster.clock.monotonic()
        if fault.reason is Reason.IDENTITY:
            self.tail.unconfirmed = True
        self.tail.asked({}, self._cluster.clock.monotonic())

    def _check(self, deadline: Deadline) -> None:
        asked_at = self._checked_at = self._cluster.clock.monotonic()
        metadata = self._cluster.metadata(deadline, (TOPIC,))
        fault = metadata.errors.get(TOPIC)
        if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
            raise AskError(fault)
        partitions = metadata.topics.get(TOPIC, {})
        if not partitions and self.progress:
            self.tail.unconfirmed = True  # a topic of this name may be another one
        self.seen = len(partitions)
        if self._saved.load(metadata.topic_ids.get(TOPIC, ""), self.seen):
            self.is_new = not partitions
            self.tail.records.undecodable = self._saved.undecodable
            self.log.restore_clocks(self._saved.clocks)
        wanted = [TopicPartition(TOPIC, number) for number in partitions]
        ends = end_offsets(self._cluster.client, metadata, wanted, Isolation.READ_UNCOMMITTED, deadline)
        self.faults = ends.faults
        found = {partition.partition: end for partition, end in ends.values.items()}
        self.tail.asked(found, asked_at)
        with_open = [number for number in self.log.with_open() if number in found]
        self.log.log_ends_asked(self._ask_log_ends(metadata, with_open, deadline), asked_at)
        self._start(metadata, found, asked_at, deadline)
        gone = self.log.gone
        elected = {
            number: progress
            for number, progress in self.progress.items()
            if number in found and metadata.leader_epoch(TopicPartition(TOPIC, number)) != progress.led.confirmed
        }
        if gone or elected:
            # A broker's answer decides about positions that the log does not have.
            lost = self._check_positions(metadata, {**elected, **gone}, deadline, seen=True)
            if gone or lost:
                self.tail.assign()
        self._note_confirmed(metadata, found, asked_at)
        self._follow_leaders(metadata)
        if asked_at - self._scans_asked_at >= SCANS_INTERVAL:
            self._scans_asked_at = asked_at
            self.log.scans_late = scans_late(self._cluster.client, metadata.brokers, deadline)

    def _check_positions(
        self, metadata: Metadata, progress: Mapping[int, PartitionProgress], deadline: Deadline, *, seen: bool
    ) -> bool:
        """Check positions, and note elections and losses. Returns whether records were lost."""
        confirmed = {number: partition.led.confirmed for number, partition in progress.items()}
        checked = check_positions(self._cluster.client, metadata, progress, deadline, seen=seen)
        self.faults += checked.faults
        clock = self._cluster.clock
        for number, partition in progress.items():
            since, monotonic_since = partition.led.confirmed_at or (BEFORE, BEFORE)
            offset = max(partition.next, partition.position)
            window = Window(since, clock.wall(), offset, monotonic_since, clock.monotonic())
            if partition.led.confirmed != confirmed[number] != NO_EPOCH:
                partition.led.changes = partition.led.changes.with_election(window)
            if number in checked.lost:
                partition.led.changes = partition.led.changes.with_loss(window)
        self.lost |= checked.lost
        return bool(checked.lost)

    def _note_confirmed(self, metadata: Metadata, answered: Container[int], asked_at: float) -> None:
        clock = self._cluster.clock
        instant = clock.wall() - (clock.monotonic() - asked_at), asked_at
        for number, progress in self.progress.items():
            if number in answered and metadata.leader_epoch(TopicPartition(TOPIC, number)) == progress.led.confirmed:
                progress.led.confirmed_at = instant
                progress.led.led_by(progress.led.confirmed, metadata.leader(TOPIC, number), asked_at)
        leaders = (metadata.leader(TOPIC, number) for number in metadata.topics.get(TOPIC, {}))
        self.log.coordinators.leaders = frozenset(leader for leader in leaders if leader is not None)

    def _start(self, metadata: Metadata, ends: Mapping[int, int], asked_at: float, deadline: Deadline) -> None:
        """Begin the new partitions that answered. The others keep their saved state."""
        fresh = {number: end for number, end in ends.items() if number not in self.progress}
        if not fresh:
            return
        waiting, partitions = self._saved.waiting, self._saved.log_partitions
        hour_ago = {
            TopicPartition(TOPIC, number): int((self._cluster.clock.wall() - HOUR) * 1000)
            for number in fresh
            if number in waiting or number < partitions
        }
        found = offsets_at(self._cluster.client, metadata, hour_ago, deadline).values
        begun: dict[int, PartitionProgress] = {}
        clocks = self._saved.clocks
        for number, end in fresh.items():
            recent = found.get(TopicPartition(TOPIC, number), NONE_LATER)
            left = waiting.get(number)
            begun[number] = begin(end, recent if recent >= 0 else None, left, from_zero=number >= partitions)
            begun[number].asked(end, asked_at)
            begun[number].led.restore(dict(clocks.led.get(number, ())) if clocks is not None else {})
            if left is not None:
                self._saved.began_at(number, end)
        kept = {number: progress for number, progress in begun.items() if number in waiting}
        for number in begun.keys() - kept.keys():
            begun[number].led.confirmed = metadata.leader_epoch(TopicPartition(TOPIC, number))
        self._check_positions(metadata, kept, deadline, seen=False)
        self.tail.begin({number: (progress, waiting.pop(number, None)) for number, progress in begun.items()})

    def _follow_leaders(self, metadata: Metadata) -> None:
        """Read partitions that are stuck from the brokers that lead them by the newest metadata."""
        now = self._cluster.clock.monotonic()
        if not (stuck := self.log.stuck()) or now - self._reconnected_at < STUCK_SECONDS:
            return
        leaders = set(metadata.leaders(TopicPartition(TOPIC, number) for number in stuck).values())
        servers = [metadata.brokers[node] for node in sorted(leaders) if node in metadata.brokers]
        if servers:
            self._reconnected_at = now
            self.tail.reconnect(",".join(servers))

    # --- What is known of them ---

    def log_ends(self, numbers: Sequence[int], deadline: Deadline) -> dict[int, int]:
        """The log ends of these partitions, where the broker answers the request."""
        if not numbers:
            return {}
        try:
            metadata = self._cluster.metadata(deadline, (TOPIC,))
        except AskError:
            return {}
        return self._ask_log_ends(metadata, numbers, deadline.within(LOG_END_SECONDS))

    def _ask_log_ends(self, metadata: Metadata, numbers: Iterable[int], deadline: Deadline) -> dict[int, int]:
        wanted = [TopicPartition(TOPIC, number) for number in numbers]
        answers = log_end_offsets(self._cluster.client, metadata, wanted, deadline)
        return {partition.partition: end for partition, end in answers.values.items()}

    def known_ends(self) -> KnownLogEnds | None:
        """The ends of the log, once a minute; None while that of a partition is not known."""
        now = self._cluster.clock.monotonic()
        if self._ends is None or now - self._ends.at >= ENDS_INTERVAL:
            ends = {
                number: KnownLogEnd(end, progress.led.confirmed)
                for number, progress in self.progress.items()
                if (end := progress.end.high_watermark) is not None and not progress.gone
            }
            self._ends = KnownLogEnds(now, ends) if ends and len(ends) == self.seen else None
        return self._ends

    def changes(self) -> LogChanges:
        """Elections and losses of the partitions that had any."""
        return LogChanges(
            {number: known.led.changes for number, known in self.progress.items() if known.led.changes != NO_CHANGES}
        )

    def all_faults(self) -> list[Fault]:
        """The faults of the tail, of partitions that lost records, and partitions that are stuck."""
        found = []
        fault = self.tail.trouble()
        # The fault of the request for log ends is more exact than librdkafka's "all brokers are down".
        if fault is not None and (fault.reason is Reason.AUTHORIZATION or not self.faults):
            found.append(fault)
        found += self.unknown()
        for number, seconds in self.log.stuck().items():
            known = self.progress[number]
            text = (
                f"{TOPIC}-{number} is read up to offset {known.next} for {seconds:.0f} s, and its leader has records"
                f" up to {known.end.high_watermark}: the broker that is read is no longer the leader, or cannot be"
                " reached; the leader by the newest metadata is read next"
            )
            found.append(Fault(Reason.STALE, text))
        return found

    def unknown(self) -> list[Fault]:
        """A fault for each partition that lost records whose ids were not settled since."""
        found = []
        for number, ids in self.log.unknown.items():
            text = f"{TOPIC}-{number} lost records that were read: whether {ids} of its ids have a transaction open"
            text += " is unknown until its coordinator answers, or until their next record"
            found.append(Fault(Reason.LOST, text))
        return found
