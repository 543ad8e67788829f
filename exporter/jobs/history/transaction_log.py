"""``__transaction_state`` as the data source reads it: where it ends, where an instant is, and its records.

Spark's own Kafka source omits internal topics without an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from exporter.jobs.history.finished import StoredRecord
from exporter.kafka.ask import Answers
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import (
    NONE_LATER,
    Isolation,
    end_offsets,
    log_end_offsets,
    newest_timestamps,
    offsets_at,
)
from exporter.model import Clock, Deadline, Reason, TopicPartition
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.source.log_range import Range, RangeConsumer, read_ranges

ASK_SECONDS = 15.0
ASK_AGAIN_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
"""The longest interruption of a connection."""
QUIET_MS = 30_000
"""A partition without a record for so long gets none that makes an abort a fence: five seconds by the brokers' clocks,
which may differ from this one.
"""

_T = TypeVar("_T")


class TransactionLogError(Exception):
    """The log cannot be read. One line: Spark passes on only the text."""


@dataclass(frozen=True)
class LogEnds:
    """High watermarks by partition; ``quiet`` are partitions whose newest record is older than ``QUIET_MS``."""

    cluster_id: str
    ends: Mapping[int, int]
    quiet: frozenset[int]


class TransactionLog:
    """Asks for the ends of the log, over connections that are kept."""

    def __init__(self, properties: Properties) -> None:
        self._client = ClusterClient(properties)

    def ends(self, *, whole: bool) -> LogEnds:
        """No partitions without a log. Partitions whose leader does not answer are left out, unless they are asked for
        ``whole``. Raises TransactionLogError without an answer.
        """
        return _patiently(partial(self._ends, whole))

    def offsets_at(self, instant_ms: int) -> dict[int, int]:
        """The first offset at or after an instant in each partition; its end without one.

        Raises TransactionLogError.
        """
        return _patiently(partial(self._offsets_at, instant_ms))

    def close(self) -> None:
        self._client.close()

    def _ends(self, whole: bool, deadline: Deadline) -> LogEnds:
        metadata, wanted = self._partitions(deadline)
        # The log ends first: a high watermark that is there later has all that was written before. The newest
        # timestamps last: a record that was written since is not older than QUIET_MS.
        logs = log_end_offsets(self._client, metadata, wanted, deadline).values
        answers = end_offsets(self._client, metadata, wanted, Isolation.READ_UNCOMMITTED, deadline)
        ends = _whole(answers) if whole or not answers.values else answers.values
        newest = newest_timestamps(self._client, metadata, wanted, deadline).values
        quiet_ms = int(time.time() * 1000) - QUIET_MS
        quiet = frozenset(
            place.partition
            for place, end in ends.items()
            if end >= logs.get(place, end + 1) and newest.get(place, quiet_ms) < quiet_ms
        )
        return LogEnds(metadata.cluster_id, {place.partition: end for place, end in ends.items()}, quiet)

    def _offsets_at(self, instant_ms: int, deadline: Deadline) -> dict[int, int]:
        metadata, wanted = self._partitions(deadline)
        ends = _whole(end_offsets(self._client, metadata, wanted, Isolation.READ_UNCOMMITTED, deadline))
        found = _whole(offsets_at(self._client, metadata, dict.fromkeys(wanted, instant_ms), deadline))
        return {
            place.partition: ends[place] if found[place] == NONE_LATER else min(found[place], ends[place])
            for place in wanted
        }

    def _partitions(self, deadline: Deadline) -> tuple[Metadata, tuple[TopicPartition, ...]]:
        metadata = self._client.metadata(deadline, [TOPIC])
        fault = metadata.errors.get(TOPIC)
        if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
            raise AskError(fault)
        return metadata, tuple(metadata.partitions(TOPIC))


class LogReader:
    """Reads records of the log, a range of one partition after the other. Raises TransactionLogError where the
    properties cannot be used.
    """

    def __init__(self, properties: Properties) -> None:
        try:
            self._consumer = RangeConsumer(properties)
        except AskError as error:
            raise TransactionLogError(error.fault.detail) from None

    def records(self, number: int, start: int, end: int) -> Iterator[StoredRecord]:
        """The records of a partition; read them to the end. Raises TransactionLogError when reading is refused, or
        nothing comes.
        """
        try:
            for messages in read_ranges(self._consumer, {number: Range(number, start, end)}, PATIENCE_SECONDS, Clock()):
                for message in messages:
                    key, value = message.key() or b"", message.value()
                    yield StoredRecord(message.offset(), message.timestamp()[1], key, value)
        except AskError as error:
            raise TransactionLogError(error.fault.detail) from None

    def close(self) -> None:
        self._consumer.close()


def _whole(answers: Answers[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    """The answers. Raises AskError where one is missing: a partition without an end would not be read."""
    if answers.unanswered:
        raise AskError(next(iter(answers.unanswered.values())))
    return answers.values


def _patiently(ask: Callable[[Deadline], _T]) -> _T:
    """Ask again while brokers do not answer. Raises TransactionLogError."""
    until = Deadline.after(PATIENCE_SECONDS)
    while True:
        try:
            return ask(Deadline.after(ASK_SECONDS))
        except AskError as error:
            if until.over or error.fault.reason is Reason.AUTHORIZATION:
                raise TransactionLogError(error.fault.detail) from None
            time.sleep(ASK_AGAIN_SECONDS)
