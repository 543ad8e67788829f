"""ListTransactions, DescribeTransactions and DescribeProducers (KIP-664); open transactions by their coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from typing import NamedTuple
from uuid import uuid4

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from exporter.bounds.text import some
from exporter.kafka.ask import (
    Answers,
    BrokerAccess,
    Item,
    Question,
    ask_brokers,
    ask_coordinators_of,
    ask_leaders,
    coordinator_partition,
    missing_grant,
    where,
)
from exporter.kafka.faults import TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_NOT_FOUND
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import TransactionState

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""TransactionState.java. Always filter: a broker's list has every idle transactional id of the last seven days too."""

NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a two-phase-commit transaction (KIP-939): it has none."""

_TOKEN = uuid4().hex
"""Part of the ids that are asked for and that no client uses."""

STATES = {
    "Ongoing": TransactionState.ONGOING,
    "PrepareCommit": TransactionState.PREPARE_COMMIT,
    "PrepareAbort": TransactionState.PREPARE_ABORT,
}
"""Kafka's spelling of the open states (TransactionState.java)."""
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
    return ask_coordinators_of(client, metadata, DESCRIBE, ids, deadline, anywhere=anywhere)


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
        "DescribeProducers", "partitions", request, _read_producers, PARTITIONS_PER_REQUEST
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


def _describe(batch: Sequence[str], _: Metadata) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=list(batch))


DESCRIBE: Question[str, Description] = Question(
    "DescribeTransactions",
    "transactional ids",
    _describe,
    _read_descriptions,
    IDS_PER_REQUEST,
    TRANSACTION_STATE,
    frozenset({TRANSACTIONAL_ID_NOT_FOUND}),
)


# --- All coordinators ---


class PollResult(NamedTuple):
    """Result of one poll of all coordinators. ``faults`` is empty only when the result is complete.

    ``silent`` are the partitions of ``__transaction_state`` whose coordinator gave no usable answer, ``ids`` all listed
    ids, in whatever state was asked for, with the log partition each belongs to.
    ``elsewhere``: the brokers list transactions and have no topic ``__transaction_state``, as those of Redpanda do.
    """

    transactions: tuple[OpenTransaction, ...]
    ids: tuple[tuple[str, int], ...]
    silent: frozenset[int]
    faults: tuple[Fault, ...]
    elsewhere: bool = False


def ask_coordinators(
    client: BrokerAccess,
    deadline: Deadline,
    application_of: Callable[[str], str],
    *,
    states: Sequence[str] = tuple(STATES),
    producer_ids: Sequence[int] = (),
    known: AbstractSet[str] = frozenset(),
) -> PollResult:
    """List the transactions in ``states`` (empty: all), of ``producer_ids`` when given, and describe the open ones.

    Those of the ``known`` ids are not described, and so not among the transactions that are given back.

    Complete only when every partition of ``__transaction_state`` has a leader and every leader answered, and DESCRIBE
    on all transactional ids is proven: without the ACL a broker returns an empty list and no error, and a stopped
    coordinator lists nothing. A cluster that has no such topic, and whose brokers list none in any state, has made no
    transaction. Raises AskError when no broker answers at all.
    """
    metadata = client.metadata(deadline, [TRANSACTION_STATE])
    hidden = metadata.errors.get(TRANSACTION_STATE)
    log = metadata.topics.get(TRANSACTION_STATE, {})
    absent = not log and (hidden is None or hidden.reason is Reason.UNKNOWN_TOPIC)
    asked_states = () if absent else states
    listed = list_transactions(client, metadata, deadline, states=asked_states, producer_ids=producer_ids)
    rows = [row for rows in listed.values.values() for row in rows]
    if absent and not rows:
        return PollResult((), (), frozenset(), listed.faults)
    wanted = [row.transactional_id for row in rows if row.state in STATES and row.transactional_id not in known]
    described = describe_transactions(client, metadata, wanted, deadline, anywhere=absent)
    refused = describe_grant(client, metadata, deadline)
    silent = _silent(metadata, set(listed.values), tuple(described.unanswered), refused)
    faults = [*listed.faults, *described.faults, *_leaderless(metadata)]
    faults += [fault for fault in (None if absent else hidden, refused) if fault is not None]
    return PollResult(
        tuple(_open(described.values.values(), application_of)),
        tuple((row.transactional_id, coordinator_partition(row.transactional_id, len(log) or 1)) for row in rows),
        silent,
        tuple(dict.fromkeys(faults)),
        elsewhere=absent,
    )


