"""From a broker to a pager: the page arrives with labels, evidence and runbook, and resolves after the repair."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from exporter.alerts.settings import Settings, settings
from exporter.alerts.table import names
from exporter.catalogue import CONNECT_TASK_STATE, OPEN_TRANSACTION_START_TIMESTAMP_SECONDS
from exporter.model import Deadline
from testkit.agent import AgentProcess
from testkit.cluster import KafkaCluster
from testkit.connect import ConnectCluster
from testkit.monitoring import Monitoring, Pace
from testkit.orphan import make_orphan, repair
from testkit.processes import ProcessGroup
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import StartAgent

STALL_AFTER = 5
PAGE_SECONDS = 180.0
PAGES, TICKETS = "kafka-eos-pages", "kafka-eos-tickets"
# As shipped, but in seconds instead of minutes.
QUICK = settings(
    [*(f"{name}.keep_firing_for=4s" for name in names()), "KafkaEosConnectTaskFailed.for=2s"],
    names(),
)
HASTE = (("[3m]", "[4s]"), ("[10m]", "[8s]"), ("< 600", "< 20"))
STALLS = {"kind": "topic", "pattern": ".*", "stall_warning": "8s", "stall_critical": "20s", "reason": "a test"}

Page = Mapping[str, Any]


class WebhookReceiver:
    """A webhook receiver that keeps the notifications, newest last."""

    def __init__(self) -> None:
        self._told: list[tuple[str, Page]] = []
        self._new = threading.Condition()
        pager = self

        class WebhookHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with pager._new:
                    pager._told += [(self.path.strip("/"), alert) for alert in body["alerts"]]
                    pager._new.notify_all()
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), WebhookHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait(self, receiver: str, status: str, **labels: str) -> Page:
        """The first such notification. Raises AssertionError with all notifications."""
        until = Deadline.after(PAGE_SECONDS)
        with self._new:
            while True:
                for to, alert in self._told:
                    if to == receiver and alert["status"] == status and labels.items() <= alert["labels"].items():
                        return alert
                if not self._new.wait(until.remaining()):
                    told = "\n".join(f"{to} {alert['status']} {alert['labels']}" for to, alert in self._told)
                    raise AssertionError(f"{receiver} was not told that {labels} is {status}, but:\n{told}")

    def told(self, **labels: str) -> list[Page]:
        with self._new:
            return [alert for _, alert in self._told if labels.items() <= alert["labels"].items()]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def pager() -> Iterator[WebhookReceiver]:
    made = WebhookReceiver()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def watch(pager: WebhookReceiver) -> Iterator[Callable[[AgentProcess, Settings], Monitoring]]:
    """Starts Prometheus and Alertmanager over an agent, and waits until they scrape it."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-paging-"))
    try:
        with ProcessGroup(folder) as processes:

            def start(agent: AgentProcess, thresholds: Settings) -> Monitoring:
                pace = Pace("1s", group_wait="1s", group_interval="2s", haste=HASTE)
                made = Monitoring(processes, [f"127.0.0.1:{agent.port}"], thresholds, pace, webhook=pager.url)
                made.wait_ready()
                return made

            yield start
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_fences_stalls_and_orphans_page_with_evidence_and_resolve_after_repair(
    kafka_4: KafkaCluster,
    start_agent: StartAgent,
    watch: Callable[[AgentProcess, Settings], Monitoring],
    pager: WebhookReceiver,
    fresh: Callable[[str], str],
    record_property: Callable[[str, object], None],
    tmp_path: Path,
) -> None:
    orders, ledger, quiet = fresh("orders"), fresh("ledger"), fresh("quiet")
    for topic in (orders, ledger, quiet):
        kafka_4.create_topic(topic)
    config = tmp_path / "agent.yml"
    config.write_text(
        json.dumps(
            {
                "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": kafka_4.bootstrap}}],
                "thresholds": [STALLS],
                "owners": [{"team": "payments", "topics": [ledger]}],
            }
        )
    )
    agent = start_agent(
        *("--config", str(config), "--lso.stall-after", f"{STALL_AFTER}s"),
        environment={
            "KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "1s",
            "KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "3s",
        },
    )
    watch(agent, QUICK)
    # A producer id of its own: other tests leave orphans on the shared cluster.
    orphan = make_orphan(kafka_4, ledger, transactional_id=ledger)
    stuck_id, pay_id = f"{fresh('stuck')}-1", f"{fresh('pay')}-3"
    stuck = RdkafkaProducer(kafka_4, stuck_id, timeout=600.0)
    with stuck, RdkafkaProducer(kafka_4, pay_id) as zombie, RdkafkaProducer(kafka_4, pay_id) as successor:
        stuck.init()
        stuck.begin()
        stuck.send(orders)
        stuck.flush()
        zombie.init()
        zombie.begin()
        zombie.send(quiet)
        zombie.flush()
        successor.init()
        began = time.monotonic()

        fenced = pager.wait(TICKETS, "firing", alertname="KafkaEosProducerFenced", application=pay_id[:-2])
        seconds = round(time.monotonic() - began, 1)
        record_property("seconds from the fence to the ticket", seconds)
        print(f"{seconds} s from the fence to the ticket: scrapes and rules every second, groups wait another one")
        assert fenced["labels"] == {
            "alertname": "KafkaEosProducerFenced",
            "severity": "warning",
            "kafka_cluster": "prod",
            "application": pay_id[:-2],
            "owner": "unowned",
        }
        assert f"application={pay_id[:-2]}" in fenced["annotations"]["page_url"]
        assert fenced["annotations"]["runbook_url"].endswith("/runbooks/KafkaEosProducerFenced.md")

        hanging = pager.wait(
            PAGES, "firing", alertname="KafkaEosHangingTransaction", producer_id=str(orphan.producer_id)
        )
        assert hanging["labels"]["kafka_cluster"] == "prod"
        assert hanging["labels"]["owner"] == "payments"
        assert f"- {ledger}-0 since " in hanging["annotations"]["description"]

        [stuck_open] = agent.wait_until(
            lambda metrics: metrics.samples(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, transactional_id=stuck_id)
        ).samples(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, transactional_id=stuck_id)
        stuck_pid = stuck_open.labels["producer_id"]
        ticket = pager.wait(TICKETS, "firing", alertname="KafkaEosLsoStalled", producer_id=stuck_pid)
        assert ticket["labels"]["severity"] == "warning"
        page = pager.wait(PAGES, "firing", alertname="KafkaEosLsoStalled", producer_id=stuck_pid)
        assert page["labels"] == {
            "alertname": "KafkaEosLsoStalled",
            "severity": "critical",
            "kafka_cluster": "prod",
            "producer_id": stuck_pid,
            "owner": "unowned",
        }
        story = page["annotations"]["description"]
        headline = page["annotations"]["summary"]
        assert f"Held by {stuck_id} (application {stuck_id[:-2]})" in headline
        assert "Kafka ends by itself at " in headline
        assert "1 partition(s) held, open." in story
        assert f"- {orders}-0 since " in story
        assert "kafka-transactions" not in story + hanging["annotations"]["description"]
        runbook = agent.get("/runbooks/" + page["annotations"]["runbook_url"].rpartition("/")[2].removesuffix(".md"))
        assert runbook.status == 200
        assert "KafkaEosLsoStalled" in runbook.text

        stuck.commit()
        repair(kafka_4, orphan)
        pager.wait(PAGES, "resolved", alertname="KafkaEosLsoStalled", producer_id=stuck_pid)
        pager.wait(PAGES, "resolved", alertname="KafkaEosHangingTransaction", producer_id=str(orphan.producer_id))
        pager.wait(TICKETS, "resolved", alertname="KafkaEosProducerFenced", application=pay_id[:-2])
    assert pager.told(alertname="KafkaEosExporterAbsent") == []


