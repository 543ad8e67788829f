"""The samples and facts of the transaction log, from what was read of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from exporter import catalogue
from exporter.applications.applications import Application
from exporter.cluster import Cluster
from exporter.core.derived import Derived
from exporter.flink.facts import FlinkJobs, FlinkLosses, FlinkTransactions
from exporter.flink.places import PrecommitPlaces
from exporter.flink.samples import flink_samples
from exporter.lso.facts import Stalls
from exporter.model import Fact, LateBatch, Sample, SampleBatch
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.counting.application_counters import (
    COUNTER_FAMILIES,
    LAST_FAMILIES,
    ApplicationCounts,
    application_samples,
    counter_samples,
    last_samples,
)
from exporter.transactions.counting.census import Census, release_times
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.decided.fate import ClocksApart
from exporter.transactions.facts import (
    CoordinatorTime,
    LoggedTransactions,
    OpenTransaction,
    OpenTransactions,
    ReleaseTimes,
)
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.source.log_partitions import LogPartitions
from exporter.transactions.source.log_seed import LogSeed
from exporter.words import Outcome


class LogFacts:
    """Makes the samples and facts of a read. Not thread-safe: for the worker of ``txnlog``."""

    def __init__(
        self, source: str, cluster: Cluster, aggregates: Aggregates, partitions: LogPartitions, seed: LogSeed
    ) -> None:
        """``source`` is the name of the source that reads."""
        self._source = source
        self._cluster = cluster
        self._aggregates = aggregates
        self._partitions = partitions
        self._log = partitions.log
        self._seed = seed
        self._census = Census(cluster.clock, aggregates, cluster.grouping)
        self._hour = LastHour(cluster.clock)
        self._series = LogSeries(aggregates)
        self._places = PrecommitPlaces()
        self._stalls: Stalls | None = None
        self._releases: ReleaseTimes | None = None
        self._opened: tuple[OpenTransaction, ...] = ()

    def note_stalls(self, stalls: Stalls | None) -> None:
        """Note where the records of precommitted transactions are, which only their stalls show."""
        if stalls is not self._stalls:
            self._stalls = stalls
            self._places.note(stalls.stalls if stalls is not None else ())

    def log_now(self) -> float:
        """The coordinators' time (Unix seconds), which dates the records; our wall clock's while theirs is not known.

        It runs on with the monotonic clock, so that a jump of ours moves nothing into the last hour or out of it.
        """
        clock = self._cluster.clock
        wall = clock.wall()
        return self._time.beside(wall - clock.monotonic()).now(wall)

    @property
    def _time(self) -> CoordinatorTime:
        """The coordinators' clock beside our monotonic one."""
        clock = self._cluster.clock
        return self._log.coordinators.time(clock.monotonic(), clock.wall())

    def counters(self) -> Iterator[Sample | SampleBatch | Fact]:
        """The counters, which go on from those of the last process."""
        yield catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL(
            float(self._partitions.tail.records.undecodable), self._cluster.name
        )
        yield catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL(float(self._log.lost), self._cluster.name)
        yield self._series.counters(self._cluster.name)
        yield self._aggregates.task_commits

    def gauges(self) -> Iterator[Sample | SampleBatch | Fact]:
        """The known ids and open transactions, and the clocks that date them."""
        log_now = self.log_now()
        yield from self._census.read(self._log, log_now)
        self._opened = self._log.opened()
        yield self._series.dated(self._cluster.name)
        yield self._series.present(self._cluster.name)
        yield self._series.recent(self._cluster.name, log_now)
        missing = self._missing()
        opened = OpenTransactions(self._source, self._opened, not missing, missing, self._log.as_of)
        yield LoggedTransactions(opened, self._time, frozenset(self._aggregates.applications.by_name))
        if (ends := self._partitions.known_ends()) is not None:
            yield ends
        yield self._aggregates.ends.unclean_ends(log_now)
        yield self._aggregates.expired.last_hour(log_now)
        clock = self._cluster.clock
        skews = self._log.coordinators.skews(clock.monotonic(), clock.wall())
        apart = self._log.coordinators.apart(clock.monotonic(), clock.wall())
        yield ClocksApart(round(apart), frozenset(skews))
        for broker, skew in skews.items():
            yield catalogue.COORDINATOR_CLOCK_SKEW_SECONDS(skew, self._cluster.name, str(broker))
        if self._releases is None and self._log.current:  # the tail has caught up for the first time
            self._releases = release_times(self._log.entries())
        if self._releases is not None:
            yield self._releases

    def flink(self, time: CoordinatorTime, *, gauges: bool) -> Iterator[Sample | Fact]:
        """Yield what waits for a checkpoint at every read, also of partitions that do not answer or were not read to
        their end, as beside a burst of commits: without it, each wait is a stall. The rhythm of the job bounds how long
        an old one is.
        """
        opened = self._opened if gauges else self._log.opened()  # those of this read
        jobs, now = self._aggregates.flink, time.now(self._cluster.clock.wall())
        unread = [entry.view or entry.transaction() for entry in self._log.open_unread()]
        every = (*opened, *unread)
        judged = jobs.judge(every, now)
        if unread:
            doubtful = {transaction.producer_id for transaction in unread}
            judged = {who: judgement for who, judgement in judged.items() if judgement.waiting or who not in doubtful}
        yield FlinkTransactions(judged, jobs.released(every, now))
        if not gauges:
            return
        yield FlinkJobs(jobs.times(opened))
        self._places.complete(jobs, now)
        if losses := jobs.losses(now):
            yield FlinkLosses(losses)
        yield from flink_samples(self._cluster.name, jobs, opened, judged, now)

    def _missing(self) -> tuple[str, ...]:
        """Why the open transactions may be incomplete."""
        missing = [*self._seed.missing, *(fault.detail for fault in self._partitions.faults)]
        if not self._seed.tried and self._partitions.progress:
            missing.append("the coordinators were not asked for the state at the start yet")
        if not self._log.current:
            missing.append(f"the tail of {TOPIC} is behind its end")
        missing += [fault.detail for fault in self._partitions.unknown()]
        missing += [fault.detail for fault in list(self._partitions.tail.records.unread.values())[:3]]
        return tuple(dict.fromkeys(missing))

    def last_hour(self, *, gauges: bool) -> LastHour | None:
        """The counts of the last hour; ``gauges``: of the ids with fences as well. None before the first count."""
        if not (counted := self._aggregates.counted()):
            return None
        fences = self._series.fences if gauges else None
        self._hour.note({name: counters.outcomes for name, counters in counted.items()}, fences)
        return self._hour


