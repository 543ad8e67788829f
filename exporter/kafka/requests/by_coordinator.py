"""Requests about keys (transactional ids, groups) to the coordinator of each, which leads its partition of a topic."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from exporter.kafka.answers import Answers
from exporter.kafka.client import AskError
from exporter.kafka.connection import Request, Response
from exporter.kafka.faults import COORDINATOR_MOVED, refusal
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.routing import (
    BrokerAccess,
    Item,
    Question,
    ask_everyone,
    ask_leaders,
    nobody_answered,
    where,
)
from exporter.model import Deadline, Fault, TopicPartition

V = TypeVar("V")

PROBES = ("__probe__", "~probe~")
"""Keys that are not in use. Two without a common prefix: a grant for a prefix of one does not cover the other."""


def coordinator_partition(key: str, partitions: int = 50) -> int:
    """The partition of the internal topic that coordinates a transactional id or a group.

    ``Utils.abs(key.hashCode()) % partitions`` (partitionFor of TransactionStateManager and GroupCoordinatorService):
    Java's String.hashCode over UTF-16 code units, and of it Math.abs, but 0 for the one number that has none. Kafka's
    other way to make a hash positive, Utils.toPositive, which drops the sign bit, is not meant.
    """
    units = array("H", key.encode("utf-16-le", "surrogatepass"))
    if sys.byteorder == "big":
        units.byteswap()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    if value >= 1 << 31:
        value = ((1 << 32) - value) & 0x7FFFFFFF
    return value % partitions


class CoordinatorRequest(NamedTuple, Generic[V]):
    """One kind of request about keys: see ``Question``. ``topic`` is the one that coordinates them."""

    topic: str
    name: str
    noun: str
    request: Callable[[Sequence[str]], Request]
    read: Callable[[Response], Iterator[Item[str, V]]]
    batch: int
    gone: frozenset[int] = frozenset()

    def question(self, partitions: int) -> Question[str, V]:
        """The same for a topic with that many partitions."""
        return Question(
            self.name,
            self.noun,
            lambda key: TopicPartition(self.topic, coordinator_partition(key, partitions)),
            lambda batch, _: self.request(batch),
            self.read,
            self.batch,
            COORDINATOR_MOVED,
            self.gone,
        )


def ask_coordinators_of(
    client: BrokerAccess,
    metadata: Metadata,
    keys: Iterable[str],
    asked: CoordinatorRequest[V],
    deadline: Deadline,
    *,
    anywhere: bool = False,
) -> Answers[str, V]:
    """Ask the leader of each key's partition.

    Without the topic there is no coordinator, and the answers are empty. Where it cannot be described (DESCRIBE on the
    topic is missing), or with ``anywhere``, every broker is asked, and the one that does not answer NOT_COORDINATOR is
    the coordinator. FindCoordinator is not used: it creates the topic on a cluster that has none.
    """
    topic, wanted = asked.topic, list(dict.fromkeys(keys))
    if not wanted:
        return Answers({}, {}, ())
    if topic not in metadata.topics:
        try:
            metadata = client.metadata(deadline, [topic])
        except AskError as error:
            return Answers({}, dict.fromkeys(wanted, error.fault), (error.fault,))
    count = len(metadata.topics.get(topic, ()))
    if not count and not metadata.denies(topic) and not anywhere:
        return Answers({}, {}, ())
    ask = ask_leaders if count else ask_everyone
    return ask(client, metadata, asked.question(count or 1), wanted, deadline)


def missing_grant(
    client: BrokerAccess,
    metadata: Metadata,
    asked: CoordinatorRequest[V],
    denied: int,
    grant: str,
    deadline: Deadline,
) -> Fault | None:
    """The fault for a missing grant on all keys; None when the grant is proven.

    A broker authorizes before it looks: for keys that are not in use, any answer but the code ``denied`` proves the
    grant at that broker. A probe cannot detect a DENY for single keys beside an ALLOW for all. It is sent only when the
    topic may exist, since before that there is nothing to hide.
    """
    topic = asked.topic
    if topic not in metadata.topics:
        try:
            metadata = client.metadata(deadline, [topic])
        except AskError as error:
            return error.fault
        if topic not in metadata.topics and not metadata.denies(topic):
            return None
    answers = client.ask({node: asked.request(PROBES) for node in metadata.brokers}, deadline)
    for node, answer in answers.items():
        if not isinstance(answer, Fault) and denied in {item.code for item in asked.read(answer)}:
            return refusal(f"{asked.name} at {where(metadata, node)}", denied, grant)
    return nobody_answered(answers)
