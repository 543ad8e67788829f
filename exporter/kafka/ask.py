"""Requests about many keys to the brokers that have them: by leader or coordinator, in batches, with one retry after a
move. Answers are values, keys without an answer, and one fault for each cause.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from exporter.bounds.text import some
from exporter.kafka.connection import Request, Response
from exporter.kafka.faults import (
    BROKEN,
    COORDINATOR_MOVED,
    COORDINATOR_NOT_AVAILABLE,
    LEADER_MOVED,
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
PROBES = ("__probe__", "~probe~")
"""Keys that are not in use. Two without a common prefix: a grant for a prefix of one does not cover the other."""


class BrokerAccess(Protocol):
    """The part of a client that requests use. ``ClusterClient`` implements it."""

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata: ...

    def ask(self, requests: Mapping[int, Request], deadline: Deadline) -> dict[int, Response | Fault]: ...


# --- Answers ---


@dataclass(frozen=True, slots=True)
class Answers(Generic[K, V]):
    """Result of a request about many keys.

    A key is in ``values``, or in ``unanswered`` with its own fault, or in neither when the cluster answered that it
    does not know it. ``faults`` has one fault for each broker and cause, with the count and a few examples. ``brokers``
    has the node id of the broker that gave each value, for requests to the leaders of the keys; ``asked_again`` has the
    keys whose leader was another one, or newly elected.
    """

    values: dict[K, V]
    unanswered: dict[K, Fault]
    faults: tuple[Fault, ...]
    brokers: dict[K, int] = field(default_factory=dict)
    asked_again: frozenset[K] = frozenset()


class Item(NamedTuple, Generic[K, V]):
    """One key's part of a response: its value, or an error code and the grant that it may miss."""

    key: K
    code: int
    value: V | None
    grant: str = ""


class _Refused(NamedTuple):
    where: str
    code: int
    grant: str
    remedy: str


class _Tally(Generic[K, V]):
    """Collects answers until ``result``. ``request`` and ``noun`` are for the texts of faults: "ListOffsets",
    "partitions". What came first, an answer, is kept.
    """

    def __init__(self, request: str, noun: str) -> None:
        self._request, self._noun = request, noun
        self.values: dict[K, V] = {}
        self._brokers: dict[K, int] = {}
        self._lost: dict[K, Fault | _Refused] = {}

    def answer(self, values: Mapping[K, V], node: int) -> None:
        self.values.update(values)
        self._brokers.update(dict.fromkeys(values, node))
        if self._lost:
            for key in values:
                self._lost.pop(key, None)

    def lose(self, key: K, why: Fault | _Refused) -> None:
        """Record that this key has no answer: for a reason that it shares with others, or by an error code of its own.
        ``where`` of that is "" when no broker was asked.
        """
        if key not in self.values:
            self._lost[key] = why

    def take(self, item: Item[K, V], where: str, node: int, gone: frozenset[int]) -> None:
        """One part of a response. ``gone`` are the codes for a key that does not exist."""
        if not item.code and item.value is not None:
            self.answer({item.key: item.value}, node)
        elif item.code in gone:
            self._lost.pop(item.key, None)
        else:
            self.lose(item.key, _Refused(where, item.code, item.grant, ""))

    def result(self, asked_again: Iterable[K] = ()) -> Answers[K, V]:
        refused = {key: why for key, why in self._lost.items() if isinstance(why, _Refused)}
        faults = list(dict.fromkeys(why for why in self._lost.values() if isinstance(why, Fault)))
        groups: dict[tuple[str, int], list[K]] = {}
        for key, why in refused.items():
            groups.setdefault((why.where, why.code), []).append(key)
        for (where, code), keys in sorted(groups.items()):
            names = sorted(str(key) for key in keys)
            subject = names[0] if len(names) == 1 else f"{len(names)} {self._noun} ({some(names, 3)})"
            grants, remedies = ({refused[key].grant for key in keys}, {refused[key].remedy for key in keys})
            texts = (some(sorted(texts - {""}), 3) for texts in (grants, remedies))
            faults.append(refusal(self._what(where, subject), code, *texts))
        unanswered = {
            key: refusal(self._what(why.where, str(key)), *why[1:]) if isinstance(why, _Refused) else why
            for key, why in self._lost.items()
        }
        return Answers(self.values, unanswered, tuple(faults), self._brokers, frozenset(asked_again))

    def _what(self, where: str, subject: str) -> str:
        return f"{self._request} of {subject} at {where}" if where else f"{self._request} of {subject}"


# --- Questions ---


