"""Consumer groups and the offsets they committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from exporter.kafka.answers import Answers
from exporter.kafka.faults import (
    COORDINATOR_MOVED,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    UNSTABLE_OFFSET_COMMIT,
    AskError,
    refusal,
)
from exporter.kafka.requests.by_coordinator import ask_coordinators_of
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.kafka.requests.routing import (
    BrokerAccess,
    Item,
    Question,
    ask_brokers,
    nobody_answered,
    where,
)
from exporter.kafka.requests.transactions import PROBES, coordinator_partition
from exporter.model import Deadline, Fault, TopicPartition
from exporter.words import GroupKind

T = TypeVar("T")

GROUPS_PER_REQUEST = 100

DESCRIBE_GROUPS = "DESCRIBE on Group:*"


def list_groups(
    client: BrokerAccess, metadata: Metadata, deadline: Deadline
) -> Answers[int, tuple[tuple[str, GroupKind], ...]]:
    """The groups that each broker coordinates, with their kinds; those of brokers before 4.0 are classic. By node id.

    Groups without DESCRIBE are left out silently by the broker, unless DESCRIBE on the cluster is granted.
    """

    def read(response: ListGroupsResponse) -> tuple[int, tuple[tuple[str, GroupKind], ...]]:
        return response.error_code, tuple((group.group_id, _kind(group.group_type)) for group in response.groups)

    return ask_brokers(client, metadata, "ListGroups", ListGroupsRequest, read, deadline)


def list_group_protocols(
    client: BrokerAccess, metadata: Metadata, deadline: Deadline
) -> Answers[int, tuple[tuple[str, str], ...]]:
    """As ``list_groups``, with the protocol type of each group: ``consumer``, ``connect``, or that of a client."""

    def read(response: ListGroupsResponse) -> tuple[int, tuple[tuple[str, str], ...]]:
        return response.error_code, tuple((group.group_id, group.protocol_type or "") for group in response.groups)

    return ask_brokers(client, metadata, "ListGroups", ListGroupsRequest, read, deadline)


def _kind(group_type: str | None) -> GroupKind:
    """An empty type is a broker's that has classic groups only; a type that is not known here is not described."""
    name = (group_type or "classic").lower()
    return GroupKind(name) if name in GroupKind.values() else GroupKind.UNKNOWN


def committed_offsets(
    client: BrokerAccess, metadata: Metadata, groups: Iterable[str], deadline: Deadline
) -> Answers[str, Mapping[TopicPartition, int]]:
    """All committed offsets of each group, from its coordinator.

    OffsetFetch v8 (KIP-709, Kafka 3.0) takes several groups; v10 and later know topics by id only, so 9 is the highest.
    ``require_stable`` is off: an open transaction over the offsets must not hide what was committed before it.
    Partitions without a commit (-1) are left out, as are groups that do not exist any more.
    """
    return _fetch(client, metadata, groups, _request, _read, deadline)


def unstable_offsets(
    client: BrokerAccess, metadata: Metadata, groups: Iterable[str], deadline: Deadline
) -> Answers[str, frozenset[TopicPartition]]:
    """The partitions whose offset each group has committed in a transaction that is still open, from its coordinator.

    A consumer of the group that starts gets the same answer, UNSTABLE_OFFSET_COMMIT, and waits (KIP-447). A partition
    for which the group never committed before is not answered (OffsetMetadataManager.fetchAllOffsets).
    """
    return _fetch(client, metadata, groups, _request_stable, _read_unstable, deadline)


def _fetch(
    client: BrokerAccess,
    metadata: Metadata,
    groups: Iterable[str],
    request: Callable[[Sequence[str], Metadata], OffsetFetchRequest],
    read: Callable[[OffsetFetchResponse], Iterator[Item[str, T]]],
    deadline: Deadline,
) -> Answers[str, T]:
    """OffsetFetch of every group at its coordinator."""
    return ask_coordinators_of(
        client,
        metadata,
        CONSUMER_OFFSETS,
        groups,
        lambda partitions: Question(
            "OffsetFetch",
            "groups",
            lambda key: TopicPartition(CONSUMER_OFFSETS, coordinator_partition(key, partitions)),
            request,
            read,
            GROUPS_PER_REQUEST,
            COORDINATOR_MOVED,
            frozenset({GROUP_ID_NOT_FOUND}),
        ),
        deadline,
    )


def describe_group_grant(client: BrokerAccess, metadata: Metadata, deadline: Deadline) -> Fault | None:
    """Return whether DESCRIBE on all groups is proven: None when it is, else what is missing.

    As ``describe_grant`` of the transactions: a broker authorizes first (KafkaApis.handleDescribeGroupsRequest), so
    for groups that do not exist, any answer but GROUP_AUTHORIZATION_FAILED proves the grant. Not asked before
    ``__consumer_offsets`` exists.
    """
    if CONSUMER_OFFSETS not in metadata.topics:
        try:
            metadata = client.metadata(deadline, [CONSUMER_OFFSETS])
        except AskError as error:
            return error.fault
        if CONSUMER_OFFSETS not in metadata.topics and not metadata.denies(CONSUMER_OFFSETS):
            return None
    answers = client.ask({node: DescribeGroupsRequest(groups=list(PROBES)) for node in metadata.brokers}, deadline)
    for node, answer in answers.items():
        if isinstance(answer, Fault):
            continue
        if GROUP_AUTHORIZATION_FAILED in {group.error_code for group in answer.groups}:
            what = f"DescribeGroups at {where(metadata, node)}"
            return refusal(what, GROUP_AUTHORIZATION_FAILED, DESCRIBE_GROUPS)
    return nobody_answered(answers)


def _request(batch: Sequence[str], _: Metadata, *, require_stable: bool = False) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in batch],
        require_stable=require_stable,
        min_version=8,
        max_version=9,
    )


def _read(response: OffsetFetchResponse) -> Iterator[Item[str, Mapping[TopicPartition, int]]]:
    for group in response.groups:
        code = group.error_code
        if code:
            yield Item(group.group_id, code, None, f"DESCRIBE on Group:{group.group_id}")
            continue
        yield Item(
            group.group_id,
            0,
            {
                TopicPartition(topic.name, partition.partition_index): partition.committed_offset
                for topic in group.topics
                for partition in topic.partitions
                if not partition.error_code and partition.committed_offset >= 0
            },
        )


_request_stable = partial(_request, require_stable=True)


def _read_unstable(response: OffsetFetchResponse) -> Iterator[Item[str, frozenset[TopicPartition]]]:
    for group in response.groups:
        code = group.error_code
        found = frozenset(
            TopicPartition(topic.name, partition.partition_index)
            for topic in group.topics
            for partition in topic.partitions
            if partition.error_code == UNSTABLE_OFFSET_COMMIT
        )
        yield Item(group.group_id, code, None if code else found, f"DESCRIBE on Group:{group.group_id}" if code else "")
