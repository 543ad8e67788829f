"""A bounded read of the transaction log, from planned starts to planned ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from exporter.kafka.client import AskError
from exporter.kafka.log.tail import ONLOOKER, SMALL_FETCHES, Polled, consume, fault_of, is_end
from exporter.kafka.properties.client import Properties
from exporter.model import Clock, Fault, Reason
from exporter.transactions.machine.records import TOPIC

log = logging.getLogger(__name__)

BATCH = 500
"""Messages of one poll: with thousands, memory is what they take, and a read is no faster."""
POLL_SECONDS = 0.5


class Range(NamedTuple):
    """Offsets of one partition: ``start`` is the first to read, ``end`` the first not to."""

    partition: int
    start: int
    end: int


_SETTINGS: dict[str, object] = {
    **ONLOOKER,
    **SMALL_FETCHES,
    # A position is missing when the log was deleted beyond it, or the topic was created again.
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 50,
}


class RangeReader(Protocol):
    """The part of a consumer that reading ranges uses. ``RangeConsumer`` implements it."""

    def assign(self, positions: Mapping[int, int]) -> None: ...
    def leave(self, partition: int) -> None: ...
    def poll(self, limit: int, seconds: float) -> list[Polled]: ...
    def trouble(self) -> Fault | None: ...
    def close(self) -> None: ...


class RangeConsumer:
    """A librdkafka client for one task. Raises AskError when it cannot be created from the properties.

    ``queued_kbytes`` is how much it may hold before it is polled.
    """

    def __init__(self, properties: Properties, queued_kbytes: int = 16384) -> None:
        self._trouble: Fault | None = None
        try:
            ours = {**_SETTINGS, "queued.max.messages.kbytes": queued_kbytes}
            settings = {**properties.for_confluent(**ours), "error_cb": self._on_error}
            self._consumer = Consumer(settings, logger=log)
        except KafkaException as error:
            raise AskError(fault_of(error.args[0], TOPIC)) from None

    def assign(self, positions: Mapping[int, int]) -> None:
        self._consumer.assign([Position(TOPIC, number, offset) for number, offset in positions.items()])

    def leave(self, partition: int) -> None:
        """Read this partition no further."""
        self._consumer.incremental_unassign([Position(TOPIC, partition)])

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        messages = consume(self._consumer, limit, seconds)
        if messages:
            self._trouble = None
        return messages

    def trouble(self) -> Fault | None:
        """The last error of librdkafka since the last message, if any."""
        return self._trouble

    def close(self) -> None:
        self._consumer.close()

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = fault_of(error, TOPIC)


def read_ranges(
    tail: RangeReader, ranges: Mapping[int, Range], patience: float, clock: Clock
) -> Iterator[list[Polled]]:
    """The records in the ranges, each partition's in offset order, without those that compaction removed.

    A partition ends with a record at or beyond its planned end, or with the event that its end was reached: the last
    planned offset itself may have been compacted away. Raises AskError when reading is refused, or when no message
    arrives for ``patience`` seconds.
    """
    left = {number: span for number, span in ranges.items() if span.start < span.end}
    if not left:
        return
    tail.assign({number: span.start for number, span in left.items()})
    heard = clock.monotonic()
    while left:
        messages = tail.poll(BATCH, POLL_SECONDS)
        wanted: list[Polled] = []
        over: set[int] = set()
        for message in messages:
            number = message.partition()
            span = left.get(number)
            if span is None or number in over:
                continue
            error = message.error()
            offset = message.offset()
            if error is not None:
                if not is_end(error):
                    raise AskError(fault_of(error, TOPIC))
                over.add(number)
            elif offset < span.end:
                # Before the start: the position was missing, and the client restarted at the earliest offset.
                if offset >= span.start:
                    wanted.append(message)
                if offset == span.end - 1:
                    over.add(number)
            else:
                over.add(number)
        if wanted:
            yield wanted
        for number in over:
            del left[number]
            tail.leave(number)
        if messages:
            heard = clock.monotonic()
        elif clock.monotonic() - heard > patience:
            waited = f"nothing came from {len(left)} partitions of {TOPIC} for {patience:.0f} s"
            raise AskError(tail.trouble() or Fault(Reason.TIMEOUT, waited))
