from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchResponse

from exporter.kafka.ask import coordinator_partition
from exporter.kafka.requests.groups import committed_offsets, describe_group_grant, list_groups, unstable_offsets
from exporter.model import Deadline, Fault, Reason
from exporter.words import GroupKind
from tests.helpers.kafka import FakeCluster, cluster_of

DOWN = Fault(Reason.TIMEOUT, "broker 2 at k2:9092 did not answer OffsetFetch in time")
DENIED = Fault(Reason.AUTHORIZATION, "Metadata of topic __consumer_offsets: grant DESCRIBE on it")
OFFSETS = "__consumer_offsets"


def soon() -> Deadline:
    return Deadline.after(60)


def groups(*names: tuple[str, str], error: int = 0) -> Any:
    kind = ListGroupsResponse.ListedGroup
    return ListGroupsResponse(
        throttle_time_ms=0,
        error_code=error,
        groups=[
            kind(group_id=name, protocol_type="consumer", group_state="Stable", group_type=type_)
            for name, type_ in names
        ],
    )


def fetched(
    request: Any, codes: dict[str, int] | None = None, offsets: tuple[tuple[int, int, int], ...] = ((0, 5, 0),)
) -> Any:
    """``offsets`` are partition, offset, error code."""
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics
    partition = topic.OffsetFetchResponsePartitions
    return OffsetFetchResponse(
        throttle_time_ms=0,
        groups=[
            group(
                group_id=one.group_id,
                error_code=(codes or {}).get(one.group_id, 0),
                topics=[
                    topic(
                        name="t",
                        partitions=[
                            partition(
                                partition_index=index,
                                committed_offset=offset,
                                committed_leader_epoch=-1,
                                metadata="",
                                error_code=code,
                            )
                            for index, offset, code in offsets
                        ],
                    )
                ],
            )
            for one in request.groups
        ],
    )


def test_every_broker_lists_its_groups_with_their_kinds() -> None:
    cluster = FakeCluster(lambda node, _request: groups((f"g{node}", "Classic"), ("s", "Share"), ("c", "Consumer")))
    rest = (("s", GroupKind.SHARE), ("c", GroupKind.CONSUMER))
    assert list_groups(cluster, cluster_of({}), soon()).values == {
        1: (("g1", GroupKind.CLASSIC), *rest),
        2: (("g2", GroupKind.CLASSIC), *rest),
    }


def test_a_type_of_group_that_is_not_known_here_is_said_to_be_so() -> None:
    cluster = FakeCluster(lambda _node, _request: groups(("g", "Interstellar")))
    assert list_groups(cluster, cluster_of({}), soon()).values[1] == (("g", GroupKind.UNKNOWN),)


def test_brokers_before_group_types_list_all() -> None:
    cluster = FakeCluster(lambda _node, _request: groups(("g", "")))
    assert list_groups(cluster, cluster_of({}), soon()).values[1] == (("g", GroupKind.CLASSIC),)


def test_a_loading_coordinator_is_one_fault() -> None:
    cluster = FakeCluster(lambda node, _request: groups(error=14 if node == 2 else 0))
    result = list_groups(cluster, cluster_of({}), soon())
    assert set(result.values) == {1}
    assert result.faults[0].reason is Reason.COORDINATOR


def test_groups_are_asked_together_at_their_coordinator() -> None:
    cluster = FakeCluster(lambda _node, request: fetched(request))
    leaders = [1] * 50
    leaders[coordinator_partition("b")] = 2
    result = committed_offsets(cluster, cluster_of({OFFSETS: leaders}), ["a", "b", "c"], soon())
    assert result.values == {"a": {("t", 0): 5}, "b": {("t", 0): 5}, "c": {("t", 0): 5}}
    asked = {node: [group.group_id for group in request.groups] for node, request in cluster.asked}
    assert asked == {1: ["a", "c"], 2: ["b"]}


def test_open_transactions_over_the_offsets_do_not_hide_what_was_committed_before() -> None:
    cluster = FakeCluster(lambda _node, request: fetched(request))
    committed_offsets(cluster, cluster_of({OFFSETS: [1]}), ["a"], soon())
    assert cluster.asked[0][1].require_stable is False
    assert cluster.asked[0][1].groups[0].topics is None


