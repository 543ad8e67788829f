"""``kafka_transactions``, a data source of Spark 4: the finished transactions of a Kafka cluster.

::

    spark.dataSource.register(KafkaTransactions)
    spark.read.format("kafka_transactions").option("kafka.bootstrap.servers", "kafka-1:9092").load()
    spark.readStream.format("kafka_transactions").option("kafka.bootstrap.servers", "kafka-1:9092").load()

A position in the log is all that a stream keeps, in Spark's checkpoint: what a batch must know of transactions that are
open at its start is read again from the log before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from exporter.applications.applications import Grouping
from exporter.bounds.properties_text import parse_properties
from exporter.jobs.history.columns import SCHEMA, batch_of
from exporter.jobs.history.finished import SETTLED_MS, LogSpan, finished
from exporter.jobs.history.transaction_log import LogEnds, LogReader, TransactionLog
from exporter.kafka.properties.client import Properties, PropertiesError

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
except ImportError:
    raise ImportError("the data source kafka_transactions needs Spark 4.0 or later: pip install 'pyspark>=4'") from None

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "kafka_transactions"
_KAFKA = "kafka."
PROPERTIES_FILE, APPLICATIONS = "propertiesFile", "applications"
STARTING, ENDING, MOST_TASKS = "startingTimestamp", "endingTimestamp", "numPartitions"
_OPTIONS = {name.lower(): name for name in (PROPERTIES_FILE, APPLICATIONS, STARTING, ENDING, MOST_TASKS)}
TASKS = 8
"""A task has connections of its own: with one task for each of the log's 50 partitions, connecting takes longer than
reading.
"""


class OptionError(ValueError):
    """An option of the data source is wrong. One line, without values of Kafka's properties."""


