"""The members of groups, each kind by its own request: classic, consumer, share and streams (KIP-848, 932, 1071)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest

from exporter.kafka.answers import Answers
from exporter.kafka.faults import COORDINATOR_MOVED, GROUP_ID_NOT_FOUND
from exporter.kafka.requests.groups import GROUPS_PER_REQUEST
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.kafka.requests.routing import BrokerAccess, Item, Question, ask_everyone, ask_leaders
from exporter.kafka.requests.transactions import coordinator_partition
from exporter.model import Deadline, Fault, TopicPartition
from exporter.words import GroupKind


class GroupMembers(NamedTuple):
    """Ids of the members, and the topics that they subscribe to by name; none where the request does not say."""

    ids: frozenset[str]
    topics: frozenset[str] = frozenset()


_REQUESTS: Mapping[GroupKind, str] = {
    GroupKind.CLASSIC: "DescribeGroups",
    GroupKind.CONSUMER: "ConsumerGroupDescribe",
    GroupKind.SHARE: "ShareGroupDescribe",
    GroupKind.STREAMS: "StreamsGroupDescribe",
}


def group_members(
    client: BrokerAccess, metadata: Metadata, groups: Mapping[str, GroupKind], deadline: Deadline
) -> Answers[str, GroupMembers]:
    """The members of each group, from its coordinator; none for an empty group, and one that it does not know.

    A member that rejoins has another id (assigned by GroupMetadataManager).
    """
    values: dict[str, GroupMembers] = {}
    unanswered: dict[str, Fault] = {}
    faults: list[Fault] = []
    count = len(metadata.topics.get(CONSUMER_OFFSETS, ()))
    for kind in _REQUESTS:
        wanted = [group for group, its in groups.items() if its is kind]
        if not wanted:
            continue
        answers = (ask_leaders if count else ask_everyone)(client, metadata, _question(kind, count), wanted, deadline)
        values |= answers.values
        unanswered |= answers.unanswered
        faults += answers.faults
    return Answers(values, unanswered, tuple(dict.fromkeys(faults)))


def _question(kind: GroupKind, count: int) -> Question[str, GroupMembers]:
    return Question(
        _REQUESTS[kind],
        "groups",
        lambda key: TopicPartition(CONSUMER_OFFSETS, coordinator_partition(key, count or 1)),
        lambda batch, _: _request(kind, batch),
        _read,
        GROUPS_PER_REQUEST,
        COORDINATOR_MOVED,
        frozenset({GROUP_ID_NOT_FOUND}),
    )


def _request(kind: GroupKind, batch: Sequence[str]) -> Any:  # noqa: ANN401 -- kafka-python ships no types
    if kind is GroupKind.CLASSIC:
        return DescribeGroupsRequest(groups=list(batch))
    # Half a megabyte of classes, which a cluster without such groups does not need.
    from exporter.kafka.requests.newer_groups import DESCRIBE_REQUESTS  # noqa: PLC0415

    return DESCRIBE_REQUESTS[kind](group_ids=list(batch))


def _read(response: Any) -> Iterator[Item[str, GroupMembers]]:  # noqa: ANN401 -- as above
    for group in response.groups:
        key = group.group_id
        found = GroupMembers(
            frozenset(member.member_id for member in group.members),
            frozenset(topic for member in group.members for topic in getattr(member, "subscribed_topic_names", ())),
        )
        yield Item(key, group.error_code, found, f"DESCRIBE on Group:{key}" if group.error_code else "")
