"""Where an instant is in a partition."""

from __future__ import annotations

import pytest

from exporter.kafka.requests.offsets import NONE_LATER, offsets_at
from exporter.model import Deadline, TopicPartition
from tests.helpers.cluster import LOG, world_of
from tests.helpers.coordinator import CoordinatorRecord

PLACE = TopicPartition(LOG, 0)


@pytest.mark.parametrize(
    ("instant", "emptied", "offset"),
    [(2_000, False, 9), (2_000, True, 5), (3_000, True, 5), (3_001, True, NONE_LATER), (3_001, False, NONE_LATER)],
)
def test_an_instant_before_records_of_a_log_whose_first_segment_compaction_emptied_is_at_its_start(
    instant: int, emptied: bool, offset: int
) -> None:
    """Seen on Kafka 4.3.1: the answer says that there is no record since, and the newest is as new."""
    world = world_of(log=1)
    world.write([CoordinatorRecord(0, 7 + number, 1_000 * number, b"", None) for number in range(1, 4)])
    log = world.topics[LOG][0]
    log.log_start, log.since, log.first_segment_empty = 5, NONE_LATER, emptied
    deadline = Deadline.after(5)
    found = offsets_at(world, world.metadata(deadline), {PLACE: instant}, deadline)
    assert found.values == {PLACE: offset}
