"""``make soak``: one broker, 100 transactions/s of applications that come and go, and what the agent takes meanwhile.

Every minute: memory, file descriptors, threads and CPU of the agent, its series, how long a scrape took and how many
transactions a second it counted, as a line of CSV. The exit code is 1 when a client knows
of more commits than the agent counted in the end.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.model import Deadline
from testkit import jars
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.processes import Child, java, poll
from tests.chaos.run import say
from tests.chaos.workloads import CLIENTS, KnownTokens

TOPIC = "soak"
PARTITIONS = 12
APPLICATIONS = 5
IDS = 6
GENERATIONS_AT_ONCE = 2
PAUSE_MS = 520
"""With 60 ids at once, and some 60 ms for each transaction, about 100 transactions a second."""
WEIGHTS = "commit=85,abort=10,offsets=3,fence=2"
MOST_SAMPLES = 120


class SoakSample(NamedTuple):
    """One line of the CSV."""

    seconds: float
    rss_mb: float
    file_descriptors: int
    threads: int
    cpu_seconds: float
    series: int
    scrape_ms: float
    applications: int
    transactions: int
    transactions_per_second: float


class Applications:
    """Client processes of ``APPLICATIONS`` new applications each; the oldest goes when a new one comes."""

    def __init__(self, cluster: KafkaCluster, seed: int) -> None:
        self._cluster = cluster
        self._seed = seed
        self._born = 0
        self._living: list[Child] = []

    def come(self) -> None:
        number, self._born = self._born, self._born + 1
        specs = [
            f"soak{number:03d}-{application}-app-{task};60000;{PAUSE_MS};{WEIGHTS}"
            for application in range(APPLICATIONS)
            for task in range(IDS)
        ]
        version = self._cluster.version
        arguments = [self._cluster.bootstrap, str(self._seed), "1", f"{TOPIC}:{PARTITIONS}", *specs]
        classes = jars.classes(version, source=CLIENTS / "ChaosWorker.java")
        argv = java(192, jars.library(version), "ChaosWorker", *arguments, classes=classes, log_level="off")
        to_file = ["sh", "-c", 'file=$1; shift; exec "$@" >>"$file"', "sh", str(self._output(number))]
        self._living.append(self._cluster.processes.start(f"soak-{number}", [*to_file, *argv], pipes=True))

    def go(self) -> None:
        """The oldest ends its transactions and goes."""
        child = self._living.pop(0)
        child.stdin.close()
        try:
            child.wait(Deadline.after(60))
        except TimeoutError:
            child.kill()

    def turn(self, stop: threading.Event, seconds: float) -> None:
        """Every so often one comes and one goes, until ``stop``; then all go."""
        while not stop.wait(seconds):
            self.come()
            self.go()
        while self._living:
            self.go()

    def committed(self) -> int:
        """Commits that clients had acknowledged."""
        books = KnownTokens()
        for number in range(self._born):
            with self._output(number).open() as stream:
                books.take(stream)
        return len(books.committed)

    def _output(self, number: int) -> Path:
        return self._cluster.folder / f"soak-{number}.tsv"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("build/soak"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    seconds = options.minutes * 60
    with KafkaCluster(heap_mb=512) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        state = cluster.folder / "state"
        state.mkdir()
        with AgentProcess(
            cluster.processes, "--bootstrap-server", cluster.bootstrap, "--state.dir", str(state)
        ) as agent:
            applications = Applications(cluster, options.seed)
            for _ in range(GENERATIONS_AT_ONCE):
                applications.come()
            samples = _watch(agent, applications, seconds, options.output / "soak.csv")
            counted = _settled(agent, applications.committed())
        known = applications.committed()
    first, last = samples[len(samples) // 4], samples[-1]
    print(f"{last.transactions} transactions in {last.seconds / 60:.0f} minutes, of {last.applications} applications")
    print(
        f"memory {first.rss_mb:.1f} MB after a quarter, {last.rss_mb:.1f} MB at the end; most {_most(samples):.1f} MB"
    )
    handles = f"{first.file_descriptors} and {last.file_descriptors}"
    print(f"file descriptors {handles}, threads {first.threads} and {last.threads}")
    print(f"CPU {60 * last.cpu_seconds / last.seconds:.2f} s a minute")
    print(f"commits: {known} acknowledged to clients, {counted} counted")
    return 0 if counted >= known else 1


def _watch(agent: AgentProcess, applications: Applications, seconds: float, table: Path) -> list[SoakSample]:
    samples: list[SoakSample] = []
    stop = threading.Event()
    turner = threading.Thread(target=applications.turn, args=(stop, max(60.0, seconds / 40)), daemon=True)
    turner.start()
    began, every = time.monotonic(), max(5.0, min(60.0, seconds / MOST_SAMPLES))
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(SoakSample._fields)
        while (passed := time.monotonic() - began) < seconds:
            sample = _sample(agent, passed, samples[-1] if samples else None)
            samples.append(sample)
            writer.writerow(sample)
            stream.flush()
            rate = sample.transactions_per_second
            say(f"{passed / 60:5.1f} min: {sample.rss_mb:.1f} MB, {sample.threads} threads, {rate:.0f} transactions/s")
            time.sleep(max(0.0, began + len(samples) * every - time.monotonic()))
    stop.set()
    turner.join()
    return samples


def _sample(agent: AgentProcess, passed: float, before: SoakSample | None) -> SoakSample:
    metrics, took = _metrics(agent)
    process = Path(f"/proc/{agent.child.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    ticks = (process / "stat").read_text().rpartition(")")[2].split()
    total = int(metrics.total("kafka_eos_transactions_total"))
    rate = (total - before.transactions) / (passed - before.seconds) if before is not None else 0.0
    named = {sample.labels["application"] for sample in metrics.samples("kafka_eos_transactions_total")}
    return SoakSample(
        round(passed, 1),
        round(int(status["VmRSS"].split()[0]) / 1024, 1),
        len(list((process / "fd").iterdir())),
        int(status["Threads"]),
        (int(ticks[11]) + int(ticks[12])) / 100,
        metrics.text.count("\nkafka_eos_"),
        round(took * 1000, 1),
        len(named),
        total,
        round(rate, 1),
    )


def _metrics(agent: AgentProcess) -> tuple[Metrics, float]:
    """One scrape and its seconds. A busy machine may let one wait too long; the next one is asked then."""
    until = Deadline.after(60)
    while True:
        try:
            began = time.monotonic()
            text = agent.get("/metrics").text
            return Metrics(text), time.monotonic() - began
        except (OSError, http.client.HTTPException):
            if not poll(until, 1.0):
                raise


def _settled(agent: AgentProcess, wanted: int) -> int:
    """Commits that the agent counted, once they are as many, or after a minute."""
    until = Deadline.after(60)
    while True:
        counted = int(_metrics(agent)[0].total("kafka_eos_transactions_total", outcome="committed"))
        if counted >= wanted or not poll(until, 1.0):
            return counted


def _most(samples: Sequence[SoakSample]) -> float:
    return max(sample.rss_mb for sample in samples)


if __name__ == "__main__":
    sys.exit(main())
