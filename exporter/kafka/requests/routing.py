"""Requests about many keys to the brokers that have them: by leader, in batches, with one retry after a move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from exporter.kafka.answers import Answers, Tally
from exporter.kafka.connection import Request, Response
from exporter.kafka.faults import (
    BROKEN,
    COORDINATOR_NOT_AVAILABLE,
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    AskError,
    refusal,
)
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason, TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

NAMED_TOPICS = 200
"""A refresh names the topics that moved; beyond this many it asks for all."""


class BrokerAccess(Protocol):
    """The part of a client that the requests of this package use. ``ClusterClient`` implements it."""

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata: ...

    def ask(self, requests: Mapping[int, Request], deadline: Deadline) -> dict[int, Response | Fault]: ...


class Item(NamedTuple, Generic[K, V]):
    """One key's part of a response: its value, or an error code."""

    key: K
    code: int
    value: V | None
    grant: str = ""


@dataclass(frozen=True, slots=True)
class Question(Generic[K, V]):
    """One kind of request about many keys, each of which belongs to the leader of one partition.

    ``home`` is that partition. ``request`` makes the request about a batch of keys from the metadata that routes them.
    ``moved`` are the codes for a key that another broker has, ``gone`` those for a key that does not exist.
    ``bulk`` gives the values of a response that has one for every key, where that is known without a look at each.
    """

    name: str
    noun: str
    home: Callable[[K], TopicPartition]
    request: Callable[[Sequence[K], Metadata], Request]
    read: Callable[[Response], Iterator[Item[K, V]]]
    batch: int
    moved: frozenset[int]
    gone: frozenset[int] = frozenset()
    bulk: Callable[[Response], dict[K, V] | None] = lambda _: None


def ask_leaders(
    cluster: BrokerAccess, metadata: Metadata, question: Question[K, V], keys: Iterable[K], deadline: Deadline
) -> Answers[K, V]:
    """Send the request to the leaders, and once more to new leaders. Brokers that do not answer are faults; nothing is
    raised.
    """
    tally: Tally[K, V] = Tally(question.name, question.noun)
    elsewhere = _ask_once(cluster, metadata, question, list(dict.fromkeys(keys)), deadline, tally)
    if elsewhere and not deadline.over:
        topics = sorted({question.home(key).topic for key in elsewhere})
        try:
            fresh = cluster.metadata(deadline, topics if len(topics) <= NAMED_TOPICS else None)
        except AskError:
            return tally.result()
        moved = [key for key, asked in elsewhere.items() if _has_moved(metadata, fresh, question.home(key), asked)]
        _ask_once(cluster, fresh, question, moved, deadline, tally)
        return tally.result(moved)
    return tally.result()


def _has_moved(before: Metadata, after: Metadata, home: TopicPartition, asked: int | None) -> bool:
    """Return whether another broker leads now, or the same one in another epoch."""
    leader = after.leader(*home)
    return leader is not None and (leader != asked or before.leader_epoch(home) != after.leader_epoch(home))


def ask_everyone(
    cluster: BrokerAccess, metadata: Metadata, question: Question[K, V], keys: Sequence[K], deadline: Deadline
) -> Answers[K, V]:
    """Ask every broker about all keys, and use the answer of the one that has the key.

    For keys whose partition cannot be described. A key that no broker has may be at a broker that did not answer.
    """
    tally: Tally[K, V] = Tally(question.name, question.noun)
    for start in range(0, len(keys), question.batch):
        batch = keys[start : start + question.batch]
        answers = cluster.ask({node: question.request(batch, metadata) for node in metadata.brokers}, deadline)
        silent = [answer for answer in answers.values() if isinstance(answer, Fault)]
        for key in batch:
            if silent:
                tally.lose(key, silent[0])
            else:
                tally.refuse(key, "", COORDINATOR_NOT_AVAILABLE)
        for node, answer in answers.items():
            if isinstance(answer, Fault):
                continue
            for key, code, value, grant in question.read(answer):
                if code in question.moved:
                    continue
                if not code and value is not None:
                    tally.answer(key, value, node)
                elif code in question.gone:
                    tally.forget(key)
                else:
                    tally.refuse(key, where(metadata, node), code, grant)
    return tally.result()


