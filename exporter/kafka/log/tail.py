"""The live tail of one topic by librdkafka: no group, no commits, read_uncommitted, positions given by the caller."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from exporter.kafka.auth.stores import TlsError
from exporter.kafka.client import AskError
from exporter.kafka.properties.client import Properties
from exporter.model import Deadline, Fault, Reason

log = logging.getLogger(__name__)

ONLOOKER: Mapping[str, object] = {
    # No group is used, but librdkafka requires a name.
    "group.id": "kafka-eos-exporter",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # librdkafka's default, read_committed, would hide undecided records.
    "isolation.level": "read_uncommitted",
    "enable.partition.eof": True,
}
"""Settings of every consumer here: it writes nothing to the cluster, and reads all records of the log."""
SMALL_FETCHES: Mapping[str, object] = {
    # Memory: a fetched message takes several times its bytes, and a whole response is kept while one of its messages
    # is. With a small queue that is refilled at once, catching up is as fast and takes 90 MB less. By default a
    # partition whose queue was full is not fetched for a second: most of the time of reading a long log.
    "fetch.queue.backoff.ms": 5,
    # A partition is fetched again below so many messages. With the default, 100,000, all that is waiting to be read is
    # no longer in the processor's cache when it is: a third more processor time where little is done with a message.
    "queued.min.messages": 3000,
    "fetch.max.bytes": 1048576,
    "fetch.message.max.bytes": 262144,
    "reconnect.backoff.max.ms": 2000,
}
"""Settings of every consumer of the transaction log."""
_SETTINGS: dict[str, object] = {
    **ONLOOKER,
    **SMALL_FETCHES,
    # The caller decides about a position that the log does not have: no record is skipped without a message.
    "auto.offset.reset": "error",
    "queued.max.messages.kbytes": 512,
    # A broker answers when so much is there or the time is over, not for each record: with 300 records a second that is
    # two or three requests a second to each broker and not a hundred.
    "fetch.min.bytes": 65536,
    "fetch.wait.max.ms": 400,
    # A deposed leader that is cut off from the controller still answers. With the default, another broker would be
    # asked for the leader only after five minutes.
    "topic.metadata.refresh.interval.ms": 5000,
}
GATHER_SECONDS = 0.05
"""How long more messages are waited for after the first: librdkafka waits until there are as many as were asked for."""
LOOK_INTERVAL = 1.0
"""Seconds between two checks of the files of secrets and certificates."""

_DISCONNECTED = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT)
_AUTHORIZATION = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class Polled(Protocol):
    """The result of a poll: a record, the end of a partition, or an error (``confluent_kafka.Message``)."""

    def error(self) -> KafkaError | None: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def leader_epoch(self) -> int | None: ...


class TailReader(Protocol):
    """The part of a tail that the transaction log's source uses. ``Tail`` is the real one."""

    def assign(self, positions: Mapping[int, int], epochs: Mapping[int, int] | None = None) -> None: ...
    def poll(self, limit: int, seconds: float) -> list[Polled]: ...
    def trouble(self) -> Fault | None: ...
    def reconnect(self, servers: str) -> None: ...
    @property
    def disconnects(self) -> int: ...
    def close(self) -> None: ...


