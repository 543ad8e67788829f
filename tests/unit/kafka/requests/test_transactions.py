from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    ListTransactionsResponse,
)

from exporter.kafka.ask import coordinator_partition
from exporter.kafka.requests.transactions import (
    Description,
    Listing,
    ProducerState,
    describe_grant,
    describe_producers,
    describe_transactions,
    list_transactions,
)
from exporter.model import Deadline, Fault, Reason, TopicPartition
from tests.helpers.kafka import FakeCluster, cluster_of, offsets, partitions

DOWN = Fault(Reason.UNREACHABLE, "broker 2 at k2:9092 cannot be reached: connection refused")
DENIED = Fault(Reason.AUTHORIZATION, "Metadata of topic __transaction_state: grant DESCRIBE on it")
STATE = "__transaction_state"


def soon() -> Deadline:
    return Deadline.after(60)


# --- Which partition coordinates ---


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),
        ("hello", 22),
        ("polygenelubricants", 0),  # hashCode() is Integer.MIN_VALUE, whose absolute value Java cannot hold
        ("Aa", 12),
        ("BB", 12),
        ("holder-0", 9),  # hashCode() is negative
        ("holder-1", 8),
        ("holder-10", 34),
        ("connect-cluster-etl-0", 46),
        ("my-app-7f0c1b2a", 33),
        ("orders-é", 33),
        ("😀-1", 33),  # two UTF-16 units in Java, one character in Python
    ],
)
def test_the_coordinator_partition_is_kafkas(key: str, partition: int) -> None:
    # Expected values: Utils.abs(s.hashCode()) % 50, printed by Kafka 4.3.1's own Utils.
    assert coordinator_partition(key) == partition


# --- ListTransactions ---


def listing(*ids: tuple[str, int, str], error: int = 0) -> Any:
    state = ListTransactionsResponse.TransactionState
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=error,
        unknown_state_filters=[],
        transaction_states=[
            state(transactional_id=name, producer_id=pid, transaction_state=text) for name, pid, text in ids
        ],
    )


def test_every_broker_lists_what_it_coordinates() -> None:
    cluster = FakeCluster(lambda node, _request: listing((f"pay-{node}", node, "Ongoing")))
    result = list_transactions(cluster, cluster_of({}), soon(), producer_ids=[1, 2])
    assert result.values == {1: (Listing("pay-1", 1, "Ongoing"),), 2: (Listing("pay-2", 2, "Ongoing"),)}
    assert {node for node, _ in cluster.asked} == {1, 2}
    for _, request in cluster.asked:
        assert request.state_filters == ["Ongoing", "PrepareCommit", "PrepareAbort"]
        assert request.producer_id_filters == [1, 2]


def test_brokers_are_not_handed_the_same_request_object() -> None:
    cluster = FakeCluster(lambda _node, _request: listing())
    list_transactions(cluster, cluster_of({}), soon())
    assert cluster.asked[0][1] is not cluster.asked[1][1]


def test_a_broker_that_loads_its_coordinator_is_one_fault_and_the_other_lists() -> None:
    cluster = FakeCluster(lambda node, _request: listing(error=14 if node == 2 else 0))
    result = list_transactions(cluster, cluster_of({}), soon())
    assert result.values == {1: ()}
    assert result.unanswered[2].reason is Reason.COORDINATOR
    assert "broker 2 at k2:9092: COORDINATOR_LOAD_IN_PROGRESS (14)" in result.faults[0].detail


def test_a_dead_broker_does_not_hide_what_the_other_lists() -> None:
    cluster = FakeCluster(lambda node, _request: DOWN if node == 2 else listing(("a", 1, "Ongoing")))
    result = list_transactions(cluster, cluster_of({}), soon())
    assert result.values == {1: (Listing("a", 1, "Ongoing"),)}
    assert result.faults == (DOWN,)


# --- DescribeTransactions ---


def described(request: Any, codes: dict[str, int] | None = None, **fields: Any) -> Any:
    kind = DescribeTransactionsResponse.TransactionState
    topic = kind.TopicData
    values: dict[str, Any] = {
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": 60_000,
        "transaction_start_time_ms": 1_700_000_000_500,
        "producer_id": 9,
        "producer_epoch": 3,
        "topics": [topic(topic="t", partitions=[0, 1])],
    }
    return DescribeTransactionsResponse(
        throttle_time_ms=0,
        transaction_states=[
            kind(error_code=(codes or {}).get(key, 0), transactional_id=key, **(values | fields))
            for key in request.transactional_ids
        ],
    )