def ask_brokers(
    cluster: BrokerAccess,
    metadata: Metadata,
    name: str,
    request: Callable[[], Request],
    read: Callable[[Response], tuple[int, V]],
    deadline: Deadline,
) -> Answers[int, V]:
    """Send every broker the same request; ``read`` returns the error code and the value of a response. By node id."""
    tally: Tally[int, V] = Tally(name, "brokers")
    for node, answer in cluster.ask({node: request() for node in metadata.brokers}, deadline).items():
        if isinstance(answer, Fault):
            tally.lose(node, answer)
            continue
        code, value = read(answer)
        if code:
            tally.lose(node, refusal(f"{name} at {where(metadata, node)}", code))
        else:
            tally.answer(node, value, node)
    return tally.result()


def nobody_answered(answers: Mapping[int, Response | Fault]) -> Fault | None:
    """A fault when no broker answered, for requests that need one answer."""
    faults = [answer for answer in answers.values() if isinstance(answer, Fault)]
    if len(faults) < len(answers):
        return None
    return faults[0] if faults else Fault(Reason.UNREACHABLE, "the cluster names no broker that could be asked")


def where(metadata: Metadata, node: int) -> str:
    """A broker in messages: ``broker 2 at k2:9092``."""
    address = metadata.brokers.get(node)
    return f"broker {node}" if address is None else f"broker {node} at {address}"


def _ask_once(
    cluster: BrokerAccess,
    metadata: Metadata,
    question: Question[K, V],
    keys: Sequence[K],
    deadline: Deadline,
    tally: Tally[K, V],
) -> dict[K, int | None]:
    """Ask each key's leader. Returns the keys that another broker may have, with the broker that was asked."""
    elsewhere: dict[K, int | None] = {}
    by_leader: dict[int, list[K]] = {}
    topics = metadata.topics
    for key in keys:
        home = question.home(key)
        # As ``Metadata.leader``, for thousands of partitions.
        known = topics.get(home.topic)
        partition = None if known is None else known.get(home.partition)
        if partition is not None and partition.leader is not None:
            if (mine := by_leader.get(partition.leader)) is None:
                mine = by_leader[partition.leader] = []
            mine.append(key)
            continue
        elsewhere[key] = None
        _without_leader(metadata, home, key, tally)
    rounds = -(-max(map(len, by_leader.values()), default=0) // question.batch)
    for turn in range(rounds):
        start = turn * question.batch
        batches = {node: some for node, mine in by_leader.items() if (some := mine[start : start + question.batch])}
        # A broker that does not answer must not use up the time for the other brokers' remaining batches.
        patience = deadline if turn == rounds - 1 else deadline.within(deadline.remaining() / 2)
        answers = cluster.ask({node: question.request(batch, metadata) for node, batch in batches.items()}, patience)
        for node, batch in batches.items():
            answer = answers[node]
            if isinstance(answer, Fault):
                lost = by_leader.pop(node)[start:] if answer.reason in BROKEN else batch
                for key in lost:
                    tally.lose(key, answer)
                    elsewhere[key] = node
            else:
                elsewhere.update(_settle(question, where(metadata, node), answer, batch, tally, node))
    return elsewhere


def _settle(
    question: Question[K, V], where: str, answer: Response, batch: Collection[K], tally: Tally[K, V], node: int
) -> dict[K, int | None]:
    """Record one response. Returns the keys that another broker has."""
    values = question.bulk(answer)
    if values is not None and values.keys() == set(batch):
        tally.answer_all(values, node)
        return {}
    elsewhere: dict[K, int | None] = {}
    missing = dict.fromkeys(batch)
    for key, code, value, grant in question.read(answer):
        missing.pop(key, None)
        if not code and value is not None:
            tally.answer(key, value, node)
        elif code in question.gone:
            tally.forget(key)
        else:
            tally.refuse(key, where, code, grant)
            if code in question.moved:
                elsewhere[key] = node
    if missing:
        fault = Fault(
            Reason.MALFORMED, f"{question.name} at {where}: the answer leaves out {len(missing)} {question.noun}"
        )
        for key in missing:
            tally.lose(key, fault)
    return elsewhere


def _without_leader(metadata: Metadata, home: TopicPartition, key: K, tally: Tally[K, V]) -> None:
    if home.topic in metadata.errors:
        tally.lose(key, metadata.errors[home.topic])
        return
    known = metadata.topics.get(home.topic, {}).get(home.partition)
    if known is None:
        tally.refuse(key, "", UNKNOWN_TOPIC_OR_PARTITION)
        return
    down = [f"broker {node}" for node in known.replicas if node not in metadata.brokers]
    remedy = f"no replica leads; start {' or '.join(down)}" if down else ""
    tally.refuse(key, "", LEADER_NOT_AVAILABLE if home == key else COORDINATOR_NOT_AVAILABLE, remedy=remedy)
