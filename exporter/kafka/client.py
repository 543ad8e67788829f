"""The client of one cluster: metadata from any broker, and parallel requests to many brokers within a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from kafka.protocol.metadata import ApiVersionsRequest

from exporter.kafka.broker import Address, Answer, Broker, ask_in_parallel
from exporter.kafka.connection import BrokerConnection, Request, Response
from exporter.kafka.faults import BROKEN, AskError, refusal
from exporter.kafka.properties.accepted import broker_address
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.configs import AT_ONCE, Resource, configs_request, read_configs
from exporter.kafka.requests.metadata import (
    TRANSACTION_STATE,
    Metadata,
    MetadataAnswers,
    PartitionMetadata,
    metadata_request,
    read_metadata,
)
from exporter.kafka.view import ClusterIdentityCheck, ClusterView
from exporter.model import Clock, Deadline, Fault, Reason

__all__ = ["AskError", "ClusterClient", "Metadata"]

CLOSE_SECONDS = 0.8
"""For the threads of all brokers to end."""
FIRST_COMPARE_SECONDS = 1.0
COMPARE_SECONDS = 4.0
"""Most seconds for all brokers to answer how far they have read the cluster's metadata: at the first contact, which
waits for it, and later.
"""
STALE_AFTER_FAILURE = 5.0
"""Greatest age in seconds of cached metadata after a broker failed, since its partitions have probably moved."""

SHARE = 0.3
"""Share of a read's remaining time that one request to the brokers may take."""
MIN_SHARE = 0.5

_WORST_FIRST = (
    Reason.IDENTITY,
    Reason.AUTHENTICATION,
    Reason.UNSUPPORTED,
    Reason.MALFORMED,
    Reason.TIMEOUT,
    Reason.UNREACHABLE,
)


