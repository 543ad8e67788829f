"""The batch at one offset, and the aborted transactions around it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.kafka.log.record_batch import BatchAtOffset, batch_at
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.kafka.requests.offsets import Isolation
from exporter.model import Deadline, Fault, Reason, TopicPartition
from tests.helpers.batches import batch, data
from tests.unit.kafka.log.test_markers import COMMIT, CONTROL, marker_body
from tests.unit.kafka.log.test_markers import batch as whole_batch

PLACE = TopicPartition("orders", 0)


class AnsweringBroker:
    """Answers each Fetch with these records."""

    def __init__(self, records: bytes, aborted: tuple[tuple[int, int], ...] = (), code: int = 0) -> None:
        transactions = [SimpleNamespace(producer_id=number, first_offset=first) for number, first in aborted]
        part = SimpleNamespace(error_code=code, records=records, high_watermark=0, aborted_transactions=transactions)
        self.answer = SimpleNamespace(responses=[SimpleNamespace(partitions=[part])])

    def ask(self, requests: dict[int, Any], _: Deadline) -> dict[int, Any]:
        return dict.fromkeys(requests, self.answer)


def looked(broker: AnsweringBroker, offset: int, leader: int | None = 1) -> BatchAtOffset | Fault:
    partition = PartitionMetadata(leader, (1,), (1,))
    metadata = Metadata("id", {1: "a:1"}, {"orders": {0: partition}}, frozenset(), {})
    client: Any = broker
    return batch_at(client, metadata, PLACE, offset, Isolation.READ_COMMITTED, Deadline.after(5))


def found(records: bytes, offset: int) -> Any:
    at = looked(AnsweringBroker(records), offset)
    assert isinstance(at, BatchAtOffset)
    return at.batch


def test_the_batch_that_covers_the_offset_is_given_with_its_producer() -> None:
    at = found(batch(0, 3, 5) + data(3, 2, 7) + data(5, 1, 8), 4)
    assert (at.producer_id, at.producer_epoch, at.transactional, at.control, at.removed) == (7, 0, True, False, False)
    assert found(batch(0, 3), 1).producer_id is None


def test_a_marker_is_taken_apart() -> None:
    at = found(whole_batch(7, CONTROL, marker_body(COMMIT)), 7)
    assert (at.control, at.marker.offset, at.marker.commit, at.marker.producer_id) == (True, 7, True, 9)


def test_an_offset_without_a_batch_is_gone() -> None:
    assert found(data(6, 2, 7), 5) is None
    assert found(b"", 5) is None


def test_a_thinned_batch_that_does_not_decode_leaves_the_record_unknown() -> None:
    assert found(batch(0, 2, 7, span=50), 10).removed is None


def test_only_transactions_with_a_record_at_or_below_the_offset_are_aborted_there() -> None:
    at = looked(AnsweringBroker(data(3, 2, 7), aborted=((7, 3), (8, 5))), 4)
    assert isinstance(at, BatchAtOffset)
    assert at.aborted == {7}


@pytest.mark.parametrize(("code", "leader", "reason"), [(29, 1, Reason.AUTHORIZATION), (0, None, Reason.NO_LEADER)])
def test_a_refusal_and_a_partition_without_a_leader_are_faults(code: int, leader: int | None, reason: Reason) -> None:
    at = looked(AnsweringBroker(b"", code=code), 0, leader)
    assert isinstance(at, Fault)
    assert at.reason is reason


@given(st.binary(max_size=300), st.integers(0, 2**40))
def test_no_bytes_raise(records: bytes, offset: int) -> None:
    looked(AnsweringBroker(records), offset)


@given(st.binary(max_size=80), st.integers(0, 90))
def test_no_broken_marker_raises(noise: bytes, at: int) -> None:
    whole = whole_batch(7, CONTROL, marker_body(COMMIT))
    looked(AnsweringBroker(whole[:at] + noise + whole[at + len(noise) :]), 7)
