"""The open transactions by their coordinators, and whether the list is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from typing import NamedTuple
from uuid import uuid4

from kafka.protocol.admin import DescribeTransactionsResponse

from exporter.bounds.text import some
from exporter.kafka.faults import TRANSACTIONAL_ID_NOT_FOUND
from exporter.kafka.requests.by_coordinator import CoordinatorRequest, ask_coordinators_of, coordinator_partition
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.routing import BrokerAccess, Item
from exporter.kafka.requests.transactions import (
    DESCRIBE,
    DESCRIBE_IDS,
    IDS_PER_REQUEST,
    Description,
    describe_grant,
    describe_transactions,
    list_transactions,
)
from exporter.model import Deadline, Fault, Reason
from exporter.transactions.facts import OpenTransaction
from exporter.words import TransactionState

_TOKEN = uuid4().hex
"""Part of the ids that are asked for and that no client uses."""

STATES = {
    "Ongoing": TransactionState.ONGOING,
    "PrepareCommit": TransactionState.PREPARE_COMMIT,
    "PrepareAbort": TransactionState.PREPARE_ABORT,
}
"""Kafka's spelling of the open states (TransactionState.java)."""


class Asked(NamedTuple):
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
) -> Asked:
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
        return Asked((), (), frozenset(), listed.faults)
    wanted = [row.transactional_id for row in rows if row.state in STATES and row.transactional_id not in known]
    described = describe_transactions(client, metadata, wanted, deadline, anywhere=absent)
    refused = describe_grant(client, metadata, deadline)
    silent = _silent(metadata, set(listed.values), tuple(described.unanswered), refused)
    faults = [*listed.faults, *described.faults, *_leaderless(metadata)]
    faults += [fault for fault in (None if absent else hidden, refused) if fault is not None]
    return Asked(
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
    asked: CoordinatorRequest[bool] = CoordinatorRequest(
        TRANSACTION_STATE, "DescribeTransactions", "made-up ids", DESCRIBE.request, _read_probes, IDS_PER_REQUEST
    )
    answers = ask_coordinators_of(client, metadata, ids, asked, deadline)
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
