"""Spark Structured Streaming: folders that its drivers write, posts of its listeners, and Kafka's own offsets.

One source for each folder reads it and publishes its queries. One for each cluster merges them with the posted ones,
each query once, and reads from the cluster how far they are behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from exporter import catalogue
from exporter.catalogue import SPARK_TERMINATION_REASONS
from exporter.cluster import Cluster, NamedCluster, TargetSource
from exporter.kafka.client import AskError
from exporter.kafka.requests.offsets import both_ends
from exporter.model import Clock, Deadline, Fact, Facts, Fault, Reason, Sample, TopicPartition
from exporter.spark.queries import Lag, QueryKey, SparkQueries, SparkView, StreamingQuery, merged

MOST_QUERIES = 500
MOST_COUNTED = 1000
MOST_RUNS = 20_000
"""Largest number of queries whose counters are kept, and of runs known to be counted. The least recently reported are
dropped.
"""
MOST_FAULTS = 20
"""Largest number of faults of one read of a folder that are reported one by one."""
FORGET_TERMINATIONS = 7 * 86_400.0
"""Seconds after its last report for which the counters of a query are kept."""


class Folder(Protocol):
    """An event log folder, or a checkpoint."""

    @property
    def left_out(self) -> int:
        """Number of queries, or logs of applications, that are left out because there are too many."""

    def read(self, deadline: Deadline, now: float) -> Iterator[Fault | StreamingQuery]: ...


class SparkFolderSource(TargetSource[NamedCluster]):
    """Source ``spark`` of one folder. It exposes no samples, only facts."""

    name = "spark"

    def __init__(
        self, cluster: NamedCluster, target: str, folder: Folder, interval: float = 10.0, clock: Clock | None = None
    ) -> None:
        """``target`` is the folder's path."""
        super().__init__(cluster, target, interval)
        self._folder = folder
        self._clock = clock or Clock()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        del facts
        queries: list[StreamingQuery] = []
        faults, more = 0, Counter[Reason]()
        for item in self._folder.read(deadline, self._clock.wall()):
            if not isinstance(item, Fault):
                queries.append(item)
            elif faults < MOST_FAULTS:
                faults += 1
                yield item
            else:
                more[item.reason] += 1
        yield from (Fault(reason, f"{self.target}: and {number} more") for reason, number in more.items())
        yield SparkQueries(tuple(queries), self._folder.left_out)


class SparkSource(TargetSource[Cluster]):
    """Source ``spark`` of one cluster: all queries that read it, each once."""

    name = "spark"

    def __init__(
        self,
        cluster: Cluster,
        posted: Callable[[], Sequence[StreamingQuery]] = tuple,
        left_out: Callable[[], int] = int,
    ) -> None:
        """``posted`` returns the posted queries, ``left_out`` how many of them could not be kept."""
        super().__init__(cluster, self.name, 5.0, 5.0)
        self._posted = posted
        self._left_out = left_out
        self._terminations = Terminations(cluster.clock.wall())

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        now = self._cluster.clock.wall()
        described = [query for folder in facts.all(SparkQueries) for query in folder.queries]
        every = merged([*described, *self._posted()], now)
        latest_first = sorted(every, key=lambda key: every[key].heard, reverse=True)
        queries = {key: every[key] for key in sorted(latest_first[:MOST_QUERIES])}
        head = (self.cluster, self.target)
        for key, query in queries.items():
            yield from query_samples(query, (*head, *key))
        for key, reasons in self._terminations.count(queries, now).items():
            for reason in SPARK_TERMINATION_REASONS:
                yield catalogue.SPARK_QUERY_TERMINATIONS_TOTAL(float(reasons[reason]), *head, *key, reason)
        in_folders = sum(folder.left_out for folder in facts.all(SparkQueries))
        if dropped := len(every) - len(queries) + self._left_out() + in_folders:
            yield catalogue.SERIES_DROPPED(float(dropped), catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS.name)
        lags: dict[QueryKey, dict[str, Lag]] = {}
        for item in self._lags(queries, deadline):
            if isinstance(item, Fault):
                yield item
            else:
                key, topics = item
                lags[key] = topics
                for topic, lag in topics.items():
                    yield catalogue.SPARK_SOURCE_LAG_OFFSETS(float(lag.lag), *head, *key, topic)
                    yield catalogue.SPARK_SOURCE_BLOCKED_OFFSETS(float(lag.blocked), *head, *key, topic)
        yield SparkView(queries, {key: _sum(topics.values()) for key, topics in lags.items() if topics})

    def _lags(
        self, queries: Mapping[QueryKey, StreamingQuery], deadline: Deadline
    ) -> Iterator[Fault | tuple[QueryKey, dict[str, Lag]]]:
        wanted = {partition for query in queries.values() for partition in query.offsets}
        if not wanted:
            return
        try:
            metadata = self._cluster.metadata(deadline, max_age=30.0)
        except AskError as error:
            yield error.fault
            return
        # The queries' offsets were read before, so a lag can only be overstated. A topic that does not exist was
        # deleted, or is in another cluster that the query reads.
        ends = both_ends(self._cluster.client, metadata, wanted, deadline)
        yield from ends.faults
        for key, query in queries.items():
            yield key, topic_lags(query.offsets, ends.stable, ends.high)


