"""Tests of how many replicas a write needs, and of whether brokers can make an internal topic."""

from __future__ import annotations

import pytest

from exporter.core.replication import (
    CONSUMER_OFFSETS,
    CREATION,
    TRANSACTION_STATE,
    UnmadeTopic,
    effective_min_isr,
    is_under_min_isr,
    unmade_topic,
)

FACTOR = "transaction.state.log.replication.factor"
REFUSED = "broker 2: grant DESCRIBE_CONFIGS on Cluster"


@pytest.mark.parametrize(
    ("min_isr", "replicas", "needed"), [(2, 3, 2), (2, 2, 2), (2, 1, 1), (3, 2, 2), (1, 3, 1), (3, 3, 3)]
)
def test_a_write_needs_the_minimum_and_no_more_than_all_replicas(min_isr: int, replicas: int, needed: int) -> None:
    nodes = range(replicas)
    assert effective_min_isr(min_isr, nodes) == needed
    assert not is_under_min_isr(nodes, nodes, min_isr)
    assert is_under_min_isr(range(needed - 1), nodes, min_isr)


@pytest.mark.parametrize(
    ("settings", "brokers", "said"),
    [
        ([{FACTOR: "3"}], 3, ""),
        ([{FACTOR: "3"}], 4, ""),
        ([{FACTOR: "3"}], 2, f"{FACTOR}=3, and there are 2 brokers"),
        ([{FACTOR: "3"}], 1, f"{FACTOR}=3, and there is 1 broker"),
        ([{FACTOR: "3"}, {FACTOR: "2"}], 2, ""),
        ([{FACTOR: "1"}, REFUSED], 2, ""),
    ],
)
def test_a_topic_can_be_made_where_one_broker_wants_no_more_replicas_than_there_are_brokers(
    settings: list[dict[str, str] | str], brokers: int, said: str
) -> None:
    plan = unmade_topic(TRANSACTION_STATE, settings, brokers, brokers)
    assert isinstance(plan, UnmadeTopic)
    assert plan.obstacle.endswith(said)
    assert bool(plan.obstacle) is bool(said)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([{}], f"no broker returned its {FACTOR}"),
        ([{FACTOR: ""}], f"no broker returned its {FACTOR}"),
        ([REFUSED], REFUSED),
        ([{FACTOR: "3"}, REFUSED], REFUSED),  # the other one may want fewer
    ],
)
def test_what_no_broker_says_is_not_known(settings: list[dict[str, str] | str], said: str) -> None:
    assert unmade_topic(TRANSACTION_STATE, settings, 2, 2) == said


def test_each_internal_topic_has_settings_of_its_own() -> None:
    for topic, without in ((TRANSACTION_STATE, "no transactional producer"), (CONSUMER_OFFSETS, "no consumer group")):
        plan = unmade_topic(topic, [{CREATION[topic].replication_factor: "2"}], 1, 1)
        assert isinstance(plan, UnmadeTopic)
        assert plan.obstacle.startswith(f"{topic} cannot be made, {without}")
        assert (plan.min_isr, plan.partitions, plan.needed) == (None, None, 1)
