"""The operations that the principal of this connection may do, by the cluster's own answers. Nothing is written,
created or fenced.

Brokers report the operations that the one who asks may do on a topic, a group and the cluster (KIP-430). They report
none for transactional ids: those are tried with requests that a broker authorizes before it looks at anything else, and
that no coordinator can carry out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest, DescribeTransactionsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest

from exporter.kafka.faults import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_PRODUCER_ID_MAPPING,
    NOT_COORDINATOR,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    refusal,
)
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.routing import BrokerAccess
from exporter.kafka.transport.connection import Request, Response
from exporter.model import Deadline, Fault, Reason

_NO_PRODUCER = -1
_NO_COORDINATOR = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
_PAST_THE_ID = frozenset({*_NO_COORDINATOR, GROUP_AUTHORIZATION_FAILED, INVALID_PRODUCER_ID_MAPPING})
"""The answers of a broker to AddOffsetsToTxn once WRITE on the id was authorized
(KafkaApis.handleAddOffsetsToTxnRequest: the id first, then the group, then the coordinator).
"""


class Operation(IntEnum):
    """AclOperation.java; what is not used here is left out."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    IDEMPOTENT_WRITE = 12


Allowed = frozenset[int] | Fault
"""The operations that are allowed on a resource, by their numbers; or why that is not known."""


class TopicsAndCluster(NamedTuple):
    """The operations allowed on the cluster, and on each topic; ``missing`` are topics that do not exist."""

    cluster: Allowed
    topics: Mapping[str, Allowed]
    missing: frozenset[str] = frozenset()


def topics_and_cluster(
    client: BrokerAccess, metadata: Metadata, topics: Sequence[str], deadline: Deadline
) -> TopicsAndCluster:
    """Metadata v8 to v10 answers for the cluster and for topics (KIP-430). A topic is not created by it."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
        min_version=8,
        max_version=10,
    )
    answer = _any(client, metadata, request, deadline)
    if isinstance(answer, Fault):
        return TopicsAndCluster(answer, dict.fromkeys(topics, answer))
    silent = Fault(Reason.MALFORMED, "Metadata was answered without the operations that are allowed")
    found: dict[str, Allowed] = dict.fromkeys(topics, silent)
    missing = set()
    for topic in answer.topics:
        if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            missing.add(topic.name)
        elif topic.error_code:
            fault = refusal(f"Metadata of topic {topic.name}", topic.error_code, f"DESCRIBE on Topic:{topic.name}")
            # Whoever may read, write or create a topic may describe it (AclEntry): a refusal refuses all of them.
            found[topic.name] = frozenset() if fault.reason is Reason.AUTHORIZATION else fault
        else:
            found[topic.name] = _allowed(topic.authorized_operations, silent)
    return TopicsAndCluster(_allowed(answer.authorized_operations, silent), found, frozenset(missing))


def group_operations(client: BrokerAccess, metadata: Metadata, group: str, deadline: Deadline) -> Allowed:
    """DescribeGroups v3 to v5 of every broker: only the coordinator answers with operations, and who that is needs a
    grant that a worker does not need. v6 answers nothing about a group that is not there.
    """
    answers = client.ask({node: _groups_request(group) for node in metadata.brokers}, deadline)
    unknown: Fault = Fault(Reason.MALFORMED, f"DescribeGroups of {group} was answered without what is allowed")
    silent = next((answer for answer in answers.values() if isinstance(answer, Fault)), None)
    for answer in answers.values():
        for described in () if isinstance(answer, Fault) else answer.groups:
            if described.error_code == GROUP_AUTHORIZATION_FAILED:
                return frozenset()  # READ on a group implies DESCRIBE
            if described.error_code in _NO_COORDINATOR:
                unknown = Fault(
                    Reason.COORDINATOR,
                    f"no broker coordinates group {group} now, or no group was ever used: only its coordinator says",
                )
            elif described.error_code:
                unknown = refusal(f"DescribeGroups of {group}", described.error_code)
            elif described.authorized_operations is not None:
                return frozenset(described.authorized_operations)
    return silent or unknown  # the broker that gave no answer may be the coordinator


def _groups_request(group: str) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[group], include_authorized_operations=True, min_version=3, max_version=5)


def transactional_id_operations(
    client: BrokerAccess, metadata: Metadata, transactional_id: str, deadline: Deadline
) -> Mapping[Operation, bool | Fault]:
    """Return whether DESCRIBE and WRITE on an id are granted.

    DESCRIBE by DescribeTransactions. WRITE by AddOffsetsToTxn of producer id -1, which no transactional id has: after
    the authorization a coordinator refuses it with INVALID_PRODUCER_ID_MAPPING, whatever the state of the id.
    """
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=_NO_PRODUCER,
        producer_epoch=_NO_PRODUCER,
        group_id=f"kafka-eos-exporter-{secrets.token_hex(8)}",
        max_version=3,
    )
    answer = _any(client, metadata, request, deadline)
    what = f"AddOffsetsToTxn of {transactional_id}"
    write: bool | Fault
    if isinstance(answer, Fault):
        write = answer
    elif answer.error_code in _PAST_THE_ID:
        write = True
    elif answer.error_code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        write = False
    else:
        write = refusal(what, answer.error_code)
    described = True if write is True else _describes(client, metadata, transactional_id, deadline)
    return {Operation.WRITE: write, Operation.DESCRIBE: described}


def _describes(client: BrokerAccess, metadata: Metadata, transactional_id: str, deadline: Deadline) -> bool | Fault:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    answer = _any(client, metadata, request, deadline)
    if isinstance(answer, Fault):
        return answer
    codes = {state.error_code for state in answer.transaction_states}
    if not codes:
        return Fault(Reason.MALFORMED, f"DescribeTransactions of {transactional_id} was answered without it")
    # Authorized first: any other code is about the state of the id.
    return TRANSACTIONAL_ID_AUTHORIZATION_FAILED not in codes


def _any(client: BrokerAccess, metadata: Metadata, request: Request, deadline: Deadline) -> Response | Fault:
    """The answer of one broker: each has the same ACLs, some moments apart."""
    node = min(metadata.brokers)
    return client.ask({node: request}, deadline)[node]


def _allowed(operations: set[int] | None, silent: Fault) -> Allowed:
    return silent if operations is None else frozenset(operations)