def test_what_an_open_transaction_has_committed_is_unstable() -> None:
    cluster = FakeCluster(lambda _node, request: fetched(request, offsets=((0, 5, 0), (1, -1, 88), (2, -1, 3))))
    assert unstable_offsets(cluster, cluster_of({OFFSETS: [1]}), ["a"], soon()).values == {"a": {("t", 1)}}
    assert cluster.asked[0][1].require_stable is True
    refused = FakeCluster(lambda _node, request: fetched(request, {"a": 30}))
    result = unstable_offsets(refused, cluster_of({OFFSETS: [1]}), ["a"], soon())
    assert result.values == {}
    assert "DESCRIBE on Group:a" in result.faults[0].detail


def test_partitions_without_a_commit_are_left_out() -> None:
    cluster = FakeCluster(lambda _node, request: fetched(request, offsets=((0, 5, 0), (1, -1, 0), (2, 8, 3))))
    result = committed_offsets(cluster, cluster_of({OFFSETS: [1]}), ["a"], soon())
    assert result.values == {"a": {("t", 0): 5}}


def test_a_denied_group_names_its_grant_and_does_not_fail_the_batch() -> None:
    cluster = FakeCluster(lambda _node, request: fetched(request, {"b": 30}))
    result = committed_offsets(cluster, cluster_of({OFFSETS: [1]}), ["a", "b"], soon())
    assert set(result.values) == {"a"}
    assert "grant DESCRIBE on Group:b" in result.faults[0].detail


def test_a_group_that_was_deleted_is_neither_answered_nor_a_fault() -> None:
    cluster = FakeCluster(lambda _node, request: fetched(request, {"b": 69}))
    result = committed_offsets(cluster, cluster_of({OFFSETS: [1]}), ["a", "b"], soon())
    assert set(result.values) == {"a"}
    assert result.unanswered == {}


def test_after_a_coordinator_moved_the_new_one_is_asked() -> None:
    cluster = FakeCluster(
        lambda node, request: fetched(request, {"a": 16} if node == 1 else None),
        refreshed=cluster_of({OFFSETS: [2]}),
    )
    assert set(committed_offsets(cluster, cluster_of({OFFSETS: [1]}), ["a"], soon()).values) == {"a"}


def test_a_silent_coordinator_leaves_its_groups_unanswered() -> None:
    cluster = FakeCluster(lambda _node, _request: DOWN)
    result = committed_offsets(cluster, cluster_of({OFFSETS: [2]}), ["a"], soon())
    assert (result.values, result.unanswered) == ({}, {"a": DOWN})


def test_where_the_offsets_topic_is_hidden_every_broker_is_asked() -> None:
    cluster = FakeCluster(
        lambda node, request: fetched(request, {"a": 16} if node == 1 else None),
        refreshed=cluster_of({}, errors={OFFSETS: DENIED}),
    )
    assert set(committed_offsets(cluster, cluster_of({}), ["a"], soon()).values) == {"a"}


def test_no_offsets_topic_means_no_commits_and_no_fault() -> None:
    cluster = FakeCluster(lambda _node, request: fetched(request), refreshed=cluster_of({}))
    result = committed_offsets(cluster, cluster_of({}), ["a"], soon())
    assert (result.values, result.unanswered, result.faults) == ({}, {}, ())


def probe(code: int) -> Any:
    kind = DescribeGroupsResponse.DescribedGroup
    return DescribeGroupsResponse(
        throttle_time_ms=0,
        groups=[
            kind(
                error_code=code,
                group_id="__probe__",
                group_state="Dead",
                protocol_type="",
                protocol_data="",
                members=[],
            )
        ],
    )


def test_the_group_grant_is_proven_by_an_unknown_group() -> None:
    for code in (0, 16, 69):  # before DescribeGroups v6 an unknown group is Dead, without an error
        cluster = FakeCluster(lambda _node, _request, code=code: probe(code))  # type: ignore[misc]
        assert describe_group_grant(cluster, cluster_of({OFFSETS: [1]}), soon()) is None


def test_a_missing_group_grant_is_named() -> None:
    cluster = FakeCluster(lambda _node, _request: probe(30))
    fault = describe_group_grant(cluster, cluster_of({OFFSETS: [1]}), soon())
    assert fault is not None
    assert "grant DESCRIBE on Group:*" in fault.detail


def test_the_group_grant_is_not_probed_before_there_is_an_offsets_topic() -> None:
    cluster = FakeCluster(lambda _node, _request: probe(30), refreshed=cluster_of({}))
    assert describe_group_grant(cluster, cluster_of({}), soon()) is None
    assert cluster.asked == []