def test_an_id_is_described_by_its_coordinator() -> None:
    cluster = FakeCluster(lambda _node, request: described(request))
    leaders = [1] * 50
    leaders[coordinator_partition("a")] = 2
    result = describe_transactions(cluster, cluster_of({STATE: leaders}), ["a"], soon())
    assert result.values == {
        "a": Description(
            "a", 9, 3, "Ongoing", 60.0, 1_700_000_000.5, frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})
        )
    }
    assert [node for node, _ in cluster.asked] == [2]


def test_the_number_of_partitions_of_the_transaction_log_counts() -> None:
    cluster = FakeCluster(lambda _node, request: described(request))
    describe_transactions(cluster, cluster_of({STATE: [1, 2, 1]}), ["hello"], soon())
    assert [node for node, _ in cluster.asked] == [2]  # "hello".hashCode() % 3 is 1, not 22 as with 50 partitions


def test_a_two_phase_commit_transaction_has_no_timeout() -> None:
    cluster = FakeCluster(lambda _node, request: described(request, transaction_timeout_ms=2**31 - 1))
    result = describe_transactions(cluster, cluster_of({STATE: [1]}), ["a"], soon())
    assert result.values["a"].timeout is None


def test_a_transaction_that_never_began_has_no_start() -> None:
    cluster = FakeCluster(lambda _node, request: described(request, transaction_start_time_ms=-1))
    result = describe_transactions(cluster, cluster_of({STATE: [1]}), ["a"], soon())
    assert result.values["a"].started is None


def test_an_id_that_its_coordinator_does_not_know_is_neither_answered_nor_a_fault() -> None:
    cluster = FakeCluster(lambda _node, request: described(request, {"b": 105}))
    result = describe_transactions(cluster, cluster_of({STATE: [1]}), ["a", "b"], soon())
    assert set(result.values) == {"a"}
    assert (result.unanswered, result.faults) == ({}, ())


def test_a_denied_id_names_its_grant_and_does_not_fail_the_batch() -> None:
    cluster = FakeCluster(lambda _node, request: described(request, {"b": 53}))
    result = describe_transactions(cluster, cluster_of({STATE: [1]}), ["a", "b"], soon())
    assert set(result.values) == {"a"}
    assert result.unanswered["b"].reason is Reason.AUTHORIZATION
    assert "grant DESCRIBE on TransactionalId:b" in result.faults[0].detail


@pytest.mark.parametrize("code", [14, 15])
def test_a_coordinator_that_is_not_ready_is_unanswered_and_never_unknown(code: int) -> None:
    cluster = FakeCluster(lambda _node, request: described(request, {"a": code}))
    result = describe_transactions(cluster, cluster_of({STATE: [1]}), ["a"], soon())
    assert result.values == {}
    assert result.unanswered["a"].reason is Reason.COORDINATOR


def test_after_a_coordinator_moved_the_new_one_is_asked_once() -> None:
    cluster = FakeCluster(
        lambda node, request: described(request, {"a": 16} if node == 1 else None),
        refreshed=cluster_of({STATE: [2]}),
    )
    result = describe_transactions(cluster, cluster_of({STATE: [1]}), ["a"], soon())
    assert set(result.values) == {"a"}
    assert result.faults == ()


def test_a_coordinator_partition_without_leader_is_unanswered() -> None:
    metadata = cluster_of({STATE: [None]})
    cluster = FakeCluster(lambda _node, request: described(request), refreshed=metadata)
    result = describe_transactions(cluster, metadata, ["a"], soon())
    assert result.unanswered["a"].reason is Reason.COORDINATOR


def test_no_transaction_log_means_no_transactions_and_no_fault() -> None:
    cluster = FakeCluster(lambda _node, request: described(request), refreshed=cluster_of({}))
    result = describe_transactions(cluster, cluster_of({}), ["a"], soon())
    assert (result.values, result.unanswered, result.faults) == ({}, {}, ())
    assert cluster.asked == []


def test_where_the_transaction_log_is_hidden_every_broker_is_asked() -> None:
    cluster = FakeCluster(
        lambda node, request: described(request, {"a": 16, "gone": 105} if node == 1 else {"gone": 16}),
        refreshed=cluster_of({}, errors={STATE: DENIED}),
    )
    result = describe_transactions(cluster, cluster_of({}), ["a", "gone"], soon())
    assert set(result.values) == {"a"}
    assert result.unanswered == {}


