"""``python -m tests.bench.markers``: CPU of comparing markers with decisions, without a broker.

Two topics of ten partitions, records of 1 kB in batches of three, every transaction in two partitions. The figures
leave out librdkafka and the network: ``make bench`` has what reading a record of the log costs.
"""

from __future__ import annotations

import argparse
import resource
import struct
import time
from collections.abc import Iterator, Sequence

from exporter.kafka.log.control import FETCH_BYTES, PartitionMarkers, take_batches
from exporter.model import TopicPartition
from exporter.transactions.decided.marker_watch import MarkerWatch
from exporter.transactions.decided.recent_decisions import DecisionTail
from exporter.transactions.decided.torn import DecisionLog, judge
from exporter.transactions.machine.entries import Ended
from exporter.transactions.machine.records import Status
from exporter.transactions.machine.state_machine import StateMachine
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

PARTITIONS = 10
WATCHED_SECONDS, INTERVAL = 600, 10
"""How long the agent's part is measured, and the time from one read to the next."""
BEGIN_MS = 1_700_000_000_000
RECORD_BYTES = 3_000
_BATCH = struct.Struct(">qiibIhiqqqhii")
_CONTROL_BODY = b"\x20\x00\x00\x00\x08\x00\x00\x00\x01\x0c\x00\x00\x00\x00\x00\x03\x00"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.markers", description=__doc__.split("\n")[0])
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--producers", type=int, default=1_000)
    parser.add_argument("--v1", action="store_true", help="clients of before Transactions V2: one epoch")
    parser.add_argument("--watch", type=int, metavar="N", help="the agent's part, at so many transactions a second")
    options = parser.parse_args(argv)
    if options.watch:
        print(f"{100 * _watched(options.watch, options.producers, v2=not options.v1):.2f} % of a core")
        return 0
    log = DecisionLog()
    records = _records(options.transactions, options.producers, v2=not options.v1)
    spent = _Spent()
    for run in _runs(records):  # made outside of what is measured
        begun = time.process_time()
        for key, value, at in run:
            log.take_record(key, value, at)
        spent.log += time.process_time() - begun
    read: dict[TopicPartition, PartitionMarkers] = {}
    for number in range(2 * PARTITIONS):
        own = read[_partition(number)] = PartitionMarkers(0)
        for data, end in _answers(number, options.transactions, options.producers, v2=not options.v1):
            begun = time.process_time()
            take_batches(own, data, end)
            spent.markers += time.process_time() - begun
    begun = time.process_time()
    judged = judge(log.decisions(), read, 0)
    spent.compared = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    markers = sum(len(own.markers) for own in read.values())
    print(
        f"{judged.judged:,} transactions, {markers:,} markers, {len(judged.torn)} torn:"
        f" log {spent.log:.1f} s, markers {spent.markers:.1f} s, comparison {spent.compared:.1f} s,"
        f" in all {spent.log + spent.markers + spent.compared:.1f} CPU-s; peak {peak} MB"
    )
    return 0


def _watched(per_second: int, producers: int, *, v2: bool) -> float:
    """The share of a core that collecting and comparing takes in the agent, over ten minutes of its reads."""
    tail, watch = DecisionTail(), MarkerWatch()
    spent = 0.0
    machine = StateMachine(0)
    records = _records(per_second * WATCHED_SECONDS, producers, v2=v2)
    answers = [iter(_steps(number, per_second, producers, v2=v2)) for number in range(2 * PARTITIONS)]
    for number in range(2 * PARTITIONS):
        watch.follow(_partition(number), 0, 0, cut=False)
    offset, every = 0, INTERVAL * per_second * 4
    for now in range(INTERVAL, WATCHED_SECONDS, INTERVAL):
        events: list[object] = []
        for _, (key, value, at) in zip(range(every), records, strict=False):
            events += machine.apply(offset, at, key, value)
            offset += 1
        data = [next(answer, b"") for answer in answers]
        begun = time.process_time()
        for event in events:
            if isinstance(event, Ended):
                tail.take(event)
        watch.note(tail.read(float(now)), float(now), lambda _: True)
        wanted = watch.wanted()
        for number, taken in enumerate(data):
            take_batches(watch.followed[_partition(number)], taken, 1 << 60)
        watch.compare(wanted.keys(), float(now))
        spent += time.process_time() - begun
    print(f"{watch.compared:,} compared, {watch.not_compared:,} not, {len(watch.found)} torn")
    return spent / WATCHED_SECONDS


