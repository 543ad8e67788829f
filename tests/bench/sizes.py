"""``python -m tests.bench.sizes``: the cost of stalls by the number of partitions and of open transactions.

Brokers are stand-ins (``tests.bench.stand_in``): processes of their own that speak the protocol over real sockets. The
source ``lso`` and the exposition are the agent's; each size is measured in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from exporter.agent.signals import share_one_arena
from exporter.agent.with_thresholds import WithThresholds
from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.core.fact_store import FactStore
from exporter.core.reading import read_source
from exporter.core.state import StateDir
from exporter.core.thresholds import Thresholds
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import Format
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.lso.source.lso import LsoSource
from exporter.model import Clock, Deadline, Fault, Snapshot, TopicPartition
from exporter.settings.sections import LsoConfig, TopicsConfig
from exporter.transactions.facts import OpenTransaction, OpenTransactions
from exporter.words import TransactionState
from tests.bench.machine import load, rss_mb
from tests.bench.stand_in import PER_TOPIC

PARTITIONS = (5_000, 10_000, 50_000, 100_000)
OPEN = (500, 1_000, 2_000, 5_000)
READS = 12
"""Reads of a minute at the default interval; one of them requests the metadata of all topics."""
BODIES = 200


class SizeCost(NamedTuple):
    """One size: CPU seconds of a median read, of the longest one, of a minute; ms of a body; MB; faults of a read."""

    partitions: int
    open: int
    read_cpu: float
    longest_cpu: float
    minute_cpu: float
    body_p99_ms: float
    rss_mb: float
    faults: int
    shown: int


@contextmanager
def stand_ins(partitions: int, opened: int, brokers: int, late: int = 0, refusing: int = 0) -> Iterator[list[int]]:
    """The ports of running brokers."""
    sizes = ("--partitions", partitions, "--open", opened, "--brokers", brokers, "--late", late, "--refusing", refusing)
    argv = [sys.executable, "-m", "tests.bench.stand_in", *map(str, sizes)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        if running.stdin is None or running.stdout is None:
            raise RuntimeError("no pipes")
        yield [int(running.stdout.readline()) for _ in range(brokers)]
        running.stdin.close()


class TimeAhead:
    """A clock that runs with the machine's, and that the bench moves on between two reads."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def pass_(self, seconds: float) -> None:
        self._ahead += seconds

    def clock(self) -> Clock:
        return Clock(lambda: time.monotonic() + self._ahead, lambda: time.time() + self._ahead)


def opened_transactions(count: int) -> OpenTransactions:
    """As the tail of the log gives them; each holds a partition."""
    return OpenTransactions(
        "txnlog",
        tuple(
            OpenTransaction(
                f"service-{number % 100:02}-{number}",
                f"service-{number % 100:02}",
                number,
                0,
                TransactionState.ONGOING,
                time.time() - 60,
                3600.0,
                None,
                frozenset({TopicPartition(f"t-{number // PER_TOPIC}", number % PER_TOPIC)}),
            )
            for number in range(count)
        ),
        complete=True,
    )


def measure(partitions: int, opened: int) -> SizeCost:
    """Run a minute of reads after the stalls are known."""
    share_one_arena()
    moved = TimeAhead()
    clock = moved.clock()
    with stand_ins(partitions, opened, 1) as ports:
        properties = Properties.parse({"bootstrap.servers": f"127.0.0.1:{ports[0]}"})
        client = ClusterClient(properties, clock)
        cluster = Cluster(properties, client, Grouping(), StateDir(None), "bench", clock)
        source = WithThresholds(LsoSource(cluster, LsoConfig(), TopicsConfig()), Thresholds, clock, cluster.grouping)
        exposition, facts = Exposition(clock), FactStore()
        fact = opened_transactions(opened)
        faults: set[Fault] = set()

        def read() -> float:
            facts.post(("log",), Snapshot("txnlog", "", "", 1e9, (), (), (fact,), 0.0, clock.monotonic(), clock.wall()))
            before = time.process_time()
            deadline = Deadline.after(source.timeout, clock.monotonic)
            snapshot = read_source(source, deadline, facts.facts(clock.monotonic()), clock)
            exposition.swap({("lso",): snapshot})
            cpu = time.process_time() - before
            faults.clear()
            faults.update(snapshot.faults)
            moved.pass_(5.0)
            return cpu

        for _ in range(2 * READS):
            read()
        costs = sorted(read() for _ in range(READS))
        shown = exposition.body(Format.TEXT).count(b"kafka_eos_lso_stalled_since_timestamp_seconds{")
        bodies = sorted(_body_seconds(exposition, read if number % 20 == 0 else None) for number in range(BODIES))
        client.close()
        memory = rss_mb(os.getpid())
    in_between = costs[len(costs) // 2]
    p99 = bodies[int(0.99 * len(bodies))] * 1000
    return SizeCost(partitions, opened, in_between, costs[-1], sum(costs), p99, memory, len(faults), shown)


def _body_seconds(exposition: Exposition, read: object) -> float:
    if callable(read):
        read()
    began = time.perf_counter()
    exposition.body(Format.OPENMETRICS, gzip=True)
    return time.perf_counter() - began


def in_fresh_process(partitions: int, opened: int) -> SizeCost:
    sizes = [str(number) for number in (partitions, opened)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.sizes", "--one", *sizes], stdout=subprocess.PIPE, text=True, check=True
    )
    return SizeCost(*json.loads(done.stdout))


def main() -> int:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sizes", description=__doc__.split("\n")[0])
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return 0
    by_partitions = (in_fresh_process(partition, 2_000) for partition in PARTITIONS)
    by_open = (in_fresh_process(10_000, number) for number in OPEN)
    for cost in (*by_partitions, *by_open, in_fresh_process(100_000, 5_000)):
        print(f"load {load()}  {cost}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
