"""Whole /metrics pages, compared with golden files and checked by promtool."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Collection, Mapping

import pytest

from exporter import catalogue
from exporter.core.runner import Group, Runner
from exporter.exposition.process_metrics import ProcessMetrics
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import Format
from exporter.model import Clock, Deadline, Snapshot
from tests.golden.conftest import Golden
from tests.golden.scenarios import SCENARIOS, WALL

SUFFIX = {Format.TEXT: "prom", Format.OPENMETRICS: "openmetrics"}


class WaitingExposition:
    """An exposition that lets a test wait until every source was read."""

    def __init__(self, exposition: Exposition, sources: int) -> None:
        self._exposition, self._missing = exposition, sources
        self.complete = threading.Event()

    def swap(self, snapshots: Mapping[tuple[str, ...], Snapshot]) -> None:
        self._exposition.swap(snapshots)
        if any(key[-1] != "agent" for key in snapshots):
            self._missing -= 1
        if not self._missing:
            self.complete.set()

    def drop(self, keys: Collection[tuple[str, ...]]) -> None:
        self._exposition.drop(keys)


def pages(groups: list[Group]) -> dict[Format, str]:
    """The page after each source was read once, with clocks that do not move."""
    clock = Clock(lambda: 1000.0, lambda: WALL)
    exposition = Exposition(clock)
    watched = WaitingExposition(exposition, sum(len(group.sources) for group in groups))
    runner = Runner(groups, watched, clock)
    runner.start()
    assert watched.complete.wait(20)
    runner.stop(Deadline.after(20))
    return {fmt: exposition.body(fmt).decode() for fmt in Format}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_page_is_the_golden_one(scenario: str, golden: Golden) -> None:
    for fmt, text in pages(SCENARIOS[scenario]).items():
        golden.check(f"{scenario}.{SUFFIX[fmt]}", text)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_promtool_finds_nothing_to_mend(scenario: str) -> None:
    text = pages(SCENARIOS[scenario])[Format.TEXT].encode() + ProcessMetrics()(Format.TEXT)
    lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (lint.returncode, lint.stdout, lint.stderr) == (0, b"", b"")


def test_every_family_of_a_source_that_is_shown_stands_on_a_golden_page() -> None:
    shown = "".join(pages(groups)[Format.TEXT] for groups in SCENARIOS.values())
    sources = {source.name for groups in SCENARIOS.values() for group in groups for source in group.sources} | {"agent"}
    rows = [row for row in catalogue.rows() if row.source in sources]
    # The agent adds this itself: which build it is. Its own test looks for it.
    added = {catalogue.EXPORTER_BUILD_INFO.name}
    # Only with owners in the settings: tests/unit/settings/test_thresholds.py looks for it.
    added |= {catalogue.OWNER_INFO.name}
    # The thread that keeps the journals gives these.
    added |= {catalogue.EVENTS_TOTAL.name, catalogue.JOURNAL_LOST_EVENTS_TOTAL.name, catalogue.JOURNAL_SIZE_BYTES.name}
    assert {row.name for row in rows if f"# TYPE {row.name} " not in shown} == added