class Probes(NamedTuple):
    """Partitions of ``__transaction_state`` whose coordinator has proven that it loaded them, and the faults of the
    others.
    """

    proven: frozenset[int]
    unproven: dict[int, str]


def probe_coordinators(client: BrokerAccess, metadata: Metadata, deadline: Deadline) -> Probes:
    """Ask the coordinator of every partition of ``__transaction_state`` about an id that is not in use.

    TRANSACTIONAL_ID_NOT_FOUND proves that the partition is loaded: only then is the id looked for
    (TransactionStateManager.getAndMaybeAddTransactionState). A leader that has not applied its election yet, or that is
    loading, returns an error here, but an empty list without an error to ListTransactions. ``metadata`` has the topic.
    """
    partitions = metadata.topics.get(TRANSACTION_STATE, {})
    ids = dict(zip(made_up_ids(len(partitions)), range(len(partitions)), strict=True))
    probe: Question[str, bool] = Question(
        "DescribeTransactions", "made-up ids", _describe, _read_probes, IDS_PER_REQUEST, TRANSACTION_STATE
    )
    answers = ask_coordinators_of(client, metadata, probe, ids, deadline)
    proven = frozenset(number for key, number in ids.items() if answers.values.get(key))
    unproven = {}
    for key, number in ids.items():
        if number not in proven:
            fault = answers.unanswered.get(key)
            unproven[number] = fault.detail if fault is not None else f"somebody uses the made-up id {key}"
    return Probes(proven, unproven)


def made_up_ids(partitions: int) -> tuple[str, ...]:
    """A random id for each partition of a log with that many, which hashes to it and which no client uses."""
    found: dict[int, str] = {}
    for number in count():
        if len(found) == partitions:
            break
        key = f"kafka-eos-exporter-probe-{_TOKEN}-{number}"
        found.setdefault(coordinator_partition(key, partitions), key)
    return tuple(found[number] for number in range(partitions))


def _read_probes(response: DescribeTransactionsResponse) -> Iterator[Item[str, bool]]:
    for state in response.transaction_states:
        code = state.error_code
        if code == TRANSACTIONAL_ID_NOT_FOUND:
            yield Item(state.transactional_id, 0, value=True)
        elif code:
            yield Item(state.transactional_id, code, None, DESCRIBE_IDS)
        else:
            yield Item(state.transactional_id, 0, value=False)


def _open(descriptions: Iterable[Description], application_of: Callable[[str], str]) -> list[OpenTransaction]:
    found = []
    for description in descriptions:
        if (state := STATES.get(description.state)) is not None:
            application = application_of(description.transactional_id)
            who = (description.transactional_id, application, description.producer_id, description.producer_epoch)
            found.append(
                OpenTransaction(*who, state, description.started, description.timeout, None, description.partitions)
            )
    return found


def _silent(
    metadata: Metadata, answered: set[int], undescribed: Sequence[str], refused: Fault | None
) -> frozenset[int]:
    log = metadata.topics.get(TRANSACTION_STATE, {})
    if refused is not None:
        return frozenset(log)
    silent = {
        number for number, partition in log.items() if partition.leader is None or partition.leader not in answered
    }
    return frozenset(
        silent | {coordinator_partition(transactional_id, len(log) or 1) for transactional_id in undescribed}
    )


def _leaderless(metadata: Metadata) -> list[Fault]:
    log = metadata.topics.get(TRANSACTION_STATE, {})
    lost = sorted(number for number, partition in log.items() if partition.leader is None)
    if not lost:
        return []
    text = (
        f"{len(lost)} of {len(log)} partitions of {TRANSACTION_STATE} have no leader ({some(lost, 5)}): "
        "their coordinators cannot be asked; start the brokers that hold them"
    )
    return [Fault(Reason.NO_LEADER, text)]
