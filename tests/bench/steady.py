"""The agent at rest on a large cluster, scraped as Prometheus scrapes: CPU a minute, memory, the time of a scrape.

CPU is attributed by threads: librdkafka names its own (``rdk:...``), all others run Python or what it calls.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from exporter.catalogue import STALLED_PARTITIONS, TRANSACTION_LOG_TAIL_LAG_RECORDS
from testkit.agent import AgentProcess
from tests.bench.machine import TICKS, cpu_seconds, peak_rss_mb, rss_mb
from tests.bench.scrapes import PROMETHEUS, scrape, value

SCRAPE_SECONDS = 15.0
START_SECONDS = 240.0
AS_PROMETHEUS = {"Accept": PROMETHEUS, "Accept-Encoding": "gzip"}


class CostAtRest(NamedTuple):
    """CPU seconds for each minute, of all threads and of librdkafka's; MB; the slowest scrape in seconds, its bytes."""

    cpu: float
    librdkafka_cpu: float
    rss_mb: float
    peak_mb: float
    slowest_scrape: float
    scraped_bytes: int
    threads: int


def rest(agent: AgentProcess, seconds: float) -> CostAtRest:
    """Return what so many seconds take, with a scrape every 15 s."""
    pid = agent.child.pid
    began, cpu, native = time.monotonic(), cpu_seconds(pid), librdkafka_cpu(pid)
    slowest, size = 0.0, 0
    while (left := began + seconds - time.monotonic()) > 0:
        asked = time.perf_counter()
        size = len(scrape(agent.port, AS_PROMETHEUS))
        slowest = max(slowest, time.perf_counter() - asked)
        time.sleep(min(SCRAPE_SECONDS, left))
    minutes = (time.monotonic() - began) / 60
    return CostAtRest(
        (cpu_seconds(pid) - cpu) / minutes,
        (librdkafka_cpu(pid) - native) / minutes,
        rss_mb(pid),
        peak_rss_mb(pid),
        slowest,
        size,
        len(list(Path(f"/proc/{pid}/task").iterdir())),
    )


def librdkafka_cpu(pid: int) -> float:
    """CPU seconds so far of the threads of librdkafka that run now."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if name.startswith("rdk:"):
            user, system = fields.split()[11:13]
            found += int(user) + int(system)
    return found / TICKS


def is_full(body: bytes, open_transactions: int) -> bool:
    """Whether the log was read to its end, and so many partitions are stalled."""
    stalled = f"{STALLED_PARTITIONS.name}{{".encode()
    found = sum(float(line.rpartition(b" ")[2]) for line in body.splitlines() if line.startswith(stalled))
    return found >= open_transactions and value(body, TRANSACTION_LOG_TAIL_LAG_RECORDS.name) == 0
