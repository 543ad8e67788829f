"""Reads what the rules need beside the transaction log: replicas, min.insync.replicas, groups, and open producers."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.cluster import Cluster
from exporter.kafka.client import AskError
from exporter.kafka.requests.configs import MIN_ISR, unmade_topics
from exporter.kafka.requests.groups import describe_group_grant, list_group_protocols
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import both_ends
from exporter.kafka.requests.transactions import ask_coordinators
from exporter.lso.proof.rounds import held_in
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.roll.coordination import LoggedEvidence
from exporter.roll.facts import CoordinatedGroup, RollEvidence, UnaccountedTransaction
from exporter.transactions.facts import OpenTransaction

MOST_TOPICS = 2_000
MOST_PARTITIONS = 1_000
"""Partitions with an open transaction whose producers are looked at."""


def read_evidence(cluster: Cluster, logged: LoggedEvidence, deadline: Deadline) -> RollEvidence:
    """The evidence of one moment. Raises AskError when no broker answers."""
    opened = {place.topic for transaction in logged.opened for place in transaction.partitions}
    written = sorted((logged.topics | opened) - {TRANSACTION_STATE, CONSUMER_OFFSETS})
    missing = list(logged.missing)
    if len(written) > MOST_TOPICS:
        missing.append(f"{len(written) - MOST_TOPICS} of {len(written)} topics that transactions write to")
    names = [TRANSACTION_STATE, CONSUMER_OFFSETS, *written[:MOST_TOPICS]]
    cluster.metadata(deadline, [TRANSACTION_STATE])
    # From all brokers: one that is cut off from the controller has an old ISR.
    metadata = cluster.client.confirmed(deadline, names)
    unmade = unmade_topics(cluster.client, metadata, deadline)
    # A topic that was deleted since transactions wrote to it is nothing to lose.
    refused = {topic: error for topic, error in metadata.errors.items() if error.reason is not Reason.UNKNOWN_TOPIC}
    missing += [fault.detail for topic, fault in refused.items() if topic in names and topic not in unmade]
    missing += [f"{topic}: {plan}" for topic, plan in unmade.items() if isinstance(plan, str)]
    groups, lost = _groups(cluster, metadata, deadline)
    unaccounted, more = _unaccounted(cluster, metadata, logged.opened, deadline)
    return RollEvidence(
        logged.now,
        metadata.brokers,
        {topic: metadata.topics[topic] for topic in names if topic in metadata.topics},
        _min_isr(cluster, [topic for topic in names if topic in metadata.topics], deadline),
        logged.opened,
        logged.flink,
        groups,
        unaccounted,
        tuple(dict.fromkeys((*missing, *lost, *more))),
        tuple(plan for plan in unmade.values() if not isinstance(plan, str)),
    )


def _min_isr(cluster: Cluster, topics: Sequence[str], deadline: Deadline) -> dict[str, int | str]:
    answers = cluster.client.configs("topic", topics, (MIN_ISR,), deadline)
    found: dict[str, int | str] = {}
    for topic, answer in answers.items():
        if isinstance(answer, Fault):
            found[topic] = answer.detail
        else:
            value = answer.get(MIN_ISR, "")
            found[topic] = int(value) if value.isdigit() else f"the broker gave {value!r}"
    return found


def _groups(
    cluster: Cluster, metadata: Metadata, deadline: Deadline
) -> tuple[dict[int, tuple[CoordinatedGroup, ...]], tuple[str, ...]]:
    if CONSUMER_OFFSETS not in metadata.topics:
        return {}, ()
    listed = list_group_protocols(cluster.client, metadata, deadline)
    refused = describe_group_grant(cluster.client, metadata, deadline)
    faults = [f"groups: {fault.detail}" for fault in (*listed.faults, *([refused] if refused else ()))]
    groups = {node: tuple(CoordinatedGroup(*row) for row in rows) for node, rows in listed.values.items()}
    return groups, tuple(faults)


def _unaccounted(
    cluster: Cluster, metadata: Metadata, opened: Sequence[OpenTransaction], deadline: Deadline
) -> tuple[tuple[UnaccountedTransaction, ...], tuple[str, ...]]:
    """Transactions that partitions show open, before and after no coordinator has them."""
    places = [
        TopicPartition(topic, number)
        for topic, partitions in metadata.topics.items()
        if topic not in {TRANSACTION_STATE, CONSUMER_OFFSETS}
        for number, partition in partitions.items()
        if partition.leader is not None
    ]
    ends = both_ends(cluster.client, metadata, places, deadline)
    missing = [f"ends of partitions: {fault.detail}" for fault in ends.faults]
    behind = sorted(place for place, stable in ends.stable.items() if stable < ends.high.get(place, stable))
    if len(behind) > MOST_PARTITIONS:
        missing.append(f"the open producers of {len(behind) - MOST_PARTITIONS} partitions")
    asked = held_in(cluster, metadata, behind[:MOST_PARTITIONS], deadline)
    missing += [f"open producers: {fault.detail}" for fault in asked.faults]
    known = {transaction.producer_id for transaction in opened}
    suspects = {start for start in asked.held if start.producer_id not in known}
    if not suspects:
        return (), tuple(missing)
    ids = sorted({start.producer_id for start in suspects})
    try:
        coordinators = ask_coordinators(cluster.client, deadline, lambda _: "", producer_ids=ids)
    except AskError as error:
        return (), (*missing, error.fault.detail)
    if coordinators.faults:
        return (), (*missing, *(fault.detail for fault in coordinators.faults))
    owned = {transaction.producer_id for transaction in coordinators.transactions}
    again = held_in(cluster, metadata, {start.partition for start in suspects}, deadline)
    left = sorted(start for start in suspects if start in again.held and start.producer_id not in owned)
    return tuple(UnaccountedTransaction(*row) for row in left), tuple(missing)
