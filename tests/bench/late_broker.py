"""``python -m tests.bench.late_broker``: reads of the stalls of 50 brokers, of which one answers after 30 s and one
takes no connection, beside the same without these two.

Brokers are stand-ins (``tests.bench.stand_in``); time is the machine's. The late one answers Metadata at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import NamedTuple

from exporter.agent.signals import share_one_arena
from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.core.fact_store import FactStore
from exporter.core.reading import read_source
from exporter.core.state import StateDir
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.lso.source.lso import LsoSource
from exporter.model import Clock, Deadline, Snapshot
from exporter.settings.sections import LsoConfig, TopicsConfig
from tests.bench.sizes import opened_transactions, stand_ins

BROKERS, PARTITIONS, OPEN = 50, 10_000, 2_000
LATE, REFUSING = 7, 9


class LsoRead(NamedTuple):
    """One read: seconds, CPU seconds of this process, and faults."""

    seconds: float
    cpu: float
    faults: int


def reads(count: int, late: int, refusing: int) -> list[LsoRead]:
    """So many reads at the default interval, from the first one on."""
    clock = Clock()
    found = []
    with stand_ins(PARTITIONS, OPEN, BROKERS, late, refusing) as ports:
        properties = Properties.parse({"bootstrap.servers": f"127.0.0.1:{ports[0]}"})
        client = ClusterClient(properties, clock)
        cluster = Cluster(properties, client, Grouping(), StateDir(None), "bench", clock)
        source, facts, fact = LsoSource(cluster, LsoConfig(), TopicsConfig()), FactStore(), opened_transactions(OPEN)
        for _ in range(count):
            at = clock.monotonic()
            facts.post(("log",), Snapshot("txnlog", "", "", 1e9, (), (), (fact,), 0.0, at, clock.wall()))
            cpu = time.process_time()
            snapshot = read_source(source, Deadline.after(source.timeout), facts.facts(at), clock)
            took = clock.monotonic() - at
            found.append(LsoRead(took, time.process_time() - cpu, len(snapshot.faults)))
            time.sleep(max(0.0, source.interval - took))
        client.close()
    return found


def main() -> int:
    """Print a line for each of the two."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.late_broker", description=__doc__.split("\n")[0])
    parser.add_argument("--reads", type=int, default=20)
    options = parser.parse_args()
    share_one_arena()
    for what, late, refusing in (("all answer", 0, 0), ("one late, one refuses", LATE, REFUSING)):
        found = reads(options.reads, late, refusing)
        later = sorted(reading.seconds for reading in found[1:])
        cpu = sum(reading.cpu for reading in found)
        print(
            f"{what}: the first read {found[0].seconds:.2f} s, then at the median {later[len(later) // 2]:.2f} s,"
            f" at worst {later[-1]:.2f} s; {cpu:.2f} CPU s; at most {max(reading.faults for reading in found)} faults"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
