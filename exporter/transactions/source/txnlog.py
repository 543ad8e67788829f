"""The transaction log: a live tail of ``__transaction_state``, the only data of Kafka on how transactions end."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from exporter import catalogue
from exporter.cluster.cluster import Cluster, KafkaSource
from exporter.core.kept import KeptValue
from exporter.flink.facts import FlinkJobs, FlinkTransactions
from exporter.flink.places import PrecommitPlaces
from exporter.flink.samples import flink_samples
from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Tail, TailReader
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import NONE_LATER, Isolation, end_offsets, list_offsets, log_end_offsets
from exporter.lso.facts import Stalls
from exporter.model import (
    Deadline,
    Fact,
    Facts,
    Fault,
    IgnoredSource,
    KnownLogEnds,
    LateBatch,
    Notes,
    Reason,
    Sample,
    SampleBatch,
    TopicPartition,
)
from exporter.transactions.clock import coordinator_time
from exporter.transactions.counting.aggregates import Aggregates, Caps
from exporter.transactions.counting.application_counters import (
    COUNTER_FAMILIES,
    LAST_FAMILIES,
    counter_samples,
    last_samples,
)
from exporter.transactions.counting.census import Census
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.decided.recent_decisions import DecisionTail
from exporter.transactions.facts import (
    ClockBounds,
    CoordinatorTime,
    LoggedTransactions,
    LogRefused,
    OpenTransaction,
    OpenTransactions,
    UncleanEnds,
)
from exporter.transactions.keeper import Keeper
from exporter.transactions.machine.log_changes import BEFORE, NO_CHANGES, LogChanges, Window
from exporter.transactions.machine.progress import NO_EPOCH, PartitionProgress
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.saved import Saved, begin
from exporter.transactions.source.log_seed import LogSeed
from exporter.transactions.source.positions import check_positions
from exporter.transactions.tail import STUCK_SECONDS, LogTail

PACE = 1.0
"""Seconds from one read to the next: a settled outcome is on /metrics within two of them."""
HURRIED_PACE = 0.02
"""The same while records wait: a read takes a little over PACE then, and the rest of a second would be lost."""
CHECK_INTERVAL = 5.0
"""Seconds between two requests for the log's end, which make a read current; gauges expire by it."""
ENDS_INTERVAL = 60.0
"""Seconds between two ends of the log that ``lso`` is told."""
HOUR = 3600.0
LOG_END_SECONDS = 1.0
LOOK_SECONDS = 3.0
SEED_SECONDS = 2.0
"""Shares of a read for log ends, metadata, and the state at the start: a broker that does not answer affects only its
own partitions.
"""


REFUSED = frozenset({Reason.AUTHORIZATION, Reason.UNSUPPORTED})
"""Reasons that stay until somebody changes the cluster."""
POLLED_INSTEAD = "the cluster refuses the transaction log: outcomes are polled, and counted at least"


@dataclass(frozen=True, slots=True)
class TxnlogSettings:
    """Limits of applications and ids, and seconds. ``or_polling``: outcomes are polled where the log is refused."""

    caps: Caps = field(default_factory=Caps)
    timeout: float = 10.0
    or_polling: bool = False


