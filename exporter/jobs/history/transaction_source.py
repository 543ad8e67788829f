"""The transaction log as a batch reads it: its ends, and the records between planned offsets.

Spark's own Kafka source omits internal topics without an error. Credentials are in the pickled plan of a batch, never
in an option or a setting: plans, the web UI and event logs show both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from exporter.jobs.history.log_offsets import Look
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.log.tail import Polled
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.offsets import Isolation, end_offsets, log_end_offsets
from exporter.model import Clock, Deadline, Reason
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.source.log_range import Range, RangeConsumer, read_ranges

ASK_SECONDS = 15.0


class TransactionLogError(Exception):
    """The log cannot be read. One line: Spark passes on only the text."""


@dataclass(frozen=True)
class LogAccess:
    """How to read the log. ``patience`` is the longest interruption of a connection, in seconds.

    ``cluster_id`` is the cluster that must answer; ``most`` bounds the offsets of one batch; ``tasks`` is the number of
    readers.
    """

    properties: Properties = field(repr=False)
    cluster_id: str
    tasks: int = 2
    most: int = 1_000_000
    patience: float = 60.0

    def records(self, ranges: Mapping[int, Range]) -> Iterator[Sequence[Polled]]:
        """The records of these ranges. Raises TransactionLogError when reading is refused or nothing comes."""
        wanted = {number: span for number, span in ranges.items() if span.start < span.end}
        if not wanted:
            return
        try:
            with closing(RangeConsumer(self.properties)) as consumer:
                yield from read_ranges(consumer, wanted, self.patience, Clock())
        except AskError as error:
            raise TransactionLogError(error.fault.detail) from None


class LogEnds:
    """Asks for the ends of the log, over connections that are kept."""

    def __init__(self, access: LogAccess) -> None:
        self._access = access
        self._client = ClusterClient(access.properties)

    def ask(self, deadline: Deadline) -> Look:
        """The high watermarks, and whether they are the log ends. Empty without a log.

        Raises TransactionLogError without an answer, or when another cluster answers.
        """
        asked_ms = int(time.time() * 1000)
        try:
            metadata = self._client.metadata(deadline, [TOPIC])
            if metadata.cluster_id != self._access.cluster_id:
                text = f"the brokers are those of cluster {metadata.cluster_id} now, not of {self._access.cluster_id}"
                raise TransactionLogError(text)
            fault = metadata.errors.get(TOPIC)
            if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
                raise TransactionLogError(fault.detail)
            wanted = metadata.partitions(TOPIC)
            # The log ends first: a high watermark that is there later has all that was written before.
            log_ends = log_end_offsets(self._client, metadata, wanted, deadline)
            answers = end_offsets(self._client, metadata, wanted, Isolation.READ_UNCOMMITTED, deadline)
        except AskError as error:
            raise TransactionLogError(error.fault.detail) from None
        if wanted and not answers.values:
            raise TransactionLogError("; ".join(fault.detail for fault in answers.faults[:3]))
        ends = {partition.partition: end for partition, end in answers.values.items()}
        logs = {partition.partition: end for partition, end in log_ends.values.items()}
        whole = frozenset(number for number, end in ends.items() if number in logs and end >= logs[number])
        return Look(ends, whole, asked_ms, int(time.time() * 1000))

    def close(self) -> None:
        self._client.close()
