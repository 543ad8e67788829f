"""``python -m tests.bench.stand_in``: brokers that answer as Kafka does, about as many partitions as no machine here
carries.

They speak the protocol over real sockets and have no log: offsets, metadata and open transactions are made up. The port
of each is printed, one a line; they run until standard input ends.
"""

from __future__ import annotations

import argparse
import io
import struct
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.metadata import MetadataRequest

from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.kafka.varint import uvarint
from tests.helpers import kafka as fakes

PER_TOPIC = 100
"""Partitions of each topic."""
HELD, END = 10, 25
"""The last stable offset of a partition that a transaction holds, and every high watermark."""
LIST_OFFSETS, METADATA, DESCRIBE_PRODUCERS = 2, 3, 61
METADATA_FLEXIBLE = 9
"""The first version of Metadata with tagged fields."""
LATE_SECONDS = 30.0

_ROW = struct.Struct(">ihqqib")
_ASKED = struct.Struct(">iiqB")


class StandIn(fakes.FakeBroker):
    """One broker. ``partitions`` are all of the cluster's; the first ``opened`` are held by a transaction each."""

    def __init__(self, partitions: int, opened: int, *, late: bool = False) -> None:
        self._partitions, self._opened, self._late = partitions, opened, late
        self.brokers: Sequence[tuple[int, str, int]] = ()
        self.metadata = cache(self._describe)
        super().__init__(self._reply)

    def _answer(self, connection: Any, frame: bytes) -> bool:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        if self._late and key not in {18, 3}:
            time.sleep(LATE_SECONDS)
        if key == LIST_OFFSETS:
            connection.sendall(self._offsets(frame, correlation))
            return True
        kinds: dict[int, Any] = {METADATA: MetadataRequest, DESCRIBE_PRODUCERS: DescribeProducersRequest}
        kind = kinds.get(key)
        if kind is None:
            return super()._answer(connection, frame)
        body = io.BytesIO(frame)
        RequestHeader.decode(body, flexible=kind.flexible_version_q(version))
        request = kind.decode(body, version=version)
        if key == METADATA:
            named = None if request.topics is None else tuple(topic.name for topic in request.topics)
            data = struct.pack(">i", correlation) + b"\0" * (version >= METADATA_FLEXIBLE)
            data += self.metadata(version, named)
            connection.sendall(struct.pack(">i", len(data)) + data)
        else:
            answer = self._producers(request)
            answer.API_VERSION = version
            answer.with_header(correlation_id=correlation)
            connection.sendall(answer.encode(framed=True, header=True))
        return True

    def _reply(self, name: str, _: Any) -> Any:
        if name == "ApiVersions":
            return fakes.api_versions({**fakes.VERSIONS, LIST_OFFSETS: (1, 7), DESCRIBE_PRODUCERS: (0, 0)}, position=1)
        return None

    def _producers(self, request: Any) -> Any:
        topic = DescribeProducersResponse.TopicResponse
        row = topic.PartitionResponse

        def partition(name: str, index: int) -> Any:
            number = int(name[2:]) * PER_TOPIC + index
            producer = row.ProducerState(
                producer_id=number,
                producer_epoch=0,
                last_sequence=0,
                last_timestamp=0,
                coordinator_epoch=0,
                current_txn_start_offset=HELD,
            )
            active = [producer] if number < self._opened else []
            return row(partition_index=index, error_code=0, error_message=None, active_producers=active)

        return DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                topic(name=asked.name, partitions=[partition(asked.name, index) for index in asked.partition_indexes])
                for asked in request.topics
            ],
        )

    def _describe(self, version: int, topics: tuple[str, ...] | None) -> bytes:
        """All topics, or these, without the header."""
        count = len(self.brokers)
        names = [f"t-{number}" for number in range(self._partitions // PER_TOPIC)] if topics is None else topics
        every = {
            name: [1 + number % count for number in range(1 if name == TRANSACTION_STATE else PER_TOPIC)]
            for name in names
        }
        answer = fakes.metadata_response(self.brokers, every)
        answer.API_VERSION = version
        return bytes(answer.encode())

    def _offsets(self, frame: bytes, correlation: int) -> bytes:
        """As version 7, the bytes of the request read one topic after another."""
        at = 8
        at += 2 + max(0, struct.unpack_from(">h", frame, at)[0]) + 1
        committed = frame[at + 4] == 1
        topics, at = _length(frame, at + 5)
        out = bytearray(struct.pack(">iBi", correlation, 0, 0) + uvarint(topics + 1))
        for _ in range(topics):
            size, at = _length(frame, at)
            name = frame[at : at + size]
            at += size
            rows, at = _length(frame, at)
            first = int(name[2:]) * PER_TOPIC if name.startswith(b"t-") else self._partitions
            out += uvarint(len(name) + 1) + name + uvarint(rows + 1)
            for index, _, _, _ in _ASKED.iter_unpack(frame[at : at + rows * _ASKED.size]):
                end = HELD if committed and first + index < self._opened else END
                out += _ROW.pack(index, 0, -1, end, 0, 0)
            out += b"\0"
            at += rows * _ASKED.size + 1
        out += b"\0"
        return struct.pack(">i", len(out)) + out


def _length(frame: bytes, at: int) -> tuple[int, int]:
    """A compact length, and where it ends."""
    number = shift = 0
    while True:
        byte = frame[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number - 1, at


def main() -> int:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stand_in", description=__doc__.split("\n")[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--open", type=int, default=2_000)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--late", type=int, default=0, help="the broker that answers after 30 s")
    parser.add_argument("--refusing", type=int, default=0, help="the broker that takes no connection")
    options = parser.parse_args()
    running = [
        StandIn(options.partitions, options.open, late=node == options.late) for node in range(1, options.brokers + 1)
    ]
    brokers = tuple((node, "127.0.0.1", stand_in.port) for node, stand_in in enumerate(running, 1))
    for stand_in in running:
        stand_in.brokers = brokers
        stand_in.metadata = running[0].metadata  # made once for all: fifty times that is seconds of this process
    if options.refusing:
        running[options.refusing - 1].close()
    for stand_in in running:
        print(stand_in.port, flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