@pytest.mark.proof
def test_a_failed_connect_task_pages_with_its_cause_and_resolves_once_it_is_restarted(
    kafka_4: KafkaCluster,
    start_agent: StartAgent,
    watch: Callable[[AgentProcess, Settings], Monitoring],
    pager: WebhookReceiver,
    fresh: Callable[[str], str],
    tmp_path: Path,
) -> None:
    group, connector, topic = fresh("etl"), fresh("feed"), fresh("lines")
    kafka_4.create_topic(topic)
    fail = tmp_path / "fail"
    with ConnectCluster(kafka_4, group, workers=1) as connect:
        connect.create_step_source(connector, topic, fail_file=fail)
        connect.wait_tasks(connector)
        config = tmp_path / "agent.yml"
        config.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": kafka_4.bootstrap}}],
                    "connect": [{"name": "main", "group_id": group, "rest": list(connect.urls), "interval": "500ms"}],
                }
            )
        )
        agent = start_agent("--config", str(config))
        agent.wait_until(lambda seen: seen.value(CONNECT_TASK_STATE, connector=connector, state="running") == 1)
        watch(agent, QUICK)
        assert pager.told(alertname="KafkaEosConnectTaskFailed") == []
        fail.touch()

        page = pager.wait(PAGES, "firing", alertname="KafkaEosConnectTaskFailed", connector=connector)
        assert page["labels"] == {
            "alertname": "KafkaEosConnectTaskFailed",
            "severity": "critical",
            "kafka_cluster": "prod",
            "connect": "main",
            "connector": connector,
            "task": "0",
        }
        story = page["annotations"]["description"]
        assert connector in page["annotations"]["summary"]
        assert "in the last hour by cause other: 1" in story
        restart = f"POST /connectors/{connector}/tasks/0/restart"
        assert restart in story
        assert agent.get("/runbooks/KafkaEosConnectTaskFailed").status == 200

        fail.unlink()
        connect.call(*restart.split(" "))
        pager.wait(PAGES, "resolved", alertname="KafkaEosConnectTaskFailed", connector=connector)
