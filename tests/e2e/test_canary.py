"""The canary on a real broker: all phases work, and a coordinator that is gone is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

import requests
from prometheus_client.parser import text_string_to_metric_families

from exporter import catalogue
from exporter.model import Deadline
from exporter.words import CanaryPhase
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.settings import free_ports
from tests.e2e.conftest import StartAgent

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class CanaryProcess:
    """``kafka-eos-exporter canary`` until the end of the block; ``values`` is what it serves."""

    def __init__(self, kafka: KafkaCluster, log: Path) -> None:
        (self._port,) = free_ports(1)
        flags = ["--cluster.name", "k", "--interval", "50ms", "--timeout", "5s"]
        listen = ["--web.listen-address", f"127.0.0.1:{self._port}"]
        argv = [sys.executable, "-m", "exporter", "canary", "--bootstrap-server", kafka.bootstrap, *flags, *listen]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(argv, stderr=stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(30)

    def get(self, path: str) -> requests.Response:
        return requests.get(f"http://127.0.0.1:{self._port}{path}", timeout=60)

    def values(self) -> Values:
        families = text_string_to_metric_families(self.get("/metrics").text)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for found in families
            for sample in found.samples
        }

    def total(self, values: Values, name: str, **labels: str) -> float:
        return sum(
            value for (text, has), value in values.items() if text == name and labels.items() <= dict(has).items()
        )

    def wait_until(self, name: str, least: float, seconds: float = 120, **labels: str) -> Values:
        until = Deadline.after(seconds)
        while True:
            try:
                values = self.values()
            except requests.ConnectionError:
                values = {}
            if self.total(values, name, **labels) >= least:
                return values
            assert self.process.poll() is None
            assert poll(until, 0.2), (name, labels, values)


def test_every_phase_works_the_agent_counts_none_of_it_and_a_dead_broker_is_a_failure(
    start_agent: StartAgent, tmp_path: Path
) -> None:
    with KafkaCluster("4.3.1") as kafka, CanaryProcess(kafka, tmp_path / "canary.log") as canary:
        agent = start_agent("--bootstrap-server", kafka.bootstrap, "--cluster.name", "k")
        done = catalogue.CANARY_TRANSACTIONS_TOTAL.name
        # The log is made by the first transaction; who coordinates is known once the canary has seen it.
        values = canary.wait_until(done, 2, outcome="fenced", coordinator="1")
        assert canary.get("/-/ready").status_code == 200
        assert [canary.get(path).status_code for path in ("/", "/api/v1/status", "/-/reload")] == [404, 404, 404]
        phases = f"{catalogue.CANARY_PHASE_SECONDS.name}_count"
        assert all(canary.total(values, phases, phase=phase) for phase in CanaryPhase.values())
        assert canary.total(values, catalogue.CANARY_FAILURES_TOTAL.name, error="aborted_record_read") == 0
        assert canary.total(values, catalogue.CANARY_FAILURES_TOTAL.name, error="not_fenced") == 0

        seen = agent.wait_until(
            lambda now: (
                (now.value(catalogue.TRANSACTIONS_TOTAL, application="kafka-eos-canary", outcome="fenced") or 0) >= 1
            )
        )
        assert seen.samples(catalogue.RECENT_PRODUCER_FENCES) == []
        assert seen.samples(catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS) == []
        (cluster,) = agent.status()["clusters"]
        assert cluster["unclean_ends"] == []
        assert [ignored["subject"] for ignored in cluster["ignored"] if ignored["kind"] == "application"] == [
            catalogue.CANARY
        ]

        kafka.broker(1).kill()
        failing = canary.wait_until(catalogue.CANARY_FAILING_PARTITIONS.name, 1, coordinator="1")
        assert canary.total(failing, catalogue.CANARY_FAILURES_TOTAL.name) >= 1
        canary.process.terminate()
        assert canary.process.wait(60) == 0