def test_where_the_transaction_log_is_hidden_a_silent_broker_may_be_the_coordinator() -> None:
    cluster = FakeCluster(
        lambda node, request: DOWN if node == 2 else described(request, {"a": 16}),
        refreshed=cluster_of({}, errors={STATE: DENIED}),
    )
    result = describe_transactions(cluster, cluster_of({}), ["a"], soon())
    assert result.unanswered == {"a": DOWN}


def test_many_ids_are_asked_in_batches() -> None:
    cluster = FakeCluster(lambda _node, request: described(request))
    ids = [f"id-{number}" for number in range(2_500)]
    result = describe_transactions(cluster, cluster_of({STATE: [1]}), ids, soon())
    assert len(result.values) == 2_500
    assert [len(request.transactional_ids) for _, request in cluster.asked] == [1_000, 1_000, 500]


def test_a_silent_broker_in_the_first_batch_leaves_time_for_the_others_and_is_not_asked_again() -> None:
    clock = [0.0]

    def answer(node: int, request: Any) -> Any:
        return DOWN if node == 2 else described(request)

    cluster = FakeCluster(answer)
    ids = [f"id-{number}" for number in range(2_500)]
    result = describe_transactions(cluster, cluster_of({STATE: [1, 2]}), ids, Deadline(10.0, lambda: clock[0]))
    assert cluster.deadlines[0].at == 5.0
    assert cluster.deadlines[-1].at == 10.0
    assert [node for node, _ in cluster.asked].count(2) == 1
    assert len(result.values) + len(result.unanswered) == 2_500


# --- DescribeProducers ---


def producers(request: Any, codes: dict[str, int] | None = None) -> Any:
    topic = DescribeProducersResponse.TopicResponse
    partition = topic.PartitionResponse
    state = partition.ProducerState

    def answer(name: str, index: int) -> Any:
        code = (codes or {}).get(f"{name}-{index}", 0)
        active = [
            state(
                producer_id=7,
                producer_epoch=70_000,
                last_sequence=4,
                last_timestamp=1_700_000_000_250,
                coordinator_epoch=2,
                current_txn_start_offset=12,
            ),
            state(
                producer_id=8,
                producer_epoch=0,
                last_sequence=-1,
                last_timestamp=-1,
                coordinator_epoch=-1,
                current_txn_start_offset=-1,
            ),
        ]
        return partition(
            partition_index=index, error_code=code, error_message=None, active_producers=[] if code else active
        )

    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            topic(name=one.name, partitions=[answer(one.name, index) for index in one.partition_indexes])
            for one in request.topics
        ],
    )


def led(node: int, request: Any, codes: dict[str, int] | None = None) -> Any:
    """A leader's answers to DescribeProducers and ListOffsets."""
    return producers(request, codes) if isinstance(request, DescribeProducersRequest) else offsets(request)


def test_producers_are_reported_with_their_open_transaction() -> None:
    cluster = FakeCluster(led)
    result = describe_producers(cluster, cluster_of({"t": [1]}), partitions("t", 1), soon())
    assert result.values == {
        ("t", 0): (ProducerState(7, 70_000, 1_700_000_000.25, 2, 12, 4), ProducerState(8, 0, None, -1, None))
    }


def test_producers_are_asked_for_at_most_500_partitions_at_once() -> None:
    cluster = FakeCluster(led)
    result = describe_producers(cluster, cluster_of({"t": [1, 2] * 600}), partitions("t", 1_200), soon())
    assert len(result.values) == 1_200
    asked = [(node, request) for node, request in cluster.asked if isinstance(request, DescribeProducersRequest)]
    sizes = [(node, sum(len(topic.partition_indexes) for topic in request.topics)) for node, request in asked]
    assert sorted(sizes) == [(1, 100), (1, 500), (2, 100), (2, 500)]


def test_a_topic_without_read_names_its_grant_and_does_not_fail_the_batch() -> None:
    cluster = FakeCluster(lambda node, request: led(node, request, {"u-0": 29}))
    result = describe_producers(
        cluster, cluster_of({"t": [1], "u": [1]}), [*partitions("t", 1), *partitions("u", 1)], soon()
    )
    assert set(result.values) == {("t", 0)}
    assert result.unanswered[TopicPartition("u", 0)].reason is Reason.AUTHORIZATION
    assert "grant READ on Topic:u" in result.faults[0].detail


