"""The journals of all clusters: their metrics, and which of them are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from exporter import catalogue
from exporter.agent.journals import Journals
from exporter.config import Config, ConfigSource
from exporter.core.thresholds import Owners
from exporter.journal.keeper import JournalKeeper
from exporter.model import Clock, Sample, Snapshot
from exporter.settings.layers import Path as SettingPath

FLAGS: dict[SettingPath, tuple[str, object]] = {
    ("clusters", "kafka", "bootstrap.servers"): ("--bootstrap-server", "k:1")
}


def config() -> Config:
    return ConfigSource(None, {}, FLAGS).load()


class KeptSink:
    """The samples that are exposed, by key."""

    def __init__(self) -> None:
        self.kept: dict[Any, Snapshot] = {}

    def swap(self, snapshots: Mapping[Any, Snapshot]) -> None:
        self.kept.update(snapshots)

    def drop(self, keys: Any) -> None:
        for key in keys:
            self.kept.pop(key, None)


class RemovedWhileLooking:
    """A keeper whose cluster a reload removes while it compares reads."""

    def __init__(self, journals: Journals, *, removed: bool) -> None:
        self._journals, self._removed = journals, removed

    def look(self, _: float) -> None:
        if self._removed:
            self._journals.keep(())

    def samples(self) -> list[Sample]:
        return [catalogue.JOURNAL_SIZE_BYTES(1.0, "prod")]

    def close(self) -> None:
        """Nothing is open."""


def test_the_metrics_of_a_journal_that_was_removed_meanwhile_are_not_exposed_again() -> None:
    for removed in (False, True):
        sink = KeptSink()
        journals = Journals(config(), Owners, sink, Clock())
        keeper = cast("JournalKeeper", RemovedWhileLooking(journals, removed=removed))
        journals._by_key = {"prod": keeper}
        journals._look("prod", keeper, 0.0)
        assert bool(sink.kept) is not removed
