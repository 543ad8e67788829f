"""The transaction log: a live tail of ``__transaction_state``, the only data of Kafka on how transactions end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from exporter import catalogue
from exporter.cluster.cluster import Cluster, KafkaSource
from exporter.core.derived import Derived
from exporter.flink.facts import FlinkJobs, FlinkLosses, FlinkTransactions
from exporter.flink.places import PrecommitPlaces
from exporter.flink.samples import flink_samples
from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Tail, TailReader
from exporter.kafka.properties.client import Properties
from exporter.lso.facts import Stalls
from exporter.model import Deadline, Fact, Facts, Fault, IgnoredSource, Notes, Reason, Sample, SampleBatch
from exporter.transactions.counting.aggregates import Aggregates, Caps
from exporter.transactions.counting.census import Census
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.counting.log_series import LogSeries
from exporter.transactions.decided.recent_decisions import ClocksApart, DecisionTail
from exporter.transactions.facts import (
    CoordinatorTime,
    LoggedTransactions,
    LogRefused,
    OpenTransaction,
    OpenTransactions,
    TransactionsElsewhere,
    UncleanEnds,
)
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.source.log_partitions import CHECK_INTERVAL, LogPartitions
from exporter.transactions.source.log_seed import LogSeed
from exporter.transactions.source.saved_log import SavedLog
from exporter.transactions.tail import LogTail

PACE = 1.0
"""Seconds from one read to the next: a settled outcome is on /metrics within two of them."""
HURRIED_PACE = 0.02
"""The same while records wait: a read takes a little over PACE then, and the rest of a second would be lost."""
LEAST_PACE = 0.5
"""The same where an abort gets its outcome by then: it is read when that is due, and not sooner than this."""
DUE_SECONDS = 0.05
"""How long records are waited for where a log end settles aborts."""
SEED_SECONDS = 2.0
"""Share of a read for the state at the start."""
REFUSED = frozenset({Reason.AUTHORIZATION, Reason.UNSUPPORTED})
"""Reasons that stay until somebody changes the cluster."""
NO_LOG = "the brokers have transactions and no topic __transaction_state"
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
        self._settings = settings
        self.timeout = settings.timeout
        self.pace = PACE
        self._aggregates = Aggregates(cluster.grouping, settings.caps, cluster.shard)
        self._saved = SavedLog(cluster, self._aggregates, self.name)
        self._decisions = DecisionTail()
        self._partitions = LogPartitions(cluster, self._aggregates, self._saved, open_tail, self._decisions.take)
        self._log = self._partitions.log
        self._seed = LogSeed(cluster, self._aggregates)
        self._census = Census(cluster.clock, self._aggregates, cluster.grouping, first_shard=cluster.shard.first)
        self._hour = LastHour(cluster.clock)
        self._series = LogSeries(self._aggregates)
        self._opened = Derived(self._opened_by)
        self._places = PrecommitPlaces()
        self._stalls: Stalls | None = None

    def close(self) -> None:
        self._save(whole=True)
        self._log.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        refused: Fault | None = None
        for item in self._read(deadline, facts):
            if isinstance(item, Fault) and item.reason in REFUSED:
                refused = item
            yield item
        if refused is not None and self._settings.or_polling and not self._partitions.readable:
            yield LogRefused(refused.detail)
            yield IgnoredSource(POLLED_INSTEAD)
        elif self._settings.or_polling and self._elsewhere(facts):
            yield LogRefused(NO_LOG)
            yield IgnoredSource(POLLED_INSTEAD)

    def _elsewhere(self, facts: Facts) -> bool:
        """Return whether there is no log, and the brokers have transactions nevertheless."""
        return self._partitions.empty and facts.get(TransactionsElsewhere) is not None

    def _read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        if (stalls := facts.get(Stalls)) is not self._stalls:
            self._stalls = stalls
            self._places.note(stalls.stalls if stalls is not None else ())
        partitions, log, clock = self._partitions, self._log, self._cluster.clock
        began = clock.monotonic()
        try:
            if partitions.due:
                partitions.check(deadline)
                self._forget_lost()
                if partitions.seen:
                    until = deadline.within(SEED_SECONDS)
                    self._seed.read(log, partitions.seen, self._log_now, until, is_new=partitions.is_new)
        except AskError as error:
            partitions.failed(error.fault)
        yield from partitions.faults
        asked_at = clock.monotonic()
        log_ends = partitions.log_ends(log.due(asked_at), deadline)
        # Aborts that are due wait for this read, and for no record.
        yield from log.follow(deadline.within(DUE_SECONDS if log_ends and not log.lagging else PACE))
        log.reached(log_ends, asked_at)
        self.pace = HURRIED_PACE if log.hurries else self._pace(began)
        yield from partitions.all_faults()
        yield partitions.changes()
        counts = gauges = False
        if (partitions.empty and not self._elsewhere(facts)) or partitions.readable:
            if counts := self._saved.caught_up(partitions.progress):
                yield from self._counters()
            if (lag := log.lag) is not None:
                yield catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS(float(lag), self.cluster)
            time = facts.get(CoordinatorTime) or CoordinatorTime()
            gauges = partitions.empty or log.answering_current
            if gauges:
                yield from self._gauges()
            yield from self._flink(time.now(clock.wall()), gauges=gauges)
        yield self._decisions.read(clock.monotonic())
        yield self._aggregates.unclean.logged()
        self._save()
        if trouble := self._saved.trouble:
            yield Notes((f"state.dir is not written ({trouble}): a restart goes on from what was written before",))
        if counts and (counted := self._aggregates.counted()):
            fences = self._series.fences if gauges else ()
            self._hour.note({name: counters.outcomes for name, counters in counted.items()}, fences)
            yield self._hour

    def _pace(self, began: float) -> float:
        """Seconds from the begin of this read to the next one: to when the first abort is due, within the limits."""
        now = self._cluster.clock.monotonic()
        due_at = self._log.due_at(now)
        return PACE if due_at is None else min(PACE, max(LEAST_PACE, due_at - began))

    def _forget_lost(self) -> None:
        """Make unknown what only lost records showed. Its end is an answer of the coordinator, or the next record."""
        for number, offset in self._partitions.lost.items():
            self._log.lose(number, offset)
            self._seed.again(number)
        self._partitions.lost = {}

    def _log_now(self) -> float:
        """The coordinators' time (Unix seconds), which dates the records; our wall clock's while theirs is not known.

        It runs on with the monotonic clock, so that a jump of ours moves nothing into the last hour or out of it.
        """
        clock = self._cluster.clock
        wall = clock.wall()
        return self._time.beside(wall - clock.monotonic()).now(wall)

    @property
    def _time(self) -> CoordinatorTime:
        """The coordinators' clock beside our monotonic one."""
        return self._log.coordinators.time(self._cluster.clock.monotonic())

    # --- Samples and facts ---

    def _counters(self) -> Iterator[Sample | SampleBatch | Fact]:
        yield catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL(float(self._log.undecodable), self.cluster)
        yield catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL(float(self._log.lost), self.cluster)
        yield self._series.counters(self.cluster)
        yield self._aggregates.task_commits

    def _gauges(self) -> Iterator[Sample | SampleBatch | Fact]:
        log_now = self._log_now()
        yield from self._census.read(self._log, log_now)
        transactions = self._open_transactions()
        yield self._series.dated(self.cluster)
        yield self._series.present(self.cluster)
        yield self._series.recent(self.cluster, log_now)
        missing = self._missing()
        opened = OpenTransactions(self.name, transactions, not missing, missing, self._log.as_of)
        yield LoggedTransactions(opened, self._time, frozenset(self._aggregates.applications))
        if (ends := self._partitions.known_ends()) is not None:
            yield ends
        unclean = self._aggregates.unclean
        yield UncleanEnds(unclean.latest(log_now), *unclean.ids.last_hour(log_now))
        clock = self._cluster.clock
        skews = self._log.coordinators.skews(clock.monotonic(), clock.wall())
        apart = max(skews.values(), default=0.0) - min(skews.values(), default=0.0)
        yield ClocksApart(round(apart), frozenset(skews))
        if self._cluster.shard.first:
            for broker, skew in skews.items():
                yield catalogue.COORDINATOR_CLOCK_SKEW_SECONDS(skew, self.cluster, str(broker))
        if (releases := self._census.releases(self._log)) is not None:
            yield releases

    def _open_transactions(self) -> tuple[OpenTransaction, ...]:
        """The open transactions; the same tuple as in the last read if they are the same."""
        return self._opened(self._log, self._log.revision)

    @staticmethod
    def _opened_by(log: LogTail, _revision: int) -> tuple[OpenTransaction, ...]:
        return tuple(log.opened())

    def _flink(self, now: float, *, gauges: bool) -> Iterator[Sample | Fact]:
        """Yield what waits for a checkpoint at every read, also of partitions that do not answer or were not read to
        their end, as beside a burst of commits: without it, each wait is a stall. The rhythm of the job bounds how long
        an old one is.
        """
        jobs, opened = self._aggregates.flink, self._open_transactions()
        unread = [entry.view or entry.transaction() for entry in self._log.open_unread()]
        every = (*opened, *unread)
        judged = jobs.judge(every, now)
        if unread:
            doubtful = {each.producer_id for each in unread}
            judged = {who: judgement for who, judgement in judged.items() if judgement.waiting or who not in doubtful}
        yield FlinkTransactions(judged, jobs.released(every, now))
        if not gauges:
            return
        yield FlinkJobs(jobs.times(opened))
        self._places.complete(jobs, now)
        if losses := jobs.losses(now):
            yield FlinkLosses(losses)
        yield from flink_samples(self.cluster, jobs, opened, judged, now, self._cluster.shard.exposes)

    def _missing(self) -> tuple[str, ...]:
        """Why the open transactions may be incomplete."""
        missing = [*self._seed.missing, *(fault.detail for fault in self._partitions.faults)]
        if not self._seed.tried and self._partitions.progress:
            missing.append("the coordinators were not asked for the state at the start yet")
        if not self._log.current:
            missing.append(f"the tail of {TOPIC} is behind its end")
        missing += [fault.detail for fault in self._partitions.unknown()]
        missing += [fault.detail for fault in list(self._log.unread.values())[:3]]
        return tuple(dict.fromkeys(missing))

    def _save(self, *, whole: bool = False) -> None:
        if self._saved.loaded and (self._partitions.progress or self._saved.waiting or self._partitions.empty):
            self._saved.save(self._log, whole=whole)
