"""Positions and counters over restarts, while the disk takes some writes and refuses others."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from exporter.applications.applications import Grouping
from exporter.core.state import StateDir
from exporter.kafka.log.tail import TailReader
from exporter.model import Clock
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.keeper import RETRY_SECONDS, SNAPSHOT_SECONDS, Keeper
from exporter.transactions.machine.progress import LogPosition
from exporter.transactions.saved import SavedPartition
from exporter.transactions.tail import LogTail


class CountedApplication(Aggregates):
    """Counters of one application, as the journal and the snapshot have them."""

    def __init__(self) -> None:
        super().__init__(Grouping(), TransactionsConfig())
        self.counts: dict[str, int] = {}
        self.changed: set[str] = set()

    def count(self, task: str) -> None:
        self.counts[task] = self.counts.get(task, 0) + 1
        self.changed.add(task)

    def saved(self, *, everything: bool) -> dict[str, Any]:
        tasks = {task: self.counts[task] for task in (self.counts if everything else self.changed)}
        self.changed.clear()
        return {"applications": {}, "tasks": tasks} if tasks or everything else {}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.counts = dict(saved["tasks"])


def never() -> TailReader:
    raise AssertionError


NO_LOG = LogTail(Aggregates(Grouping(), TransactionsConfig()), never, Clock())
DISK = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans(), st.booleans()), max_size=40)


@given(DISK)
def test_counters_are_whole_as_of_the_last_write_that_was_taken(reads: list[tuple[str, bool, bool]]) -> None:
    """Each read counts a task; the disk takes the journal or not, and the snapshot or not."""
    files: dict[str, Any] = {}
    disk = MemoryState(files)
    keeper, counted = Keeper(disk, "txnlog"), CountedApplication()
    keeper.load("c", "", counted)
    taken: dict[str, int] = {}
    for at, (task, journal, snapshot) in enumerate(reads):
        disk.takes = {"journal": journal, "snapshot": snapshot}
        disk.wrote = False
        counted.count(task)
        keeper.save(NO_LOG, counted, 1, {0: SavedPartition(LogPosition(0))}, at * 3.0)
        if disk.wrote and "snapshot" in files:
            taken = dict(counted.counts)
        again = CountedApplication()
        Keeper(MemoryState(files), "txnlog").load("c", "", again)
        assert again.counts == taken


def test_a_snapshot_that_vanished_with_its_folder_is_written_at_the_next_read(tmp_path: Path) -> None:
    state, counted = StateDir(tmp_path / "state"), CountedApplication()
    keeper = Keeper(state, "txnlog")
    keeper.load("c", "", counted)
    for now, broken in ((0.0, False), (1.0, False), (2.0, True), (3.0, True), (2.0 + RETRY_SECONDS, False)):
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        (tmp_path / "state").unlink(missing_ok=True)
        if broken:
            (tmp_path / "state").write_text("no folder")
        counted.count("a")
        keeper.save(NO_LOG, counted, 1, {0: SavedPartition(LogPosition(0))}, now)
        assert bool(keeper.trouble) == broken
    again = CountedApplication()
    Keeper(StateDir(tmp_path / "state"), "txnlog").load("c", "", again)
    assert again.counts == {"a": 5}


def test_a_snapshot_that_was_refused_is_tried_again_before_its_interval_and_not_at_each_read() -> None:
    files: dict[str, Any] = {}
    disk, counted = MemoryState(files), CountedApplication()
    disk.takes = {"journal": False, "snapshot": False}
    keeper = Keeper(disk, "txnlog")
    keeper.load("c", "", counted)
    for second in range(round(SNAPSHOT_SECONDS)):
        counted.count("a")
        keeper.save(NO_LOG, counted, 1, {0: SavedPartition(LogPosition(0))}, float(second))
    assert disk.tried == SNAPSHOT_SECONDS / RETRY_SECONDS
    disk.takes = {"journal": True, "snapshot": True}
    keeper.save(NO_LOG, counted, 1, {0: SavedPartition(LogPosition(0))}, SNAPSHOT_SECONDS)
    assert files["snapshot"]["counters"]["tasks"] == {"a": SNAPSHOT_SECONDS}


class MemoryState(StateDir):
    """Documents and lines in memory. ``wrote`` says whether any was taken."""

    def __init__(self, files: dict[str, Any]) -> None:
        super().__init__(Path("/nowhere"))
        self.files = files
        self.takes = {"journal": True, "snapshot": True}
        self.wrote = False
        self.tried = 0

    def load(self, cluster_id: str, name: str) -> dict[str, Any]:
        del cluster_id, name
        found: dict[str, Any] = self.files.get("snapshot", {})
        return found

    def save(self, cluster_id: str, name: str, document: dict[str, Any], *, durable: bool = False) -> bool:
        del cluster_id, name, durable
        self.tried += 1
        if self.takes["snapshot"]:
            self.files["snapshot"] = document
            self.wrote = True
        return self.takes["snapshot"]

    def has(self, cluster_id: str, name: str) -> bool:
        del cluster_id, name
        return "snapshot" in self.files

    def append(self, cluster_id: str, name: str, entry: dict[str, Any]) -> bool:
        del cluster_id, name
        if self.takes["journal"]:
            self.files.setdefault("journal", []).append(entry)
            self.wrote = True
        return self.takes["journal"]

    def journal(self, cluster_id: str, name: str) -> list[dict[str, Any]]:
        del cluster_id, name
        lines: list[dict[str, Any]] = self.files.get("journal", [])
        return lines

    def forget_journal(self, cluster_id: str, name: str) -> None:
        del cluster_id, name
        self.files.pop("journal", None)