@pytest.mark.parametrize("code", [6, 75])
def test_the_producers_of_a_broker_that_does_not_lead_in_the_current_epoch_are_not_believed(code: int) -> None:
    def deposed(node: int, request: Any) -> Any:
        if isinstance(request, DescribeProducersRequest):
            return producers(request)
        return offsets(request, {"t-0": code})

    cluster = FakeCluster(deposed, refreshed=cluster_of({"t": [2]}, epoch=3))
    result = describe_producers(cluster, cluster_of({"t": [2]}, epoch=3), partitions("t", 1), soon())
    assert result.values == {}
    assert result.unanswered[TopicPartition("t", 0)].reason is Reason.NO_LEADER
    assert "broker 2 at k2:9092" in result.faults[0].detail


def test_the_producers_of_a_broker_are_not_believed_when_another_one_leads_right_after() -> None:
    def moving(node: int, request: Any) -> Any:
        if isinstance(request, DescribeProducersRequest):
            return producers(request)
        return offsets(request, {"t-0": 6} if node == 1 else {})

    cluster = FakeCluster(moving, refreshed=cluster_of({"t": [2]}, epoch=4))
    result = describe_producers(cluster, cluster_of({"t": [1]}, epoch=3), partitions("t", 1), soon())
    assert result.values == {}
    assert "at broker 1 at k1:9092 is not believed" in result.faults[0].detail


# --- The probe ---


def test_the_grant_is_proven_by_an_unknown_id() -> None:
    cluster = FakeCluster(lambda node, request: described(request, {"__probe__": 105 if node == 1 else 16}))
    assert describe_grant(cluster, cluster_of({STATE: [1]}), soon()) is None


def test_a_missing_grant_is_named() -> None:
    cluster = FakeCluster(lambda _node, request: described(request, {"__probe__": 53}))
    fault = describe_grant(cluster, cluster_of({STATE: [1]}), soon())
    assert fault is not None
    assert fault.reason is Reason.AUTHORIZATION
    assert "grant DESCRIBE on TransactionalId:*" in fault.detail


def test_a_grant_for_a_prefix_is_no_grant_for_all() -> None:
    cluster = FakeCluster(lambda _node, request: described(request, {"__probe__": 105, "~probe~": 53}))
    fault = describe_grant(cluster, cluster_of({STATE: [1]}), soon())
    assert fault is not None
    assert fault.reason is Reason.AUTHORIZATION


def test_a_broker_that_denies_hides_what_it_coordinates_whatever_the_others_say() -> None:
    cluster = FakeCluster(lambda node, request: described(request, {"__probe__": 53 if node == 2 else 105}))
    fault = describe_grant(cluster, cluster_of({STATE: [1]}), soon())
    assert fault is not None
    assert "broker 2" in fault.detail


@pytest.mark.parametrize("code", [14, 15, 16, 105])
def test_a_coordinator_that_cannot_look_has_authorized_all_the_same(code: int) -> None:
    cluster = FakeCluster(lambda _node, request: described(request, {"__probe__": code, "~probe~": code}))
    assert describe_grant(cluster, cluster_of({STATE: [1]}), soon()) is None


def test_the_grant_is_not_probed_before_there_is_a_transaction_log() -> None:
    cluster = FakeCluster(lambda _node, request: described(request), refreshed=cluster_of({}))
    assert describe_grant(cluster, cluster_of({}), soon()) is None
    assert cluster.asked == []
    assert cluster.refreshes == [[STATE]]


def test_a_hidden_transaction_log_does_not_pass_for_a_missing_one() -> None:
    cluster = FakeCluster(
        lambda _node, request: described(request, {"__probe__": 53}),
        refreshed=cluster_of({}, errors={STATE: DENIED}),
    )
    fault = describe_grant(cluster, cluster_of({}), soon())
    assert fault is not None
    assert fault.reason is Reason.AUTHORIZATION


def test_a_grant_that_could_not_be_probed_is_not_proven() -> None:
    cluster = FakeCluster(lambda _node, _request: DOWN)
    assert describe_grant(cluster, cluster_of({STATE: [1]}), soon()) == DOWN


def test_a_cluster_without_brokers_proves_nothing() -> None:
    cluster = FakeCluster(lambda _node, _request: DOWN)
    fault = describe_grant(cluster, cluster_of({STATE: [None]}, brokers={}), soon())
    assert fault is not None


def test_one_broker_that_answers_proves_the_grant() -> None:
    cluster = FakeCluster(lambda node, request: DOWN if node == 1 else described(request, {"__probe__": 105}))
    assert describe_grant(cluster, cluster_of({STATE: [1]}), soon()) is None
