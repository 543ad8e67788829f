"""A cluster of one broker in memory: producers in its logs, transactions at its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError
from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.core.state import StateDir
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import ClusterClient
from exporter.kafka.log.tail import Polled
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.kafka.requests.offsets import NEWEST
from exporter.model import Clock, Deadline, Fault, Reason, TopicPartition
from tests.helpers.cluster import FakeMessage
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

NOW = 1_800_000_000.0


class OneBrokerLogReader:
    """A reader of the world's transaction log, which has two partitions of ten offsets."""

    def __init__(self, world: OneBroker) -> None:
        self._world = world
        self._left: dict[int, int] = {}

    def assign(self, positions: Mapping[int, int]) -> None:
        self._left = dict(positions)

    def leave(self, partition: int) -> None:
        self._left.pop(partition, None)

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        if self._world.read_denied:
            return [
                FakeMessage(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), number, -1001) for number in self._left
            ]
        found: list[Polled] = [
            message for message in self._world.log() if message.at >= self._left.get(message.number, 99)
        ]
        return found + [
            FakeMessage(KafkaError(KafkaError._PARTITION_EOF), number, self._world.log_end(number))
            for number in self._left
        ]

    def trouble(self) -> Fault | None:
        return None

    def close(self) -> None:
        """The source holds no resources."""


