"""The agent's sources while the disk of ``state.dir`` is full, on a file system that really is.

python -m tests.hostile.full_disk FOLDER  in a mount namespace of its own; prints what it saw as JSON.
"""

from __future__ import annotations

import errno
import json
import logging
import sys
from pathlib import Path
from typing import Any

from exporter import catalogue
from exporter.lso.facts import Stalls
from exporter.lso.source.lso import LsoSource
from exporter.model import Notes
from exporter.settings.sections import LsoConfig, TopicsConfig, TransactionsConfig
from exporter.transactions.source.txnlog import TxnlogSource
from tests.helpers.cluster import OpenWriter, SourceRead, read, world_of
from tests.helpers.coordinator import BEGIN_MS, CoordinatorId, CoordinatorRecord


class Logged(logging.Handler):
    """The lines about ``state.dir``, from warnings on, and that it is written again."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "state" in record.getMessage():
            self.lines.append(f"{record.levelname} {record.getMessage()}")


class StalledCluster:
    """A cluster with one application that commits, and a stalled partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = world_of(orders=1)
        self.world.time.wall = BEGIN_MS / 1000
        orders = self.world.topics["orders"][0]
        orders.high_watermark, orders.stable, orders.writers = 25, 10, [OpenWriter(7, 10)]
        self._id = CoordinatorId("app-1", 2, True, BEGIN_MS, iter([100]))
        self._written = 0
        self._id.initialise()
        self._write()

    def commit(self) -> None:
        self._id.now = round(self.world.time.wall * 1000)
        self._id.add("orders", 0)
        self._id.end(commit=True, markers_ms=5)
        self._write()

    def _write(self) -> None:
        records = [
            CoordinatorRecord(0, self._written + at, written.ms, written.key, written.value)
            for at, written in enumerate(self._id.written[self._written :])
        ]
        self._written = len(self._id.written)
        self.world.write(records)

    def sources(self) -> tuple[TxnlogSource, LsoSource]:
        """Those of a new process."""
        cluster = self.world.cluster(self.folder)
        return TxnlogSource(cluster, TransactionsConfig(), self.world.tail), LsoSource(
            cluster, LsoConfig(), TopicsConfig()
        )


def fill(folder: Path) -> None:
    """Take all that is free. Raises the error of a disk that is not full but broken."""
    with (folder / "filler").open("wb", buffering=0) as file:
        for size in (65536, 1024, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def seen_of(seen: tuple[SourceRead, SourceRead]) -> dict[str, Any]:
    log, lso = seen
    committed = log.values(catalogue.TRANSACTIONS_TOTAL).get(("app", "committed"))
    notes, stalls = log.facts.get(Notes), lso.facts.get(Stalls)
    return {
        "committed": committed,
        "note": " ".join(notes.notes) if isinstance(notes, Notes) else "",
        "since": [stall.since for stall in stalls.stalls] if isinstance(stalls, Stalls) else None,
        "faults": [fault.detail for fault in (*log.faults, *lso.faults)],
    }


def main(folder: Path) -> None:
    logged = Logged()
    logging.getLogger("exporter").addHandler(logged)
    logging.getLogger("exporter").setLevel(logging.INFO)
    story = StalledCluster(folder)
    sources = story.sources()
    shown: dict[str, dict[str, Any]] = {}

    def look(name: str, seconds: float) -> None:
        """Read every second for so long, with a commit in the middle, and note the last."""
        seen = None
        for at in range(round(seconds)):
            if at == seconds // 2:
                story.commit()
            seen = tuple(read(story.world, source) for source in sources)
            story.world.time.pass_(1.0)
        assert seen is not None
        shown[name] = seen_of((seen[0], seen[1]))

    look("before", 45)
    fill(folder)
    look("full", 30)
    sources = story.sources()  # killed, and started again while it is full
    look("restarted", 30)
    (folder / "filler").unlink()
    look("again", 30)
    sources = story.sources()
    look("after", 5)
    shown["log"] = {"lines": logged.lines}
    print(json.dumps(shown))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
