"""A Spark application with streaming queries, in a process of its own that can be killed."""

from __future__ import annotations

import json
import queue
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.processes import Child

START_SECONDS = 240.0
"""Long, as Spark's connector is downloaded the first time."""
ANSWER_SECONDS = 120.0


class SparkError(RuntimeError):
    """The driver ended, or does not answer; the text has the end of its log."""


class SparkDriver:
    """A driver on one cluster. It ends with the cluster's processes.

    ``reports`` are the agents that its listeners report to, each with its name of the cluster.

    It writes an event log to ``event_log``, and to ``checkpoints`` those of its queries, each in a folder of its name.
    Methods raise SparkError.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        application: str,
        reports: Sequence[tuple[str, str]] = (),
        folder: Path | None = None,
    ) -> None:
        self.application = application
        home = folder or Path(tempfile.mkdtemp(prefix="spark-", dir=cluster.folder))
        self.event_log, self.checkpoints = home / "events", home / "checkpoints"
        for made in (self.event_log, self.checkpoints):
            made.mkdir(exist_ok=True)
        options = {
            "application": application,
            "bootstrap": cluster.bootstrap,
            "event_log": str(self.event_log),
            "checkpoints": str(self.checkpoints),
            "reports": list(reports),
        }
        argv = [sys.executable, "-m", "testkit.workloads.spark_driver", json.dumps(options)]
        self.child: Child = cluster.processes.start(f"spark-{application}", argv, pipes=True)
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name=f"answers of {application}", daemon=True).start()

    def wait_ready(self) -> None:
        self._expect("ready", START_SECONDS)

    def start(self, query: str, topic: str, kind: str = "copy") -> None:
        """Start a query: ``copy``, ``fail`` in the first batch, ``stick`` in it, or ``once`` without a name."""
        self._ask(f"start {query} {topic} {kind}")

    def stop(self, query: str) -> None:
        """Stop a query in order."""
        self._ask(f"stop {query}")

    def finish(self, query: str) -> None:
        """Wait for a query that ends by itself."""
        self._ask(f"await {query}")

    def close(self) -> None:
        """Let the driver end in order, as at the end of its program."""
        self.child.stdin.close()
        self.child.wait(Deadline.after(ANSWER_SECONDS))

    def die_with(self, query: str) -> int:
        """Wait for a query that fails, as drivers do: the exit code of the driver, which the exception ends."""
        self.child.stdin.write(f"await {query}\n")
        self.child.stdin.flush()
        return self.child.wait(Deadline.after(ANSWER_SECONDS))

    def kill(self) -> None:
        """SIGKILL to the driver; its JVM sees that and ends."""
        self.child.kill()

    def _ask(self, command: str) -> None:
        try:
            self.child.stdin.write(f"{command}\n")
            self.child.stdin.flush()
        except OSError:
            raise SparkError(f"the driver is gone:\n{self.child.tail()}") from None
        self._expect("done", ANSWER_SECONDS)

    def _expect(self, word: str, seconds: float) -> None:
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            answer = "nothing"
        if answer != word:
            raise SparkError(f"the driver says {answer} instead of {word}:\n{self.child.tail()}")

    def _listen(self) -> None:
        for line in self.child.stdout:
            self._answers.put(line.strip())
        self._answers.put("that it has ended")
