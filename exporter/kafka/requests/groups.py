"""Consumer groups and the offsets they committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from exporter.kafka.ask import Answers, BrokerAccess, Item, Question, ask_brokers, ask_coordinators_of, missing_grant
from exporter.kafka.faults import GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, UNSTABLE_OFFSET_COMMIT
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.model import Deadline, Fault, TopicPartition
from exporter.words import GroupKind

T = TypeVar("T")

GROUPS_PER_REQUEST = 100

DESCRIBE_GROUPS = "DESCRIBE on Group:*"
_GONE = frozenset({GROUP_ID_NOT_FOUND})
_MEMBERS = {
    GroupKind.CLASSIC: "DescribeGroups",
    GroupKind.CONSUMER: "ConsumerGroupDescribe",
    GroupKind.SHARE: "ShareGroupDescribe",
    GroupKind.STREAMS: "StreamsGroupDescribe",
}


def list_groups(
    client: BrokerAccess, metadata: Metadata, deadline: Deadline
) -> Answers[int, tuple[tuple[str, GroupKind], ...]]:
    """The groups that each broker coordinates, with their kinds; those of brokers before 4.0 are classic. By node id.

    Groups without DESCRIBE are left out silently by the broker, unless DESCRIBE on the cluster is granted.
    """
    return _list(client, metadata, lambda group: _kind(group.group_type), deadline)


def list_group_protocols(
    client: BrokerAccess, metadata: Metadata, deadline: Deadline
) -> Answers[int, tuple[tuple[str, str], ...]]:
    """As ``list_groups``, with the protocol type of each group: ``consumer``, ``connect``, or that of a client."""
    return _list(client, metadata, lambda group: group.protocol_type or "", deadline)


def _list(
    client: BrokerAccess, metadata: Metadata, about: Callable[[Any], T], deadline: Deadline
) -> Answers[int, tuple[tuple[str, T], ...]]:
    def read(response: ListGroupsResponse) -> tuple[int, tuple[tuple[str, T], ...]]:
        return response.error_code, tuple((group.group_id, about(group)) for group in response.groups)

    return ask_brokers(client, metadata, "ListGroups", ListGroupsRequest, read, deadline)


def _kind(group_type: str | None) -> GroupKind:
    """An empty type is a broker's that has classic groups only; a type that is not known here is not described."""
    name = (group_type or "classic").lower()
    return GroupKind(name) if name in GroupKind.values() else GroupKind.UNKNOWN


# --- Members ---


class GroupMember(NamedTuple):
    """A member of a group. One that rejoins has another ``member_id`` (assigned by GroupMetadataManager).

    ``host`` is the address that its connection comes from; ``instance_id`` is its group.instance.id, "" without one.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str


def group_members(
    client: BrokerAccess, metadata: Metadata, groups: Mapping[str, GroupKind], deadline: Deadline
) -> Answers[str, frozenset[GroupMember]]:
    """The members of each group, from its coordinator; none for an empty group, and one that is unknown."""
    values: dict[str, frozenset[GroupMember]] = {}
    unanswered: dict[str, Fault] = {}
    faults: list[Fault] = []
    for kind in _MEMBERS:
        wanted = [group for group, its in groups.items() if its is kind]
        answers = ask_coordinators_of(client, metadata, _members(kind), wanted, deadline)
        values |= answers.values
        unanswered |= answers.unanswered
        faults += answers.faults
    return Answers(values, unanswered, tuple(dict.fromkeys(faults)))


def _members(kind: GroupKind) -> Question[str, frozenset[GroupMember]]:
    def request(batch: Sequence[str], _: Metadata) -> Any:  # noqa: ANN401 -- kafka-python ships no types
        if kind is GroupKind.CLASSIC:
            return DescribeGroupsRequest(groups=list(batch))
        from exporter.kafka.messages import DESCRIBE_REQUESTS  # noqa: PLC0415

        return DESCRIBE_REQUESTS[kind](group_ids=list(batch))

    return Question(_MEMBERS[kind], "groups", request, _read_members, GROUPS_PER_REQUEST, CONSUMER_OFFSETS, _GONE)


def _read_members(response: Any) -> Iterator[Item[str, frozenset[GroupMember]]]:  # noqa: ANN401 -- as above
    for group in response.groups:
        key = group.group_id
        found = frozenset(map(_member, group.members))
        yield Item(key, group.error_code, found, f"DESCRIBE on Group:{key}" if group.error_code else "")


def _member(member: Any) -> GroupMember:  # noqa: ANN401 -- as above
    """The field is called group_instance_id by DescribeGroups, from version 4 on, and share groups have none."""
    instance = getattr(member, "group_instance_id", None) or getattr(member, "instance_id", None) or ""
    return GroupMember(member.member_id, member.client_id, member.client_host.removeprefix("/"), instance)


def describe_group_grant(client: BrokerAccess, metadata: Metadata, deadline: Deadline) -> Fault | None:
    """The fault for a missing DESCRIBE on all groups; None when the grant is proven: see ``missing_grant``
    (KafkaApis.handleDescribeGroupsRequest).
    """
    asked = _members(GroupKind.CLASSIC)
    return missing_grant(client, metadata, asked, GROUP_AUTHORIZATION_FAILED, DESCRIBE_GROUPS, deadline)


# --- Offsets ---


def committed_offsets(
    client: BrokerAccess, metadata: Metadata, groups: Iterable[str], deadline: Deadline
) -> Answers[str, Mapping[TopicPartition, int]]:
    """All committed offsets of each group, from its coordinator.

    OffsetFetch v8 (KIP-709, Kafka 3.0) takes several groups; v10 and later know topics by id only, so 9 is the highest.
    ``require_stable`` is off: an open transaction over the offsets must not hide what was committed before it.
    Partitions without a commit (-1) are left out, as are groups that do not exist any more.
    """
    return ask_coordinators_of(client, metadata, _fetch(_read, require_stable=False), groups, deadline)


def unstable_offsets(
    client: BrokerAccess, metadata: Metadata, groups: Iterable[str], deadline: Deadline
) -> Answers[str, frozenset[TopicPartition]]:
    """The partitions whose offset each group has committed in a transaction that is still open, from its coordinator.

    A consumer of the group that starts gets the same answer, UNSTABLE_OFFSET_COMMIT, and waits (KIP-447). A partition
    for which the group never committed before is not answered (OffsetMetadataManager.fetchAllOffsets).
    """
    return ask_coordinators_of(client, metadata, _fetch(_read_unstable, require_stable=True), groups, deadline)


def _fetch(read: Callable[[OffsetFetchResponse], Iterator[Item[str, T]]], *, require_stable: bool) -> Question[str, T]:
    def request(batch: Sequence[str], _: Metadata) -> OffsetFetchRequest:
        kind = OffsetFetchRequest.OffsetFetchRequestGroup
        groups = [kind(group_id=group, topics=None) for group in batch]
        return OffsetFetchRequest(groups=groups, require_stable=require_stable, min_version=8, max_version=9)

    return Question("OffsetFetch", "groups", request, read, GROUPS_PER_REQUEST, CONSUMER_OFFSETS, _GONE)


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
