"""A real Kafka Streams application with exactly_once_v2, which counts in a store and can lose its state."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from demo import jars
from demo.connect import Brokers
from demo.processes import Child, JvmOptions, ProcessGroup, java
from exporter.model import Deadline

STOP_SECONDS = 15.0
COUNT_STREAMS = Path(__file__).parent / "java" / "CountStreams.java"


class StreamsApp:
    """One instance, two threads, store ``counts``. A context manager; ``start`` again after ``stop`` or ``kill``."""

    def __init__(
        self,
        brokers: Brokers,
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
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-eos-streams-"))
        self.state_dir = self.folder / "state"
        self._processes = ProcessGroup(self.folder)
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
        self._name = f"streams-{application_id}"
        self._argv = [argv[0], *jvm_options(self._name), *argv[1:]]
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"{self._name} was never started")
        return self._child

    def start(self) -> None:
        self._child = self._processes.start(self._name, self._argv)

    def stop(self) -> None:
        """SIGTERM: it commits and closes its stores."""
        self.child.stop(Deadline.after(STOP_SECONDS))

    def kill(self) -> None:
        """SIGKILL: with exactly-once, what is on disk is no longer trusted and is restored."""
        self.child.kill()

    def lose_state(self) -> None:
        """Delete its state directory while it is stopped: the next start restores from the changelog."""
        shutil.rmtree(self.state_dir, ignore_errors=True)

    def close(self) -> None:
        self._processes.close(Deadline.after(0))
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
