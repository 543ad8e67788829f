"""A real Kafka Streams application with exactly_once_v2, which counts in a store and can lose its state."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from exporter.model import Deadline
from testkit import jars
from testkit.connect import WorkerCluster
from testkit.jvm_application import JvmApplication
from testkit.processes import JvmOptions, java

STOP_SECONDS = 15.0
COUNT_STREAMS = Path(__file__).parent / "java" / "CountStreams.java"


class StreamsApp(JvmApplication):
    """One instance, two threads, store ``counts``. A context manager; ``start`` again after ``stop`` or ``kill``."""

    def __init__(
        self,
        brokers: WorkerCluster,
        application_id: str,
        topic: str,
        *,
        settings: Mapping[str, str] | None = None,
        jvm_options: JvmOptions = lambda _: (),
        heap_mb: int = 192,
    ) -> None:
        self.application_id = application_id
        self.topic = topic
        self.changelog = f"{application_id}-counts-changelog"
        super().__init__(f"streams-{application_id}", "kafka-eos-streams-")
        self.state_dir = self.folder / "state"
        argv = java(
            heap_mb,
            jars.library(brokers.version),
            "CountStreams",
            brokers.bootstrap,
            application_id,
            topic,
            str(self.state_dir),
            *(f"{key}={value}" for key, value in (settings or {}).items()),
            classes=jars.classes(brokers.version, source=COUNT_STREAMS),
        )
        self._argv = [argv[0], *jvm_options(self._name), *argv[1:]]

    def command(self) -> list[str]:
        """The same for each start."""
        return self._argv

    def stop(self) -> None:
        """SIGTERM: it commits and closes its stores."""
        self.child.stop(Deadline.after(STOP_SECONDS))

    def kill(self) -> None:
        """SIGKILL: with exactly-once, what is on disk is no longer trusted and is restored."""
        self.child.kill()

    def lose_state(self) -> None:
        """Delete its state directory while it is stopped: the next start restores from the changelog."""
        shutil.rmtree(self.state_dir, ignore_errors=True)