def _steps(number: int, per_second: int, producers: int, *, v2: bool) -> Iterator[bytes]:
    """The batches of one partition, by the reads in which they come."""
    for begin in range(0, per_second * WATCHED_SECONDS, per_second * INTERVAL):
        parts = []
        for transaction in range(begin, begin + per_second * INTERVAL):
            if _of(transaction) == number % PARTITIONS:
                who, epoch = transaction % producers, _epoch(transaction, producers, v2=v2)
                at, offset = BEGIN_MS + 4 * transaction + 2, transaction // PARTITIONS * 4
                parts.append(_batch(offset, 3, bytes(RECORD_BYTES), 0x10, at, who, epoch))
                parts.append(_batch(offset + 3, 1, _CONTROL_BODY, 0x30, at, who, epoch + v2))
        yield b"".join(parts)


class _Spent:
    """CPU seconds of the three parts."""

    log = markers = compared = 0.0


def _partition(number: int) -> TopicPartition:
    return TopicPartition("orders" if number < PARTITIONS else "payments", number % PARTITIONS)


def _of(transaction: int) -> int:
    """The partition of ``orders`` of a transaction; that of ``payments`` has the same number."""
    return transaction % PARTITIONS


def _epoch(transaction: int, producers: int, *, v2: bool) -> int:
    return transaction // producers % 30_000 if v2 else 0


def _records(transactions: int, producers: int, *, v2: bool) -> Iterator[tuple[bytes, bytes, int]]:
    tags = kafka_tags(0, -1, 2 if v2 else 0)
    for number in range(transactions):
        at, key = BEGIN_MS + 4 * number, encode_key(f"app-{number % producers}")
        epoch = _epoch(number, producers, v2=v2)
        topics = [("orders", [_of(number)]), ("payments", [_of(number)])]
        who = 1, number % producers
        states: tuple[tuple[Status, int, list[tuple[str, list[int]]], int], ...] = (
            (Status.ONGOING, epoch, topics[:1], 0),
            (Status.ONGOING, epoch, topics, 1),
            (Status.PREPARE_COMMIT, epoch + v2, topics, 2),
            (Status.COMPLETE_COMMIT, epoch + v2, [], 3),
        )
        for status, decision, named, later in states:
            yield key, encode_value(*who, decision, 60_000, status, named, at + later, at, tags), at + later


def _runs(records: Iterator[tuple[bytes, bytes, int]]) -> Iterator[list[tuple[bytes, bytes, int]]]:
    while run := [record for _, record in zip(range(20_000), records, strict=False)]:
        yield run


def _answers(number: int, transactions: int, producers: int, *, v2: bool) -> Iterator[tuple[bytes, int]]:
    """Yield what Fetch would answer of one partition: a batch of records and a marker of every transaction in it."""
    offset, parts, size = 0, [], 0
    for transaction in range(number % PARTITIONS, transactions, PARTITIONS):
        who, epoch = transaction % producers, _epoch(transaction, producers, v2=v2)
        at = BEGIN_MS + 4 * transaction + 2
        parts.append(_batch(offset, 3, bytes(RECORD_BYTES), 0x10, at, who, epoch))
        parts.append(_batch(offset + 3, 1, _CONTROL_BODY, 0x30, at, who, epoch + v2))
        offset += 4
        size += RECORD_BYTES
        if size >= FETCH_BYTES:
            yield b"".join(parts), 1 << 60
            parts, size = [], 0
    yield b"".join(parts), 1 << 60


def _batch(offset: int, count: int, body: bytes, attributes: int, at: int, who: int, epoch: int) -> bytes:
    head = (offset, 49 + len(body), 0, 2, 0, attributes, count - 1, at, at, who, epoch, -1, count)
    return _BATCH.pack(*head) + body


if __name__ == "__main__":
    raise SystemExit(main())