class KafkaTransactions(DataSource):
    """Finished transactions, as ``columns.COLUMNS`` describes them, each once.

    Options: ``kafka.*`` are properties of Kafka's clients; ``propertiesFile`` is a file of them, on the driver and on
    the workers. ``startingTimestamp`` and, of a batch, ``endingTimestamp`` bound when transactions completed: Unix
    milliseconds, or an instant of ISO 8601. ``applications`` is a pattern, or a JSON array of them, as in the agent's
    settings. ``numPartitions`` is the largest number of Spark's partitions, each for some of the log's.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """The columns."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 -- needs pandas, and only the driver asks

        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 -- the columns are always the same
        return _BatchReader(_Settings.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 -- as above; Spark's name
        settings = _Settings.of(self.options)
        if settings.ending_ms is not None:
            raise OptionError(f"{ENDING} is for a batch: a stream has no end")
        return _StreamReader(settings)


def source_options(properties: Properties, patterns: Sequence[str]) -> dict[str, str]:
    """The options for these properties and patterns of applications. They hold secrets."""
    kafka = {f"{_KAFKA}{name}": value for name, value in properties.settings().items()}
    return {**kafka, APPLICATIONS: json.dumps(list(patterns))}


class _Settings(NamedTuple):
    """The options, checked."""

    properties: Properties
    patterns: tuple[str, ...]
    starting_ms: int | None
    ending_ms: int | None
    tasks: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Settings:
        """Raise OptionError, or PropertiesError with each property and what is wrong with it."""
        kafka: dict[str, object] = {}
        found: dict[str, str] = {}
        for name, value in options.items():
            if name.lower().startswith(_KAFKA):
                kafka[name[len(_KAFKA) :].lower()] = value
            elif name.lower() in _OPTIONS:
                found[_OPTIONS[name.lower()]] = value
            else:
                raise OptionError(f"{name} is no option of {NAME}: {', '.join(_OPTIONS.values())} and kafka.* are")
        if PROPERTIES_FILE in found:
            kafka = {**_file(Path(found[PROPERTIES_FILE])), **kafka}
        try:
            properties = Properties.parse(kafka)
        except PropertiesError as error:
            raise OptionError("; ".join(f"{_KAFKA}{name}: {text}" for name, text in error.problems)) from None
        return cls(
            properties,
            _patterns(found.get(APPLICATIONS, "")),
            _instant_ms(STARTING, found.get(STARTING)),
            _instant_ms(ENDING, found.get(ENDING)),
            _count(MOST_TASKS, found.get(MOST_TASKS, str(TASKS))),
        )


def _file(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise OptionError(f"{PROPERTIES_FILE} {path}: {getattr(error, 'strerror', None) or 'is no text'}") from None
    return {entry.name: entry.value for entry in parse_properties(text) if entry.name}


def _patterns(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text) if text.startswith("[") else [text] if text else []
    except ValueError:
        found = [text]  # a pattern that begins with a class of characters
    if not all(isinstance(pattern, str) for pattern in found):
        raise OptionError(f"{APPLICATIONS} must be a pattern, or a JSON array of patterns")
    return tuple(found)


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"{name} {text!r} must be a number of 1 or more")
    return int(text)


def _instant_ms(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{name} {text!r} must be Unix milliseconds, or as 2026-11-21T14:00Z") from None
    return round((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass(frozen=True)
class LogTask(InputPartition):
    """Spans of some of the log's partitions, which are read one after the other."""

    spans: tuple[LogSpan, ...]

    @property
    def value(self) -> str:
        """What Spark shows of it."""
        return ", ".join(f"{span.partition}: {span.start} to {span.end}" for span in self.spans)


def planned(spans: Iterable[LogSpan], tasks: int) -> list[LogTask]:
    """At most so many tasks, of about the same size. A partition of the log is never split: records are folded in their
    order.
    """
    bins: list[list[LogSpan]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for span in sorted(spans, key=lambda span: span.start - span.end):
        smallest = sizes.index(min(sizes))
        bins[smallest].append(span)
        sizes[smallest] += span.end - span.start + 1
    return [LogTask(tuple(found)) for found in bins if found]


class _SpanReader:
    """Reads spans, in the workers: pickled and sent there before anything connects."""

    def __init__(self, settings: _Settings) -> None:
        self.settings = settings

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 -- None where there is nothing to read
        """Yield the transactions of a task in batches."""
        if partition is None:
            return
        settings = self.settings
        grouping = Grouping(settings.patterns)

        def application(transactional_id: str) -> str:
            grouping.learn(transactional_id)  # as in the agent: a Connect leader's id identifies the ids of its tasks
            return grouping.of(transactional_id).name

        begin, end = settings.starting_ms, settings.ending_ms
        with closing(LogReader(settings.properties)) as log:
            for span in partition.spans:
                for rows in finished(span, partial(log.records, span.partition), application):
                    wanted = [
                        row
                        for row in rows
                        if (begin is None or row.complete >= begin) and (end is None or row.complete < end)
                    ]
                    if wanted:
                        yield batch_of(wanted)


class _BatchReader(_SpanReader, DataSourceReader):
    """The log as it is when the plan is made."""

    def partitions(self) -> list[LogTask]:
        """What the log has, of the partitions that have anything."""
        log, settings = TransactionLog(self.settings.properties), self.settings
        try:
            starts = {} if settings.starting_ms is None else log.offsets_at(settings.starting_ms)
            now = log.ends(whole=True)
            # Until then an abort may become a fence.
            over = {} if settings.ending_ms is None else log.offsets_at(settings.ending_ms + SETTLED_MS)
        finally:
            log.close()
        spans = []
        for number, last in now.ends.items():
            start, end = starts.get(number, 0), min(last, over.get(number, last))
            if start < end:
                spans.append(LogSpan(number, start, start, end, end == last and number in now.quiet))
        return planned(spans, settings.tasks)


class LogMark(NamedTuple):
    """The position of a stream in a partition of the log: the offset to read next, and the one before which every
    transaction that completed is emitted. It is less where aborts may still become fences.
    """

    next: int
    settled: int


_START = LogMark(0, 0)


class _StreamReader(_SpanReader, DataSourceStreamReader):
    """The offset of the stream is ``{"cluster": ID, "partitions": {NUMBER: LogMark}}``."""

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._log: TransactionLog | None = None
        self._marks: dict[int, LogMark] = {}
        """Those that were planned last."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """The position of a new stream."""
        log, starting_ms = self._connected(), self.settings.starting_ms
        starts = {} if starting_ms is None else log.offsets_at(starting_ms)
        return _offset(log.ends(whole=True).cluster_id, {number: LogMark(at, at) for number, at in starts.items()})

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Where the log ends now. A partition without an answer keeps its mark, and so does one whose end is before it:
        the answer is from a broker that is behind.
        """
        now = self._connected().ends(whole=False)
        return _offset(now.cluster_id, advanced(self._marks, now))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[LogTask]:
        """What is new. Raises OptionError for another cluster, or a log that ends before the checkpoint."""
        before, self._marks = _marks(start), _marks(end)
        # A batch that is run again has the end of another run, which may have asked other brokers.
        now = self._connected().ends(whole=False)
        if {start["cluster"], end["cluster"]} != {now.cluster_id}:
            raise OptionError(
                f"the checkpoint is of cluster {start['cluster']}, and the brokers are those of {now.cluster_id}: give"
                " each cluster a checkpoint and a table of its own"
            )
        spans = []
        for number, mark in self._marks.items():
            first = before.get(number, _START)
            planned_end = max(first.next, mark.next)
            if (last := min(mark.next, now.ends.get(number, planned_end))) < planned_end:
                raise OptionError(
                    f"partition {number} of the log ends at {last}, before the checkpoint's {planned_end}: the"
                    " broker is behind, or the log lost records or was made anew"
                )
            if mark != first:
                spans.append(LogSpan(number, first.next, first.settled, mark.next, mark.settled == mark.next))
        return planned(spans, self.settings.tasks)

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()

    def _connected(self) -> TransactionLog:
        if self._log is None:
            self._log = TransactionLog(self.settings.properties)
        return self._log


def advanced(marks: Mapping[int, LogMark], now: LogEnds) -> dict[int, LogMark]:
    """The marks to which a batch reads. Equal marks mean that there is nothing to do."""
    found = dict(marks)
    for number, end in now.ends.items():
        mark = marks.get(number, _START)
        settled = end if number in now.quiet else mark.settled
        found[number] = LogMark(end, settled) if end >= mark.next else mark
    return found


def _offset(cluster_id: str, marks: Mapping[int, LogMark]) -> dict[str, Any]:
    return {"cluster": cluster_id, "partitions": {str(number): list(mark) for number, mark in sorted(marks.items())}}


def _marks(offset: Mapping[str, Any]) -> dict[int, LogMark]:
    return {int(number): LogMark(*mark) for number, mark in offset["partitions"].items()}
