"""The cost of exactly-once: throughput at full speed, and the time from send to read at a fixed rate."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from demo import jars
from demo.cluster import KafkaCluster
from demo.connect import ConnectCluster
from demo.processes import java, run_to_end
from exporter.model import Deadline

PROBE = Path(__file__).parent / "java" / "CostProbe.java"
RATE = 1_000
"""Records a second while the time from send to read is measured: well below what each path carries."""
SECONDS = 6
PROBE_SECONDS = 60.0
PARTITIONS = 2
HEAP_MB = 512


class CostWay(NamedTuple):
    """A row: the path of CostProbe, its records in a transaction or commit interval, and how the table calls it."""

    name: str
    setting: str
    path: str
    size: int = 0


class MeasuredCost(NamedTuple):
    """The result of a measurement; milliseconds."""

    way: CostWay
    per_second: float
    p50_ms: int
    p99_ms: int


PRODUCERS = (
    CostWay("producer, at least once", "acks=all, enable.idempotence=false", "plain"),
    CostWay("producer, idempotent", "acks=all, enable.idempotence=true", "idempotent"),
    *(
        CostWay("producer, transactional", f"{size:,} records in a transaction", "transactional", size)
        for size in (1, 10, 100, 1_000)
    ),
)
STREAMS = tuple(
    CostWay(f"Streams, {guarantee}", f"commit.interval.ms={interval}", guarantee, interval)
    for guarantee, interval in (("at_least_once", 100), ("exactly_once_v2", 100), ("exactly_once_v2", 1_000))
)
CONNECT = (
    CostWay("Connect source, at least once", "exactly.once.source.support=disabled", "read"),
    CostWay("Connect source, exactly once", "transaction.boundary=poll", "read"),
    CostWay("Connect source, exactly once", "transaction.boundary=interval, 1000 ms", "read"),
)


def measured(say: Callable[[str], None]) -> list[MeasuredCost]:
    """All ways on one broker, one after the other."""
    costs = []
    with KafkaCluster(progress=say) as kafka:
        for cost in chain(_probes(kafka), _connects(kafka)):
            say(f"  {cost}")
            costs.append(cost)
    return costs


def _probes(kafka: KafkaCluster) -> Iterator[MeasuredCost]:
    for number, way in enumerate((*PRODUCERS, *STREAMS)):
        full, slow = (_topics(kafka, f"cost-{number}-{speed}") for speed in ("full", "slow"))
        yield _cost(way, _probe(kafka, way, full, 0), _probe(kafka, way, slow, RATE))


def _connects(kafka: KafkaCluster) -> Iterator[MeasuredCost]:
    for number, way in enumerate(CONNECT):
        exactly_once = way is not CONNECT[0]
        properties = {"exactly.once.source.support": "enabled" if exactly_once else "disabled"}
        more: dict[str, Any] = {}
        if "interval" in way.setting:
            more = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": 1000}
        with ConnectCluster(kafka, f"cost-{number}", 1, properties=properties) as connect:
            found = []
            for speed, batch, pause in (("full", 500, 0), ("slow", RATE // 100, 10)):
                topic = _topics(kafka, f"connect-{number}-{speed}")
                connect.create_step_source(topic, topic, batch=batch, pause_ms=pause, **more)
                found.append(_probe(kafka, way, topic, 0))
                connect.delete(topic)
        yield _cost(way, *found)


def _topics(kafka: KafkaCluster, name: str) -> str:
    for topic in (name, f"{name}-out"):
        kafka.create_topic(topic, PARTITIONS)
    return name


def _probe(kafka: KafkaCluster, way: CostWay, topic: str, rate: int) -> dict[str, int]:
    """One measurement. Raises RuntimeError with what the program said when it failed."""
    with ExitStack() as full:
        state = full.enter_context(tempfile.TemporaryDirectory(prefix="kafka-eos-cost-"))
        classes = jars.classes(kafka.version, source=PROBE)
        values = (way.path, topic, str(rate), str(SECONDS), str(way.size), topic, state)
        library = jars.library(kafka.version)
        argv = java(HEAP_MB, library, "CostProbe", kafka.bootstrap, *values, classes=classes, log_level="warn")
        done: subprocess.CompletedProcess[str] = run_to_end(argv, Deadline.after(PROBE_SECONDS))
    if done.returncode:
        raise RuntimeError(f"{way.name}, {way.setting}: {done.stderr[-2000:]}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def _cost(way: CostWay, full: dict[str, int], slow: dict[str, int]) -> MeasuredCost:
    return MeasuredCost(way, full["records"] / full["seconds"], slow["p50_ms"], slow["p99_ms"])


def table(costs: Sequence[MeasuredCost]) -> str:
    lines = ["| way | setting | records/s | p50 | p99 |", "|---|---|---:|---:|---:|"]
    for cost in costs:
        speed = f"{cost.per_second:,.0f}"
        lines.append(f"| {cost.way.name} | {cost.way.setting} | {speed} | {cost.p50_ms} ms | {cost.p99_ms} ms |")
    return "\n".join(lines)
