"""The internal topics of a cluster: the state of their partitions, and the ids whose coordinator cannot write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping

from exporter import catalogue
from exporter.cluster import Cluster
from exporter.core.derived import Derived
from exporter.core.replication import is_under_min_isr
from exporter.kafka.requests.configs import MIN_ISR
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata, PartitionMetadata
from exporter.model import Deadline, Fault, Reason, Sample, SampleBatch
from exporter.transactions.facts import KnownIds

CONFIG_INTERVAL = 300.0
"""Seconds between two reads of min.insync.replicas."""
RETRY_INTERVAL = 30.0
"""The same while a request for it failed."""

NO_SAMPLES = SampleBatch(())


class InternalTopics:
    """Reads min.insync.replicas, and dates what is broken. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._min_isr: dict[str, int] = {}
        self._configured_at: float | None = None
        self._faults: tuple[Fault, ...] = ()
        self._broken_since: dict[tuple[str, str], dict[int, float]] = {}  # monotonic
        self._wall_at_zero = 0.0  # of the monotonic clock
        self._unavailable = Derived(unavailable_ids)
        self._batch = Derived(SampleBatch)

    def configure(self, metadata: Metadata, deadline: Deadline) -> tuple[Fault, ...]:
        """Read min.insync.replicas of the topics when it is due. Returns the faults of the last time."""
        now = self._cluster.clock.monotonic()
        interval = RETRY_INTERVAL if self._faults else CONFIG_INTERVAL
        fresh = self._configured_at is not None and now - self._configured_at < interval
        known = all(topic in self._min_isr for topic in metadata.topics)
        if fresh and (known or self._faults):
            return self._faults
        faults = []
        for topic in metadata.topics:
            answer = self._cluster.client.config("topic", topic, (MIN_ISR,), deadline)
            if isinstance(answer, Fault):
                faults.append(answer)
                if answer.reason is Reason.AUTHORIZATION:  # nothing shows a change of it from now on
                    self._min_isr.pop(topic, None)
            elif answer.get(MIN_ISR, "").isdigit():
                self._min_isr[topic] = int(answer[MIN_ISR])
        self._faults = tuple(dict.fromkeys(faults))
        self._configured_at = now
        return self._faults

    def samples(self, metadata: Metadata) -> Iterator[Sample | Fault]:
        """Yield how many partitions of each topic are in which condition."""
        for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            fault = metadata.errors.get(topic)
            if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
                yield fault
            if (partitions := metadata.topics.get(topic)) is None:
                continue
            values = {
                "total": len(partitions),
                "offline": sum(partition.leader is None for partition in partitions.values()),
                "under_replicated": sum(
                    len(partition.isr) < len(partition.replicas) for partition in partitions.values()
                ),
            }
            if (minimum := self._min_isr.get(topic)) is not None:
                values["under_min_isr"] = sum(
                    is_under_min_isr(partition.isr, partition.replicas, minimum) for partition in partitions.values()
                )
            for condition, count in values.items():
                yield catalogue.INTERNAL_TOPIC_PARTITIONS(float(count), self._cluster.name, topic, condition)
            yield from self._broken(topic, partitions)

    def _broken(self, topic: str, partitions: Mapping[int, PartitionMetadata]) -> Iterator[Sample]:
        """The partition that has been longest in a condition: two partitions in turn do not add up to one long gap."""
        clock, cluster = self._cluster.clock, self._cluster.name
        now = clock.monotonic()
        # Our wall clock may be set while a partition is broken: it is dated by what that shows then.
        if abs(clock.wall() - now - self._wall_at_zero) >= 1.0:
            self._wall_at_zero = clock.wall() - now
        minimum = self._min_isr.get(topic, 0)
        broken = {
            "offline": {number for number, partition in partitions.items() if partition.leader is None},
            "under_min_isr": {
                number
                for number, partition in partitions.items()
                if is_under_min_isr(partition.isr, partition.replicas, minimum)
            },
        }
        for condition, numbers in broken.items():
            before = self._broken_since.get((topic, condition), {})
            since = {number: before.get(number, now) for number in numbers}
            self._broken_since[topic, condition] = since
            if since:
                instant = self._wall_at_zero + min(since.values())
                yield catalogue.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS(instant, cluster, topic, condition)

    def unavailable(self, metadata: Metadata, known: KnownIds) -> SampleBatch:
        """How many ids of each application have no coordinator that can write."""
        partitions = metadata.topics.get(TRANSACTION_STATE)
        minimum = self._min_isr.get(TRANSACTION_STATE)
        if partitions is None or minimum is None:
            return NO_SAMPLES
        lost = frozenset(number for number in known.by_partition if _cannot_write(partitions.get(number), minimum))
        return self._batch(self._unavailable(self._cluster.name, known, lost))


def unavailable_ids(cluster: str, known: KnownIds, lost: Container[int]) -> tuple[Sample, ...]:
    """For each application, how many of its ids are on these partitions of the log."""
    counts: Counter[str] = Counter()
    for number, applications in known.by_partition.items():
        counts.update(applications if number in lost else dict.fromkeys(applications, 0))
    return tuple(
        catalogue.TRANSACTIONAL_IDS_UNAVAILABLE(float(ids), cluster, application) for application, ids in counts.items()
    )


def _cannot_write(partition: PartitionMetadata | None, minimum: int) -> bool:
    """The coordinator writes with acks=all: without a leader or enough in-sync replicas no transaction moves."""
    return partition is None or partition.leader is None or is_under_min_isr(partition.isr, partition.replicas, minimum)
