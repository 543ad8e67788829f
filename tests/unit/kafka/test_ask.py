"""Partial answers, moves, batches: what every question about many things has in common, tried with end offsets."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsResponse

from exporter.kafka import ask
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition
from tests.helpers.kafka import Answer, FakeCluster, cluster_of, offsets, partitions

DOWN = Fault(Reason.UNREACHABLE, "broker 2 at k2:9092 cannot be reached: connection refused")


def soon() -> Deadline:
    return Deadline.after(60)


def answers(handler: Answer, **more: Any) -> FakeCluster:
    return FakeCluster(handler, **more)


def test_each_partition_is_asked_at_its_leader() -> None:
    cluster = answers(lambda node, request: offsets(request, offset=node))
    result = end_offsets(cluster, cluster_of({"t": [1, 2, 1]}), partitions("t", 3), Isolation.READ_COMMITTED, soon())
    assert result.values == {("t", 0): 1, ("t", 1): 2, ("t", 2): 1}
    assert (result.unanswered, result.faults) == ({}, ())


@pytest.mark.parametrize("isolation", list(Isolation))
def test_the_isolation_level_goes_to_the_broker(isolation: Isolation) -> None:
    cluster = answers(lambda _node, request: offsets(request))
    end_offsets(cluster, cluster_of({"t": [1]}), partitions("t", 1), isolation, soon())
    assert cluster.asked[0][1].isolation_level == isolation
    assert cluster.asked[0][1].topics[0].partitions[0].timestamp == -1


def test_a_dead_broker_costs_its_own_partitions_and_one_fault() -> None:
    cluster = answers(lambda node, request: DOWN if node == 2 else offsets(request))
    result = end_offsets(cluster, cluster_of({"t": [1, 2, 2]}), partitions("t", 3), Isolation.READ_COMMITTED, soon())
    assert result.values == {("t", 0): 7}
    assert result.unanswered == {("t", 1): DOWN, ("t", 2): DOWN}
    assert result.faults == (DOWN,)


def test_one_bad_partition_never_loses_the_batch() -> None:
    cluster = answers(lambda _node, request: offsets(request, {"t-1": 29}))
    result = end_offsets(cluster, cluster_of({"t": [1, 1]}), partitions("t", 2), Isolation.READ_COMMITTED, soon())
    assert result.values == {("t", 0): 7}
    assert result.faults == (result.unanswered[TopicPartition("t", 1)],)
    assert result.faults[0].reason is Reason.AUTHORIZATION
    assert result.faults[0].detail.endswith("TOPIC_AUTHORIZATION_FAILED (29): grant DESCRIBE on Topic:t")


def test_many_partitions_with_one_cause_are_one_fault_with_a_count_and_examples() -> None:
    cluster = answers(lambda _node, request: offsets(request, {f"t-{index}": 3 for index in range(10)}))
    result = end_offsets(cluster, cluster_of({"t": [1] * 10}), partitions("t", 10), Isolation.READ_COMMITTED, soon())
    assert len(result.unanswered) == 10
    assert [fault.reason for fault in result.faults] == [Reason.UNKNOWN_TOPIC]
    assert "10 partitions (t-0, t-1, t-2 and 7 more) at broker 1 at k1:9092" in result.faults[0].detail


def test_an_answer_without_offset_is_no_offset() -> None:
    cluster = answers(lambda _node, request: offsets(request, offset=-1))
    result = end_offsets(cluster, cluster_of({"t": [1]}), partitions("t", 1), Isolation.READ_COMMITTED, soon())
    assert result.values == {}
    assert result.unanswered[TopicPartition("t", 0)].reason is Reason.MALFORMED


def test_a_partition_that_the_answer_leaves_out_is_unanswered() -> None:
    cluster = answers(lambda _node, _request: ListOffsetsResponse(throttle_time_ms=0, topics=[]))
    result = end_offsets(cluster, cluster_of({"t": [1]}), partitions("t", 1), Isolation.READ_COMMITTED, soon())
    assert result.unanswered[TopicPartition("t", 0)].reason is Reason.MALFORMED


def test_a_partition_without_leader_is_not_asked_and_the_broker_to_start_is_named() -> None:
    metadata = cluster_of({"t": [None, 1]}, brokers={1: "k1:9092"})
    cluster = answers(lambda _node, request: offsets(request), refreshed=metadata)
    result = end_offsets(cluster, metadata, partitions("t", 2), Isolation.READ_COMMITTED, soon())
    assert result.values == {("t", 1): 7}
    assert result.unanswered[TopicPartition("t", 0)].reason is Reason.NO_LEADER
    assert "start broker 2" in result.faults[0].detail


def test_a_partition_that_the_cluster_does_not_know_is_an_unknown_topic() -> None:
    cluster = answers(lambda _node, request: offsets(request), refreshed=cluster_of({}))
    result = end_offsets(cluster, cluster_of({}), partitions("gone", 1), Isolation.READ_COMMITTED, soon())
    assert result.unanswered[TopicPartition("gone", 0)].reason is Reason.UNKNOWN_TOPIC
    assert cluster.asked == []


def test_a_topic_that_the_cluster_hides_keeps_the_reason() -> None:
    hidden = Fault(Reason.AUTHORIZATION, "Metadata of topic t: grant DESCRIBE on Topic:t")
    metadata = cluster_of({}, errors={"t": hidden})
    cluster = answers(lambda _node, request: offsets(request), refreshed=metadata)
    result = end_offsets(cluster, metadata, partitions("t", 2), Isolation.READ_COMMITTED, soon())
    assert result.faults == (hidden,)


@pytest.mark.parametrize("code", [6, 74, 75])
def test_after_a_move_the_new_leader_is_asked_once(code: int) -> None:
    cluster = answers(
        lambda node, request: offsets(request, {"t-0": code} if node == 1 else None, offset=node),
        refreshed=cluster_of({"t": [2, 2]}),
    )
    result = end_offsets(cluster, cluster_of({"t": [1, 2]}), partitions("t", 2), Isolation.READ_COMMITTED, soon())
    assert result.values == {("t", 0): 2, ("t", 1): 2}
    assert result.faults == ()
    assert cluster.refreshes == [["t"]]


def test_a_leader_that_keeps_denying_it_is_not_asked_again() -> None:
    metadata = cluster_of({"t": [1]})
    cluster = answers(lambda _node, request: offsets(request, {"t-0": 6}), refreshed=metadata)
    result = end_offsets(cluster, metadata, partitions("t", 1), Isolation.READ_COMMITTED, soon())
    assert len(cluster.asked) == 1
    assert result.faults[0].reason is Reason.NO_LEADER


def test_the_partitions_of_a_dead_broker_are_asked_where_they_went() -> None:
    cluster = answers(
        lambda node, request: DOWN if node == 2 else offsets(request), refreshed=cluster_of({"t": [1, 1]})
    )
    result = end_offsets(cluster, cluster_of({"t": [1, 2]}), partitions("t", 2), Isolation.READ_COMMITTED, soon())
    assert result.values == {("t", 0): 7, ("t", 1): 7}
    assert result.faults == ()


def test_without_fresh_metadata_the_first_fault_stands() -> None:
    cluster = answers(lambda node, request: DOWN if node == 2 else offsets(request))
    result = end_offsets(cluster, cluster_of({"t": [1, 2]}), partitions("t", 2), Isolation.READ_COMMITTED, soon())
    assert result.values == {("t", 0): 7}
    assert result.faults == (DOWN,)


def test_no_second_try_after_the_deadline() -> None:
    over = Deadline(0.0, lambda: 1.0)
    cluster = answers(lambda _node, _request: DOWN, refreshed=cluster_of({"t": [2]}))
    result = end_offsets(cluster, cluster_of({"t": [1]}), partitions("t", 1), Isolation.READ_COMMITTED, over)
    assert cluster.refreshes == []
    assert result.faults == (DOWN,)


def test_a_refresh_of_very_many_topics_asks_for_all() -> None:
    names = [f"t{number}" for number in range(ask.NAMED_TOPICS + 1)]
    cluster = answers(lambda _node, _request: DOWN, refreshed=cluster_of({name: [1] for name in names}))
    end_offsets(
        cluster,
        cluster_of({name: [1] for name in names}),
        [TopicPartition(name, 0) for name in names],
        Isolation.READ_COMMITTED,
        soon(),
    )
    assert cluster.refreshes == [None]


def test_a_partition_asked_twice_is_sent_once() -> None:
    cluster = answers(lambda _node, request: offsets(request))
    end_offsets(cluster, cluster_of({"t": [1]}), partitions("t", 1) * 2, Isolation.READ_COMMITTED, soon())
    assert len(cluster.asked[0][1].topics[0].partitions) == 1


# --- Leader epochs ---


def test_the_newest_leader_epoch_goes_to_the_broker() -> None:
    cluster = answers(lambda _node, request: offsets(request))
    end_offsets(cluster, cluster_of({"t": [1, 1]}, epoch=4), partitions("t", 2), Isolation.READ_COMMITTED, soon())
    asked = cluster.asked[0][1].topics[0].partitions
    assert [(partition.partition_index, partition.current_leader_epoch) for partition in asked] == [(0, 4), (1, 4)]


@pytest.mark.parametrize("code", [74, 75])
def test_a_leader_in_another_epoch_is_asked_again_in_the_newest_one(code: int) -> None:
    def handler(_node: int, request: Any) -> Any:
        epoch = request.topics[0].partitions[0].current_leader_epoch
        return offsets(request, {} if epoch == 5 else {"t-0": code})

    cluster = answers(handler, refreshed=cluster_of({"t": [1]}, epoch=5))
    result = end_offsets(cluster, cluster_of({"t": [1]}, epoch=4), partitions("t", 1), Isolation.READ_COMMITTED, soon())
    assert (result.values, result.brokers, result.faults) == ({("t", 0): 7}, {("t", 0): 1}, ())


def test_a_broker_that_does_not_know_the_newest_epoch_is_a_fault_by_its_id_and_is_not_asked_again() -> None:
    cluster = answers(lambda _node, request: offsets(request, {"t-0": 75}), refreshed=cluster_of({"t": [2]}, epoch=4))
    result = end_offsets(cluster, cluster_of({"t": [2]}, epoch=4), partitions("t", 1), Isolation.READ_COMMITTED, soon())
    assert result.values == {}
    assert len(cluster.asked) == 1
    assert "at broker 2 at k2:9092: UNKNOWN_LEADER_EPOCH (75): the broker does not know" in result.faults[0].detail
