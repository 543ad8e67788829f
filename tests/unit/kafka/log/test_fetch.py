"""An answer to Fetch without records: of a log that has none, of remote storage that is late, of a quota."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from exporter.kafka.log.fetch import MOST_TRIES, fetch_partition
from exporter.kafka.log.markers import OffsetRange, read_markers
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.kafka.requests.offsets import Isolation
from exporter.model import Deadline, Fault, Reason, TopicPartition
from tests.helpers.kafka import offsets
from tests.unit.kafka.log.test_markers import COMMIT, CONTROL, batch, marker_body

PLACE = TopicPartition("orders", 0)
METADATA = Metadata("id", {1: "a:1"}, {"orders": {0: PartitionMetadata(1, (1,), (1,))}}, frozenset(), {})
MARKER = batch(5, CONTROL, marker_body(COMMIT))


class TieredBroker:
    """Answers Fetch with these records, one after the other: None is an answer that leaves the partition out. Its disk
    has the records from ``local`` on, up to the high watermark 10.
    """

    def __init__(self, *records: bytes | None, local: int) -> None:
        self._records = list(records)
        self._local = local
        self.asked = 0

    def ask(self, requests: dict[int, Any], _: Deadline) -> dict[int, Any]:
        return {node: self._answer(request) for node, request in requests.items()}

    def _answer(self, request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return offsets(request, offset=self._local)
        records = self._records[min(self.asked, len(self._records) - 1)]
        self.asked += 1
        part = SimpleNamespace(error_code=0, records=records, high_watermark=10, aborted_transactions=[])
        return SimpleNamespace(responses=[] if records is None else [SimpleNamespace(partitions=[part])])


def fetched(broker: Any, offset: int = 5) -> Any:
    return fetch_partition(broker, METADATA, PLACE, offset, 100, Isolation.READ_UNCOMMITTED, Deadline.after(5))


def test_without_records_on_the_leaders_disk_there_are_none() -> None:
    assert fetched(TieredBroker(b"", local=5)).records == b""
    assert fetched(TieredBroker(b"", local=20), 10).records == b""  # at the high watermark


def test_remote_storage_that_is_late_is_asked_again() -> None:
    assert fetched(TieredBroker(b"", MARKER, local=8)).records == MARKER


@pytest.mark.parametrize("records", [b"", None], ids=["remote-storage", "quota"])
def test_without_any_answer_what_the_partition_has_is_not_known(records: bytes | None) -> None:
    broker = TieredBroker(records, local=8)
    fault = fetched(broker)
    assert isinstance(fault, Fault)
    assert (fault.reason, broker.asked) == (Reason.TIMEOUT, MOST_TRIES)


def test_markers_that_only_remote_storage_has_are_not_missing() -> None:
    broker: Any = TieredBroker(b"", local=8)
    read = read_markers(broker, METADATA, {PLACE: OffsetRange(5, 10)}, Deadline.after(5))[PLACE]
    assert (read.reached, read.fault is None) == (5, False)
    compacted: Any = TieredBroker(b"", local=0)
    read = read_markers(compacted, METADATA, {PLACE: OffsetRange(5, 10)}, Deadline.after(5))[PLACE]
    assert (read.reached, read.fault) == (10, None)
