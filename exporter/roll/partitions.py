"""Pure rules about what the partitions of a broker lose while it is stopped, and the answer of all rules: may it be
stopped now?

A stopped broker leaves the ISR. Markers, and the records of the transaction log, are appended with acks=-1, so that
fewer than min.insync.replicas hold them back (ReplicaManager.appendRecords). A partition that has no leader when its
coordinator sends the markers is passed over by Kafka 4 and later, and its marker is lost for good
(TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue): with two replicas, one restart after the other suffices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exporter.core.replication import effective_min_isr
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionMetadata
from exporter.roll.coordination import ORDER, coordination_rows, limited
from exporter.roll.facts import BrokerRoll, RollAnswer, RollEvidence, RollReason, RollRow


def roll_of(evidence: RollEvidence, broker: int, outage: float) -> BrokerRoll:
    """The answer for one broker that is away for ``outage`` seconds."""
    rows = tuple(sorted(_rows(evidence, broker, outage), key=lambda row: (ORDER[row.effect], -(row.seconds or 0.0))))
    answer = min((row.effect for row in rows), key=ORDER.__getitem__, default=RollAnswer.SAFE)
    waits = [row.seconds for row in rows if row.effect is RollAnswer.WAIT and row.seconds is not None]
    return BrokerRoll(broker, answer, max(waits) if answer is RollAnswer.WAIT and waits else None, rows)


def _rows(evidence: RollEvidence, broker: int, outage: float) -> Iterator[RollRow]:
    if broker not in evidence.brokers:
        text = (
            f"the cluster shows no running broker {broker}; there are {', '.join(map(str, sorted(evidence.brokers)))}"
        )
        yield RollRow(RollAnswer.UNKNOWN, RollReason.NOT_READ, f"broker {broker}", text)
        return
    by_reason: dict[RollReason, list[RollRow]] = {}
    for row in partition_rows(evidence, broker):
        by_reason.setdefault(row.reason, []).append(row)
    for rows in by_reason.values():
        yield from limited(rows, "topics")
    yield from unmade_rows(evidence)
    yield from coordination_rows(evidence, broker, outage)
    for text in evidence.not_read:
        yield RollRow(RollAnswer.UNKNOWN, RollReason.NOT_READ, "cluster", text)


_SHOWN = 5
_ROLES = {
    TRANSACTION_STATE: "transactions whose ids are in them cannot begin or end",
    CONSUMER_OFFSETS: "groups in them cannot commit offsets",
}
_DATA_ROLE = "transactions cannot write to them, nor end there: readers wait"
_LOST_MARKER = (
    "a transaction that is committed while they have no leader loses its marker there for good: its records stay hidden"
)


def partition_rows(evidence: RollEvidence, broker: int) -> Iterator[RollRow]:
    """The rows about partitions, by topic, the internal ones first."""
    for topic, partitions in sorted(evidence.topics.items(), key=lambda item: (item[0] not in _ROLES, item[0])):
        yield from _offline(topic, partitions)
        here = {number: partition for number, partition in partitions.items() if broker in partition.replicas}
        led = {number: partition for number, partition in here.items() if partition.leader is not None}
        yield from _last_in_sync(topic, led, broker)
        minimum = evidence.min_isr.get(topic, "it was not asked for")
        if isinstance(minimum, str):
            text = f"min.insync.replicas is not known: {minimum}"
            yield RollRow(RollAnswer.UNKNOWN, RollReason.NOT_READ, topic, text)
        else:
            yield from _below_minimum(topic, led, broker, minimum)
        yield from _under_replicated(topic, led, broker, 1 if isinstance(minimum, str) else minimum)
        yield from _two_replicas(topic, led, broker)


def unmade_rows(evidence: RollEvidence) -> Iterator[RollRow]:
    """The rows about internal topics that are not there yet: with fewer brokers they may not take a write once made."""
    for plan in evidence.unmade:
        if plan.obstacle:
            yield RollRow(RollAnswer.NO, RollReason.NOT_MADE, plan.topic, plan.obstacle)
        elif plan.alive - 1 < plan.needed:
            left = f"{plan.alive - 1} of {plan.alive} brokers serve without it"
            text = f"not made yet: {plan.needed} of its replicas have to be in sync, and {left}: {_ROLES[plan.topic]}"
            yield RollRow(RollAnswer.NO, RollReason.NOT_MADE, plan.topic, text)
        else:
            yield RollRow(RollAnswer.SAFE, RollReason.NOT_MADE, plan.topic, plan.text)


def _offline(topic: str, partitions: Mapping[int, PartitionMetadata]) -> Iterator[RollRow]:
    lost = [number for number, partition in partitions.items() if partition.leader is None]
    if lost:
        text = f"{_numbers(lost)} no leader already: {_role(topic)}"
        yield RollRow(RollAnswer.NO, RollReason.OFFLINE, topic, text)


def _last_in_sync(topic: str, led: Mapping[int, PartitionMetadata], broker: int) -> Iterator[RollRow]:
    alone = {number: partition for number, partition in led.items() if set(partition.isr) == {broker}}
    single = [number for number, partition in alone.items() if len(partition.replicas) == 1]
    if single:
        text = f"{_numbers(single)} no other replica: {_role(topic)} until it is back{_and_lost(topic)}"
        yield RollRow(RollAnswer.NO, RollReason.LAST_IN_SYNC, topic, text)
    behind = {number: partition for number, partition in alone.items() if len(partition.replicas) > 1}
    if behind:
        missing = sorted({node for partition in behind.values() for node in partition.replicas} - {broker})
        text = (
            f"{_numbers(sorted(behind))} no other replica in sync: wait until {_brokers(missing)} caught up."
            f" Otherwise {_role(topic)} until it is back{_and_lost(topic)}"
        )
        yield RollRow(RollAnswer.NO, RollReason.LAST_IN_SYNC, topic, text)


def _below_minimum(topic: str, led: Mapping[int, PartitionMetadata], broker: int, minimum: int) -> Iterator[RollRow]:
    short = [
        number
        for number, partition in led.items()
        if set(partition.isr) != {broker}
        and len(set(partition.isr) - {broker}) < effective_min_isr(minimum, partition.replicas)
    ]
    if short:
        left = min(len(set(led[number].isr) - {broker}) for number in short)
        fewest = min(effective_min_isr(minimum, led[number].replicas) for number in short)
        of = f", of {fewest} replicas" if fewest < minimum else ""
        text = f"{_numbers(short)} {left} in sync without it, and min.insync.replicas={minimum}{of}: {_role(topic)}"
        yield RollRow(RollAnswer.NO, RollReason.BELOW_MIN_ISR, topic, text)


def _under_replicated(topic: str, led: Mapping[int, PartitionMetadata], broker: int, minimum: int) -> Iterator[RollRow]:
    """Replicas of others that are not in sync, where enough are left: they may be restarting still."""
    behind = {
        number: set(partition.replicas) - set(partition.isr) - {broker}
        for number, partition in led.items()
        if broker in partition.isr
        and len(set(partition.isr) - {broker}) >= max(1, effective_min_isr(minimum, partition.replicas))
    }
    behind = {number: nodes for number, nodes in behind.items() if nodes}
    if behind:
        nodes = sorted({node for missing in behind.values() for node in missing})
        text = f"{_numbers(sorted(behind))} a replica that is not in sync: wait until {_brokers(nodes)} caught up"
        yield RollRow(RollAnswer.NO, RollReason.UNDER_REPLICATED, topic, text)


def _two_replicas(topic: str, led: Mapping[int, PartitionMetadata], broker: int) -> Iterator[RollRow]:
    pairs = {
        number: partition for number, partition in led.items() if len(partition.replicas) == len(partition.isr) == 2
    }
    if pairs and topic != CONSUMER_OFFSETS:
        others = sorted({node for partition in pairs.values() for node in partition.replicas} - {broker})
        text = (
            f"{_numbers(sorted(pairs))} two replicas: do not stop {_brokers(others)} before this one is in sync again,"
            f" which the next `check roll` shows. Otherwise {_LOST_MARKER}"
        )
        yield RollRow(RollAnswer.SAFE, RollReason.TWO_REPLICAS, topic, text)


def _role(topic: str) -> str:
    return _ROLES.get(topic, _DATA_ROLE)


def _and_lost(topic: str) -> str:
    return f", and {_LOST_MARKER}" if topic != TRANSACTION_STATE else ""


def _numbers(numbers: Sequence[int]) -> str:
    """The subject and verb of a sentence: "partition 3 has", "4 partitions (0, 1, ...) have"."""
    if len(numbers) == 1:
        return f"partition {numbers[0]} has"
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
    return f"{len(numbers)} partitions ({shown}) have"


def _brokers(nodes: Sequence[int]) -> str:
    shown = ", ".join(map(str, nodes[:_SHOWN])) + (", ..." if len(nodes) > _SHOWN else "")
    return f"broker {shown}" if len(nodes) == 1 else f"brokers {shown}"
