"""What an inventory reads, and what it says of what it could not read."""

from __future__ import annotations

import pytest

from exporter.commands import audit_markers
from exporter.inventory.applications_in_log import Inventory
from exporter.inventory.source import HOUR, read_inventory
from exporter.kafka.client import AskError
from exporter.model import Deadline, Fault, Reason
from tests.helpers.cluster import LOG, OFFSETS, FakeKafka, world_of
from tests.helpers.coordinator import CoordinatorId, CoordinatorRecord

DENIED = Fault(Reason.AUTHORIZATION, "grant DESCRIBE on it")


def inventory(world: FakeKafka) -> Inventory:
    return read_inventory(world.cluster(), world.reader, Deadline.after(60, world.time.clock.monotonic))


def committed(world: FakeKafka, *ago: float) -> None:
    """A transaction in the log at each of these seconds before now."""
    offset = 0
    for seconds in ago:
        producer = CoordinatorId("pay-1", 2, True, round((world.time.wall - seconds) * 1000), iter((7, 8)))
        producer.initialise()
        producer.add("orders", 0)
        producer.end(commit=True, markers_ms=10)
        for record in producer.written:
            world.write([CoordinatorRecord(0, offset, record.ms, record.key, record.value)])
            offset += 1


def test_a_log_that_may_not_be_described_is_refused_and_not_empty() -> None:
    world = world_of(orders=1)
    world.hidden[LOG] = DENIED
    with pytest.raises(AskError, match="grant DESCRIBE on it"):
        inventory(world)
    with pytest.raises(AskError, match="grant DESCRIBE on it"):
        audit_markers.look(world.cluster(), HOUR, Deadline.after(60, world.time.clock.monotonic))


def test_commits_that_may_not_be_described_are_missing() -> None:
    world = world_of(offsets=1, orders=1)
    assert inventory(world).missing == ()
    world.hidden[OFFSETS] = DENIED
    assert "groups of applications: grant DESCRIBE on it" in inventory(world).missing


def test_commits_that_were_not_reached_are_missing() -> None:
    world = world_of(offsets=1, orders=1)
    world.topics[OFFSETS][0].high_watermark = 5  # and a Fetch gives none of them
    assert "groups of applications: not all of the newest commits were read in time" in inventory(world).missing


def test_a_topic_that_transactions_write_to_and_that_may_not_be_described_is_missing() -> None:
    world = world_of(orders=1)
    committed(world, 5.0)
    assert inventory(world).missing == ()
    world.hidden["orders"] = DENIED
    assert inventory(world).missing == ("who writes: grant DESCRIBE on it",)
    del world.topics["orders"], world.hidden["orders"]  # deleted since
    assert inventory(world).missing == ()


def test_a_quiet_hour_is_an_hour_and_a_young_log_is_as_long_as_it_is_old() -> None:
    quiet, young = world_of(orders=1), world_of(orders=1)
    committed(quiet, 2 * HOUR, 5.0)
    committed(young, 5.0)
    found = inventory(quiet)
    assert [(use.application, use.committed) for use in found.applications] == [("pay", 1)]
    assert found.seconds == HOUR
    assert 1.0 <= inventory(young).seconds < 6.0