class TxnlogSource(KafkaSource):
    """Source ``txnlog`` of one cluster: outcomes of transactions from the log, while READ on it is granted."""

    name = "txnlog"
    interval = CHECK_INTERVAL

    def __init__(
        self, cluster: Cluster, settings: TxnlogSettings, open_tail: Callable[[Properties, str], TailReader] = Tail
    ) -> None:
        super().__init__(cluster)
        self._open_tail = open_tail
        self._settings = settings
        self.timeout = settings.timeout
        self.pace = PACE
        self._aggregates = Aggregates(cluster.grouping, settings.caps, cluster.shard)
        self._log: LogTail | None = None  # None until the topic was seen
        self._keeper = Keeper(cluster.state, self.name)
        self._saved: Saved | None = None  # the state of the last process; None until the first request for metadata
        self._log_partitions: int | None = None  # at the first start; None until the first request for metadata
        self._targets: dict[int, int] = {}  # ends at the start, which are read before restored counters are exposed
        self._shown = False  # the counters
        self._undecodable = 0
        self._seed = LogSeed(cluster, self._aggregates)
        self._census = Census(cluster.clock, self._aggregates, cluster.grouping, first_shard=cluster.shard.first)
        self._looked_at: float | None = None
        self._seen = 0  # and at the last
        self._look_faults: tuple[Fault, ...] = ()
        self._hour = LastHour(cluster.clock)
        self._decisions = DecisionTail()
        # Of the last read, and what it was made of.
        self._counted, self._dated, self._present = (KeptValue(SampleBatch(())) for _ in range(3))
        self._recent = SampleBatch(())
        self._opened: tuple[OpenTransaction, ...] = ()
        self._opened_of = -1
        self._ends: KnownLogEnds | None = None
        self._places = PrecommitPlaces()
        self._stalls: Stalls | None = None
        self._reconnected_at = -math.inf
        self._lost: dict[int, int] = {}  # partitions that lost records, and from which offset on
        self._losses = 0  # those of the tail that are saved

    def close(self) -> None:
        self._save(whole=True)
        if self._log is not None:
            self._log.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        refused: Fault | None = None
        for item in self._read(deadline, facts):
            if isinstance(item, Fault) and item.reason in REFUSED:
                refused = item
            yield item
        if refused is not None and self._settings.or_polling and not self._readable_once():
            yield LogRefused(refused.detail)
            yield IgnoredSource(POLLED_INSTEAD)

    def _readable_once(self) -> bool:
        """Whether the log was readable in this process: a grant that was taken away since is a fault."""
        return self._log is not None and self._log.readable

    def _read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        if (stalls := facts.get(Stalls)) is not self._stalls:
            self._stalls = stalls
            self._places.note(stalls.stalls if stalls is not None else ())
        try:
            if self._look_due():
                if self._log is not None and self._log.unconfirmed:
                    self._cluster.client.verify_identity(deadline.within(LOOK_SECONDS))
                self._look(deadline.within(LOOK_SECONDS))
                if self._log is not None and self._log.unconfirmed and self._seen:
                    self._log.confirm()
                self._forget_lost()
                if self._log is not None and self._seen:
                    self._seed.read(self._log, self._seen, self._log_now, deadline.within(SEED_SECONDS))
        except AskError as error:
            self._look_faults = (error.fault,)
            self._looked_at = self._cluster.clock.monotonic()
            if self._log is not None and error.fault.reason is Reason.IDENTITY:
                self._log.unconfirmed = True
            if self._log is not None:
                self._log.asked({}, self._cluster.clock.monotonic())
        yield from self._look_faults
        if self._log is not None:
            asked_at = self._cluster.clock.monotonic()
            log_ends = self._log_ends(self._log.due(asked_at), deadline)
            yield from self._log.follow(deadline.within(PACE))
            self._log.reached(log_ends, asked_at)
            self.pace = HURRIED_PACE if self._log.hurries else PACE
        yield from self._trouble()
        yield from self._unknown()
        yield from self._stuck()
        yield LogChanges(
            {number: each.changes for number, each in self._progress.items() if each.changes != NO_CHANGES}
        )
        counts = gauges = False
        if self._empty or (self._log is not None and self._log.readable):
            if counts := self._counters_go_on():
                yield from self._counters()
            lag = self._log.lag if self._log is not None else 0
            if lag is not None:
                yield catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS(float(lag), self.cluster)
            time = facts.get(CoordinatorTime) or CoordinatorTime(None, None)
            gauges = self._log is None or self._log.answering_current
            if gauges:
                yield from self._gauges()
            yield from self._flink(time.now(self._cluster.clock.wall()), gauges=gauges)
        yield self._decisions.read(self._cluster.clock.monotonic())
        self._save()
        if trouble := self._keeper.trouble:
            yield Notes((f"state.dir is not written ({trouble}): a restart goes on from what was written before",))
        if counts and (counted := self._aggregates.counted()):
            fences = self._recent.of_families((catalogue.RECENT_PRODUCER_FENCES,)) if gauges else ()
            self._hour.note({name: each.outcomes for name, each in counted.items()}, fences)
            yield self._hour

    # --- Metadata and positions ---

    def _look_due(self) -> bool:
        # While the log, or a part of it, is missing, every read requests the metadata.
        behind = self._log is not None and (len(self._progress) < self._seen or self._log.gone or self._log.unconfirmed)
        interval = CHECK_INTERVAL if (self._progress and not behind) or self._look_faults else PACE
        now = self._cluster.clock.monotonic()
        return self._looked_at is None or now - self._looked_at >= interval

    def _look(self, deadline: Deadline) -> None:
        """Read the topic's metadata and ends; start new partitions. Raises AskError without an answer."""
        asked_at = self._looked_at = self._cluster.clock.monotonic()
        metadata = self._cluster.metadata(deadline, (TOPIC,))
        fault = metadata.errors.get(TOPIC)
        if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
            raise AskError(fault)
        partitions = metadata.topics.get(TOPIC, {})
        if not partitions and self._log is not None:
            self._log.unconfirmed = True  # a topic of this name may be another one
        self._seen = len(partitions)
        if self._saved is None:
            topic_id = metadata.topic_ids.get(TOPIC, "")
            self._saved, self._undecodable = self._keeper.load(self._cluster.cluster_id, topic_id, self._aggregates)
            known = self._saved.log_partitions
            self._log_partitions = len(partitions) if known is None else known
            self._seed.log_is_new = not partitions
        self._keeper.identify(metadata.topic_ids.get(TOPIC, ""))
        wanted = [TopicPartition(TOPIC, number) for number in partitions]
        ends = end_offsets(self._cluster.client, metadata, wanted, Isolation.READ_UNCOMMITTED, deadline)
        self._look_faults = ends.faults
        found = {partition.partition: end for partition, end in ends.values.items()}
        if self._log is not None:
            self._log.asked(found, asked_at)
            with_open = [number for number in self._log.with_open() if number in found]
            self._log.log_ends_asked(self._ask_log_ends(metadata, with_open, deadline), asked_at)
        self._start(metadata, self._saved, found, asked_at, deadline)
        if self._log is not None:
            gone = self._log.gone
            elected = {
                number: each
                for number, each in self._progress.items()
                if number in found and metadata.leader_epoch(TopicPartition(TOPIC, number)) != each.confirmed
            }
            if gone or elected:
                # A broker's answer decides about positions that the log does not have.
                lost = self._check(metadata, {**elected, **gone}, deadline, seen=True)
                if gone or lost:
                    self._log.assign()
            self._note_confirmed(metadata, found, asked_at)
            self._follow_leaders(metadata)

    def _check(
        self, metadata: Metadata, progress: Mapping[int, PartitionProgress], deadline: Deadline, *, seen: bool
    ) -> bool:
        """Check positions, and note elections and losses. Returns whether records were lost."""
        confirmed = {number: each.confirmed for number, each in progress.items()}
        checked = check_positions(self._cluster.client, metadata, progress, deadline, seen=seen)
        self._look_faults += checked.faults
        clock = self._cluster.clock
        for number, each in progress.items():
            since, monotonic_since = each.confirmed_at or (BEFORE, BEFORE)
            offset = max(each.next, each.position)
            window = Window(since, clock.wall(), offset, monotonic_since, clock.monotonic())
            if each.confirmed != confirmed[number] != NO_EPOCH:
                each.changes = each.changes.with_election(window)
            if number in checked.lost:
                each.changes = each.changes.with_loss(window)
        self._lost |= checked.lost
        return bool(checked.lost)

    def _note_confirmed(self, metadata: Metadata, answered: Container[int], asked_at: float) -> None:
        clock = self._cluster.clock
        instant = clock.wall() - (clock.monotonic() - asked_at), asked_at
        for number, each in self._progress.items():
            if number in answered and metadata.leader_epoch(TopicPartition(TOPIC, number)) == each.confirmed:
                each.confirmed_at = instant
                each.led_by(each.confirmed, metadata.leader(TOPIC, number))

    def _forget_lost(self) -> None:
        """Make unknown what only lost records showed. Its end is an answer of the coordinator, or the next record."""
        if self._log is None or not self._lost:
            return
        for number, offset in self._lost.items():
            self._log.lose(number, offset)
            self._seed.again(number)
        self._lost = {}

    def _start(
        self, metadata: Metadata, saved: Saved, ends: Mapping[int, int], asked_at: float, deadline: Deadline
    ) -> None:
        """Begin the new partitions that answered. The others keep their saved state."""
        fresh = {number: end for number, end in ends.items() if number not in self._progress}
        if not fresh:
            return
        if self._log is None:
            tail = self._open_tail(self._cluster.properties, TOPIC)
            self._log = LogTail(self._aggregates, tail, self._cluster.clock)
            self._log.undecodable = self._undecodable
            self._log.ended = self._decisions.take
        hour_ago = {
            TopicPartition(TOPIC, number): int((self._cluster.clock.wall() - HOUR) * 1000)
            for number in fresh
            if number in saved.partitions or number < (self._log_partitions or 0)
        }
        found = list_offsets(self._cluster.client, metadata, hour_ago, deadline).values
        begun: dict[int, PartitionProgress] = {}
        for number, end in fresh.items():
            left = saved.partitions.get(number)
            recent = found.get(TopicPartition(TOPIC, number), NONE_LATER)
            from_zero = number >= (self._log_partitions or 0)
            begun[number] = begin(end, recent if recent >= 0 else None, left, from_zero=from_zero)
            begun[number].asked(end, asked_at)
            if left is not None:
                self._targets[number] = end
        kept = {number: each for number, each in begun.items() if number in saved.partitions}
        for number in begun.keys() - kept.keys():
            begun[number].confirmed = metadata.leader_epoch(TopicPartition(TOPIC, number))
        self._check(metadata, kept, deadline, seen=False)
        self._log.begin({number: (each, saved.partitions.pop(number, None)) for number, each in begun.items()})

    def _log_ends(self, numbers: Sequence[int], deadline: Deadline) -> dict[int, int]:
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

    def _counters_go_on(self) -> bool:
        """Whether restored counters have reached the log's end at the start.

        From then on they are exposed; a partition that answers later is added.
        """
        if self._shown:
            return True
        for number, target in list(self._targets.items()):
            progress = self._progress.get(number)
            if progress is not None and (progress.next >= target or progress.end is None):
                del self._targets[number]
        self._shown = not self._targets
        return self._shown

    def _log_now(self) -> float:
        """The coordinators' time (Unix seconds), which dates the records; our wall clock's while theirs is not known.

        It runs on with the monotonic clock, so that a jump of ours moves nothing into the last hour or out of it.
        """
        clock = self._cluster.clock
        wall = clock.wall()
        return coordinator_time(self._clock_bounds, clock.monotonic(), wall).now(wall)

    @property
    def _clock_bounds(self) -> ClockBounds:
        return self._log.clock_bounds if self._log is not None else ClockBounds()

    # --- Samples and facts ---

    @property
    def _progress(self) -> Mapping[int, PartitionProgress]:
        return self._log.progress if self._log is not None else {}

    @property
    def _empty(self) -> bool:
        """Whether the cluster has no transaction log yet, since no transaction was run. That is no fault."""
        return self._saved is not None and not self._progress and not self._look_faults and not self._seen

    def _trouble(self) -> Iterator[Fault]:
        fault = self._log.trouble() if self._log is not None else None
        # The fault of the request for log ends is more exact than librdkafka's "all brokers are down".
        if fault is not None and (fault.reason is Reason.AUTHORIZATION or not self._look_faults):
            yield fault

    def _unknown(self) -> Iterator[Fault]:
        for number, ids in self._log.unknown.items() if self._log is not None else ():
            text = f"{TOPIC}-{number} lost records that were read: whether {ids} of its ids have a transaction open"
            yield Fault(Reason.LOST, f"{text} is unknown until its coordinator answers, or until their next record")

    def _stuck(self) -> Iterator[Fault]:
        for number, seconds in self._log.stuck().items() if self._log is not None else ():
            progress = self._progress[number]
            yield Fault(
                Reason.STALE,
                f"{TOPIC}-{number} is read up to offset {progress.next} for {seconds:.0f} s, and its leader has records"
                f" up to {progress.end}: the broker that is read was deposed and does not know it, or cannot"
                " be reached; reading goes to the new leader",
            )

    def _follow_leaders(self, metadata: Metadata) -> None:
        """Read partitions that are stuck from the brokers that lead them by the newest metadata."""
        if self._log is None or not (stuck := self._log.stuck()):
            return
        now = self._cluster.clock.monotonic()
        if now - self._reconnected_at < STUCK_SECONDS:
            return
        leaders = set(metadata.leaders(TopicPartition(TOPIC, number) for number in stuck).values())
        servers = [metadata.brokers[node] for node in sorted(leaders) if node in metadata.brokers]
        if servers:
            self._reconnected_at = now
            self._log.reconnect(",".join(servers))

    def _counters(self) -> Iterator[Sample | SampleBatch | Fact]:
        undecodable, lost = (self._log.undecodable, self._log.lost) if self._log is not None else (0, 0)
        yield catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL(float(undecodable), self.cluster)
        yield catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL(float(lost), self.cluster)
        cluster, counted = self.cluster, self._aggregates.counted()
        samples = partial(counter_samples, cluster, counted)
        yield self._counted.of((cluster, counted), lambda _: LateBatch(COUNTER_FAMILIES, samples))
        yield self._aggregates.task_commits

    def _gauges(self) -> Iterator[Sample | SampleBatch | Fact]:
        log_now = self._log_now()
        yield from self._census.read(self._log, log_now)
        transactions = self._open_transactions()
        cluster, dated = self.cluster, self._aggregates.dated()
        last = partial(last_samples, cluster, dated)
        yield self._dated.of((cluster, dated), lambda _: LateBatch(LAST_FAMILIES, last))
        yield self._present.of(
            (cluster, self._aggregates.known), lambda _: SampleBatch(self._aggregates.by_application(cluster))
        )
        self._recent = SampleBatch.of(self._aggregates.recent(cluster, log_now), self._recent)
        yield self._recent
        missing = self._missing()
        as_of = self._log.as_of if self._log is not None else None
        opened = OpenTransactions(self.name, transactions, not missing, missing, as_of)
        yield LoggedTransactions(opened, self._clock_bounds, frozenset(self._aggregates.applications))
        if (ends := self._log_ends_now()) is not None:
            yield ends
        yield UncleanEnds(self._aggregates.unclean_ends(log_now), *self._aggregates.unclean_ids.last_hour(log_now))
        if self._log is not None and self._cluster.shard.first:
            for broker, skew in self._log.skews().items():
                yield catalogue.COORDINATOR_CLOCK_SKEW_SECONDS(skew, self.cluster, str(broker))
        if (releases := self._census.releases(self._log)) is not None:
            yield releases

    def _log_ends_now(self) -> KnownLogEnds | None:
        """The ends of the log, once a minute; None while that of a partition is not known."""
        now = self._cluster.clock.monotonic()
        if self._ends is None or now - self._ends.at >= ENDS_INTERVAL:
            ends = {number: each.end for number, each in self._progress.items() if each.end is not None}
            self._ends = KnownLogEnds(now, ends) if ends and len(ends) == self._seen else None
        return self._ends

    def _open_transactions(self) -> tuple[OpenTransaction, ...]:
        """The open transactions; the same tuple as in the last read if they are the same."""
        if self._log is not None and self._log.revision != self._opened_of:
            self._opened_of = self._log.revision
            opened = tuple(self._log.opened())
            if opened != self._opened:
                self._opened = opened
        return self._opened

    def _flink(self, now: float, *, gauges: bool) -> Iterator[Sample | Fact]:
        """What waits for a checkpoint is told at every read, also of partitions that do not answer or were not read to
        their end, as beside a burst of commits: without it, each wait is a stall. The rhythm of the job bounds how long
        an old one is.
        """
        jobs, opened = self._aggregates.flink, self._open_transactions()
        unread = [entry.view or entry.transaction() for entry in self._log.open_unread()] if self._log else []
        every = (*opened, *unread)
        judged = jobs.judge(every, now)
        if unread:
            doubtful = {each.producer_id for each in unread}
            judged = {who: each for who, each in judged.items() if each.waiting or who not in doubtful}
        yield FlinkTransactions(judged, jobs.released(every, now))
        if not gauges:
            return
        yield FlinkJobs(jobs.times(opened))
        self._places.complete(jobs, now)
        yield from flink_samples(self.cluster, jobs, opened, judged, now, self._cluster.shard.tells_of)

    def _missing(self) -> tuple[str, ...]:
        """Why the open transactions may be incomplete."""
        missing = [*self._seed.missing, *(fault.detail for fault in self._look_faults)]
        if not self._seed.tried and self._progress:
            missing.append("the coordinators were not asked for the state at the start yet")
        if self._log is not None:
            if not self._log.current:
                missing.append(f"the tail of {TOPIC} is behind its end")
            missing += [fault.detail for fault in self._unknown()]
            missing += [fault.detail for fault in list(self._log.unread.values())[:3]]
        return tuple(dict.fromkeys(missing))

    def _save(self, *, whole: bool = False) -> None:
        if self._saved is None or not (self._progress or self._saved.partitions or self._empty):
            return
        waiting = self._saved.partitions
        now = self._cluster.clock.monotonic()
        losses = self._log.losses if self._log is not None else 0
        # A snapshot has ids as lost records showed them.
        whole |= losses != self._losses
        self._losses = losses
        self._keeper.save(self._log, self._aggregates, self._log_partitions or 0, waiting, now, whole=whole)
