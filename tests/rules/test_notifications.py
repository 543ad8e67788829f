"""Notifications as a real Prometheus and Alertmanager send them: their size in a flood, and Prometheus' own end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from exporter.alerts.settings import settings
from exporter.alerts.table import names
from exporter.catalogue import (
    APPLICATION_THRESHOLD_RATIO,
    APPLICATION_THRESHOLD_SECONDS,
    GROUP_BLOCKED_OFFSETS,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    LAST_UNCLEAN_END_TIMESTAMP_SECONDS,
    LSO_BLOCKER_INFO,
    LSO_HOLDER_DUE_TIMESTAMP_SECONDS,
    LSO_HOLDER_PARTITIONS,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    OLDEST_COMPLETION_START_TIMESTAMP_SECONDS,
    OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    RECENT_PRODUCER_FENCES,
    TRANSACTIONS_TOTAL,
)
from exporter.model import Deadline, Metric
from testkit.monitoring import Monitoring, Pace
from testkit.processes import ProcessGroup
from tests.rules.alertmanager import WAIT_SECONDS, receiving

MOST_BYTES = 64_000
RESEND_SECONDS = 3
QUICK = settings([f"{name}.for=1s" for name in names()], names())
PACE = Pace("1s", f"{RESEND_SECONDS}s", "1s", "2s", haste=(("[1h]", "[10s]"), ("[15m]", "[10s]")))


def line(metric: Metric, *labels: str, value: float = 1.0) -> str:
    named = ",".join(f'{name}="{label}"' for name, label in zip(metric.labels, labels, strict=True))
    return f"{metric.name}{{{named}}} {value}\n"


def holder(number: int) -> Iterator[str]:
    """A transaction that holds a partition of its own topic, for which five groups wait."""
    application, topic = f"payments-settlement-service-{number:03}", f"payments.settlement.events-{number:03}"
    who = ("prod", application, f"{application}-7", str(number))
    for severity in ("warning", "critical"):
        yield line(LSO_HOLDER_DUE_TIMESTAMP_SECONDS, *who, "open", severity, value=number)
    yield line(LSO_HOLDER_PARTITIONS, *who, "open", value=7.0)
    for partition in "0123456":
        yield line(LSO_STALLED_SINCE_TIMESTAMP_SECONDS, "prod", topic, partition, value=1.7e9)
        place = (topic, partition, f"{application}-7", str(number), "3", "42", "open")
        yield line(LSO_BLOCKER_INFO, "prod", application, *place)
    for group in range(6):
        yield line(GROUP_BLOCKED_OFFSETS, "prod", f"{application}-readers-{group}", topic, value=4612.0)


def application(number: int, seconds: float) -> Iterator[str]:
    """An application in all the trouble that there is: a transaction that is open for long and one that does not
    complete, half of its transactions aborted, ids that fence each other, and timeouts.
    """
    name = f"payments-settlement-service-{number:03}"
    yield line(OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, "prod", name, value=1.7e9)
    yield line(APPLICATION_THRESHOLD_SECONDS, "prod", name, "open_warning", value=900.0)
    yield line(APPLICATION_THRESHOLD_RATIO, "prod", name, "unclean", value=0.05)
    for instance in range(5):
        who = ("prod", name, f"{name}-{instance}", f"{number}{instance}", "3", "ongoing")
        yield line(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, *who, value=1.7e9)
        yield line(RECENT_PRODUCER_FENCES, *who[:3], value=3 + seconds)
        for outcome in ("fenced", "timed_out"):
            yield line(LAST_UNCLEAN_END_TIMESTAMP_SECONDS, *who[:5], outcome, value=time.time())
    for outcome in ("fenced", "timed_out"):
        yield line(LAST_TRANSACTION_TIMESTAMP_SECONDS, "prod", name, outcome, value=time.time())
    yield line(OLDEST_COMPLETION_START_TIMESTAMP_SECONDS, "prod", name, value=1.7e9)
    yield line(APPLICATION_THRESHOLD_SECONDS, "prod", name, "completion_critical", value=300.0)
    for outcome in ("committed", "aborted"):
        yield line(TRANSACTIONS_TOTAL, "prod", name, outcome, value=10 * seconds)


@contextmanager
def serving(page: Callable[[], str]) -> Iterator[str]:
    """Serve a page to a scrape: the address of the server."""

    class MetricsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            with suppress(ConnectionError):  # Prometheus is stopped within a scrape
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), MetricsHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_notification_of_a_flood_is_small_and_the_end_of_prometheus_is_reported_by_the_watchdog(
    tmp_path: Path,
) -> None:
    """200 holders and 200 applications in trouble. Without Prometheus, Alertmanager says that all is well: the watchdog
    is resolved then as well, which a dead-man's switch reports.
    """
    began = time.monotonic()

    def page() -> str:
        seconds = time.monotonic() - began
        lines: Sequence[str] = [
            text for number in range(200) for text in (*holder(number), *application(number, seconds))
        ]
        return "".join(lines)

    with receiving() as (url, notified), serving(page) as agent, ProcessGroup(tmp_path) as processes:
        monitoring = Monitoring(processes, [agent], QUICK, PACE, webhook=url)
        monitoring.wait_ready()
        largest: dict[tuple[str, str], int] = {}

        def wait(*awaited: tuple[str, str]) -> None:
            missing = {*awaited}
            while missing:
                notification = notified.get(timeout=WAIT_SECONDS)
                name = notification.alerts[0]["alertname"].removeprefix("KafkaEos")
                largest[notification.status, name] = max(largest.get((notification.status, name), 0), notification.size)
                missing.discard((notification.status, name))

        flood = (
            *("LsoStalled", "LongRunningTransaction", "AbortRatioHigh", "Watchdog"),
            *("ProducerFenceStorm", "TransactionTimeouts", "CompletionSlow"),
        )
        wait(*(("firing", name) for name in flood))
        stopped = time.monotonic()
        monitoring.server.stop(Deadline.after(WAIT_SECONDS))
        wait(*(("resolved", name) for name in flood))
        assert time.monotonic() - stopped > 2 * RESEND_SECONDS  # it bridges four
    print({name: size for (_, name), size in largest.items()})
    assert {name for name, size in largest.items() if size > MOST_BYTES} == set()
    assert largest["firing", "LsoStalled"] > 20_000  # 20 holders, each with its evidence
