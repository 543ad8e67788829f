"""The cost of the rules in a flood: 5,000 stalled partitions by 20 producers, with a real Prometheus and Alertmanager.

``python -m tests.bench.flood [SECONDS [PRODUCERS]]`` prints the CPU seconds of an evaluation of all rules with one, two
and three agents, how long Prometheus says that it takes, which rules take most, and the size of the largest
notification. A Prometheus without rules, which scrapes the same, runs beside each: its CPU is taken away.
"""

from __future__ import annotations

import http.server
import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from exporter import catalogue
from exporter.alerts import table
from exporter.alerts.settings import Settings
from exporter.core.thresholds import DEFAULTS
from exporter.exposition.process_metrics import build_info
from exporter.lso.facts import Blocker, Stall
from exporter.lso.stall_series import holder_samples, shown, stall_samples
from exporter.model import Sample, TopicPartition
from exporter.words import BlockerKind, TransactionState
from testkit.monitoring import Monitoring, Pace
from testkit.processes import ProcessGroup
from tests.bench.machine import cpu_seconds

PARTITIONS, PRODUCERS, TOPICS, GROUPS = 5000, 20, 200, 40
INTERVAL = 15
CLUSTER = "prod"


def stalls(now: float, producers: int) -> list[Stall]:
    """All of them for half an hour, each producer's in topics of its own and of all others."""
    return [
        Stall(
            TopicPartition(f"topic-{number % TOPICS}", number // TOPICS),
            now - 1800 - number % 60,
            100,
            100_000 + number,
            1,
            Blocker(
                f"app-{number % producers}-0", f"app-{number % producers}", 1000 + number % producers, 4, 100,
                BlockerKind.OPEN, TransactionState.ONGOING, now - 1900, 900.0,
            ),
        )
        for number in range(PARTITIONS)
    ]  # fmt: skip


def samples(held: Sequence[Stall], now: float) -> Iterator[Sample]:
    """Yield the samples that the rules read: stalls, applications, open transactions, waiting groups, sources."""
    yield build_info()
    for source in ("lso", "txnlog", "transactions", "groups", "posture"):
        yield catalogue.SOURCE_UP(1.0, CLUSTER, source, CLUSTER)
        yield catalogue.SOURCE_BLIND(0.0, CLUSTER, source, CLUSTER)
    for stall in shown(held):
        yield from stall_samples(CLUSTER, stall)
    for topic in {stall.partition.topic for stall in held}:
        yield catalogue.STALLED_PARTITIONS(float(PARTITIONS // TOPICS), CLUSTER, topic)
        for name, value in DEFAULTS["topic"].items():
            yield catalogue.TOPIC_THRESHOLD_SECONDS(value, CLUSTER, topic, name)
        for group in range(GROUPS // 10):
            yield catalogue.GROUP_BLOCKED_OFFSETS(1000.0, CLUSTER, f"group-{group}", topic)
            yield catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS(0.0, CLUSTER, f"group-{group}", topic)
    yield from holder_samples(CLUSTER, held, lambda _: (300.0, 900.0))
    for number in range(len({stall.blocker.producer_id for stall in held})):
        application = f"app-{number}"
        for outcome in ("committed", "aborted", "timed_out", "fenced"):
            yield catalogue.TRANSACTIONS_TOTAL(float(int(now)), CLUSTER, application, outcome)
        yield catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS(now - 1900, CLUSTER, application, "committed")
        yield catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(now - 1900, CLUSTER, application)
        yield catalogue.OVERDUE_TRANSACTIONS(1.0, CLUSTER, application)
        yield catalogue.PRODUCER_INITS_TOTAL(5.0, CLUSTER, application)
        yield catalogue.PRODUCER_FENCES_TOTAL(0.0, CLUSTER, application)
        who = (CLUSTER, application, f"{application}-0", str(1000 + number), "4", "ongoing")
        yield catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(now - 1900, *who)
        for name, value in DEFAULTS["application"].items():
            metric = (
                catalogue.APPLICATION_THRESHOLD_RATIO if name == "unclean" else catalogue.APPLICATION_THRESHOLD_SECONDS
            )
            yield metric(value, CLUSTER, application, name)


def text(every: Iterator[Sample]) -> bytes:
    """The page that Prometheus scrapes."""
    lines = []
    for sample in every:
        labels = ",".join(f'{name}="{value}"' for name, value in zip(sample.metric.labels, sample.labels, strict=True))
        value = "+Inf" if sample.value == float("inf") else repr(sample.value)
        lines.append(f"{sample.metric.name}{{{labels}}} {value}\n")
    return "".join(lines).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers every scrape with the flood, and records the sizes of Alertmanager's notifications."""

    body = b""
    posted: list[tuple[str, int, int]] = []  # noqa: RUF012 -- of all servers

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.append((self.path, len(body), len(json.loads(body)["alerts"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main(seconds: float = 150, producers: int = PRODUCERS) -> None:
    """Measure, and print."""
    now = time.time()
    _Handler.body = text(samples(stalls(now, producers), now))
    with ExitStack() as stack:
        servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) for _ in range(4)]
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        addresses = [f"127.0.0.1:{server.server_address[1]}" for server in servers]
        pace = Pace(f"{INTERVAL}s", "5s", "30s")
        every = Settings()
        none = Settings(overrides={name: {"enabled": "false"} for name in table.names()})
        runs = []
        for agents, ours in ((1, every), (2, every), (3, every), (1, none), (2, none), (3, none)):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-eos-flood-")))
            processes = stack.enter_context(ProcessGroup(folder))
            webhook = f"http://{addresses[3]}/{agents}"
            runs.append((agents, Monitoring(processes, addresses[:agents], ours, pace, webhook=webhook)))
        for _, monitoring in runs:
            monitoring.wait_ready()
        print(f"series of one agent: {_Handler.body.count(b'{')}")
        time.sleep(3 * INTERVAL)
        began = [_spent(monitoring) for _, monitoring in runs]
        time.sleep(seconds)
        spent = [_spent(monitoring) - before for (_, monitoring), before in zip(runs, began, strict=True)]
        for place, (agents, monitoring) in enumerate(runs[:3]):
            cost = (spent[place] - spent[place + 3]) / (seconds / INTERVAL)
            firing = monitoring.query('count(ALERTS{alertstate="firing"}) by (alertname)')
            print(f"{agents} agent(s): {cost:.2f} CPU s an evaluation, {_took(monitoring):.2f} s by the clock")
            print("   dearest:", ", ".join(f"{name} {took:.3f} s" for name, took in _dearest(monitoring)))
            print("   firing:", {row["metric"]["alertname"]: row["value"][1] for row in firing})
    for path in sorted({path for path, _, _ in _Handler.posted}):
        size, alerts = max((size, alerts) for where, size, alerts in _Handler.posted if where == path)
        print(f"largest notification of {path}: {size:,} bytes, {alerts} alerts")


def _spent(monitoring: Monitoring) -> float:
    return cpu_seconds(monitoring.server.pid)


def _dearest(monitoring: Monitoring, most: int = 8) -> list[tuple[str, float]]:
    """The rules whose last evaluation took longest by the clock, with the queries of their annotations."""
    with urllib.request.urlopen(f"{monitoring.prometheus}/api/v1/rules", timeout=10) as answer:  # noqa: S310 -- our own
        every = [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]
    return sorted(((_name(rule), rule["evaluationTime"]) for rule in every), key=lambda timed: -timed[1])[:most]


def _name(rule: Mapping[str, Any]) -> str:
    """The rule's name, and the label that distinguishes variants of an alert."""
    labels = rule.get("labels", {})
    return " ".join([rule["name"], *(labels[text] for text in ("severity", "window", "reason") if text in labels)])


def _took(monitoring: Monitoring) -> float:
    """How long the last evaluation of each group took, by Prometheus, together."""
    with urllib.request.urlopen(f"{monitoring.prometheus}/metrics", timeout=10) as answer:  # noqa: S310 -- our own
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith("prometheus_rule_group_last_duration_seconds{")
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
