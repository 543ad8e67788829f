"""One broker's exactly-once facts by each way into its JVM, as the agent's own source reads them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from exporter.brokers.source import BrokersSource
from exporter.http_client import Endpoint
from exporter.jvm.reader import AgentKind, JvmTarget, reader_for
from exporter.kafka.client import AskError, Metadata
from exporter.model import Deadline, Facts, Fault, Reason, Sample
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.jars import require
from testkit.settings import free_ports
from tests.bench.jmx import SCRAPE_SECONDS, TOOL_SECONDS
from tests.bench.machine import cpu_seconds, run

READS = 3


class ReadCost(NamedTuple):
    """One read: seconds, CPU seconds of the broker and of this process meanwhile, and what it gave."""

    wall: float
    broker_cpu: float
    own_cpu: float
    samples: int
    faults: int


class _NoCluster:
    """The source asks it for the broker's id only when that is not configured."""

    name = "bench"

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        raise AskError(Fault(Reason.UNREACHABLE, "the bench has no client"))


def attach_jolokia(cluster: KafkaCluster) -> int:
    """Load Jolokia into the running broker; the port that it answers on."""
    (port,) = free_ports(1)
    jar = next(jars.agents().glob("jolokia-agent-jvm-*.jar"))
    java = require("java", "openjdk-17-jdk-headless")
    pid = str(cluster.brokers[0].child.pid)
    run([java, "-jar", str(jar), "--host", "127.0.0.1", "--port", str(port), "start", pid], TOOL_SECONDS)
    return port


def read(cluster: KafkaCluster, way: AgentKind, url: str) -> ReadCost:
    """The cheapest of some reads."""
    target = JvmTarget(way, Endpoint(url))
    reader = reader_for(target)
    source = BrokersSource(_NoCluster(), target.endpoint, reader, timeout=SCRAPE_SECONDS, node_id=1)
    return min((_read(cluster, source) for _ in range(READS)), key=lambda cost: cost.wall)


def _read(cluster: KafkaCluster, source: BrokersSource) -> ReadCost:
    pid = cluster.brokers[0].child.pid
    broker, own, wall = cpu_seconds(pid), time.process_time(), time.monotonic()
    given = list(source.read(Deadline.after(source.timeout), Facts()))
    return ReadCost(
        time.monotonic() - wall,
        cpu_seconds(pid) - broker,
        time.process_time() - own,
        sum(isinstance(fact, Sample) for fact in given),
        sum(isinstance(fact, Fault) for fact in given),
    )
