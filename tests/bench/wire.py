"""Transactional requests by the ten thousand: packed by hand, pipelined over several connections to each broker.

The versions are those of librdkafka (Transactions V1), which have fixed lengths: InitProducerId 1, AddPartitionsToTxn
1, Produce 3, EndTxn 1. A broker serves one request of a connection at a time, so connections are what makes it busy.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Self

from kafka.record.default_records import DefaultRecordBatchBuilder

from exporter.kafka.ask import coordinator_partition
from exporter.model import Deadline, TopicPartition
from exporter.transactions.machine.records import TOPIC
from testkit.cluster import KafkaCluster

CONNECTIONS = 12
"""To all brokers together."""
WINDOW = 100
"""Requests of a connection that are on their way at once."""

CALL_SECONDS = 120.0
PAUSE_SECONDS = 0.05

MOVED = frozenset({6, 16})
"""Not leader, not coordinator: ask the one that is."""
NOT_YET = MOVED | {14, 15, 51}
"""Coordinator loading, not available, CONCURRENT_TRANSACTIONS: ask again."""


class WireError(RuntimeError):
    """The broker refused a request; the text has the error code."""


class ProducerIdentity(NamedTuple):
    """A transactional.id as InitProducerId made it."""

    transactional_id: str
    producer_id: int
    epoch: int


class BrokerConnections:
    """Connections to every broker of a cluster, as a context manager."""

    def __init__(self, cluster: KafkaCluster, connections: int = CONNECTIONS) -> None:
        self._admin = cluster.admin()
        self._leaders: dict[str, dict[int, int]] = {}
        share = connections // len(cluster.brokers)
        self._sockets = {broker.id: [_connect(broker.address) for _ in range(share)] for broker in cluster.brokers}
        self._pool = ThreadPoolExecutor(connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        for sockets in self._sockets.values():
            for client in sockets:
                client.close()

    # --- What a transactional producer asks ---

    def find_coordinator(self, transactional_id: str) -> None:
        """Make the broker create ``__transaction_state``, and wait until it coordinates."""
        body = _text(transactional_id) + b"\x01"
        self._until_settled([_frame(10, 1, body)], None, lambda answer: _INT16.unpack_from(answer, 8)[0])

    def init(self, ids: Sequence[str], timeout_ms: int) -> list[ProducerIdentity]:
        """Initialise producers; one that has an open transaction fences itself out of it."""
        requests = [_frame(22, 1, _text(known_id) + _INT32.pack(timeout_ms)) for known_id in ids]
        answers = self._until_settled(requests, self._logs(ids), lambda answer: _INT16.unpack_from(answer, 8)[0])
        states = (struct.unpack_from(">qh", answer, 10) for answer in answers)
        return [ProducerIdentity(text, number, epoch) for text, (number, epoch) in zip(ids, states, strict=True)]

    def add(self, work: Sequence[tuple[ProducerIdentity, TopicPartition]]) -> None:
        """Add one partition to the transaction of each producer; the first one begins it."""
        requests = [
            _frame(24, 1, _who(producer) + struct.pack(">i", 1) + _place(*partition)) for producer, partition in work
        ]
        logs = self._logs([producer.transactional_id for producer, _ in work])
        self._until_settled(requests, logs, lambda answer: _INT16.unpack_from(answer, len(answer) - 2)[0])

    def produce(self, work: Sequence[tuple[ProducerIdentity, TopicPartition]]) -> None:
        """Write one record for each producer, as the first of its sequence in that partition."""
        requests = [
            _frame(0, 3, _text(producer.transactional_id) + _produce_body(producer, partition))
            for producer, partition in work
        ]
        partitions = [partition for _, partition in work]
        # [topic [partition, error, base offset, append time]], throttle time: read from the end.
        self._until_settled(requests, partitions, lambda answer: _INT16.unpack_from(answer, len(answer) - 22)[0])

    def end(self, work: Sequence[tuple[ProducerIdentity, bool]]) -> None:
        """Commit (True) or abort the transaction of each producer. Its markers may still be on their way after."""
        requests = [_frame(26, 1, _who(producer) + bytes([committed])) for producer, committed in work]
        logs = self._logs([producer.transactional_id for producer, _ in work])
        self._until_settled(requests, logs, lambda answer: _INT16.unpack_from(answer, 8)[0])

    # --- Sending ---

    def _logs(self, ids: Sequence[str]) -> list[TopicPartition]:
        """The partitions of the transaction log whose leaders coordinate these ids."""
        count = len(self._leaders_of(TOPIC))
        return [TopicPartition(TOPIC, coordinator_partition(known_id, count)) for known_id in ids]

    def _leaders_of(self, topic: str) -> dict[int, int]:
        """The leader of each partition, once all have one. Raises WireError."""
        deadline = Deadline.after(CALL_SECONDS)
        while topic not in self._leaders:
            found = self._admin.list_topics(topic, timeout=CALL_SECONDS).topics[topic].partitions
            if found and all(partition.leader >= 0 for partition in found.values()):
                self._leaders[topic] = {number: partition.leader for number, partition in found.items()}
            elif deadline.over:
                raise WireError(f"partitions of {topic} have no leader")
            else:
                time.sleep(PAUSE_SECONDS)
        return self._leaders[topic]

    def _until_settled(
        self, requests: Sequence[bytes], partitions: Sequence[TopicPartition] | None, code: Callable[[bytes], int]
    ) -> list[bytes]:
        """All answers, in order, each by the leader of its partition, or by any broker; those that say "not yet" are
        asked for again. Raises WireError.
        """
        answers: list[bytes] = [b""] * len(requests)
        left = list(range(len(requests)))
        deadline = Deadline.after(CALL_SECONDS)
        while left:
            again = []
            places = [None if partitions is None else partitions[series] for series in left]
            for number, answer in self._send(requests, left, [self._broker(place) for place in places]):
                answers[number] = answer
                if (error := code(answer)) in NOT_YET:
                    again.append(number)
                    if error in MOVED:
                        self._leaders.clear()
                elif error:
                    raise WireError(f"error {error} to a request with key {_INT16.unpack_from(requests[number], 4)[0]}")
            left = again
            if left:
                if deadline.over:
                    raise WireError(f"{len(left)} requests are not served: error {code(answers[left[0]])}")
                time.sleep(PAUSE_SECONDS)
        return answers

    def _broker(self, partition: TopicPartition | None) -> int:
        if partition is None:
            return min(self._sockets)
        return self._leaders_of(partition.topic)[partition.partition]

    def _send(
        self, requests: Sequence[bytes], numbers: Sequence[int], brokers: Sequence[int]
    ) -> Iterator[tuple[int, bytes]]:
        """The answers to the requests of these numbers, each with its number; ``brokers`` has the broker of each."""
        parts: list[tuple[socket.socket, list[int]]] = []
        for broker, mine in groupby(sorted(zip(brokers, numbers, strict=True)), key=itemgetter(0)):
            theirs, sockets = [number for _, number in mine], self._sockets[broker]
            share = -(-len(theirs) // len(sockets))
            cut = [theirs[at : at + share] for at in range(0, len(theirs), share)]
            parts += zip(sockets, cut, strict=False)
        answers = self._pool.map(lambda part: _pipeline(part[0], [requests[position] for position in part[1]]), parts)
        for (_, sent), received in zip(parts, answers, strict=True):
            yield from zip(sent, received, strict=True)


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=CALL_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _pipeline(connection: socket.socket, requests: Sequence[bytes]) -> list[bytes]:
    """The answers to these requests, without their sizes: correlation id and body."""
    answers: list[bytes] = []
    buffer = bytearray()
    for at in range(0, len(requests), WINDOW):
        window = requests[at : at + WINDOW]
        connection.sendall(b"".join(window))
        expected = len(answers) + len(window)
        while len(answers) < expected:
            data = connection.recv(65536)
            if not data:
                raise WireError("the broker closed the connection: a request that it cannot read")
            buffer += data
            start = 0
            while len(buffer) - start >= 4:
                end = start + 4 + int.from_bytes(buffer[start : start + 4], "big")
                if end > len(buffer):
                    break
                answers.append(bytes(buffer[start + 4 : end]))
                start = end
            del buffer[:start]
    return answers


# --- Bytes ---

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_CLIENT = struct.pack(">h", 5) + b"bench"


def _frame(key: int, version: int, body: bytes) -> bytes:
    message = struct.pack(">hhi", key, version, 0) + _CLIENT + body
    return _INT32.pack(len(message)) + message


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded


def _who(producer: ProducerIdentity) -> bytes:
    return _text(producer.transactional_id) + struct.pack(">qh", producer.producer_id, producer.epoch)


def _place(topic: str, partition: int) -> bytes:
    return _text(topic) + struct.pack(">ii", 1, partition)


def _produce_body(producer: ProducerIdentity, partition: TopicPartition) -> bytes:
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        batch_size=1024,
    )
    batch.append(0, timestamp=round(time.time() * 1000), key=None, value=b"a record of the bench", headers=[])
    records = bytes(batch.build())
    return (
        struct.pack(">hii", -1, int(CALL_SECONDS * 1000), 1) + _place(*partition) + _INT32.pack(len(records)) + records
    )