@dataclass(frozen=True, slots=True)
class Question(Generic[K, V]):
    """One kind of request about many keys, each of which belongs to the leader of one partition.

    Keys are partitions; with a ``topic`` they are names (transactional ids, groups), and the leader of their partition
    of it is their coordinator. ``request`` makes the request about a batch of keys from the metadata that routes them,
    ``read`` takes a response apart. ``gone`` are the codes for a key that does not exist. ``bulk`` gives the values of
    a response that has one for every key, where that is known without a look at each.
    """

    name: str
    noun: str
    request: Callable[[Sequence[K], Metadata], Request]
    read: Callable[[Response], Iterator[Item[K, V]]]
    batch: int
    topic: str = ""
    gone: frozenset[int] = frozenset()
    bulk: Callable[[Response], dict[K, V] | None] = lambda _: None

    @property
    def moved(self) -> frozenset[int]:
        """The codes for a key that another broker has."""
        return COORDINATOR_MOVED if self.topic else LEADER_MOVED

    def home(self, key: K, metadata: Metadata) -> TopicPartition:
        """The partition whose leader has the key."""
        if not self.topic:
            return cast("TopicPartition", key)
        count = len(metadata.topics.get(self.topic, ())) or 1
        return TopicPartition(self.topic, coordinator_partition(cast("str", key), count))


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


def ask_leaders(
    client: BrokerAccess, metadata: Metadata, question: Question[K, V], keys: Iterable[K], deadline: Deadline
) -> Answers[K, V]:
    """Send the request to the leaders, and once more to new leaders. Brokers that do not answer are faults; nothing is
    raised.
    """
    tally: _Tally[K, V] = _Tally(question.name, question.noun)
    elsewhere = _ask_once(client, metadata, question, list(dict.fromkeys(keys)), deadline, tally)
    if not elsewhere or deadline.over:
        return tally.result()
    topics = [question.topic] if question.topic else sorted({cast("TopicPartition", key).topic for key in elsewhere})
    try:
        fresh = client.metadata(deadline, topics if len(topics) <= NAMED_TOPICS else None)
    except AskError:
        return tally.result()
    moved = [key for key, asked in elsewhere.items() if _has_moved(metadata, fresh, question.home(key, fresh), asked)]
    _ask_once(client, fresh, question, moved, deadline, tally)
    return tally.result(moved)


def ask_coordinators_of(
    client: BrokerAccess,
    metadata: Metadata,
    question: Question[str, V],
    keys: Iterable[str],
    deadline: Deadline,
    *,
    anywhere: bool = False,
) -> Answers[str, V]:
    """Ask the coordinator of each key.

    Without the topic there is no coordinator, and the answers are empty. Where it cannot be described (DESCRIBE on the
    topic is missing), or with ``anywhere``, every broker is asked, and the one that does not answer NOT_COORDINATOR is
    the coordinator. FindCoordinator is not used: it creates the topic on a cluster that has none.
    """
    topic, wanted = question.topic, list(dict.fromkeys(keys))
    if not wanted:
        return Answers({}, {}, ())
    if topic not in metadata.topics:
        try:
            metadata = client.metadata(deadline, [topic])
        except AskError as error:
            return Answers({}, dict.fromkeys(wanted, error.fault), (error.fault,))
    if metadata.topics.get(topic):
        return ask_leaders(client, metadata, question, wanted, deadline)
    if metadata.denies(topic) or anywhere:
        return _ask_everyone(client, metadata, question, wanted, deadline)
    return Answers({}, {}, ())


def ask_brokers(
    client: BrokerAccess,
    metadata: Metadata,
    name: str,
    request: Callable[[], Request],
    read: Callable[[Response], tuple[int, V]],
    deadline: Deadline,
) -> Answers[int, V]:
    """Send every broker the same request; ``read`` returns the error code and the value of a response. By node id."""
    tally: _Tally[int, V] = _Tally(name, "brokers")
    for node, answer in client.ask({node: request() for node in metadata.brokers}, deadline).items():
        if isinstance(answer, Fault):
            tally.lose(node, answer)
            continue
        code, value = read(answer)
        if code:
            tally.lose(node, refusal(f"{name} at {where(metadata, node)}", code))
        else:
            tally.answer({node: value}, node)
    return tally.result()


def missing_grant(
    client: BrokerAccess,
    metadata: Metadata,
    question: Question[str, V],
    denied: int,
    grant: str,
    deadline: Deadline,
) -> Fault | None:
    """The fault for a missing grant on all keys; None when the grant is proven.

    A broker authorizes before it looks: for keys that are not in use, any answer but the code ``denied`` proves the
    grant at that broker. A probe cannot detect a DENY for single keys beside an ALLOW for all. It is sent only when the
    topic may exist, since before that there is nothing to hide.
    """
    topic = question.topic
    if topic not in metadata.topics:
        try:
            metadata = client.metadata(deadline, [topic])
        except AskError as error:
            return error.fault
        if topic not in metadata.topics and not metadata.denies(topic):
            return None
    answers = client.ask({node: question.request(PROBES, metadata) for node in metadata.brokers}, deadline)
    for node, answer in answers.items():
        if not isinstance(answer, Fault) and denied in {item.code for item in question.read(answer)}:
            return refusal(f"{question.name} at {where(metadata, node)}", denied, grant)
    faults = [answer for answer in answers.values() if isinstance(answer, Fault)]
    if len(faults) < len(answers):
        return None
    return faults[0] if faults else Fault(Reason.UNREACHABLE, "the cluster names no broker that could be asked")


