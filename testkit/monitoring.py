"""Prometheus and Alertmanager with our rules, when they are installed: what the agent says, as alerts and as pages."""

from __future__ import annotations

import http.client
import json
import shutil
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from exporter.alerts.routing import alertmanager
from exporter.alerts.rules import rules_file
from exporter.alerts.settings import Settings
from exporter.model import Deadline
from testkit.processes import ProcessGroup, poll
from testkit.settings import free_ports

READY_SECONDS = 120.0
CALL_SECONDS = 30.0
PROGRAMS = ("prometheus", "prometheus-alertmanager")
HOW_TO_GET_THEM = "scripts/install-prometheus"


def installed() -> bool:
    """Return whether both programs are on PATH."""
    return all(shutil.which(program) for program in PROGRAMS)


@dataclass(frozen=True)
class Pace:
    """How often Prometheus scrapes and evaluates, and how long Alertmanager waits for more of a group.

    ``haste`` are texts of the rules to replace, such as a window that a test does not wait for. ``resend`` is how often
    Prometheus sends an alert again that fires.
    """

    interval: str = "5s"
    resend: str = "1m"
    group_wait: str = "5s"
    group_interval: str = "30s"
    haste: tuple[tuple[str, str], ...] = ()


def _hastened(rules: str, pace: Pace) -> str:
    for text, other in pace.haste:
        rules = rules.replace(text, other)
    return rules


class Monitoring:
    """Both programs, started on free ports, scraping the agents (``host:port``). They belong to ``processes``.

    ``webhook`` is the URL that gets every page and ticket; without one they go nowhere.
    """

    def __init__(
        self,
        processes: ProcessGroup,
        agents: list[str],
        settings: Settings,
        pace: Pace,
        *,
        webhook: str | None = None,
    ) -> None:
        prometheus, manager = free_ports(2)
        self.prometheus, self.alertmanager = f"http://127.0.0.1:{prometheus}", f"http://127.0.0.1:{manager}"
        folder = processes.logs
        _write(folder / "prometheus.yml", _prometheus(agents, f"127.0.0.1:{manager}", pace))
        (folder / "kafka-eos.rules.yaml").write_text(_hastened(rules_file(settings), pace))
        _write(folder / "alertmanager.yml", _alertmanager(pace, webhook))
        processes.start(
            "alertmanager",
            [
                "prometheus-alertmanager",
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'alertmanager'}",
                f"--web.listen-address=127.0.0.1:{manager}",
                "--cluster.listen-address=",  # alone: no port for gossip
            ],
        )
        self.server = processes.start(
            "prometheus",
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'prometheus'}",
                f"--web.listen-address=127.0.0.1:{prometheus}",
                f"--rules.alert.resend-delay={pace.resend}",
            ],
        )

    def wait_ready(self) -> None:
        """Until both answer and the first scrape of an agent succeeded. Raises TimeoutError."""
        until = Deadline.after(READY_SECONDS)
        while not (self._answers(self.alertmanager) and self._answers(self.prometheus) and self.query("up == 1")):
            if not poll(until, 0.1):
                raise TimeoutError("Prometheus or Alertmanager is not ready, or scrapes nothing")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query: ``metric`` and ``value`` of each row."""
        path = f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        rows: list[dict[str, Any]] = json.loads(_get(self.prometheus, path)[1])["data"]["result"]
        return rows

    @staticmethod
    def _answers(url: str) -> bool:
        try:
            return _get(url, "/-/ready")[0] == 200
        except OSError:
            return False


def _prometheus(agents: list[str], manager: str, pace: Pace) -> dict[str, Any]:
    return {
        "global": {
            "scrape_interval": pace.interval,
            "scrape_timeout": pace.interval,
            "evaluation_interval": pace.interval,
        },
        "rule_files": ["kafka-eos.rules.yaml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
        "scrape_configs": [{"job_name": "kafka-eos", "static_configs": [{"targets": agents}]}],
    }


def _alertmanager(pace: Pace, webhook: str | None) -> dict[str, Any]:
    """The routing that is shipped, quicker, and with somebody to tell."""
    config: dict[str, Any] = yaml.safe_load(alertmanager())
    for route in config["route"]["routes"]:
        route["group_wait"], route["group_interval"] = pace.group_wait, pace.group_interval
    if webhook is not None:
        for receiver in config["receivers"]:
            receiver["webhook_configs"] = [{"url": f"{webhook}/{receiver['name']}", "send_resolved": True}]
    return config


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False))


def _get(url: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=CALL_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
