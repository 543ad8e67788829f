"""The canary's clients: a transactional producer for one turn, and a reader of committed records."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from exporter.kafka.properties.client import Properties

FENCED_CODES = frozenset({"fenced", "producer_fenced", "invalid_producer_epoch"})
"""Errors of a producer whose id another one has taken over."""
_NO_LOG = logging.getLogger(f"{__name__}.librdkafka")
_NO_LOG.addHandler(logging.NullHandler())
_NO_LOG.propagate = False
_SILENT = {"logger": _NO_LOG, "error_cb": lambda _: None}
"""No log lines of librdkafka: every failure is an exception here, and a fenced producer is what a turn makes."""


class ClientError(Exception):
    """A request of the canary failed. ``code`` is librdkafka's name of the error in lower case: ``timed_out``."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    @classmethod
    def of(cls, error: KafkaError) -> ClientError:
        return cls(error.name().lower().strip("_"), error.str())


class TurnProducer:
    """A producer with one transactional.id, for one turn. Times out after ``timeout`` seconds in each call.

    Every method raises ClientError.
    """

    def __init__(self, properties: Properties, transactional_id: str, timeout: float) -> None:
        self._timeout = timeout
        settings = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": round(timeout * 1000),
            "linger.ms": 0,
            **_SILENT,
        }
        self._producer = Producer(properties.for_confluent(**settings))

    def init(self) -> None:
        self._call(self._producer.init_transactions, self._timeout)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, partitions: Iterable[int], key: str, value: str) -> None:
        """Write one record to each partition and wait until all are acknowledged."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for number in partitions:
            self._call(self._producer.produce, topic, value, key, number, delivered)
        if self._call(self._producer.flush, self._timeout):
            raise ClientError("timed_out", f"no acknowledgement within {self._timeout:g} s")
        if failed:
            raise ClientError.of(failed[0])

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group: Any) -> None:  # noqa: ANN401 -- see CommittedReader
        """Commit offsets for a group, in the transaction."""
        listed = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        self._call(self._producer.send_offsets_to_transaction, listed, group, self._timeout)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, self._timeout)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, self._timeout)

    def close(self) -> None:
        """End what is open, as far as the cluster lets it, and forget the rest."""
        with suppress(ClientError):
            self._call(self._producer.abort_transaction, 1.0)
        with suppress(KafkaException):
            self._producer.purge()
            self._producer.flush(0)

    @staticmethod
    def _call(request: Any, *arguments: object) -> Any:  # noqa: ANN401 -- any method of a producer
        try:
            return request(*arguments)
        except KafkaException as failure:
            raise ClientError.of(failure.args[0]) from None
        except SystemError as error:
            # confluent-kafka 2.16 calls the delivery callback while the exception of a fatal error is pending.
            if not isinstance(error.__cause__, KafkaException):
                raise
            raise ClientError.of(error.__cause__.args[0]) from None
        except BufferError as error:
            raise ClientError("queue_full", str(error)) from None


class CommittedReader:
    """Reads committed records of the canary's topic, from where it is set. Every method raises ClientError."""

    def __init__(self, properties: Properties, topic: str, group: str, timeout: float) -> None:
        self._topic, self._timeout = topic, timeout
        settings = {
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "fetch.wait.max.ms": 100,
            **_SILENT,
        }
        self._consumer = Consumer(properties.for_confluent(**settings))

    @property
    def group(self) -> Any:  # noqa: ANN401 -- confluent-kafka has no type for it
        """Group metadata, for offsets in a transaction."""
        return self._consumer.consumer_group_metadata()

    def start(self, partitions: Iterable[int]) -> dict[tuple[str, int], int]:
        """Read from the end of these partitions on. Returns the end offsets."""
        try:
            places = [TopicPartition(self._topic, number) for number in partitions]
            for place in places:
                _, place.offset = self._consumer.get_watermark_offsets(place, self._timeout)
            self._consumer.assign(places)
        except KafkaException as failure:
            raise ClientError.of(failure.args[0]) from None
        return {(place.topic, place.partition): place.offset for place in places}

    def read(self, seconds: float) -> tuple[str, str] | None:
        """Key and value of the next committed record, if there is one within so many seconds."""
        try:
            message = self._consumer.poll(seconds)
        except KafkaException as failure:
            raise ClientError.of(failure.args[0]) from None
        if message is None:
            return None
        if (error := message.error()) is not None:
            raise ClientError.of(error)
        return (message.key() or b"").decode(errors="replace"), (message.value() or b"").decode(errors="replace")

    def close(self) -> None:
        self._consumer.close()


class CanaryAdmin:
    """The objects that the canary creates and removes: its topic and the offsets of its group. Methods raise
    ClientError.
    """

    def __init__(self, properties: Properties, timeout: float) -> None:
        settings: Any = properties.for_confluent(**_SILENT)
        self._admin, self._timeout = AdminClient(settings), timeout

    def partitions(self, topic: str) -> int:
        """Number of partitions of the topic; 0 where there is none."""
        try:
            found = self._admin.list_topics(topic, timeout=self._timeout).topics[topic]
        except KafkaException as failure:
            raise ClientError.of(failure.args[0]) from None
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise ClientError.of(found.error)
        return len(found.partitions)

    def create(self, topic: str, partitions: int, retention: float) -> None:
        """Make the topic, with the cluster's replication factor, and wait until it has leaders."""
        settings = {"retention.ms": str(round(retention * 1000)), "segment.ms": "600000"}
        made = self._admin.create_topics([NewTopic(topic, partitions, config=settings)], request_timeout=self._timeout)
        self._wait(made[topic], {KafkaError.TOPIC_ALREADY_EXISTS})
        until = time.monotonic() + self._timeout
        while not self._has_leaders(topic, partitions):
            if time.monotonic() > until:
                raise ClientError("timed_out", f"{topic} has no leaders after {self._timeout:g} s")
            time.sleep(0.2)

    def remove(self, topic: str, group: str) -> None:
        """Delete the topic and the group, those of them that are there."""
        self._wait(self._admin.delete_topics([topic])[topic], {KafkaError.UNKNOWN_TOPIC_OR_PART})
        # A cluster on which no group has committed has no coordinator either.
        absent = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NOT_COORDINATOR}
        self._wait(self._admin.delete_consumer_groups([group])[group], absent)

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        places = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(
            places, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout
        )
        try:
            return all(future.result(self._timeout).offset >= 0 for future in asked.values())
        except (KafkaException, TimeoutError):
            return False

    def _wait(self, asked: Any, harmless: Collection[int]) -> None:  # noqa: ANN401 -- a future of any result
        try:
            asked.result(self._timeout)
        except KafkaException as failure:
            if failure.args[0].code() not in harmless:
                raise ClientError.of(failure.args[0]) from None
        except TimeoutError:
            raise ClientError("timed_out", f"no answer within {self._timeout:g} s") from None
