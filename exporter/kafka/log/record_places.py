"""Single records: the start of a topic, the offset of an instant, and the records at given offsets.

For dozens of lookups. Bulk reads are done by Spark and by the tail.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from exporter.kafka.client import AskError
from exporter.kafka.log.tail import ONLOOKER, fault_of, is_about_the_group, is_end
from exporter.kafka.properties.client import Properties
from exporter.model import Deadline, Fault, Reason

FETCH_BYTES = 1 << 20
_NOTHING_THERE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 -- librdkafka's own code, spelt so


class FoundRecord(NamedTuple):
    """A record of the log; ``timestamp_ms`` is Unix milliseconds."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def records_at(
    properties: Properties, topic: str, places: Iterable[tuple[int, int]], timeout: float
) -> list[FoundRecord]:
    """The records at these ``(partition, offset)`` places, committed or not. A place without a record is left out.

    Raises AskError when a broker does not answer within ``timeout`` seconds for one of them; all may take longer.
    """
    settings = properties.for_confluent(
        **{
            **ONLOOKER,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "fetch.message.max.bytes": FETCH_BYTES,
        }
    )
    consumer = Consumer(settings)
    try:
        return [
            record
            for partition, offset in sorted(set(places))
            if (record := _record_at(consumer, topic, partition, offset, Deadline.after(timeout))) is not None
        ]
    finally:
        consumer.close()


def _record_at(consumer: Consumer, topic: str, partition: int, offset: int, deadline: Deadline) -> FoundRecord | None:
    try:
        consumer.assign([Position(topic, partition, offset)])
        while True:
            message = consumer.poll(min(1.0, deadline.remaining()))
            if message is None:
                if deadline.over:
                    raise AskError(Fault(Reason.TIMEOUT, f"reading {topic}-{partition} at {offset}: no answer in time"))
                continue
            error = message.error()
            if is_about_the_group(error):
                continue
            if error is not None:
                if is_end(error) or error.code() in _NOTHING_THERE:
                    return None
                raise AskError(fault_of(error, topic))
            if message.partition() != partition or (message.offset() or 0) < offset:
                continue
            return _found(message) if message.offset() == offset else None
    except KafkaException as error:
        raise AskError(fault_of(error.args[0], topic)) from None


def _found(message: Message) -> FoundRecord:
    return FoundRecord(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),  # type: ignore[arg-type]  # as above
    )