class ClusterClient:
    """One per cluster, shared by its workers: thread-safe. The constructor connects to nothing.

    Every broker has its own connection and thread, created at its first request. Nothing is ever written to the
    cluster.
    """

    def __init__(self, properties: Properties, clock: Clock | None = None) -> None:
        self._properties = properties
        self._clock = clock or Clock()
        self._identity = ClusterIdentityCheck()
        self._tokens = properties.token_provider()
        self._lock = threading.Lock()  # guards the next three
        self._connected: dict[Address, Broker] = {}
        self._closed = False
        self._turn = 0
        self._refresh = threading.Lock()
        self._brokers: Mapping[int, Address] = MappingProxyType({})
        self._cached: tuple[Metadata, float] | None = None
        self._view = ClusterView()
        self._answers = MetadataAnswers()
        self._failed_at = float("-inf")
        self._finalized: tuple[int, Mapping[str, int]] = -1, {}  # the epoch of the features, and their levels

    # --- Metadata ---

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        """Brokers and the named topics, or all topics. Raises AskError when no broker answers before the deadline.

        The brokers are asked in turn, and entries with a leader epoch below the newest one seen are refused: see
        ``_current``. A cached answer about all topics that is at most ``max_age`` seconds old is used, unless a broker
        has failed since. Topics that do not exist are never created.
        """
        asked = self._clock.monotonic()
        known = self._fresh(asked - max_age)
        # A topic that is missing from an answer about all does not exist or is not authorized: only a request by name
        # shows which.
        if known is not None and known.topics.keys() >= set(topics or ()):
            return known
        if topics is not None:
            metadata = self._current(topics, deadline)
            self._outdate(metadata)
            return metadata
        # One worker requests all topics at a time; the others use its answer if the request began after their call.
        if not self._refresh.acquire(timeout=deadline.remaining()):
            raise AskError(Fault(Reason.TIMEOUT, f"no metadata from {self._properties.bootstrap_servers} in time"))
        try:
            if (known := self._fresh(asked)) is not None:
                return known
            began = self._clock.monotonic()
            metadata = self._current(None, deadline)
            self._view.keep(metadata.topics, metadata.brokers)
            self._cached = metadata, began
            return metadata
        finally:
            self._refresh.release()

    def verify_identity(self, deadline: Deadline) -> None:
        """Check by new connections that the same cluster, and the same transaction log, is at its addresses. Raises
        AskError where another one answers, or none.
        """
        brokers = [self._new(address, _label(node, address)) for node, address in self._brokers.items()]
        try:
            answers = ask_in_parallel(
                [(broker, metadata_request((TRANSACTION_STATE,))) for broker in brokers], deadline
            )
        finally:
            _stop(brokers)
        refused = [answer for answer in answers if isinstance(answer, Fault)]
        other = [fault for fault in refused if fault.reason is Reason.IDENTITY]
        if other:
            raise AskError(other[0])
        if len(refused) == len(brokers):
            raise AskError(self._no_answer(refused))

    def _check_connection(self, connection: BrokerConnection, deadline: Deadline) -> None:
        """Check a new connection before it is used; the first one is checked by the answer that names the cluster."""
        if self._identity.known:
            said = connection.call(metadata_request((TRANSACTION_STATE,)), deadline)
            self._identity.check(connection.label, read_metadata(said))

    def confirmed(self, deadline: Deadline, topics: Sequence[str]) -> Metadata:
        """The newest metadata of these topics among all brokers. Raises AskError when none answers.

        For decisions that must not depend on one broker, which may be cut off from the controller. A topic is missing
        only when no broker has it.
        """
        current = [node for node in self._brokers if not self._view.is_stale(node)]
        asked_at = self._clock.monotonic()
        requests = {node: self._answers.request(topics) for node in current or self._brokers}
        answers = {
            node: answer for node, answer in self.ask(requests, deadline).items() if not isinstance(answer, Fault)
        }
        if not answers:
            return self.metadata(deadline, topics)
        newest: dict[str, Mapping[int, PartitionMetadata]] = {}
        ids: dict[str, str] = {}
        for node, answer in answers.items():
            self._identity.check(f"broker {node}", read_metadata(answer))
        merged = [self._merge(read_metadata(answer), node, asked_at)[0] for node, answer in answers.items()]
        for part in merged:
            newest |= part.topics
            ids |= part.topic_ids
        errors = {name: fault for name, fault in merged[-1].errors.items() if name not in newest}
        metadata = replace(merged[-1], topics=newest, topic_ids=ids, errors=errors)
        self._outdate(metadata)
        return metadata

    def stale_brokers(self, deadline: Deadline) -> tuple[Fault, ...]:
        """One fault for each broker whose view of the cluster is older than another broker's, by node id.

        All brokers are asked how far they have read the metadata log. A broker that does not answer gives no fault
        here.
        """
        self._compare_views(deadline.within(COMPARE_SECONDS))
        found = []
        for node, address in sorted(self._brokers.items()):
            if self._view.is_stale(node):
                age = self._view.age(node)
                text = f"{_label(node, address)} answers from a view of the cluster that is {age:.0f} s old"
                advice = "it is not believed; look whether it can reach the controller"
                found.append(Fault(Reason.STALE, f"{text}: {advice}"))
        return tuple(found)

    def _compare_views(self, deadline: Deadline) -> None:
        asked_at = self._clock.monotonic()
        answers = self.ask({node: _api_versions() for node in self._brokers}, deadline)
        positions = {
            node: answer.finalized_features_epoch
            for node, answer in answers.items()
            if not isinstance(answer, Fault) and not answer.error_code and answer.finalized_features_epoch >= 0
        }
        self._view.saw(positions, asked_at, self._clock.monotonic())
        newest = max(positions, key=positions.__getitem__, default=None)
        # Older levels count only when no broker can know newer ones: the metadata log was lost, or the cluster is new.
        if newest is not None and (positions[newest] > self._finalized[0] or len(positions) == len(answers)):
            self._finalized = positions[newest], _levels(answers[newest])

    def _current(self, topics: Sequence[str] | None, deadline: Deadline) -> Metadata:
        """The answer of the next broker in turn; of the one after it when that answer is older than the known state.

        When all answers are older, the newest known leaders are kept. They are dropped only when every broker answered:
        then no broker confirms them, as after the loss of the metadata log.
        """
        first = not self._brokers
        request = self._answers.request(topics)
        faults: list[Fault] = []
        metadata: Metadata | None = None
        asked_at = self._clock.monotonic()
        for address, answer in self._answers_in_turn(request, deadline, faults):
            said = read_metadata(answer)
            node = _node_at(address, answer)
            self._identity.check(f"{address[0]}:{address[1]}", said)
            metadata, is_older = self._merge(said, node, asked_at)
            if not is_older:
                self._adopt(answer)
                return self._by_newest_view(metadata, node, request, deadline) if first else metadata
            asked_at = self._clock.monotonic()
        if metadata is None:
            raise AskError(self._no_answer(faults))
        if not faults and not deadline.over:
            self._view.forget_leaders()
        return metadata

    def _by_newest_view(self, metadata: Metadata, node: int | None, request: Request, deadline: Deadline) -> Metadata:
        """At the first contact no earlier state reveals an old view: use the broker that has read the most metadata."""
        if len(self._brokers) > 1:
            self._compare_views(deadline.within(FIRST_COMPARE_SECONDS))
        best = None if node is None else self._view.further_than(node)
        if best is None:
            return metadata
        asked_at = self._clock.monotonic()
        answer = self.ask({best: request}, deadline)[best]
        if isinstance(answer, Fault):
            return metadata
        metadata, is_older = self._merge(read_metadata(answer), best, asked_at)
        if not is_older:
            self._adopt(answer)
        return metadata

    def _merge(self, said: Metadata, node: int | None, asked_at: float) -> tuple[Metadata, bool]:
        return self._view.merge(said, node, asked_at, self._clock.monotonic())

    def _fresh(self, since: float) -> Metadata | None:
        cached = self._cached
        if cached is None:
            return None
        metadata, began = cached
        if self._failed_at > began:
            since = max(since, self._clock.monotonic() - STALE_AFTER_FAILURE)
        return metadata if began >= since else None

    def _outdate(self, newer: Metadata) -> None:
        """Drop the cached answer when a leader has changed since: it would send requests to the wrong broker."""
        cached = self._cached
        if cached is None:
            return
        for topic, partitions in newer.topics.items():
            for index, partition in partitions.items():
                known = cached[0].topics.get(topic, {}).get(index)
                if known is None or (known.leader, known.leader_epoch) != (partition.leader, partition.leader_epoch):
                    self._cached = None
                    return

    def _adopt(self, response: Response) -> None:
        """Update the brokers' addresses from an answer, and close connections to those that moved or are gone."""
        brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._brokers = MappingProxyType(brokers)
        labels = {address: _label(node, address) for node, address in brokers.items()}
        with self._lock:
            gone = [self._connected.pop(address) for address in self._connected.keys() - labels.keys()]
            for address, broker in self._connected.items():
                broker.label = labels[address]
        for broker in gone:
            broker.stop()

    def _first_answer(self, request: Request, deadline: Deadline) -> Response:
        """The answer of the next broker in turn, or of the first after it that answers. Raises AskError."""
        faults: list[Fault] = []
        for _, answer in self._answers_in_turn(request, deadline, faults):
            return answer
        raise AskError(self._no_answer(faults))

    def _broker(self, address: Address, label: str) -> Broker:
        """The broker at an address, as it was asked before, or a new one."""
        with self._lock:
            broker = self._connected.get(address)
            if broker is None:
                broker = self._connected[address] = self._new(address, label)
                if self._closed:
                    broker.stop()
            return broker

    def _new(self, address: Address, label: str) -> Broker:
        return Broker(label, address, self._properties, self._tokens, self._clock, self._check_connection)

    def _answers_in_turn(
        self, request: Request, deadline: Deadline, faults: list[Fault]
    ) -> Iterator[tuple[Address, Response]]:
        """The answers of one broker after another, in turn, then of the bootstrap servers; ``faults`` has the others.

        Each gets a share of the time, so that one that hangs leaves time for the next. The names of the bootstrap
        servers are resolved again, which finds a cluster whose brokers all have new addresses.
        """
        candidates = self._candidates()
        for number, (address, label) in enumerate(candidates):
            if deadline.over or self._closed:
                break
            share = deadline.remaining() / (len(candidates) - number)
            (answer,) = ask_in_parallel([(self._broker(address, label), request)], deadline.within(max(share, 1.0)))
            if isinstance(answer, Fault):
                self._failed_at = self._clock.monotonic()
                faults.append(answer)
            else:
                yield address, answer

    def _candidates(self) -> list[tuple[Address, str]]:
        """All addresses: a different broker first each time, those that failed or are stale last."""
        nodes = sorted(self._brokers.items())
        failing = {address for node, address in nodes if self._view.is_stale(node)}
        with self._lock:
            failing |= {address for address, broker in self._connected.items() if broker.failing}
            turn = self._turn = (self._turn + 1) % max(1, len(nodes))
        named = {address: _label(node, address) for node, address in nodes[turn:] + nodes[:turn]}
        for server in self._properties.bootstrap_servers.split(","):
            if server.strip():
                address = broker_address(server)
                named.setdefault(address, f"bootstrap server {address[0]}:{address[1]}")
        return sorted(named.items(), key=lambda broker: broker[0] in failing)

    def _no_answer(self, faults: Sequence[Fault]) -> Fault:
        servers = self._properties.bootstrap_servers
        if not faults:
            return Fault(Reason.TIMEOUT, f"no time was left to ask {servers}")
        reason = min((fault.reason for fault in faults), key=_severity)
        details = list(dict.fromkeys(fault.detail for fault in faults))
        more = f"; and {len(details) - 3} more" if len(details) > 3 else ""
        return Fault(reason, f"no broker answers: {'; '.join(details[:3])}{more}")

    # --- Requests ---

    def ask(self, requests: Mapping[int, Request], deadline: Deadline) -> dict[int, Response | Fault]:
        """Send each broker its request, in parallel; a request without a response in time has a Fault.

        The time is a share of what the deadline leaves: a read sends several requests in turn, and a broker that hangs
        on the first must leave time for the rest. A request object is for one broker: it has the version and the header
        of its connection.
        """
        brokers = self._brokers
        asked = {node: request for node, request in requests.items() if node in brokers}
        answers: dict[int, Answer] = {
            node: Fault(
                Reason.UNREACHABLE, f"broker {node} is not in the cluster's metadata: it is down, or was removed"
            )
            for node in requests.keys() - asked.keys()
        }
        share = deadline.within(max(MIN_SHARE, deadline.remaining() * SHARE))
        sent = [(self._broker(brokers[node], _label(node, brokers[node])), request) for node, request in asked.items()]
        answers.update(zip(asked, ask_in_parallel(sent, share), strict=True))
        if any(isinstance(answer, Fault) and answer.reason in BROKEN for answer in answers.values()):
            self._failed_at = self._clock.monotonic()
        return answers

    # --- Small requests ---

    @property
    def finalized_features(self) -> Mapping[str, int]:
        """As ``features``, by the broker that has read the most metadata of those that ``stale_brokers`` asked.
        Nothing before that, and on a cluster with ZooKeeper.
        """
        return self._finalized[1]

    def features(self, deadline: Deadline) -> Mapping[str, int]:
        """The finalized feature levels, ``transaction.version`` among them on Kafka 4.0 and later. Raises AskError."""
        return _levels(self._versions(deadline))

    def _versions(self, deadline: Deadline) -> Response:
        response = self._first_answer(_api_versions(), deadline)
        if response.error_code:
            raise AskError(refusal("ApiVersions", response.error_code))
        return response

    def config(self, resource: Resource, name: str, keys: Sequence[str], deadline: Deadline) -> dict[str, str] | Fault:
        """As ``configs``, of one."""
        return self.configs(resource, (name,), keys, deadline)[name]

    def configs(
        self, resource: Resource, names: Sequence[str], keys: Sequence[str], deadline: Deadline
    ) -> dict[str, dict[str, str] | Fault]:
        """Settings of topics, or of brokers by their node ids. Those that the broker does not know are left out."""
        found: dict[str, dict[str, str] | Fault] = {}
        at_once = 1 if resource == "broker" else AT_ONCE  # only the broker itself answers for its settings
        for at in range(0, len(names), at_once):
            asked = names[at : at + at_once]
            request = configs_request(resource, asked, keys)
            try:
                answer = (
                    self.ask({int(asked[0]): request}, deadline)[int(asked[0])]
                    if resource == "broker"
                    else self._first_answer(request, deadline)
                )
            except AskError as error:
                answer = error.fault
            if isinstance(answer, Fault):
                found.update(dict.fromkeys(asked, answer))
            else:
                found.update(read_configs(resource, asked, answer))
        return found

    def close(self) -> None:
        """Close all connections; pending requests get a Fault. Takes less than a second."""
        with self._lock:
            self._closed = True
            brokers = list(self._connected.values())
        _stop(brokers)


def _stop(brokers: Sequence[Broker]) -> None:
    """Stop brokers, all at the same time."""
    for broker in brokers:
        broker.stop()
    until = time.monotonic() + CLOSE_SECONDS
    for broker in brokers:
        broker.join(max(0.0, until - time.monotonic()))


def _label(node: int, address: Address) -> str:
    return f"broker {node} at {address[0]}:{address[1]}"


def _api_versions() -> Request:
    return ApiVersionsRequest(client_software_name="kafka-eos-exporter", client_software_version="1")


def _levels(response: Response) -> dict[str, int]:
    """The finalized feature levels in an answer to ApiVersions."""
    return {feature.name: feature.max_version_level for feature in response.finalized_features or ()}


def _node_at(address: Address, response: Response) -> int | None:
    """The broker at this address by its own answer; None for a bootstrap server by another name."""
    return next((broker.node_id for broker in response.brokers if (broker.host, broker.port) == address), None)


def _severity(reason: Reason) -> int:
    return _WORST_FIRST.index(reason) if reason in _WORST_FIRST else len(_WORST_FIRST)
