"""Transactional requests by the ten thousand: packed by hand, pipelined over several connections to one broker.

The versions are those of librdkafka (Transactions V1), which have fixed lengths: InitProducerId 1, AddPartitionsToTxn
1, Produce 3, EndTxn 1. A broker serves one request of a connection at a time, so connections are what makes it busy.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Self

from kafka.record.default_records import DefaultRecordBatchBuilder

from exporter.model import Deadline, TopicPartition

CONNECTIONS = 12
WINDOW = 100
"""Requests of a connection that are on their way at once."""

CALL_SECONDS = 120.0
PAUSE_SECONDS = 0.05

NOT_YET = frozenset({14, 15, 16, 51})
"""Coordinator loading, not available, not coordinator, CONCURRENT_TRANSACTIONS: ask again."""


class WireError(RuntimeError):
    """The broker refused a request; the text has the error code."""


class ProducerIdentity(NamedTuple):
    """A transactional.id as InitProducerId made it."""

    transactional_id: str
    producer_id: int
    epoch: int


class BrokerConnections:
    """Connections to one broker, as a context manager."""

    def __init__(self, address: str, connections: int = CONNECTIONS) -> None:
        host, _, port = address.rpartition(":")
        self._sockets = [socket.create_connection((host, int(port)), timeout=CALL_SECONDS) for _ in range(connections)]
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pool = ThreadPoolExecutor(connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        for each in self._sockets:
            each.close()

    # --- What a transactional producer asks ---

    def find_coordinator(self, transactional_id: str) -> None:
        """Make the broker create ``__transaction_state``, and wait until it coordinates."""
        body = _text(transactional_id) + b"\x01"
        self._until_settled([_frame(10, 1, body)], lambda answer: _INT16.unpack_from(answer, 8)[0])

    def init(self, ids: Sequence[str], timeout_ms: int) -> list[ProducerIdentity]:
        """Initialise producers; one that has an open transaction fences itself out of it."""
        requests = [_frame(22, 1, _text(each) + _INT32.pack(timeout_ms)) for each in ids]
        answers = self._until_settled(requests, lambda answer: _INT16.unpack_from(answer, 8)[0])
        states = (struct.unpack_from(">qh", answer, 10) for answer in answers)
        return [ProducerIdentity(each, number, epoch) for each, (number, epoch) in zip(ids, states, strict=True)]

    def add(self, work: Sequence[tuple[ProducerIdentity, TopicPartition]]) -> None:
        """Add one partition to the transaction of each producer; the first one begins it."""
        requests = [
            _frame(24, 1, _who(producer) + struct.pack(">i", 1) + _place(*partition)) for producer, partition in work
        ]
        self._until_settled(requests, lambda answer: _INT16.unpack_from(answer, len(answer) - 2)[0])

    def produce(self, work: Sequence[tuple[ProducerIdentity, TopicPartition]]) -> None:
        """Write one record for each producer, as the first of its sequence in that partition."""
        requests = [
            _frame(0, 3, _text(producer.transactional_id) + _produce_body(producer, partition))
            for producer, partition in work
        ]
        # [topic [partition, error, base offset, append time]], throttle time: read from the end.
        self._until_settled(requests, lambda answer: _INT16.unpack_from(answer, len(answer) - 22)[0])

    def end(self, work: Sequence[tuple[ProducerIdentity, bool]]) -> None:
        """Commit (True) or abort the transaction of each producer. Its markers may still be on their way after."""
        requests = [_frame(26, 1, _who(producer) + bytes([committed])) for producer, committed in work]
        self._until_settled(requests, lambda answer: _INT16.unpack_from(answer, 8)[0])

    # --- Sending ---

    def _until_settled(self, requests: Sequence[bytes], code: Callable[[bytes], int]) -> list[bytes]:
        """All answers, in order; those that say "not yet" are asked for again. Raises WireError."""
        answers: list[bytes] = [b""] * len(requests)
        left = list(range(len(requests)))
        deadline = Deadline.after(CALL_SECONDS)
        while left:
            again = []
            for number, answer in zip(left, self._send([requests[each] for each in left]), strict=True):
                answers[number] = answer
                if (error := code(answer)) in NOT_YET:
                    again.append(number)
                elif error:
                    raise WireError(f"error {error} to a request with key {_INT16.unpack_from(requests[number], 4)[0]}")
            left = again
            if left:
                if deadline.over:
                    raise WireError(f"{len(left)} requests are not served: error {code(answers[left[0]])}")
                time.sleep(PAUSE_SECONDS)
        return answers

    def _send(self, requests: Sequence[bytes]) -> list[bytes]:
        share = -(-len(requests) // len(self._sockets))
        parts = [requests[at : at + share] for at in range(0, len(requests), share)]
        return [answer for part in self._pool.map(_pipeline, self._sockets, parts) for answer in part]


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
