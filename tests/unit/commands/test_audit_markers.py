"""``audit markers``: what it says of a window whose records are gone from the transaction log."""

from __future__ import annotations

import pytest

from exporter.commands import audit_markers
from exporter.commands.audit_markers import look
from exporter.model import Deadline
from exporter.transactions.machine.records import Status
from tests.helpers.cluster import LOG, FakeKafka, FakeTail, world_of
from tests.helpers.coordinator import CoordinatorRecord
from tests.helpers.strategies import encode_key, encode_value, kafka_tags


def log_of(monkeypatch: pytest.MonkeyPatch, *records: tuple[int, int]) -> FakeKafka:
    """A log with records at (offset, seconds before now), which is at offset 10."""
    world = world_of(log=1)
    monkeypatch.setattr("time.time", lambda: world.time.wall)
    monkeypatch.setattr(audit_markers, "_CheckedConsumer", lambda *_: FakeTail(world))
    value = encode_value(1, 7, 0, 60_000, Status.EMPTY, None, 1, -1, kafka_tags(7, -1, 0))
    for offset, ago in records:
        ms = round((world.time.wall - ago) * 1000)
        world.write([CoordinatorRecord(0, offset, ms, encode_key("pay-1"), value)])
    partition = world.topics[LOG][0]
    recent = [offset for offset, ago in records if ago <= 2 * 3600]
    partition.high_watermark, partition.since = 10, min(recent, default=-1)
    return world


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        (((8, 86_400), (9, 60)), "clean"),
        (((9, 86_400),), "clean"),
        (((5, 86_400), (9, 60)), "unknown"),
        (((5, 86_400),), "unknown"),
        ((), "unknown"),
        (((7, 120), (9, 60)), "unknown"),
    ],
)
def test_a_window_whose_records_may_be_gone_is_unknown_and_a_quiet_one_is_clean(
    records: tuple[tuple[int, int], ...], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = look(log_of(monkeypatch, *records).cluster(), 3600.0, Deadline.after(30))
    assert report.verdict == verdict, report.judged.open_questions
