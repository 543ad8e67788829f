"""A real Flink job in one JVM (a MiniCluster), whose KafkaSink writes numbered records exactly once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from testkit import jars
from testkit.connect import WorkerCluster
from testkit.jvm_application import JvmApplication
from testkit.processes import java

FLINK_JOB = Path(__file__).parent / "java" / "FlinkJob.java"
MAIN = "org.apache.flink.connector.kafka.sink.FlinkJob"
Naming = Literal["INCREMENTING", "POOLING"]


class FlinkJob(JvmApplication):
    """One job. A context manager; ``start`` again after ``kill``, from its last checkpoint where there is one.

    Times are seconds. While ``hold`` is in force, transactions of completed checkpoints stay precommitted.
    """

    def __init__(
        self,
        brokers: WorkerCluster,
        topic: str,
        prefix: str,
        naming: Naming,
        *,
        interval: float = 2.0,
        timeout: float = 120.0,
        parallelism: int = 2,
        rate: float = 20.0,
        heap_mb: int = 384,
    ) -> None:
        super().__init__(f"flink-{prefix}", "kafka-eos-flink-")
        self.checkpoints = self.folder / "checkpoints"
        self._gate = self.folder / "held"
        self._settings = {
            "bootstrap": brokers.bootstrap,
            "topic": topic,
            "prefix": prefix,
            "naming": naming,
            "interval": f"{interval * 1000:.0f}",
            "timeout": f"{timeout * 1000:.0f}",
            "checkpoints": str(self.checkpoints),
            "parallelism": str(parallelism),
            "rate": f"{rate:g}",
            "gate": str(self._gate),
        }
        self._heap_mb = heap_mb

    @property
    def last_checkpoint(self) -> Path | None:
        """The newest checkpoint that was completed."""
        found = self.checkpoints.glob("*/chk-*/_metadata")
        return max((path.parent for path in found), key=_number_and_age, default=None)

    def command(self) -> list[str]:
        """Of a start from the newest checkpoint, where there is one."""
        settings = dict(self._settings)
        if (checkpoint := self.last_checkpoint) is not None:
            settings["restore"] = checkpoint.as_uri()
        arguments = [f"{key}={value}" for key, value in settings.items()]
        return java(self._heap_mb, jars.flink(), MAIN, *arguments, classes=jars.flink_classes(), log_level="warn")

    def hold(self) -> None:
        """From now on, complete checkpoints without committing what they precommitted."""
        self._gate.touch()

    def release(self) -> None:
        self._gate.unlink(missing_ok=True)


def _number_and_age(checkpoint: Path) -> tuple[float, int]:
    """Each start of a job has a folder of its own: the newest checkpoint is that which was written last."""
    number = re.fullmatch(r"chk-(\d+)", checkpoint.name)
    return (checkpoint / "_metadata").stat().st_mtime, int(number[1]) if number else 0
