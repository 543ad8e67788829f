"""A marker and its decision are by one clock only while one broker has led both partitions since."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.kafka.log.batches import Marker
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata, PartitionMetadata
from exporter.lso.proof.one_clock import is_one_clock
from exporter.model import Deadline
from tests.unit.kafka.log.test_markers import COMMIT, CONTROL, batch, marker_body
from tests.unit.kafka.log.test_record_batch import PLACE, AnsweringBroker

WRITTEN_IN, DECIDED_IN = 7, 3
"""The leader epochs of the partition and of the log in which the marker was written."""


@pytest.mark.parametrize(
    ("leader", "epoch", "log_leader", "log_epoch", "one"),
    [
        pytest.param(1, WRITTEN_IN, 1, DECIDED_IN, True, id="the same broker"),
        pytest.param(1, WRITTEN_IN, 2, DECIDED_IN, False, id="two brokers"),
        pytest.param(None, WRITTEN_IN, None, DECIDED_IN, False, id="no leader"),
        pytest.param(1, WRITTEN_IN + 1, 1, DECIDED_IN, False, id="an election of the partition since"),
        pytest.param(1, WRITTEN_IN, 1, DECIDED_IN + 1, False, id="an election of the log since"),
    ],
)
def test_one_broker_has_led_both_since(
    leader: int | None, epoch: int, log_leader: int | None, log_epoch: int, one: bool
) -> None:
    topics = {
        PLACE.topic: {0: PartitionMetadata(leader, (1,), (1,), epoch)},
        TRANSACTION_STATE: {4: PartitionMetadata(log_leader, (1,), (1,), log_epoch)},
    }
    metadata = Metadata("id", {1: "a:1", 2: "b:1"}, topics, frozenset(), {})
    client: Any = AnsweringBroker(batch(20, CONTROL, marker_body(COMMIT, DECIDED_IN)))
    marker = Marker(20, 5, 9, 4, commit=True, coordinator_epoch=DECIDED_IN)
    assert is_one_clock(client, metadata, PLACE, marker, 4, Deadline.after(5)) is one
