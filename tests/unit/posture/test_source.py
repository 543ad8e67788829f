"""Tests of what the posture's source exposes of its checks."""

from __future__ import annotations

import pytest

from exporter import catalogue
from exporter.groups.facts import TopicReaders
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.evidence import Posture
from exporter.posture.source import PostureSource
from exporter.settings.sections import PostureConfig
from exporter.transactions.facts import TransactionUse
from tests.helpers.batches import batch
from tests.helpers.cluster import LOG, OFFSETS, FakeKafka, Partition, SourceRead, read, world_of

OLD = TransactionUse(frozenset(), {"pay": {0: 3}, "ship": {2: 1}}, {})


def upgraded_world() -> FakeKafka:
    world = world_of(log=2, offsets=1)
    kept = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    world.settings = {LOG: kept, OFFSETS: kept}
    world.levels = {"transaction.version": 2, "metadata.version": 30}
    return world


def test_what_no_setting_can_mend_is_information_and_not_a_check_that_failed() -> None:
    world = upgraded_world()
    seen = read(world, PostureSource(world.cluster(), PostureConfig()), OLD)
    assert seen.values(catalogue.POSTURE_INFORMATION) == {("transaction_clients", "pay"): 1}
    clients = {
        labels[1]: value
        for labels, value in seen.values(catalogue.POSTURE_CHECK).items()
        if labels[0] == "transaction_clients"
    }
    assert clients == {"ship": 1}
    posture = seen.facts[Posture]
    assert isinstance(posture, Posture)
    checks = posture.checks
    assert [check.subject for check in checks if check.verdict is CheckResult.INFORMATION] == ["pay"]


def test_information_is_left_out_as_any_check_is() -> None:
    world = upgraded_world()
    source = PostureSource(world.cluster(), PostureConfig(ignore=("transaction_clients:pay",)))
    assert not read(world, source, OLD).values(catalogue.POSTURE_INFORMATION)


# --- Sizes of the internal topics ---


def sizes_of(world: FakeKafka) -> tuple[SourceRead, dict[str, PostureCheck]]:
    seen = read(world, PostureSource(world.cluster(), PostureConfig()))
    posture = seen.facts[Posture]
    assert isinstance(posture, Posture)
    return seen, {check.subject: check for check in posture.checks if check.name == "internal_topic_size"}


def test_sizes_and_disks_of_the_internal_topics_are_given_by_broker() -> None:
    seen, checks = sizes_of(upgraded_world())
    assert seen.values(catalogue.INTERNAL_TOPIC_SIZE_BYTES) == {(LOG, "1"): 200, (OFFSETS, "1"): 100}
    assert seen.values(catalogue.BROKER_LOG_DIR_SIZE_BYTES) == {("1", "/data"): 1000}
    assert seen.values(catalogue.BROKER_LOG_DIR_USABLE_BYTES) == {("1", "/data"): 400}
    assert {subject: check.verdict for subject, check in checks.items()} == {
        LOG: CheckResult.PASSED,
        OFFSETS: CheckResult.PASSED,
    }


def test_a_partition_that_nobody_compacts_fails_with_its_place() -> None:
    world = upgraded_world()
    world.disk.partition_bytes[LOG, 1] = 3 * 1024**3
    check = sizes_of(world)[1][LOG]
    assert check.verdict is CheckResult.FAILED
    assert "partition 1 on broker 1: 3072.0 MiB" in check.found


@pytest.mark.parametrize("old", [False, True], ids=["refused", "an old broker names no directory"])
def test_without_the_grant_sizes_are_unknown_and_the_source_is_well(old: bool) -> None:
    world = upgraded_world()
    if old:
        world.disk.named = False
    else:
        world.refuse["DescribeLogDirs"] = 31
    seen, checks = sizes_of(world)
    assert not seen.faults
    assert not seen.values(catalogue.INTERNAL_TOPIC_SIZE_BYTES)
    [check] = checks.values()
    assert check.verdict is CheckResult.INFORMATION, "the agent does without the grant"
    assert "grant DESCRIBE on Cluster" in check.found


def test_a_broker_before_3_3_gives_sizes_without_its_disk() -> None:
    world = upgraded_world()
    world.disk.sized = False
    seen, _ = sizes_of(world)
    assert seen.values(catalogue.INTERNAL_TOPIC_SIZE_BYTES)
    assert not seen.values(catalogue.BROKER_LOG_DIR_SIZE_BYTES)


@pytest.mark.parametrize(("brokers", "passed"), [(2, CheckResult.PASSED), (3, CheckResult.INFORMATION)])
def test_brokers_beyond_the_partitions_of_the_log_coordinate_nothing(brokers: int, passed: CheckResult) -> None:
    world = upgraded_world()
    world.brokers = {number: f"k{number}:9092" for number in range(1, brokers + 1)}
    posture = read(world, PostureSource(world.cluster(), PostureConfig())).facts[Posture]
    assert isinstance(posture, Posture)
    assert [check.verdict for check in posture.checks if check.name == "transaction_log_partitions"] == [passed]


# --- Writers without transactions ---


def writers(world: FakeKafka, source: PostureSource) -> dict[str, PostureCheck]:
    use, readers = TransactionUse(frozenset({"orders", "audit"}), {}, {}), TopicReaders({"orders": ("billing",)})
    posture = read(world, source, use, readers).facts[Posture]
    assert isinstance(posture, Posture)
    return {check.subject: check for check in posture.checks if check.name == "plain_writers"}


def test_topics_of_transactions_that_groups_read_are_sampled_and_results_last_until_the_next_turn() -> None:
    world = upgraded_world()
    world.topics |= {"orders": [Partition(), Partition(high_watermark=2)], "audit": [Partition(high_watermark=2)]}
    world.topics["orders"][1].batches = batch(0, 2, 7, 0)
    source = PostureSource(world.cluster(), PostureConfig(), partitions=1)
    found = [writers(world, source)["orders"] for _ in range(3)]
    assert [check.verdict for check in found] == [CheckResult.PASSED, CheckResult.INFORMATION, CheckResult.PASSED]
    assert [request.topics[0].topic for request in world.requests("Fetch")] == ["orders"]


def test_topics_that_may_not_be_read_are_unknown_with_the_grant() -> None:
    world = upgraded_world()
    world.topics["orders"] = [Partition(high_watermark=2)]
    world.refuse["Fetch"] = 29
    (check,) = writers(world, PostureSource(world.cluster(), PostureConfig())).values()
    assert (check.subject, check.verdict) == ("prod", CheckResult.UNKNOWN)
    assert "grant READ on Topic:orders" in check.error
