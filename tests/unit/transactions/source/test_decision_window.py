"""Where records of the transaction log may be missing in a window."""

from __future__ import annotations

import math

import pytest

from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.model import Deadline
from exporter.transactions.source.decision_window import _breaks, _LogPosition, read_window
from tests.helpers.cluster import FakeKafka, Partition
from tests.helpers.coordinator import CoordinatorRecord


def test_a_window_from_the_first_record_of_the_log_has_no_break() -> None:
    assert _breaks(None, _LogPosition(0, 0, 10.0)) == []


def test_what_is_before_the_window_may_be_missing() -> None:
    assert _breaks(None, _LogPosition(5, 0, 10.0)) == [(-math.inf, 10.0)]


def test_a_gap_and_an_election_are_breaks() -> None:
    last = _LogPosition(5, 0, 10.0)
    assert _breaks(last, _LogPosition(6, 0, 11.0)) == []
    assert _breaks(last, _LogPosition(7, 0, 11.0)) == [(10.0, 11.0)]
    assert _breaks(last, _LogPosition(6, 1, 11.0)) == [(10.0, 11.0)]
    assert _breaks(last._replace(leader_epoch=None), _LogPosition(6, None, 11.0)) == [(10.0, 11.0)]


def test_a_window_with_more_records_than_are_read_is_not_said_to_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = FakeKafka(topics={TRANSACTION_STATE: [Partition(since=0)]})
    at_ms = round(kafka.time.wall * 1000)
    kafka.write(CoordinatorRecord(0, offset, at_ms, b"", None) for offset in range(3))
    monkeypatch.setattr("exporter.transactions.source.decision_window.MOST_RECORDS", 2)
    cluster, deadline = kafka.cluster(), Deadline.after(60.0, kafka.time.clock.monotonic)
    metadata = cluster.metadata(deadline, (TRANSACTION_STATE,))
    with pytest.raises(AskError) as raised:
        read_window(cluster, metadata, 0, 7, kafka.time.wall + 1, kafka.reader, deadline)
    assert "has more than 2 records" in raised.value.fault.detail
