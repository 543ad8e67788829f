"""How many replicas a write needs, whether there are as many, and whether brokers can make a topic that is not there.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import NamedTuple

from exporter.bounds.text import count_of
from exporter.catalogue import INTERNAL_TOPICS

TRANSACTION_STATE, CONSUMER_OFFSETS = INTERNAL_TOPICS


def effective_min_isr(min_isr: int, replicas: Sized) -> int:
    """How many replicas have to be in sync for a write with acks=all, where min.insync.replicas is ``min_isr``.

    A partition of fewer replicas needs all of them, and no more (Partition.effectiveMinIsr).
    """
    return min(min_isr, len(replicas))


def is_under_min_isr(isr: Sized, replicas: Sized, min_isr: int) -> bool:
    """Return whether too few replicas of a partition are in sync for a write with acks=all."""
    return len(isr) < effective_min_isr(min_isr, replicas)


class CreationSettings(NamedTuple):
    """The settings of brokers with which they make an internal topic (AutoTopicCreationManager.creatableTopic)."""

    replication_factor: str
    min_isr: str
    partitions: str
    without: str
    """What does not work while the topic cannot be made."""


CREATION = {
    TRANSACTION_STATE: CreationSettings(
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "no transactional producer can start",
    ),
    CONSUMER_OFFSETS: CreationSettings(
        "offsets.topic.replication.factor",
        "min.insync.replicas",
        "offsets.topic.num.partitions",
        "no consumer group can form, or commit an offset",
    ),
}


class UnmadeTopic(NamedTuple):
    """An internal topic that is not there yet, with the settings with which brokers make it at its first use.

    ``replication_factor`` and ``partitions`` are the lowest of all brokers, since each makes it by its own settings;
    ``min_isr`` and ``partitions`` are None where no broker has them. ``alive`` are the brokers that serve, ``brokers``
    all that are registered: a replica may be placed on one that is down (StripedReplicaPlacer).
    """

    topic: str
    replication_factor: int
    min_isr: int | None
    partitions: int | None
    brokers: int
    alive: int

    @property
    def obstacle(self) -> str:
        """Why it cannot be made, "" where it can."""
        if self.replication_factor <= self.brokers:
            return ""
        factor = f"{CREATION[self.topic].replication_factor}={self.replication_factor}"
        there = f"{'is' if self.brokers == 1 else 'are'} {count_of(self.brokers, 'broker')}"
        return f"{self.topic} cannot be made, {CREATION[self.topic].without}: {factor}, and there {there}"

    @property
    def needed(self) -> int:
        """How many of its replicas would have to be in sync for a write."""
        return effective_min_isr(self.min_isr or 1, range(self.replication_factor))

    @property
    def text(self) -> str:
        """How it will be made."""
        factor = f"{CREATION[self.topic].replication_factor}={self.replication_factor}"
        return f"not made yet: {factor}, {count_of(self.brokers, 'broker')}"


def unmade_topic(
    topic: str, settings: Sequence[Mapping[str, str] | str], brokers: int, alive: int
) -> UnmadeTopic | str:
    """A topic that is not there, by the ``settings`` of all brokers, or why those of one are not known.

    Returns the reason where it is not known whether the topic can be made: what one broker cannot do, another one may.
    """
    names = CREATION[topic]

    def lowest(setting: str) -> int | None:
        texts = [known.get(setting, "") for known in settings if not isinstance(known, str)]
        return min((int(text) for text in texts if text.isdigit()), default=None)

    refused = next((known for known in settings if isinstance(known, str)), "")
    factor = lowest(names.replication_factor)
    if factor is None:
        return refused or f"no broker returned its {names.replication_factor}"
    if refused and factor > brokers:
        return refused
    return UnmadeTopic(topic, factor, lowest(names.min_isr), lowest(names.partitions), brokers, alive)