class Tail:
    """Reads partitions of one topic. Not thread-safe: it belongs to one worker.

    Never blocks beyond the given time. librdkafka keeps the secrets and certificates that it was created with, so when
    their files are replaced a new client takes over at the position of the old one.
    """

    def __init__(self, properties: Properties, topic: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Does not connect yet. Raises AskError when the certificates or keys of the properties cannot be used."""
        self._properties = properties
        self._topic = topic
        self._monotonic = monotonic
        self._trouble: Fault | None = None
        self._disconnects = 0
        self._cause: KafkaError | None = None
        self._assigned: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._stamp = properties.stamp()
        self._spoilt: object = None  # the stamp of unusable files, which are reported once
        self._looked = monotonic()
        try:
            self._consumer = self._connect()
        except (KafkaException, TlsError) as error:
            raise AskError(Fault(Reason.AUTHENTICATION, f"reading {topic}: {_why(error)}")) from None

    def assign(self, positions: Mapping[int, int], epochs: Mapping[int, int] | None = None) -> None:
        """Read these partitions, from these offsets, and no others.

        ``epochs`` are the leader epochs of the records before the offsets, where they are known: a log that was cut
        below such a position is noticed (KIP-320), and gives an error for which ``is_gone`` is true.
        """
        self._assigned, self._epochs = dict(positions), dict(epochs or {})
        self._consumer.assign(
            [
                Position(self._topic, number, offset, leader_epoch=self._epochs.get(number, -1))
                for number, offset in positions.items()
            ]
        )

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        """Up to ``limit`` messages, ends of partitions and errors among them. ``seconds`` is for the first of them."""
        self._keep_up()
        messages = consume(self._consumer, 1, seconds)
        if messages:
            messages += consume(self._consumer, limit - 1, GATHER_SECONDS)
            self._trouble = self._cause = None
        return messages

    def reach(self, partition: int, deadline: Deadline) -> None:
        """Ask the leader of a partition for its first offset. Raises AskError when no broker answers in time."""
        first = Position(self._topic, partition, 0)
        try:
            self._consumer.offsets_for_times([first], timeout=max(0.1, deadline.remaining()))
        except KafkaException as error:
            raise AskError(self._trouble or fault_of(error.args[0], self._topic)) from None

    @property
    def disconnects(self) -> int:
        """How often a connection was lost or not made: what comes by the next one may be of another cluster. Counted
        before a message of a later connection is given.
        """
        return self._disconnects

    def trouble(self) -> Fault | None:
        """The last error of librdkafka since the last message, if any."""
        return self._trouble

    def close(self) -> None:
        self._consumer.close()

    def reconnect(self, servers: str) -> None:
        """Replace the client by one that asks these brokers (``host:port``, by commas) who leads. It reads nothing
        until it is assigned. The client stays as it is where the new one cannot be created.

        librdkafka stays with a leader that was deposed and does not know it: that still answers, with an old end.
        """
        try:
            fresh = self._connect(servers)
        except (KafkaException, TlsError) as error:
            log.warning("reading %s is not moved to other brokers: %s", self._topic, _why(error))
            return
        old, self._consumer = self._consumer, fresh
        self._trouble = self._cause = None
        old.close()

    def _connect(self, servers: str = "") -> Consumer:
        settings = {**self._properties.for_confluent(**_SETTINGS), "error_cb": self._on_error}
        if servers:
            settings["bootstrap.servers"] = servers
        return Consumer(settings, logger=log)

    def _keep_up(self) -> None:
        """Replace the client when the content of the files has changed and can be used."""
        now = self._monotonic()
        if now - self._looked < LOOK_INTERVAL:
            return
        self._looked = now
        stamp = self._properties.stamp()
        if stamp == self._stamp:
            return
        try:
            fresh = self._connect()
        except (KafkaException, TlsError) as error:
            # One of two files may not be replaced yet: the old client continues, and the next check tries again.
            if stamp != self._spoilt:
                log.warning("the replaced secrets or certificates cannot be used yet: %s", _why(error))
                self._spoilt = stamp
            return
        old, self._consumer, self._stamp = self._consumer, fresh, stamp
        log.info("reading %s on with the replaced secrets or certificates", self._topic)
        reached = old.position([Position(self._topic, number) for number in self._assigned])
        self.assign(
            self._assigned | {answer.partition: answer.offset for answer in reached if answer.offset >= 0},
            self._epochs | {answer.partition: _epoch(answer) for answer in reached if answer.offset >= 0},
        )
        self._trouble = self._cause = None
        old.close()

    def _on_error(self, error: KafkaError) -> None:
        code = error.code()
        if code in _DISCONNECTED:
            self._disconnects += 1
        # librdkafka reports each broker that is down, and then that all are: only the last means that no message can
        # come.
        if code == KafkaError._AUTHENTICATION or error.fatal():
            self._trouble = fault_of(error, self._topic)
        elif code == KafkaError._ALL_BROKERS_DOWN:
            self._trouble = self._trouble or fault_of(self._cause or error, self._topic)
        elif code == KafkaError._SSL:
            self._cause = error


def _epoch(position: Position) -> int:
    """The leader epoch of a position; -1 for none."""
    epoch = cast("int | None", position.leader_epoch)
    return -1 if epoch is None else epoch


def _why(error: KafkaException | TlsError) -> str:
    """Why a client cannot be created, without the values of properties."""
    return str(error) if isinstance(error, TlsError) else str(error.args[0].str())


def consume(consumer: Consumer, limit: int, seconds: float) -> list[Polled]:
    """Messages of a consumer, without the refusal of its group."""
    messages = cast("list[Polled]", consumer.consume(limit, seconds))
    return [message for message in messages if not is_about_the_group(message.error())]


def is_about_the_group(error: KafkaError | None) -> bool:
    """Return whether the group may not be described. None is used, but librdkafka looks for its coordinator, and
    reports this as if of partition 0.
    """
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def is_end(error: KafkaError) -> bool:
    """Return whether this message is the event that the end of a partition was reached, not an error."""
    return error.code() == KafkaError._PARTITION_EOF


def is_gone(error: KafkaError) -> bool:
    """Return whether the broker says that the log does not have the position: deleted, or the log was truncated below
    it.
    """
    return error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)


def fault_of(error: KafkaError, topic: str) -> Fault:
    """A librdkafka error as a fault."""
    if error.code() in _AUTHORIZATION:
        return Fault(Reason.AUTHORIZATION, f"reading {topic} is refused: grant READ on Topic:{topic}")
    if error.code() == KafkaError._SSL:
        return Fault(Reason.AUTHENTICATION, f"reading {topic}: TLS failed: {error.str()}")
    if error.code() == KafkaError._AUTHENTICATION:
        return Fault(Reason.AUTHENTICATION, f"the broker refused the credentials: {error.str()}")
    if error.code() in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT):
        return Fault(Reason.TIMEOUT, f"reading {topic}: {error.str()}")
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return Fault(Reason.UNKNOWN_TOPIC, f"reading {topic}: {error.str()}")
    return Fault(Reason.UNREACHABLE, f"reading {topic}: {error.str()}")