@dataclass
class OneBroker:
    """``opened`` are (producer id, start offset, seconds since its last write) by partition, ``known`` the partitions
    that a coordinator has for a transactional id, with the producer id; both it and the transaction log say so, but for
    the ``unlisted``, which only the log has. ``monotonic`` runs only with ``sleep``; ``newest_ago`` is how old the
    newest record of the log is, by our clock. ``leader_epoch`` is the present one of every partition;
    records were written in epoch 0.
    """

    opened: dict[TopicPartition, list[tuple[int, int, float]]] = field(default_factory=dict)
    known: dict[str, tuple[int, frozenset[TopicPartition]]] = field(default_factory=dict)
    state: str = "Ongoing"
    started_ago: float = 100.0
    newest_ago: float | None = None
    unlisted: set[str] = field(default_factory=set)
    describe_denied: bool = False
    read_denied: bool = False
    unloaded: bool = False
    topics_denied: bool = False  # DESCRIBE on other topics than those
    without_topics: bool = False
    leader_epoch: int = 0
    monotonic: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.monotonic += seconds

    def cluster(self) -> Cluster:
        return Cluster(
            Properties.parse({"bootstrap.servers": "k1:9092"}),
            cast("ClusterClient", self),
            Grouping(),
            StateDir(None),
            "prod",
            Clock(lambda: self.monotonic, lambda: NOW + self.monotonic),
        )

    # --- The transaction log ---

    def reader(self) -> OneBrokerLogReader:
        return OneBrokerLogReader(self)

    def log(self) -> Iterator[FakeMessage]:
        """Every record of the log: one of each id, after that of an idle id in each partition, and those of the
        producer ids whose transactions no id has open.
        """
        ends = [1, 1]
        for number in range(2):
            value = encode_value(1, 900 + number, 0, 60_000, 0, None, 0, -1, kafka_tags(-1, -1, 0))
            yield FakeMessage(None, number, 0, 0, encode_key(f"idle-{number}"), value)
        others = {producer_id for opened in self.opened.values() for producer_id, *_ in opened}
        for producer_id in sorted(others - {producer_id for producer_id, _ in self.known.values()}):
            name = f"ghost-{producer_id}"
            number = coordinator_partition(name, 2)
            value = encode_value(1, producer_id, 0, 60_000, 0, None, 0, -1, kafka_tags(-1, -1, 0))
            yield FakeMessage(None, number, ends[number], 0, encode_key(name), value)
            ends[number] += 1
        status = {"Ongoing": 1, "PrepareCommit": 2, "PrepareAbort": 3}[self.state]
        begun = round((NOW - self.started_ago) * 1000)
        for name, (pid, places) in self.known.items():
            topics = [(topic, [number]) for topic, number in sorted(places)]
            value = encode_value(1, pid, 0, 60_000, status, topics, begun, begun, kafka_tags(pid, -1, 0))
            number = coordinator_partition(name, 2)
            yield FakeMessage(None, number, ends[number], begun, encode_key(name), value)
            ends[number] += 1

    def log_end(self, number: int) -> int:
        """The end of a partition of the log."""
        return sum(message.number == number for message in self.log())

    # --- What ClusterClient offers ---

    def configs(
        self, resource: str, names: Sequence[str], keys: Sequence[str], _: Deadline
    ) -> dict[str, dict[str, str] | Fault]:
        return {name: {} for name in names}

    def confirmed(self, deadline: Deadline, topics: Sequence[str]) -> Metadata:
        return self.metadata(deadline, topics)

    def metadata(self, _: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        names = set() if self.without_topics else {place.topic for place in self.opened} | {"__transaction_state"}
        shown = names if topics is None else names & set(topics)
        refused = {name: Fault(Reason.AUTHORIZATION, name) for name in set(topics or ()) - names if self.topics_denied}
        led = PartitionMetadata(1, (1,), (1,), leader_epoch=self.leader_epoch)
        return Metadata("id", {1: "k1:9092"}, {name: {0: led, 1: led} for name in shown}, frozenset(), refused)

    def ask(self, requests: Mapping[int, Any], _: Deadline) -> dict[int, Any]:
        return {node: self._answer(request) for node, request in requests.items()}

    def _answer(self, request: Any) -> Any:
        match request:
            case DescribeProducersRequest():
                return self._producers(request)
            case ListTransactionsRequest():
                return self._listing(request.producer_id_filters)
            case DescribeTransactionsRequest():
                return self._descriptions(request.transactional_ids)
            case OffsetForLeaderEpochRequest():
                return self._epoch_ends(request)
            case FetchRequest():
                return SimpleNamespace(error_code=0, responses=[])
            case _:
                return self._offsets(request)

    def _producers(self, request: Any) -> Any:
        topic = DescribeProducersResponse.TopicResponse
        partition = topic.PartitionResponse
        return DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                topic(
                    name=asked_topic.name,
                    partitions=[
                        partition(
                            partition_index=index,
                            error_code=0,
                            error_message=None,
                            active_producers=[
                                partition.ProducerState(
                                    producer_id=pid,
                                    producer_epoch=0,
                                    last_sequence=0,
                                    last_timestamp=round((NOW - ago) * 1000),
                                    coordinator_epoch=-1,
                                    current_txn_start_offset=start,
                                )
                                for pid, start, ago in self.opened.get(TopicPartition(asked_topic.name, index), [])
                            ],
                        )
                        for index in asked_topic.partition_indexes
                    ],
                )
                for asked_topic in request.topics
            ],
        )

    def _listing(self, wanted: Iterable[int]) -> Any:
        only = set(wanted)
        row = ListTransactionsResponse.TransactionState
        return ListTransactionsResponse(
            throttle_time_ms=0,
            error_code=0,
            unknown_state_filters=[],
            transaction_states=[
                row(transactional_id=name, producer_id=pid, transaction_state=self.state)
                for name, (pid, _) in self.known.items()
                if not (self.describe_denied or self.unloaded or name in self.unlisted) and (not only or pid in only)
            ],
        )

    def _descriptions(self, ids: Iterable[str]) -> Any:
        kind = DescribeTransactionsResponse.TransactionState
        rows = []
        for name in ids:
            known = name in self.known and name not in self.unlisted
            code = 53 if self.describe_denied else 16 if self.unloaded else 0 if known else 105
            pid, partitions = self.known.get(name, (-1, frozenset()))
            topics = [kind.TopicData(topic=topic, partitions=[number]) for topic, number in sorted(partitions)]
            rows.append(
                kind(
                    error_code=code,
                    transactional_id=name,
                    transaction_state=self.state,
                    transaction_timeout_ms=60_000,
                    transaction_start_time_ms=round((NOW - self.started_ago) * 1000),
                    producer_id=pid,
                    producer_epoch=0,
                    topics=topics,
                )
            )
        return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=rows)

    def _epoch_ends(self, request: Any) -> Any:
        """The log lost nothing: each epoch ends at its end, or later."""
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        return OffsetForLeaderEpochResponse(
            throttle_time_ms=0,
            topics=[
                topic(
                    topic=asked_topic.topic,
                    partitions=[
                        topic.EpochEndOffset(
                            error_code=0,
                            partition=asked.partition,
                            leader_epoch=asked.leader_epoch,
                            end_offset=self.log_end(asked.partition),
                        )
                        for asked in asked_topic.partitions
                    ],
                )
                for asked_topic in request.topics
            ],
        )

    def _offsets(self, request: Any) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        partition = topic.ListOffsetsPartitionResponse
        rows = []
        for asked_topic in request.topics:
            answers = []
            for asked in asked_topic.partitions:
                opened = self.opened.get(TopicPartition(asked_topic.name, asked.partition_index), [])
                stable = min((start for _, start, _ in opened), default=10)
                offset = stable if request.isolation_level == 1 else 10
                if asked_topic.name == "__transaction_state":
                    offset = self.log_end(asked.partition_index)
                newest = asked.timestamp == NEWEST and self.newest_ago is not None
                stamp = round((NOW + self.monotonic - (self.newest_ago or 0.0)) * 1000) if newest else -1
                answers.append(
                    partition(
                        partition_index=asked.partition_index,
                        error_code=0,
                        timestamp=stamp,
                        offset=offset,
                        leader_epoch=0,
                    )
                )
            rows.append(topic(name=asked_topic.name, partitions=answers))
        return ListOffsetsResponse(throttle_time_ms=0, topics=rows)
