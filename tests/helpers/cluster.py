"""A fake cluster: it answers the sources' requests from plain data, and any part of it can fail."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace as Answer
from typing import Any, NamedTuple, cast

from confluent_kafka import KafkaError

from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.core.state import StateDir
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.log.tail import Polled
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.model import (
    Clock,
    Deadline,
    Fact,
    Facts,
    Fault,
    Metric,
    Reason,
    Sample,
    SampleBatch,
    Source,
    TopicPartition,
)
from tests.helpers.coordinator import CoordinatorRecord

LOG = "__transaction_state"
OFFSETS = "__consumer_offsets"
NOT_FOUND = 105
UNKNOWN_TOPIC = 3
NOT_LEADER = 6
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
_offset = attrgetter("offset")


@dataclass
class ManualClock:
    """Both clocks of a test, which the test moves."""

    monotonic: float = 1000.0
    wall: float = 1_790_000_000.0
    boot: str = ""

    def pass_(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.monotonic, lambda: self.wall, self.boot)


class OpenWriter(NamedTuple):
    """A producer with an open transaction in a partition."""

    producer_id: int
    start_offset: int
    epoch: int = 0
    last_timestamp: int = -1
    last_sequence: int = -1


@dataclass
class Partition:
    leader: int | None = 1
    high_watermark: int = 0
    stable: int | None = None  # the last stable offset; None: the high watermark
    writers: list[OpenWriter] = field(default_factory=list)
    replicas: tuple[int, ...] = (1,)
    isr: tuple[int, ...] = (1,)
    epoch: int = 0
    epoch_begins: int = 0  # records below this offset are of the epoch before
    deposed: int | None = None
    """A broker that led it in the epoch before, has not learned that it was deposed, and has 5 of 9 records."""
    log_end: int | None = None  # None: the high watermark
    log_start: int = 0
    since: int = -1  # the first offset since any instant, in topics but the log; -1: none was written since
    batches: bytes = b""  # what a Fetch gives, from whatever offset
    aborted: Sequence[tuple[int, int]] = ()  # producer id and first offset of its aborted transactions
    epoch_end: tuple[int, int] | None = None  # what the leader says of any epoch; None: it ends at the log end
    first_segment_empty: bool = False  # compaction emptied it: no instant is found before it was written


@dataclass
class FakeTransaction:
    producer_id: int
    state: str = "Ongoing"
    partitions: Sequence[tuple[str, int]] = ()
    epoch: int = 0
    timeout_ms: int = 60_000
    start_ms: int = -1


@dataclass
class FakeGroup:
    """A group as its coordinator has it: committed offsets by topic and partition, and its members."""

    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    members: Collection[str] = ()
    kind: str = ""  # of one that is not classic, as the broker spells it
    subscribed: Sequence[str] = ()
    unstable: Collection[tuple[str, int]] = ()  # commits of open transactions


def member_answer(member: str, **more: Any) -> Answer:
    """A member as its coordinator describes it: ``client-id@host`` is the name of one with both."""
    client_id, _, host = member.partition("@")
    return Answer(member_id=f"{client_id}-1f", client_id=client_id, client_host=f"/{host}", instance_id=None, **more)


@dataclass
class FakeDisk:
    """The one log directory of each broker."""

    total: int = 1000
    usable: int = 400
    partition_bytes: dict[tuple[str, int], int] = field(default_factory=dict)  # 100 where nothing is said
    sized: bool = True  # False: of a broker that does not know the bytes of its disk
    named: bool = True  # False: DescribeLogDirs names none, as an old broker does without the grant


@dataclass
class FakeLogReads:
    """How the tails of the log fare, and what they did."""

    refused: bool = False
    cut: bool = False
    cut_seconds: float = 0.0  # what a poll takes while the tails are cut
    silent: set[int] = field(default_factory=set)  # partitions from which nothing can be fetched
    disconnects: int = 0
    tails: int = 0  # how many were made
    reconnected: list[str] = field(default_factory=list)  # the servers of each new client of a tail


@dataclass
class FakeKafka:
    """One cluster. ``down`` brokers do not answer, ``refuse`` gives an error code by request name."""

    time: ManualClock = field(default_factory=ManualClock)
    brokers: dict[int, str] = field(default_factory=lambda: {1: "k1:9092"})
    topics: dict[str, list[Partition]] = field(default_factory=dict)
    transactions: dict[str, FakeTransaction] = field(default_factory=dict)
    groups: dict[str, FakeGroup] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    disk: FakeDisk = field(default_factory=FakeDisk)
    elsewhere: bool = False
    """As Redpanda: transactions without the topic LOG. The broker with the lowest id coordinates all, the others
    answer NOT_COORDINATOR.
    """
    down: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)  # registered, and not in the metadata
    refuse: dict[str, int] = field(default_factory=dict)
    hidden: dict[str, Fault] = field(default_factory=dict)
    log: dict[int, list[CoordinatorRecord]] = field(default_factory=dict)
    log_reads: FakeLogReads = field(default_factory=FakeLogReads)
    asked: list[tuple[int, str, Any]] = field(default_factory=list)
    stale: list[Fault] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    believes: int | None = None
    """The broker that answers Metadata; None: one that has the newest."""
    looks: list[Sequence[str] | None] = field(default_factory=list)
    confirmed_topics: list[Sequence[str]] = field(default_factory=list)
    other: Fault | None = None  # what a check of the cluster's identity gives
    verified: int = 0
    offset_seconds: float = 0.0  # what brokers take to answer ListOffsets
    unloaded: dict[int, int] = field(default_factory=dict)  # error codes of coordinators that are not loaded
    denied_ids: set[str] = field(default_factory=set)

    # --- Writing the log ---

    def write(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            self.log.setdefault(record.partition, []).append(record)
            partition = self.topics[LOG][record.partition]
            partition.high_watermark = record.offset + 1

    # --- As the client ---

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        self.looks.append(topics)
        if self.other is not None:
            raise AskError(self.other)
        if self.down >= self.brokers.keys():
            raise AskError(Fault(Reason.UNREACHABLE, "no broker answers"))
        named = self.topics.keys() if topics is None else [topic for topic in topics if topic in self.topics]
        found = {
            name: {number: self._led(partition) for number, partition in enumerate(self.topics[name])}
            for name in named
            if name not in self.hidden
        }
        internal = frozenset({LOG, OFFSETS} & found.keys())
        errors = {name: fault for name, fault in self.hidden.items() if topics is not None and name in topics}
        return Metadata("cluster-1", dict(self.brokers), found, internal, errors, dict(self.topic_ids))

    def _led(self, led: Partition) -> PartitionMetadata:
        if self.believes is not None and self.believes == led.deposed:
            return PartitionMetadata(led.deposed, led.replicas, led.isr, leader_epoch=led.epoch - 1)
        return PartitionMetadata(led.leader, led.replicas, led.isr, led.epoch)

    def confirmed(self, deadline: Deadline, topics: Sequence[str]) -> Metadata:
        self.confirmed_topics.append(topics)
        self.believes = None
        return self.metadata(deadline, topics)

    def verify_identity(self, deadline: Deadline) -> None:
        self.verified += 1
        if self.other is not None:
            raise AskError(self.other)

    def stale_brokers(self, deadline: Deadline) -> tuple[Fault, ...]:
        return tuple(self.stale)

    def ask(self, requests: Mapping[int, Any], deadline: Deadline) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        for node, request in requests.items():
            name = request.name.removesuffix("Request")
            self.asked.append((node, name, request))
            if node in self.down:
                answers[node] = Fault(Reason.UNREACHABLE, f"broker {node} is down")
            else:
                answers[node] = getattr(self, "_" + re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower())(node, request)
        return answers

    def config(self, resource: str, name: str, keys: Sequence[str], deadline: Deadline) -> dict[str, str] | Fault:
        if "DescribeConfigs" in self.refuse:
            return Fault(
                Reason.AUTHORIZATION, f"DescribeConfigs of topic {name}: grant DESCRIBE_CONFIGS on Topic:{name}"
            )
        return {key: value for key, value in self.settings.get(name, {}).items() if key in keys}

    def configs(
        self, resource: str, names: Sequence[str], keys: Sequence[str], deadline: Deadline
    ) -> dict[str, dict[str, str] | Fault]:
        return {name: self.config(resource, name, keys, deadline) for name in names}

    @property
    def finalized_features(self) -> Mapping[str, int]:
        return self.levels

    def features(self, deadline: Deadline) -> Mapping[str, int]:
        return self.levels

    def _describe_cluster(self, node: int, request: Any) -> Any:
        brokers = [Answer(broker_id=broker) for broker in (*self.brokers, *self.fenced)]
        return Answer(error_code=self.refuse.get("DescribeCluster", 0), brokers=brokers)

    def _describe_log_dirs(self, node: int, request: Any) -> Any:
        """One directory with all partitions."""
        topics = [
            Answer(
                name=topic.topic,
                partitions=[
                    Answer(
                        partition_index=number, partition_size=self.disk.partition_bytes.get((topic.topic, number), 100)
                    )
                    for number in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        disk = {"total_bytes": self.disk.total, "usable_bytes": self.disk.usable} if self.disk.sized else {}
        code = self.refuse.get("DescribeLogDirs", 0)
        found = [Answer(error_code=0, log_dir="/data", topics=topics, **disk)]
        return Answer(error_code=code, results=[] if code or not self.disk.named else found)

    def _list_offsets(self, node: int, request: Any) -> Any:
        self.time.pass_(self.offset_seconds)

        def row(name: str, number: int, epoch: int, timestamp: int) -> Any:
            known = self.topics.get(name)
            if known is None or number >= len(known):
                return Answer(partition_index=number, error_code=UNKNOWN_TOPIC, offset=-1)
            led = known[number]
            if node == led.deposed:
                code = 0 if epoch in (-1, led.epoch - 1) else UNKNOWN_LEADER_EPOCH
                offset = 5 if request.isolation_level else 9
                return Answer(partition_index=number, error_code=code, offset=-1 if code else offset)
            if node != led.leader:
                return Answer(partition_index=number, error_code=NOT_LEADER, offset=-1)
            if epoch not in (-1, led.epoch):
                code = FENCED_LEADER_EPOCH if epoch < led.epoch else UNKNOWN_LEADER_EPOCH
                return Answer(partition_index=number, error_code=code, offset=-1)
            stable = led.high_watermark if led.stable is None else led.stable
            offset = stable if request.isolation_level else led.high_watermark
            if request.replica_id == -2 and led.log_end is not None:
                offset = led.log_end
            if timestamp == -3:
                newest = max((record.ms for record in self.log.get(number, ())), default=-1) if name == LOG else -1
                return Answer(partition_index=number, error_code=0, offset=offset, timestamp=newest)
            if timestamp == -2:
                offset = led.log_start
            elif timestamp >= 0:
                later = (record.offset for record in self.log.get(number, ()) if record.ms >= timestamp)
                offset = next(later, -1) if name == LOG and not led.first_segment_empty else led.since
            return Answer(partition_index=number, error_code=self.refuse.get("ListOffsets", 0), offset=offset)

        return Answer(
            topics=[
                Answer(
                    name=topic.name,
                    partitions=[
                        row(topic.name, partition.partition_index, partition.current_leader_epoch, partition.timestamp)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, node: int, request: Any) -> Any:
        def part(name: str, number: int) -> Any:
            led = self.topics[name][number]
            code = self.refuse.get("Fetch", 0) or (0 if node == led.leader else NOT_LEADER)
            aborted = [Answer(producer_id=producer_id, first_offset=first) for producer_id, first in led.aborted]
            records = b"" if code else led.batches
            return Answer(
                partition_index=number,
                error_code=code,
                aborted_transactions=aborted,
                records=records,
                high_watermark=led.high_watermark,
            )

        return Answer(
            error_code=0,
            responses=[
                Answer(
                    topic=topic.topic,
                    partitions=[part(topic.topic, partition.partition) for partition in topic.partitions],
                )
                for topic in request.topics
            ],
        )

    def _offset_for_leader_epoch(self, node: int, request: Any) -> Any:
        def row(name: str, asked: Any) -> Any:
            led = self.topics[name][asked.partition]
            end = led.high_watermark if led.log_end is None else led.log_end
            epoch, offset = (asked.leader_epoch, end) if led.epoch_end is None else led.epoch_end
            code = self.refuse.get("OffsetForLeaderEpoch", 0)
            return Answer(partition=asked.partition, error_code=code, leader_epoch=epoch, end_offset=offset)

        return Answer(
            topics=[
                Answer(topic=topic.topic, partitions=[row(topic.topic, partition) for partition in topic.partitions])
                for topic in request.topics
            ]
        )

    def _describe_producers(self, node: int, request: Any) -> Any:
        def row(name: str, number: int) -> Any:
            code = self.refuse.get("DescribeProducers", 0)
            producers = [
                Answer(
                    producer_id=writer.producer_id,
                    producer_epoch=writer.epoch,
                    last_sequence=writer.last_sequence,
                    last_timestamp=writer.last_timestamp,
                    coordinator_epoch=0,
                    current_txn_start_offset=writer.start_offset,
                )
                for writer in self.topics[name][number].writers
            ]
            return Answer(partition_index=number, error_code=code, active_producers=[] if code else producers)

        return Answer(
            topics=[
                Answer(name=topic.name, partitions=[row(topic.name, number) for number in topic.partition_indexes])
                for topic in request.topics
            ]
        )

    def _coordinator(self, transactional_id: str) -> int:
        return coordinator_partition(transactional_id, len(self.topics.get(LOG, ())) or 1)

    def _coordinated(self, node: int, transactional_id: str) -> bool:
        log = self.topics.get(LOG, [])
        if self.elsewhere:
            return node == min(self.brokers)
        return bool(log) and log[coordinator_partition(transactional_id, len(log))].leader == node

    def _list_transactions(self, node: int, request: Any) -> Any:
        hidden = self.refuse.get("DescribeTransactions") == 53
        found = [
            Answer(transactional_id=name, producer_id=transaction.producer_id, transaction_state=transaction.state)
            for name, transaction in self.transactions.items()
            if self._coordinated(node, name)
            and not hidden
            and name not in self.denied_ids
            and self._coordinator(name) not in self.unloaded
            and (not request.state_filters or transaction.state in request.state_filters)
            and (not request.producer_id_filters or transaction.producer_id in request.producer_id_filters)
        ]
        return Answer(error_code=self.refuse.get("ListTransactions", 0), transaction_states=found)

    def _describe_transactions(self, node: int, request: Any) -> Any:
        code = self.refuse.get("DescribeTransactions", 0)
        found = []
        for name in request.transactional_ids:
            transaction = self.transactions.get(name)
            if self.elsewhere and node != min(self.brokers):
                code_here = 16
            elif not code and name in self.denied_ids:
                code_here = 53
            elif not code and self._coordinator(name) in self.unloaded:
                code_here = self.unloaded[self._coordinator(name)]
            else:
                code_here = code
            if code_here:
                found.append(Answer(transactional_id=name, error_code=code_here))
                continue
            if code or transaction is None:
                found.append(Answer(transactional_id=name, error_code=code or NOT_FOUND))
                continue
            found.append(
                Answer(
                    transactional_id=name,
                    error_code=0,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.epoch,
                    transaction_state=transaction.state,
                    transaction_timeout_ms=transaction.timeout_ms,
                    transaction_start_time_ms=transaction.start_ms,
                    topics=[Answer(topic=topic, partitions=[number]) for topic, number in transaction.partitions],
                )
            )
        return Answer(transaction_states=found)

    def _group(self, name: str) -> FakeGroup:
        return self.groups.get(name, FakeGroup())

    def _list_groups(self, node: int, request: Any) -> Any:
        found = [Answer(group_id=name, group_type=group.kind) for name, group in self.groups.items()]
        return Answer(error_code=self.refuse.get("ListGroups", 0), groups=found if node == min(self.brokers) else [])

    def _describe_groups(self, node: int, request: Any) -> Any:
        code = self.refuse.get("DescribeGroups", 69)
        return Answer(
            groups=[
                Answer(
                    group_id=name,
                    error_code=0 if name in self.groups and code == 69 else code,
                    members=[member_answer(member) for member in self._group(name).members],
                )
                for name in request.groups
            ]
        )

    def _of_kind(self, request: Any, kind: str) -> Any:
        code = self.refuse.get(f"{kind}GroupDescribe", 69)
        return Answer(
            groups=[
                Answer(
                    group_id=name,
                    error_code=0 if self._group(name).kind == kind and code == 69 else code,
                    members=[
                        member_answer(member, subscribed_topic_names=self._group(name).subscribed)
                        for member in self._group(name).members
                    ],
                )
                for name in request.group_ids
            ]
        )

    def _consumer_group_describe(self, node: int, request: Any) -> Any:
        return self._of_kind(request, "Consumer")

    def _share_group_describe(self, node: int, request: Any) -> Any:
        return self._of_kind(request, "Share")

    def _streams_group_describe(self, node: int, request: Any) -> Any:
        return self._of_kind(request, "Streams")

    def _offset_fetch(self, node: int, request: Any) -> Any:
        def group(name: str) -> Any:
            unstable = self.groups[name].unstable if request.require_stable else ()
            topics = [
                Answer(
                    name=topic,
                    partitions=[
                        Answer(partition_index=number, error_code=88, committed_offset=-1)
                        if (topic, number) in unstable
                        else Answer(partition_index=number, error_code=0, committed_offset=offset)
                    ],
                )
                for (topic, number), offset in self.groups[name].committed.items()
            ]
            return Answer(group_id=name, error_code=self.refuse.get("OffsetFetch", 0), topics=topics)

        return Answer(groups=[group(asked_group.group_id) for asked_group in request.groups])

    # --- Looking back ---

    def requests(self, name: str) -> list[Any]:
        return [request for _, asked, request in self.asked if asked == name]

    def cluster(
        self,
        directory: Path | None = None,
        name: str = "prod",
        grouping: Grouping | None = None,
    ) -> Cluster:
        return Cluster(
            Properties({"bootstrap.servers": "k1:9092"}),
            cast("ClusterClient", self),
            grouping or Grouping(),
            StateDir(directory),
            name,
            self.time.clock,
        )

    def reader(self) -> FakeTail:
        self.log_reads.tails += 1
        return FakeTail(self)

    def tail(self, properties: Properties, topic: str) -> FakeTail:
        self.log_reads.tails += 1
        return FakeTail(self)


class FakeMessage(NamedTuple):
    """As ``confluent_kafka.Message``."""

    problem: KafkaError | None
    number: int
    at: int
    ms: int = -1
    the_key: bytes | None = None
    the_value: bytes | None = None
    epoch: int = 0

    def error(self) -> KafkaError | None:
        return self.problem

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return (1, self.ms)

    def key(self) -> bytes | None:
        return self.the_key

    def value(self) -> bytes | None:
        return self.the_value

    def leader_epoch(self) -> int | None:
        return self.epoch


class FakeTail:
    """A tail of the world's log: records, and the end of a partition once it is reached anew."""

    def __init__(self, world: FakeKafka) -> None:
        self._world = world
        self._positions: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._gone: set[int] = set()

    def assign(self, positions: Mapping[int, int], epochs: Mapping[int, int] | None = None) -> None:
        self._positions, self._ended, self._gone = dict(positions), {}, set()

    def leave(self, partition: int) -> None:
        self._positions.pop(partition, None)

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        found: list[Polled] = []
        if self._world.log_reads.cut:
            self._world.time.pass_(self._world.log_reads.cut_seconds)
            return found
        for number, position in self._positions.items():
            if self._world.log_reads.refused:
                found.append(FakeMessage(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), number, -1001))
                continue
            partition = self._world.topics[LOG][number]
            log_end = partition.high_watermark if partition.log_end is None else partition.log_end
            if not partition.log_start <= position <= log_end:
                if number not in self._gone:
                    self._gone.add(number)
                    found.append(FakeMessage(KafkaError(KafkaError._AUTO_OFFSET_RESET), number, -1001))
                continue
            if partition.leader is None or number in self._world.log_reads.silent:
                continue
            log = self._world.log.get(number, [])  # by offset
            first = bisect_left(log, position, key=_offset)
            last = bisect_left(log, partition.high_watermark, key=_offset)
            records = log[first:last]
            for record in records[: max(0, limit - len(found))]:
                epoch = partition.epoch - (record.offset < partition.epoch_begins)
                found.append(FakeMessage(None, number, record.offset, record.ms, record.key, record.value, epoch))
                self._positions[number] = record.offset + 1
            end = max(partition.high_watermark, self._positions[number])
            waiting = any(record.offset >= self._positions[number] for record in records)
            if not waiting and self._ended.get(number) != end and len(found) < limit:
                self._positions[number] = self._ended[number] = end
                found.append(FakeMessage(KafkaError(KafkaError._PARTITION_EOF), number, end))
        return found

    def trouble(self) -> Fault | None:
        return Fault(Reason.UNREACHABLE, "all brokers are down") if self._world.log_reads.cut else None

    @property
    def disconnects(self) -> int:
        return self._world.log_reads.disconnects

    def reconnect(self, servers: str) -> None:
        self._world.log_reads.reconnected.append(servers)

    def close(self) -> None:
        """The source holds no resources."""


