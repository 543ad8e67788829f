"""A transaction log in memory, as tasks of the history read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from exporter.jobs.history.log_offsets import BatchRange
from exporter.jobs.history.transaction_source import LogAccess
from exporter.kafka.log.tail import Polled
from exporter.kafka.properties.client import Properties
from exporter.transactions.source.log_range import Range
from tests.helpers.coordinator import BEGIN_MS, CoordinatorId, merge


class StoredRecord:
    """A record of the log's first partition, as librdkafka gives it."""

    def __init__(self, offset: int, ms: int, key: bytes, value: bytes | None) -> None:
        self._offset, self._ms, self._key, self._value = offset, ms, key, value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._ms

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def error(self) -> None:
        return None


@dataclass(frozen=True)
class StoredLog(LogAccess):
    """Gives the records of a log in lists of ``size``."""

    stored: Sequence[Polled] = ()
    size: int = 100

    def records(self, ranges: Mapping[int, Range]) -> Iterator[Sequence[Polled]]:
        span = ranges.get(0, Range(0, 0, 0))
        mine = [record for record in self.stored if span.start <= record.offset() < span.end]
        for at in range(0, len(mine), self.size):
            yield mine[at : at + self.size]


def log(size: int = 100) -> StoredLog:
    """A commit, and an abort that is not settled yet."""
    producer = CoordinatorId("pay-1", 2, True, BEGIN_MS, iter(range(7, 100)))
    producer.initialise()
    for commit in (True, False):
        producer.now += 100
        producer.add("orders", 0)
        producer.now += 100
        producer.end(commit=commit, markers_ms=5)
    records = merge([producer], 1).records
    stored = tuple(StoredRecord(record.offset, record.ms, record.key, record.value) for record in records)
    return StoredLog(
        Properties.parse({"bootstrap.servers": "k:9092"}), "c", stored=cast("tuple[Polled, ...]", stored), size=size
    )


def end(access: StoredLog) -> int:
    return access.stored[-1].offset() + 1


def pieces(access: StoredLog, start: int = 0, quiet_ms: int = 0) -> list[BatchRange]:
    """All of the first partition, and a second one that has nothing new."""
    return [BatchRange(Range(0, start, end(access)), quiet_ms), BatchRange(Range(1, 4, 4), 9_000)]