def query_samples(query: StreamingQuery, labels: tuple[str, str, str, str]) -> Iterator[Sample]:
    """The samples of a query that need no request to Kafka."""
    if query.batches is not None:
        yield catalogue.SPARK_BATCHES_TOTAL(float(query.batches), *labels)
    if query.rows is not None:
        yield catalogue.SPARK_INPUT_ROWS_TOTAL(float(query.rows), *labels)
    for phase, seconds in query.phases.items():
        yield catalogue.SPARK_BATCH_DURATION_SECONDS(seconds, *labels, phase)
    if query.last_progress is not None:
        yield catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS(query.last_progress, *labels)
    if query.uncommitted is not None:
        yield catalogue.SPARK_UNCOMMITTED_BATCHES(float(query.uncommitted), *labels)
    if query.state is not None:
        yield catalogue.SPARK_QUERY_STATE(1.0, *labels, query.state)


def topic_lags(
    completed: Mapping[TopicPartition, int], stable: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[str, Lag]:
    """Sums over the query's partitions of each topic; none for a topic with a partition that did not answer.

    A read_uncommitted query reads beyond the last stable offset: records that it has read are not blocked.
    """
    unknown = {partition.topic for partition in completed if partition not in ends}
    lags: dict[str, list[Lag]] = {}
    for partition, offset in completed.items():
        if partition.topic not in unknown:
            end = ends[partition]
            lag = Lag(max(0, end - offset), max(0, end - max(stable[partition], offset)))
            lags.setdefault(partition.topic, []).append(lag)
    return {topic: _sum(partitions) for topic, partitions in lags.items()}


def _sum(lags: Iterable[Lag]) -> Lag:
    return Lag(*map(sum, zip(*lags, strict=True)))


class Terminations:
    """Counts the ended runs of queries, each once, however many origins report it and however often."""

    def __init__(self, since: float) -> None:
        """Ends before ``since``, Unix seconds, are not counted; the state shows them."""
        self._since = since
        self._counts: dict[QueryKey, Counter[str]] = {}
        self._heard: dict[QueryKey, float] = {}
        self._counted: dict[str, float] = {}

    def count(self, queries: Mapping[QueryKey, StreamingQuery], now: float) -> Mapping[QueryKey, Counter[str]]:
        """The counts of every query that is not expired.

        A new query is at 0 first, so that its end is an increase: one that had ended by then is counted at the next
        call.
        """
        for key, query in queries.items():
            if query.state is None and not query.ends and key not in self._counts:
                continue  # a checkpoint, or a driver that was silent from the beginning: neither reports an end
            known = key in self._counts
            counts = self._counts.setdefault(key, Counter())
            self._heard[key] = now
            for end in query.ends if known else ():
                if end.run_id not in self._counted:
                    counts[end.reason] += end.at >= self._since
                self._counted.pop(end.run_id, None)
                self._counted[end.run_id] = now  # moved to the end: the least recently reported are dropped first
        oldest = now - FORGET_TERMINATIONS
        if len(self._heard) > MOST_COUNTED:  # names that keep changing must not create unlimited series
            oldest = max(oldest, sorted(self._heard.values())[-MOST_COUNTED])
        for key in [key for key, heard in self._heard.items() if heard < oldest]:
            del self._heard[key], self._counts[key]
        oldest = now - FORGET_TERMINATIONS
        latest = list(self._counted.items())[-MOST_RUNS:]
        self._counted = {run: seen for run, seen in latest if seen >= oldest}
        return self._counts