def hidden_topics(client: BrokerAccess, deadline: Deadline) -> Fault | None:
    """The fault for topics without DESCRIBE; None when DESCRIBE on all is proven.

    A broker leaves them out of an answer about all topics and reports no error. It authorizes a request by name before
    it looks for the topic (KafkaApis.handleTopicMetadataRequest): a refusal for a name that is not in use shows that
    the grant is not for all. A DENY for single topics beside an ALLOW for all is not seen. Raises AskError.
    """
    if not client.metadata(deadline, [PROBES[0]]).denies(PROBES[0]):
        return None
    return Fault(
        Reason.AUTHORIZATION,
        "topics that may not be described are left out, if there are any: grant READ on Topic:*, or name a topic",
    )


def where(metadata: Metadata, node: int) -> str:
    """A broker in messages: ``broker 2 at k2:9092``."""
    address = metadata.brokers.get(node)
    return f"broker {node}" if address is None else f"broker {node} at {address}"


# --- One round ---


def _has_moved(before: Metadata, after: Metadata, home: TopicPartition, asked: int | None) -> bool:
    """Return whether another broker leads now, or the same one in another epoch."""
    leader = after.leader(*home)
    return leader is not None and (leader != asked or before.leader_epoch(home) != after.leader_epoch(home))


def _ask_everyone(
    client: BrokerAccess, metadata: Metadata, question: Question[K, V], keys: Sequence[K], deadline: Deadline
) -> Answers[K, V]:
    """Ask every broker about all keys, and use the answer of the one that has the key.

    For keys whose partition cannot be described. A key that no broker has may be at a broker that did not answer.
    """
    tally: _Tally[K, V] = _Tally(question.name, question.noun)
    for start in range(0, len(keys), question.batch):
        batch = keys[start : start + question.batch]
        answers = client.ask({node: question.request(batch, metadata) for node in metadata.brokers}, deadline)
        silent = next((answer for answer in answers.values() if isinstance(answer, Fault)), None)
        for key in batch:
            tally.lose(key, silent or _Refused("", COORDINATOR_NOT_AVAILABLE, "", ""))
        for node, answer in answers.items():
            for item in () if isinstance(answer, Fault) else question.read(answer):
                if item.code not in question.moved:
                    tally.take(item, where(metadata, node), node, question.gone)
    return tally.result()


def _ask_once(
    client: BrokerAccess,
    metadata: Metadata,
    question: Question[K, V],
    keys: Sequence[K],
    deadline: Deadline,
    tally: _Tally[K, V],
) -> dict[K, int | None]:
    """Ask each key's leader. Returns the keys that another broker may have, with the broker that was asked."""
    elsewhere: dict[K, int | None] = {}
    by_leader: dict[int, list[K]] = {}
    topics, home_of, named = metadata.topics, question.home, bool(question.topic)
    for key in keys:
        topic, number = home_of(key, metadata) if named else cast("TopicPartition", key)
        # As ``Metadata.leader``, for thousands of partitions.
        known = topics.get(topic)
        partition = None if known is None else known.get(number)
        if partition is not None and partition.leader is not None:
            if (own := by_leader.get(partition.leader)) is None:
                own = by_leader[partition.leader] = []
            own.append(key)
            continue
        elsewhere[key] = None
        tally.lose(key, _without_leader(metadata, topic, number, coordinated=named))
    rounds = -(-max(map(len, by_leader.values()), default=0) // question.batch)
    for turn in range(rounds):
        start = turn * question.batch
        batches = {node: some for node, own in by_leader.items() if (some := own[start : start + question.batch])}
        # A broker that does not answer must not use up the time for the other brokers' remaining batches.
        patience = deadline if turn == rounds - 1 else deadline.within(deadline.remaining() / 2)
        answers = client.ask({node: question.request(batch, metadata) for node, batch in batches.items()}, patience)
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
    question: Question[K, V], where: str, answer: Response, batch: Collection[K], tally: _Tally[K, V], node: int
) -> dict[K, int | None]:
    """Record one response. Returns the keys that another broker has."""
    values = question.bulk(answer)
    if values is not None and values.keys() == set(batch):
        tally.answer(values, node)
        return {}
    elsewhere: dict[K, int | None] = {}
    missing = dict.fromkeys(batch)
    for item in question.read(answer):
        missing.pop(item.key, None)
        tally.take(item, where, node, question.gone)
        if item.code in question.moved:
            elsewhere[item.key] = node
    if missing:
        text = f"{question.name} at {where}: the answer leaves out {len(missing)} {question.noun}"
        for key in missing:
            tally.lose(key, Fault(Reason.MALFORMED, text))
    return elsewhere


def _without_leader(metadata: Metadata, topic: str, number: int, *, coordinated: bool) -> Fault | _Refused:
    if topic in metadata.errors:
        return metadata.errors[topic]
    known = metadata.topics.get(topic, {}).get(number)
    if known is None:
        return _Refused("", UNKNOWN_TOPIC_OR_PARTITION, "", "")
    down = [f"broker {node}" for node in known.replicas if node not in metadata.brokers]
    remedy = f"no replica leads; start {' or '.join(down)}" if down else ""
    return _Refused("", COORDINATOR_NOT_AVAILABLE if coordinated else LEADER_NOT_AVAILABLE, "", remedy)
