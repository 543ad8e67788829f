"""``python -m tests.bench.log_read``: what one read of the transaction log costs, and what that depends on.

No broker takes part: records and answers are made here, and read by the source that the agent has. A read should cost
what changed: as much with many open transactions, ids and quiet partitions as with few.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from exporter.core.reading import read_source
from exporter.kafka.ask import coordinator_partition
from exporter.model import Deadline, Facts, TopicPartition
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.machine.entries import encode_key, encode_section
from exporter.transactions.machine.records import HEAD, PREVIOUS_ID_TAGS, TIMES, Status
from exporter.transactions.source.txnlog import TxnlogSource
from tests.helpers.cluster import FakeKafka, world_of
from tests.helpers.coordinator import BEGIN_MS, CoordinatorRecord

APPLICATIONS = 20
TAGS = PREVIOUS_ID_TAGS + b"\xff" * 8
NO_PARTITIONS = b"\x01"
ENDED = (Status.ONGOING, Status.ONGOING, Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)


class LogShape(NamedTuple):
    """What the log has. ``transactions`` end in each second."""

    partitions: int = 50
    ids: int = 20_000
    opened: int = 2_000
    transactions: int = 100


SHAPES = {
    "as in production": LogShape(),
    "no open transaction": LogShape(opened=0),
    "20,000 open": LogShape(opened=20_000),
    "1,000 ids": LogShape(ids=1_000),
    "200,000 ids": LogShape(ids=200_000),
    "no record": LogShape(transactions=0),
}


class LogOfShape:
    """A log that grows, and the source that reads it."""

    def __init__(self, shape: LogShape, directory: Path) -> None:
        self.shape = shape
        self.world: FakeKafka = world_of(shape.partitions)
        self.world.time.wall = BEGIN_MS / 1000 + 3600
        cluster = self.world.cluster(directory)
        self.source = TxnlogSource(cluster, TransactionsConfig(), self.world.tail)
        self._at = 0
        self._write([(number, ENDED) for number in range(shape.ids)])
        self._write([(shape.ids + number, ENDED[:1]) for number in range(shape.opened)])
        for _ in range(3):
            self.next_second()
            self.read()

    def _write(self, transactions: list[tuple[int, tuple[Status, ...]]]) -> None:
        ms = round(self.world.time.wall * 1000)
        records: list[CoordinatorRecord] = []
        ends: dict[int, int] = {}
        for number, statuses in transactions:
            transactional_id = f"app{number % APPLICATIONS}-{number}"
            partition = coordinator_partition(transactional_id, self.shape.partitions)
            section = encode_section(frozenset({TopicPartition("orders", number % 16)}))
            for status in statuses:
                named = NO_PARTITIONS if status is Status.COMPLETE_COMMIT else section
                value = HEAD.pack(1, number, 0, 60_000, status) + named + TIMES.pack(ms, ms) + TAGS
                end = ends.get(partition, self.world.topics["__transaction_state"][partition].high_watermark)
                records.append(CoordinatorRecord(partition, end, ms, encode_key(transactional_id), value))
                ends[partition] = end + 1
        self.world.write(records)

    def next_second(self) -> None:
        """A second passes, in which transactions of ids end that are used in turn."""
        self.world.time.pass_(1.0)
        ids = [(self._at + number) % self.shape.ids for number in range(self.shape.transactions)]
        self._at += self.shape.transactions
        self._write([(number, ENDED) for number in ids])

    def read(self) -> float:
        """Read once; return the CPU seconds."""
        clock = self.world.time.clock
        began = time.process_time()
        snapshot = read_source(self.source, Deadline.after(10.0, clock.monotonic), Facts(), clock)
        spent = time.process_time() - began
        if snapshot.faults:
            raise RuntimeError(f"a read had faults: {snapshot.faults}")
        return spent

    def reads(self, count: int) -> Iterator[float]:
        """Yield the CPU seconds of so many reads, one a second."""
        for _ in range(count):
            self.next_second()
            yield self.read()


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.log_read", description=__doc__.split("\n")[0])
    parser.add_argument("--reads", type=int, default=60)
    parser.add_argument("--profile", choices=list(SHAPES), help="print where the time of this one goes")
    options = parser.parse_args()
    first: float | None = None
    for name, shape in SHAPES.items():
        if options.profile not in {None, name}:
            continue
        with TemporaryDirectory() as folder:
            log = LogOfShape(shape, Path(folder))
            gc.freeze()
            if options.profile:
                profile = cProfile.Profile()
                for _ in range(options.reads):
                    log.next_second()
                    profile.enable()
                    log.read()
                    profile.disable()
                pstats.Stats(profile).sort_stats("tottime").print_stats(35)
                continue
            spent = statistics.median(log.reads(options.reads))
            first = first or spent
            print(f"{name:<22}{1000 * spent:8.2f} ms a read {spent / first:6.2f} x", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
