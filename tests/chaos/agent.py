"""The agent as it is installed, with state on disk: killed, stopped, started with a wrong clock, and scraped always."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from testkit.processes import Child, ProcessGroup
from testkit.settings import free_ports

COMMAND = Path(sysconfig.get_path("scripts")) / "kafka-eos-exporter"
CLUSTER = "chaos"
STALL_AFTER = 10.0
LSO_INTERVAL = 2.0
SCRAPE_SECONDS = 1.0
ANSWER_SECONDS = 5.0
SKEWED = Path(__file__).parent / "clients" / "skewed_agent.py"

Series = tuple[str, tuple[tuple[str, str], ...]]


class AgentRun(NamedTuple):
    """One incarnation: Unix seconds; ``clock`` is how many seconds its clock is ahead."""

    began: float
    ended: float
    clock: int


class AgentScrape(NamedTuple):
    """One look at the agent at Unix seconds ``at``. ``error`` is why there is none; ``status`` None where it failed.

    ``paused`` says that the process was stopped at some time while it was asked; ``ended`` is when the status was read.
    """

    at: float
    life: int
    paused: bool
    error: str
    samples: Mapping[Series, float]
    status: Mapping[str, Any] | None
    ended: float = 0.0

    @property
    def follows_log(self) -> bool:
        """Return whether the agent reads all of the transaction log: it counts from then on."""
        return any(
            name == "kafka_eos_source_up" and ("source", "txnlog") in labels and value == 1
            for (name, labels), value in self.samples.items()
        )


class AgentUnderTest:
    """Started and killed from any thread; ``watch`` is the loop of the thread that scrapes it."""

    def __init__(self, processes: ProcessGroup, folder: Path, bootstrap: str) -> None:
        self._processes = processes
        self.port = free_ports(1)[0]
        self._config = folder / "agent.yml"
        self.state = folder / "agent-state"
        self.state.mkdir()
        self._config.write_text(settings(bootstrap, self.state, self.port))
        self._child: Child | None = None
        self._clock = 0
        self._began = 0.0
        self.lives: list[AgentRun] = []
        self.pauses: list[tuple[float, float]] = []
        self._paused_at: float | None = None
        self._deaths = 0
        self.scrapes: list[AgentScrape] = []
        self.crashes: list[tuple[float, int | None, str]] = []

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def log(self) -> Path | None:
        return self._child.log if self._child is not None else None

    def start(self, clock: int = 0) -> None:
        command = [sys.executable, str(SKEWED), str(clock)] if clock else [str(COMMAND)]
        self._clock, self._began = clock, time.time()
        self._child = self._processes.start("agent", [*command, "run", "--config", str(self._config)])

    def kill(self) -> None:
        if self._child is not None:
            self._deaths += 1
            if not self._child.running:
                self.crashes.append((time.time(), self._child.returncode, self._child.tail(20)))
            self._child.kill()
            self.lives.append(AgentRun(self._began, time.time(), self._clock))

    def pause(self) -> None:
        if self._child is not None:
            self._paused_at = time.time()
            self._child.pause()

    def resume(self) -> None:
        if self._child is not None and self._paused_at is not None:
            self._child.resume()
            self.pauses.append((self._paused_at, time.time()))
            self._paused_at = None

    def life(self) -> AgentRun:
        """The life that it has now."""
        return AgentRun(self._began, time.time(), self._clock)

    def restart_with_right_clock(self) -> bool:
        """Whether it had to be: a last life with a wrong clock ends here."""
        if self._clock == 0 and self.running:
            return False
        self.kill()
        self.start()
        return True

    # --- Looking at it ---

    def watch(self, stop: threading.Event) -> None:
        """Scrape every second until ``stop``."""
        while not stop.is_set():
            began = time.monotonic()
            if self.running:
                scrape = self.look()
                if scrape is not None:
                    self.scrapes.append(scrape)
            stop.wait(max(0.0, SCRAPE_SECONDS - (time.monotonic() - began)))

    def audit_markers(self, seconds: float) -> str:
        """Post what `audit markers` finds in the last so many seconds to the agent. Returns its first line."""
        flags = [
            "--config",
            str(self._config),
            "--since",
            f"{seconds:.0f}s",
            "--agent",
            f"http://127.0.0.1:{self.port}",
        ]
        done = subprocess.run(
            [str(COMMAND), "audit", "markers", *flags], capture_output=True, text=True, timeout=300, check=False
        )
        return next((line for line in done.stderr.splitlines() if "compared" in line), f"no markers: {done.stderr}")

    def look(self) -> AgentScrape | None:
        """Ask once; None when the process was killed or started meanwhile."""
        life, deaths, at = len(self.lives), self._deaths, time.time()
        samples: dict[Series, float] = {}
        status, error = None, ""
        try:
            text = self._get("/metrics").decode()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
            status = json.loads(self._get("/api/v1/status"))
        except (OSError, http.client.HTTPException, ValueError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        if (len(self.lives), self._deaths) != (life, deaths) or life != deaths or not self.running:
            return None
        paused = self._paused_at is not None or any(ended >= at for _, ended in self.pauses[-1:])
        return AgentScrape(at, life, paused, error, samples, status, time.time())

    def _get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            if response.status != http.client.OK:
                raise http.client.HTTPException(f"{path} answered {response.status}")
            return body
        finally:
            connection.close()


def settings(bootstrap: str, state: Path, port: int) -> str:
    """The agent's configuration file."""
    return f"""\
state:
  dir: {state}
web:
  listen_address: ["127.0.0.1:{port}"]
ingest:
  enabled: true
clusters:
  - name: {CLUSTER}
    kafka:
      bootstrap.servers: {bootstrap}
    lso:
      interval: {LSO_INTERVAL:g}s
      sweep_interval: 6s
      stall_after: {STALL_AFTER:g}s
    transactions:
      interval: 3s
    groups:
      interval: 10s
    posture:
      interval: 1m
"""