class SourceRead:
    """The result of one read."""

    def __init__(self, given: Iterable[Sample | SampleBatch | Fault | Fact]) -> None:
        self.samples: list[Sample] = []
        self.faults: list[Fault] = []
        self.facts: dict[type[Fact], Fact] = {}
        for record in given:
            if isinstance(record, Sample):
                self.samples.append(record)
            elif isinstance(record, SampleBatch):
                self.samples += record.samples
            elif isinstance(record, Fault):
                self.faults.append(record)
            else:
                self.facts[type(record)] = record
        keys = [(sample.metric.name, sample.labels) for sample in self.samples]
        assert len(keys) == len(set(keys)), "a series was given twice"

    def values(self, metric: Metric) -> dict[tuple[str, ...], Any]:
        """By label values, without the cluster's name."""
        return {sample.labels[1:]: sample.value for sample in self.samples if sample.metric is metric}

    def value(self, metric: Metric, *labels: str) -> Any:
        return self.values(metric).get(labels)

    @property
    def reasons(self) -> set[Reason]:
        return {fault.reason for fault in self.faults}


def world_of(log: int = 1, offsets: int = 0, **topics: int) -> FakeKafka:
    """A cluster with as many partitions of the transaction log, of __consumer_offsets, and of the topics by name."""
    counts = {LOG: log, OFFSETS: offsets, **topics}
    return FakeKafka(topics={name: partitions(count) for name, count in counts.items() if count})


def read(world: FakeKafka, source: Source, *facts: Fact, seconds: float = 10.0) -> SourceRead:
    deadline = Deadline.after(seconds, world.time.clock.monotonic)
    return SourceRead(source.read(deadline, Facts({type(fact): fact for fact in facts}, facts)))


def partitions(count: int, make: Callable[[], Partition] = Partition) -> list[Partition]:
    return [make() for _ in range(count)]


def places(topic: str, *numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)
