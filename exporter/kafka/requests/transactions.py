"""ListTransactions, DescribeTransactions and DescribeProducers (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from exporter.kafka.answers import Answers
from exporter.kafka.faults import (
    LEADER_MOVED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_NOT_FOUND,
)
from exporter.kafka.requests.by_coordinator import CoordinatorRequest, ask_coordinators_of, missing_grant
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.kafka.requests.routing import (
    BrokerAccess,
    Item,
    Question,
    ask_brokers,
    ask_leaders,
    where,
)
from exporter.model import Deadline, Fault, Reason, TopicPartition

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""TransactionState.java. Always filter: a broker's list has every idle transactional id of the last seven days too."""

NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a two-phase-commit transaction (KIP-939): it has none."""

IDS_PER_REQUEST = 1_000
PARTITIONS_PER_REQUEST = 500
"""As many as TransactionsCommand.java asks at once: DescribeProducers walks each partition's producer state."""

DESCRIBE_IDS = "DESCRIBE on TransactionalId:*"


class Listing(NamedTuple):
    """A transaction as its coordinator lists it; ``state`` in Kafka's spelling."""

    transactional_id: str
    producer_id: int
    state: str


class Description(NamedTuple):
    """A transaction as its coordinator describes it.

    ``timeout`` is seconds, None for two-phase commit; ``started`` Unix seconds by the coordinator's clock, None when no
    transaction was ever begun. ``partitions`` are, once prepared, only those still without a marker.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout: float | None
    started: float | None
    partitions: frozenset[TopicPartition]


class ProducerState(NamedTuple):
    """A producer in a partition leader's state.

    ``last_timestamp`` is Unix seconds by the producer's clock: its newest record, not when the transaction began.
    ``start_offset`` is where its open transaction begins in the partition, None when none is open. ``last_sequence`` is
    the sequence number of its newest record.
    """

    producer_id: int
    producer_epoch: int
    last_timestamp: float | None
    coordinator_epoch: int
    start_offset: int | None
    last_sequence: int = -1


def list_transactions(
    client: BrokerAccess,
    metadata: Metadata,
    deadline: Deadline,
    *,
    states: Sequence[str] = OPEN_STATES,
    producer_ids: Sequence[int] = (),
) -> Answers[int, tuple[Listing, ...]]:
    """Asks every broker, since each lists only what it coordinates. By node id.

    The broker leaves out ids without DESCRIBE and reports no error: a list is complete only where ``describe_grant``
    finds nothing missing.
    """

    def request() -> ListTransactionsRequest:
        return ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))

    def read(response: ListTransactionsResponse) -> tuple[int, tuple[Listing, ...]]:
        return response.error_code, tuple(
            Listing(item.transactional_id, item.producer_id, item.transaction_state)
            for item in response.transaction_states
        )

    return ask_brokers(client, metadata, "ListTransactions", request, read, deadline)


def describe_transactions(
    client: BrokerAccess, metadata: Metadata, ids: Iterable[str], deadline: Deadline, *, anywhere: bool = False
) -> Answers[str, Description]:
    """The transactions of these ids, from their coordinators. An id without one is neither in values nor in unanswered.

    ``anywhere``: the brokers have transactions without the topic ``__transaction_state``. See ``ask_coordinators_of``
    for clusters without it and without DESCRIBE on it.
    """
    return ask_coordinators_of(client, metadata, ids, DESCRIBE, deadline, anywhere=anywhere)


def describe_producers(
    client: BrokerAccess, metadata: Metadata, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Answers[TopicPartition, tuple[ProducerState, ...]]:
    """The producers in the state of each partition's leader, with and without an open transaction.

    Producers idle for ``producer.id.expiration.ms`` (a day) expire, unless their transaction is open.

    The request has no leader epoch: a deposed broker that does not know of the election answers from its old log. So an
    answer counts only when the same broker then answers ListOffsets in the partition's current epoch.
    """

    def request(batch: Sequence[TopicPartition], _: Metadata) -> DescribeProducersRequest:
        topics: dict[str, list[int]] = {}
        for topic, partition in batch:
            topics.setdefault(topic, []).append(partition)
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=indexes)
                for topic, indexes in topics.items()
            ]
        )

    question: Question[TopicPartition, tuple[ProducerState, ...]] = Question(
        "DescribeProducers",
        "partitions",
        lambda key: key,
        request,
        _read_producers,
        PARTITIONS_PER_REQUEST,
        LEADER_MOVED,
    )
    described = ask_leaders(client, metadata, question, partitions, deadline)
    # Route the next request by the newest leaders: a retry may have gone to another broker than ``metadata`` names.
    leaders = end_offsets(client, metadata, described.values, Isolation.READ_COMMITTED, deadline)
    return _believed(described, leaders, metadata)


def _believed(
    described: Answers[TopicPartition, tuple[ProducerState, ...]],
    leaders: Answers[TopicPartition, int],
    metadata: Metadata,
) -> Answers[TopicPartition, tuple[ProducerState, ...]]:
    """The answers of brokers that have proven to be the leaders."""
    values, unanswered = dict(described.values), dict(described.unanswered)
    faults = [*described.faults, *leaders.faults]
    for partition, node in described.brokers.items():
        if leaders.brokers.get(partition) == node:
            continue
        del values[partition]
        fault = leaders.unanswered.get(partition)
        if fault is None:
            text = f"DescribeProducers of {partition} at {where(metadata, node)} is not believed: it leads it no more"
            fault = Fault(Reason.NO_LEADER, text)
            faults.append(fault)
        unanswered[partition] = fault
    return Answers(values, unanswered, tuple(dict.fromkeys(faults)), described.brokers)


def describe_grant(client: BrokerAccess, metadata: Metadata, deadline: Deadline) -> Fault | None:
    """The fault for a missing DESCRIBE on all transactional ids; None when the grant is proven.

    Brokers leave ids without it out of ListTransactions and report no error, so every live transaction would look
    hanging. DescribeTransactions creates no topic (KafkaApis.handleDescribeTransactionsRequest authorizes first).
    """
    return missing_grant(client, metadata, DESCRIBE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, DESCRIBE_IDS, deadline)


def _read_descriptions(response: DescribeTransactionsResponse) -> Iterator[Item[str, Description]]:
    for state in response.transaction_states:
        key = state.transactional_id
        if state.error_code:
            yield Item(key, state.error_code, None, f"DESCRIBE on TransactionalId:{key}")
            continue
        timeout, started = state.transaction_timeout_ms, state.transaction_start_time_ms
        yield Item(
            key,
            0,
            Description(
                key,
                state.producer_id,
                state.producer_epoch,
                state.transaction_state,
                None if timeout == NO_TIMEOUT_MS else timeout / 1000,
                None if started < 0 else started / 1000,
                frozenset(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
            ),
        )


def _read_producers(response: DescribeProducersResponse) -> Iterator[Item[TopicPartition, tuple[ProducerState, ...]]]:
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                yield Item(key, partition.error_code, None, f"READ on Topic:{topic.name}")
                continue
            yield Item(
                key,
                0,
                tuple(
                    ProducerState(
                        producer.producer_id,
                        producer.producer_epoch,
                        None if producer.last_timestamp < 0 else producer.last_timestamp / 1000,
                        producer.coordinator_epoch,
                        None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
                        producer.last_sequence,
                    )
                    for producer in partition.active_producers
                ),
            )


DESCRIBE: CoordinatorRequest[Description] = CoordinatorRequest(
    TRANSACTION_STATE,
    "DescribeTransactions",
    "transactional ids",
    lambda batch: DescribeTransactionsRequest(transactional_ids=list(batch)),
    _read_descriptions,
    IDS_PER_REQUEST,
    frozenset({TRANSACTIONAL_ID_NOT_FOUND}),
)
