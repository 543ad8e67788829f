"""The measures, in their order: each method adds its rows."""

from __future__ import annotations

import time
from collections.abc import Callable

from exporter.catalogue import TRANSACTION_LOG_TAIL_LAG_RECORDS
from exporter.jvm.reader import AgentKind
from exporter.model import Deadline
from testkit.agent import AgentProcess
from testkit.jars import say
from testkit.processes import poll
from tests.bench import jmx, jvms, log_tail
from tests.bench.events import blocker_delays, event_delays
from tests.bench.machine import cpu_seconds, load, peak_rss_mb, rss_mb
from tests.bench.report import FigureRow
from tests.bench.scale import BenchCluster, Scale
from tests.bench.scrapes import (
    FLOOR,
    FORMS,
    PAGE_GAP_SECONDS,
    PAGES,
    PROMETHEUS,
    ScrapeForm,
    scrape,
    time_forms,
    value,
)
from tests.bench.steady import is_full, rest
from tests.bench.wire import BrokerConnections

STEADY_SECONDS = 60.0
CYCLE_SECONDS = 5.0
SCRAPE_SECONDS = 15.0
SETTLE_SECONDS = 240.0
TOOL = "org.apache.kafka.tools.TransactionsCommand"


class Bench:
    """One run over one cluster."""

    def __init__(self, cluster: BenchCluster, wire: BrokerConnections, scale: Scale, *, quick: bool) -> None:
        self.scale = scale
        self.rows: list[FigureRow] = []
        self._cluster, self._wire, self._quick = cluster, wire, quick
        self._cycle = 0.0  # CPU seconds of a steady cycle, and the median of a scrape as Prometheus asks, for the
        self._scrape = 0.0  # comparisons

    def tail(self) -> None:
        """Before the agent runs, so that this process is the only reader."""
        say("reading the transaction log: bare librdkafka, the agent's tail, Kafka's formatter")
        # Twice each, in turn: the first one also warms the broker's page cache.
        runs = [(log_tail.bare(self._cluster), log_tail.with_state_machines(self._cluster)) for _ in range(2)]
        bare, ours = (max(rate.per_cpu_second for rate in rates) for rates in zip(*runs, strict=True))
        kafka = log_tail.formatter(self._cluster, runs[0][1].records).per_cpu_second
        what, unit = f"tail of the transaction log, {runs[0][1].records:,} records", "records/CPU s"
        self._row(what, ours, unit, 500_000, (kafka, "TransactionLogMessageFormatter"), more=True)
        self._row("the same", ours, unit, None, (bare, "librdkafka, nothing decoded"), more=True)

    def start(self, agent: AgentProcess, began: float) -> None:
        """The first start: an hour of the log is caught up on, and every partition is swept."""
        say("waiting until the agent has caught up")
        lag = TRANSACTION_LOG_TAIL_LAG_RECORDS.name
        _until(agent, lambda body: value(body, lag) == 0, "the tail has not reached the end of the log")
        note = f"{cpu_seconds(agent.child.pid):.1f} CPU s, {peak_rss_mb(agent.child.pid):.0f} MB"
        self._row("first start, until the last hour of the log is read", time.monotonic() - began, "s", 5.0, note=note)
        say("waiting until every partition that is held is stalled")
        _until(agent, lambda body: is_full(body, self.scale.open), "not every open transaction is seen to hold")
        self._row("first start, until the whole picture is there", time.monotonic() - began, "s")

    def rest(self, agent: AgentProcess, what: str, target: float) -> None:
        """CPU seconds a minute at default intervals, scraped every 15 s; memory; the slowest of those scrapes."""
        seconds = STEADY_SECONDS / 4 if self._quick else 2 * STEADY_SECONDS
        say(f"{what}: {seconds:.0f} s")
        found = rest(agent, seconds)
        note = f"{found.librdkafka_cpu:.2f} of it librdkafka's, {found.threads} threads, RSS {found.rss_mb:.0f} MB"
        self._row(what, found.cpu, "CPU s/min", target, note=note)
        self._row("  the slowest of these scrapes", found.slowest_scrape, "s", 0.02)

    def steady(self, agent: AgentProcess, what: str, target: float | None = None) -> None:
        """Process CPU over a minute at default intervals, scraped as Prometheus does, in cycles of five seconds."""
        seconds = STEADY_SECONDS / 4 if self._quick else STEADY_SECONDS
        say(f"{what}: {seconds:.0f} s")
        began, cpu = time.monotonic(), cpu_seconds(agent.child.pid)
        while (left := began + seconds - time.monotonic()) > 0:
            scrape(agent.port, {"Accept": PROMETHEUS, "Accept-Encoding": "gzip"})
            time.sleep(min(SCRAPE_SECONDS, left))
        cycle = (cpu_seconds(agent.child.pid) - cpu) * CYCLE_SECONDS / (time.monotonic() - began)
        self._cycle = self._cycle or cycle
        self._row(what, cycle, "CPU s", target)

    def scrapes(self, agent: AgentProcess) -> None:
        """Every form of GET /metrics, and an answer of nothing to hold them against."""
        say("GET /metrics in all forms, while transactions come and go")
        timings = time_forms(agent.port, (*FORMS, FLOOR), 25 if self._quick else 200)
        self._scrape = timings[_as_prometheus()].quantile(0.5)
        for form, timing in timings.items():
            note = f"p50 {timing.quantile(0.5) * 1000:.2g} ms, {timing.size / 1000:,.0f} kB"
            target = None if form is FLOOR else 0.01
            self._row(f"GET {form.path} p99, {form.name}", timing.quantile(0.99), "s", target, note=note)

    def events(self, agent: AgentProcess) -> None:
        say("commits, timeouts and fences: from the log to /metrics")
        tries = 2 if self._quick else 10
        for kind, delays in event_delays(self._cluster, agent, self._wire, self.scale, tries).items():
            note = f"median {delays.median:.2f} s of {tries}"
            self._row(f"a {kind} is on /metrics after, at worst", delays.worst, "s", 2.0, note=note)

    def blockers(self, agent: AgentProcess) -> None:
        say("stalled partitions: from the threshold to the named blocker")
        tries = 2 if self._quick else 5
        known, orphan = blocker_delays(self._cluster, agent, self._wire, self.scale, tries)
        note = f"median {known.median:.1f} s of {tries}"
        self._row("a stall names its blocker after, at worst", known.worst, "s", 10.0, note=note)
        self._row("the same for a hanging transaction", orphan.worst, "s", 70.0)

    def memory(self, agent: AgentProcess, after: str, target: float | None = None) -> None:
        note = f"{rss_mb(agent.child.pid):.0f} MB then"
        self._row(f"peak memory (VmHWM) after {after}", peak_rss_mb(agent.child.pid), "MB", target, note=note)

    def pages(self, agent: AgentProcess) -> None:
        """The page and the status document, each made anew."""
        say("the page and the status document")
        for form, timing in time_forms(agent.port, PAGES, 3 if self._quick else 10, PAGE_GAP_SECONDS).items():
            note = f"{timing.size / 1000:,.0f} kB"
            self._row(f"GET {form.path}, the median", timing.quantile(0.5), "s", None, note=note)

    def tools(self, transactional_id: str) -> None:
        """Return what an operator runs today for the same facts, beside one cycle of the agent."""
        runs = {
            "kafka-transactions.sh list": ("list",),
            "kafka-transactions.sh describe, one id": ("describe", "--transactional-id", transactional_id),
            "kafka-transactions.sh find-hanging": ("find-hanging", "--broker-id", "1"),
        }
        for name, arguments in runs.items():
            say(name)
            cost = log_tail.kafka_tool(self._cluster, TOOL, *arguments)
            beside = (cost.cpu, f"{name}, {cost.wall:.1f} s of wall clock")
            self._row("CPU of a steady cycle", self._cycle, "CPU s", None, beside)

    def jmx_exporter(self) -> None:
        say(f"jmx_exporter {jmx.VERSION}, catch-all, in the broker")
        port = jmx.attach(self._cluster)
        scrapes = [jmx.scrape(self._cluster, port) for _ in range(2 if self._quick else 3)]
        best = min(scrapes, key=lambda scrape: scrape.wall)
        name = f"jmx_exporter {jmx.VERSION}, catch-all"
        beside = (best.wall, f"{name}, {best.size / 1e6:.1f} MB")
        self._row(f"GET /metrics p50, {_as_prometheus().name}", self._scrape, "s", None, beside)
        self._row("CPU of a steady cycle", self._cycle, "CPU s", None, (best.cpu, f"a scrape of {name}, in the broker"))
        self._jvm_readers(port)

    def _jvm_readers(self, jmx_exporter_port: int) -> None:
        say("one broker's facts through Jolokia and through jmx_exporter")
        url = f"http://127.0.0.1:{jvms.attach_jolokia(self._cluster)}/jolokia"
        jolokia = jvms.read(self._cluster, AgentKind.JOLOKIA, url)
        scraped = jvms.read(self._cluster, AgentKind.JMX_EXPORTER, f"http://127.0.0.1:{jmx_exporter_port}/metrics")
        note = f"{jolokia.samples} samples, and {scraped.samples} through jmx_exporter"
        what, beside = "one broker's facts through Jolokia", "the same through jmx_exporter, catch-all"
        self._row(f"{what}, wall clock", jolokia.wall, "s", None, (scraped.wall, beside), note=note)
        self._row(f"{what}, in the broker", jolokia.broker_cpu, "CPU s", None, (scraped.broker_cpu, beside))
        self._row(f"{what}, in the agent", jolokia.own_cpu, "CPU s", None, (scraped.own_cpu, beside))

    def _row(
        self,
        what: str,
        amount: float,
        unit: str,
        target: float | None = None,
        beside: tuple[float, str] | None = None,
        *,
        more: bool = False,
        note: str = "",
    ) -> None:
        other, yardstick = beside or (None, "")
        self.rows.append(FigureRow(what, amount, unit, load(), target, other, yardstick, more, note))
        say(f"  {self.rows[-1]}")


def _as_prometheus() -> ScrapeForm:
    return FORMS[0]


def _until(agent: AgentProcess, true: Callable[[bytes], bool], otherwise: str) -> None:
    deadline = Deadline.after(SETTLE_SECONDS)
    while not true(scrape(agent.port)):
        if not poll(deadline, 0.25):
            raise TimeoutError(f"{otherwise}; the agent's log ends with:\n{agent.child.tail(15)}")
