"""Eight applications of five transactional ids each, in four client processes, and what they themselves know."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from exporter.model import Deadline
from testkit import jars
from testkit.processes import Child, ProcessGroup, java
from tests.chaos.cluster import TOPICS

IDS = 5
CLIENTS = Path(__file__).parent / "clients"
WORKER_HEAP_MB = 128
STOP_SECONDS = 150.0


class WorkloadApplication(NamedTuple):
    """Ids ``NAME-0`` to ``NAME-4``; the weights say how often they do what."""

    name: str
    timeout_ms: int
    pause_ms: int
    weights: str

    def specs(self) -> list[str]:
        return [f"{self.name}-{number};{self.timeout_ms};{self.pause_ms};{self.weights}" for number in range(IDS)]


class ClientKind(NamedTuple):
    """A process; ``version`` of Kafka's Java client, "" for librdkafka.

    ``gap`` is how many seconds a killed one stays away at least: a Transactions V2 client that comes back within five
    seconds of its own abort looks like a fence in the log.
    """

    name: str
    version: str
    applications: tuple[WorkloadApplication, ...]
    gap: float = 0.0


MIXED = "commit=50,offsets=15,abort=15,fence=8,restart=4,timeout=2"
STEADY = "commit=60,offsets=20,abort=10,restart=4,slow=3"

CLIENTS_OF_A_RUN = (
    ClientKind(
        "rdkafka-a",
        "",
        (WorkloadApplication("rd-steady", 60000, 700, STEADY), WorkloadApplication("rd-mixed", 12000, 900, MIXED)),
    ),
    ClientKind(
        "rdkafka-b",
        "",
        (
            WorkloadApplication("rd-late", 6000, 900, "timeout=3,commit=6,abort=1"),
            WorkloadApplication("rd-slow", 90000, 1500, "slow=3,commit=6,fence=1"),
        ),
    ),
    ClientKind(
        "java-new",
        jars.DEFAULT_VERSION,
        (WorkloadApplication("v2-steady", 60000, 700, STEADY), WorkloadApplication("v2-mixed", 12000, 900, MIXED)),
        gap=6.5,
    ),
    ClientKind(
        "java-old",
        "3.9.2",
        (WorkloadApplication("v1-steady", 60000, 700, STEADY), WorkloadApplication("v1-mixed", 12000, 900, MIXED)),
    ),
)
BEFORE_COUNTING = "elsewhere"
"""The application of what is written while the agent does not count: to another cluster, or before it began anew."""
APPLICATIONS = tuple(application.name for client in CLIENTS_OF_A_RUN for application in client.applications)


@dataclass
class KnownTokens:
    """The clients' knowledge of their tokens. A token belongs to one transaction; what is in none of the sets is not
    known to them.
    """

    begun: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    displaced: set[str] = field(default_factory=set)
    initialised: int = 0
    refused: int = 0

    def take(self, lines: Iterable[str]) -> None:
        """Read the output of a worker. A line that a kill cut short is no line."""
        for line in lines:
            if not line.endswith("\n") or line.count("\t") != 4:
                continue
            _, _, event, token, _ = line.rstrip("\n").split("\t")
            match event:
                case "begun":
                    self.begun.add(token)
                case "committed":
                    self.committed.add(token)
                case "aborted":
                    self.aborted.add(token)
                case "initialised":
                    self.initialised += 1
                    if token:
                        self.displaced.add(token)
                case "refused":
                    self.refused += 1


class Workload:
    """The clients of one run. Each can be killed, stopped and started again."""

    def __init__(self, processes: ProcessGroup, folder: Path, bootstrap: str, seed: int) -> None:
        folder.mkdir(exist_ok=True)
        self._processes = processes
        self._folder = folder
        self._bootstrap = bootstrap
        self._seed = seed
        self._incarnations = {client.name: 0 for client in CLIENTS_OF_A_RUN}
        self._children: dict[str, Child] = {}
        self._clients = {client.name: client for client in CLIENTS_OF_A_RUN}

    @property
    def names(self) -> list[str]:
        return list(self._clients)

    def gap(self, name: str) -> float:
        return self._clients[name].gap

    def start(self) -> None:
        for client in CLIENTS_OF_A_RUN:
            self.start_client(client.name)

    def start_client(self, name: str) -> None:
        client = self._clients[name]
        self._incarnations[name] += 1
        places = ",".join(f"{topic}:{count}" for topic, count in TOPICS.items())
        specs = [spec for application in client.applications for spec in application.specs()]
        arguments = [self._bootstrap, str(self._seed), str(self._incarnations[name]), places, *specs]
        if client.version:
            source = CLIENTS / "ChaosWorker.java"
            library, classes = jars.library(client.version), jars.classes(client.version, source=source)
            argv = java(WORKER_HEAP_MB, library, "ChaosWorker", *arguments, classes=classes, log_level="off")
        else:
            argv = [sys.executable, str(CLIENTS / "rdkafka_worker.py"), *arguments]
        # Its words go to a file, which a kill leaves whole; its input is a pipe, closed to say stop.
        to_file = ["sh", "-c", 'file=$1; shift; exec "$@" >>"$file"', "sh", str(self._output(name))]
        self._children[name] = self._processes.start(name, [*to_file, *argv], pipes=True)

    def kill(self, name: str) -> None:
        self._children[name].kill()

    def pause(self, name: str) -> None:
        self._children[name].pause()

    def resume(self, name: str) -> None:
        self._children[name].resume()

    def stop(self) -> None:
        """Let every client end what it has open, and end. Those that cannot are killed at the deadline."""
        for child in self._children.values():
            child.resume()
            child.stdin.close()
        until = Deadline.after(STOP_SECONDS)
        for child in self._children.values():
            try:
                child.wait(until)
            except TimeoutError:
                child.kill()

    def books(self) -> KnownTokens:
        books = KnownTokens()
        for name in self._clients:
            books.take(self._lines(name))
        return books

    def _output(self, name: str) -> Path:
        return self._folder / f"{name}.tsv"

    def _lines(self, name: str) -> Iterator[str]:
        with self._output(name).open(errors="replace") as stream:
            yield from stream
