"""Commits that are stamped before the marker of what they cover: proof of a read_uncommitted group, by one clock."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter.groups.source.early_commits import RECENT
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.evidence import Posture
from exporter.posture.source import PostureSource
from exporter.settings.sections import PostureConfig
from exporter.transactions.facts import OffsetPartitions, TransactionUse
from tests.helpers.batches import data, marker, offset_commit
from tests.helpers.cluster import OFFSETS, FakeKafka, Partition, read, world_of

USE = TransactionUse(
    frozenset({"orders"}), {}, {}, offset_partitions={"feed": OffsetPartitions(3, frozenset(), frozenset({"orders"}))}
)
MARKED = 5_000
"""By how many milliseconds each marker is behind the begin of its ten seconds."""


def world_with(commits: Sequence[int], offset: int = 2, leader: int = 1, *, epoch: int = 0) -> FakeKafka:
    """A partition with a transaction of three records, its marker, and commits of a group at these milliseconds."""
    world = world_of(log=1, offsets=1)
    now = round(world.time.wall * 1000) - 60_000
    world.topics["orders"] = [Partition(high_watermark=4, leader=leader)]
    world.topics["orders"][0].batches = data(0, 3, 7) + marker(3, 7, now + MARKED)
    world.topics["orders"][0].epoch = epoch
    world.topics[OFFSETS][0].batches = b"".join(
        offset_commit("reader", "orders", base=base, offset=offset, at_ms=now + at) for base, at in enumerate(commits)
    )
    world.topics[OFFSETS][0].high_watermark = len(commits)
    return world


def judged(world: FakeKafka, source: PostureSource | None = None) -> list[PostureCheck]:
    source = source or PostureSource(world.cluster(), PostureConfig())
    posture = read(world, source, USE).facts[Posture]
    assert isinstance(posture, Posture)
    return [check for check in posture.checks if check.name == "group_isolation"]


def test_two_commits_before_the_marker_of_what_they_cover_are_proof_for_half_an_hour() -> None:
    world = world_with([-9_000, 4_900])
    source = PostureSource(world.cluster(), PostureConfig())
    (check,) = judged(world, source)
    assert (check.subject, check.verdict) == ("reader", CheckResult.FAILED)
    assert "above the last stable offset of orders (proven)" in check.found
    world.time.pass_(RECENT)
    assert judged(world, source) == []


@pytest.mark.parametrize(
    "world",
    [
        world_with([4_900]),
        world_with([4_800, 4_900]),
        world_with([-9_000, 4_999]),
        world_with([5_000, 15_000]),
        world_with([-9_000, 4_900], offset=0),
        world_with([-9_000, 4_900], leader=2),
        world_with([-9_000, 4_900], epoch=3),
    ],
    ids=[
        "one may be a reset",
        "two at once, too",
        "one of the two is as late as the marker",
        "both are after the marker",
        "they cover no record",
        "another broker has another clock",
        "there was another leader since",
    ],
)
def test_all_else_is_no_proof(world: FakeKafka) -> None:
    world.brokers = {1: "k1:9092", 2: "k2:9092"}
    assert judged(world) == []


def test_records_that_may_not_be_read_are_no_proof_and_no_fault() -> None:
    world = world_with([-9_000, 4_900])
    world.topics["orders"][0].batches = b""
    assert judged(world) == []
