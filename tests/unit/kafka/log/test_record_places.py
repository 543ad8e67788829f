"""Single records, looked up one after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.kafka.client import AskError
from exporter.kafka.log import record_places
from exporter.kafka.log.record_places import records_at
from exporter.kafka.properties.client import Properties
from exporter.model import Reason

TIMEOUT = 0.5
ANSWER = 0.1


class SlowConsumer:
    """Each record comes after ``ANSWER`` seconds; those of partition 1 never do."""

    def __init__(self, _settings: Mapping[str, Any]) -> None:
        self._at: Any = None

    def assign(self, positions: list[Any]) -> None:
        [self._at] = positions

    def poll(self, seconds: float) -> Any:
        time.sleep(min(ANSWER, seconds))
        if self._at.partition == 1:
            return None
        return SimpleNamespace(
            error=lambda: None,
            partition=lambda: self._at.partition,
            offset=lambda: self._at.offset,
            timestamp=lambda: (1, 1_795_000_000_000),
            key=lambda: None,
            value=lambda: b"value",
            headers=list,
        )

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_places, "Consumer", SlowConsumer)


def found(places: list[tuple[int, int]]) -> list[int]:
    properties = Properties.parse({"bootstrap.servers": "k:9092"})
    return [record.offset for record in records_at(properties, "t", places, TIMEOUT)]


def test_many_records_may_take_longer_than_one_answer() -> None:
    began = time.monotonic()
    assert found([(0, offset) for offset in range(8)]) == list(range(8))
    assert time.monotonic() - began > TIMEOUT


def test_one_record_without_an_answer_ends_the_lookups_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(AskError, match="reading t-1 at 3: no answer in time") as caught:
        found([(0, 1), (1, 3), (1, 4)])
    assert caught.value.fault.reason is Reason.TIMEOUT
    assert time.monotonic() - began < 20 * TIMEOUT
