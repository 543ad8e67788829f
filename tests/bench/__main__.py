"""``make bench``: the agent's figures on a real broker at scale, beside what Kafka's own tools take for the same facts.

Progress goes to standard error, the table to standard output. Nothing here judges time: figures are for people.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence

from exporter import __version__
from exporter.agent.signals import collect_seldom, share_one_arena
from testkit.agent import AgentProcess
from testkit.cluster import StartError
from testkit.jars import DEFAULT_VERSION, JarsError, say
from tests.bench import jmx
from tests.bench.machine import ToolError
from tests.bench.measures import Bench
from tests.bench.report import as_json, table
from tests.bench.scale import (
    FULL,
    QUICK,
    THREE_BROKERS,
    Traffic,
    bench_cluster,
    create_topics,
    open_transactions,
    write_log,
)
from tests.bench.wire import BrokerConnections

NAME = "bench"
TRAFFIC_PER_SECOND = 100


def measure(*, quick: bool, brokers: int = 1) -> Bench:
    """Build the cluster, measure everything, and take it all down again."""
    scale = QUICK if quick else FULL if brokers == 1 else THREE_BROKERS
    with bench_cluster(scale, brokers) as cluster, BrokerConnections(cluster) as wire:
        say(f"creating {scale.all_partitions} partitions")
        create_topics(cluster, scale)
        say(f"writing a transaction log of {scale.log_records} records")
        producers = write_log(wire, scale)
        opened, others = producers[: scale.open], producers[scale.open :]
        bench = Bench(cluster, wire, scale, quick=quick)
        bench.tail()
        open_transactions(wire, scale, opened)
        began = time.monotonic()
        state = cluster.folder / "state"
        flags = ("--bootstrap-server", cluster.bootstrap, "--cluster.name", NAME, "--state.dir", str(state))
        with AgentProcess(cluster.processes, *flags) as agent:
            bench.start(agent, began)
            bench.steady(agent, "CPU of a steady cycle", target=0.2)
            bench.rest(agent, "CPU a minute, scraped every 15 s", 0.6)
            bench.memory(agent, "minutes at rest")
            with Traffic(wire, scale, others, TRAFFIC_PER_SECOND):
                bench.steady(agent, f"the same with {TRAFFIC_PER_SECOND} transactions/s")
                bench.rest(agent, f"the same a minute with {TRAFFIC_PER_SECOND} transactions/s", 1.0)
                bench.memory(agent, "minutes with transactions")
                bench.scrapes(agent)
            bench.memory(agent, "scrapes of every form")
            bench.events(agent)
            bench.memory(agent, "commits, timeouts and fences")
            bench.blockers(agent)
            bench.memory(agent, "the proof of a hanging transaction", 80.0)
            bench.pages(agent)
            bench.memory(agent, "the page and the status document")
        bench.tools(opened[0].transactional_id)
        bench.jmx_exporter()
        return bench


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small scale: to see that the bench works")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args(argv)
    share_one_arena()
    collect_seldom()  # as in the agent, part of which is measured in this process
    began = time.monotonic()
    try:
        bench = measure(quick=options.quick, brokers=options.brokers)
    except (JarsError, StartError, ToolError, TimeoutError) as error:
        say(str(error))
        return 2
    about = {
        "agent": __version__,
        "kafka": DEFAULT_VERSION,
        "jmx_exporter": jmx.VERSION,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "brokers": options.brokers,
        "partitions": bench.scale.all_partitions,
        "transactional_ids": bench.scale.ids,
        "open_transactions": bench.scale.open,
    }
    if options.output == "json":
        print(as_json(bench.rows, about))
    else:
        print("\n".join((", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about.items()), "")))
        print(table(bench.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