class LogSeries:
    """The batches of one cluster, made again after a change."""

    def __init__(self, aggregates: Aggregates) -> None:
        self._aggregates = aggregates
        self._counted = Derived(_counter_batch)
        self._dated = Derived(_last_batch)
        self._present, self._recent = Derived(_application_batch), Derived(SampleBatch)
        self.fences: tuple[Sample, ...] = ()
        """Those of ``recent`` that are ids with fences."""

    def counters(self, cluster: str) -> SampleBatch:
        """The counters, which are kept while the source fails."""
        return self._counted(cluster, self._aggregates.counted())

    def dated(self, cluster: str) -> SampleBatch:
        """When the last transactions of each application finished."""
        return self._dated(cluster, self._aggregates.dated())

    def present(self, cluster: str) -> SampleBatch:
        """The kinds of the applications, and how many ids they have."""
        return self._present(cluster, self._aggregates.applications.described, self._aggregates.applications.seen)

    def recent(self, cluster: str, log_now: float) -> SampleBatch:
        """The last hour before ``log_now``, log time in Unix seconds."""
        batch = self._recent(tuple(self._aggregates.recent(cluster, log_now)))
        self.fences = batch.of_families((catalogue.RECENT_PRODUCER_FENCES,))
        return batch


def _counter_batch(cluster: str, counted: Mapping[str, ApplicationCounts]) -> SampleBatch:
    return LateBatch(COUNTER_FAMILIES, partial(counter_samples, cluster, counted))


def _application_batch(cluster: str, applications: tuple[Application, ...], seen: Mapping[str, int]) -> SampleBatch:
    return SampleBatch(application_samples(cluster, applications, seen))


def _last_batch(cluster: str, dated: Mapping[str, Mapping[Outcome, float]]) -> SampleBatch:
    return LateBatch(LAST_FAMILIES, partial(last_samples, cluster, dated))
