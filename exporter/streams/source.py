"""One JVM with Kafka Streams in it: clients, threads and tasks by MBeans, changelogs by the cluster's offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from exporter import catalogue
from exporter.applications.naming import UUID
from exporter.cluster import Cluster, TargetSource
from exporter.jvm.reader import JvmReader, MBeanQuery, MBeanValue
from exporter.kafka.client import AskError
from exporter.kafka.requests.offsets import both_ends
from exporter.model import Deadline, Fact, Facts, Fault, Sample
from exporter.producers import producer_samples
from exporter.streams.streams_samples import (
    CONSUMER,
    NUMBERS,
    OFFSET_COMMITS,
    REBALANCES,
    guarantee_samples,
    jvm_samples,
)

CLIENT = "kafka.streams:type=stream-metrics,client-id=*"
# States as numbers, for KIP-714 (KIP-1091, Kafka 4.0): what remains where a jmx_exporter drops texts.
CLIENT_NUMBER = "kafka.streams:type=stream-metrics,process-id=*,application-id=*,client-id=*"
THREAD = "kafka.streams:type=stream-thread-metrics,thread-id=*"
THREAD_NUMBER = "kafka.streams:type=stream-thread-metrics,process-id=*,thread-id=*"
UPDATER = "kafka.streams:type=stream-state-updater-metrics,thread-id=*"
PRODUCER = f"kafka.producer:type={producer_samples.TYPE},client-id=*"
COORDINATOR = f"kafka.consumer:type={CONSUMER},client-id=*"
TASK = "kafka.streams:type=stream-task-metrics,thread-id=*,task-id=*"

QUERIES = (
    MBeanQuery(CLIENT, ("state", "application-id", "failed-stream-threads")),
    MBeanQuery(CLIENT_NUMBER, ("client-state",)),
    MBeanQuery(THREAD, ("state", "commit-total", "commit-latency-avg", "commit-latency-max")),
    MBeanQuery(THREAD_NUMBER, ("thread-state",)),
    MBeanQuery(UPDATER, NUMBERS["stream-state-updater-metrics"]),
    MBeanQuery(TASK, NUMBERS["stream-task-metrics"]),
    MBeanQuery(PRODUCER, (producer_samples.INIT,)),
    MBeanQuery(COORDINATOR, (OFFSET_COMMITS, *REBALANCES.values())),
)

_CLIENT_ID = re.compile(rf"(?P<application>.+)-{UUID}", re.DOTALL)  # KafkaStreams: <application.id>-<process UUID>
TIMEOUT_SECONDS = 8.0
_CHANGELOG = "-changelog"  # ProcessorStateManager.STATE_CHANGELOG_TOPIC_SUFFIX


class StreamsSource(TargetSource[Cluster]):
    """Source ``streams`` of one JVM."""

    name = "streams"

    def __init__(self, cluster: Cluster, target: str, reader: JvmReader, interval: float = 10.0) -> None:
        super().__init__(cluster, target, interval, TIMEOUT_SECONDS)
        self._reader = reader

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:  # noqa: ARG002 the protocol's
        # At most half of the time, so that a JVM that hangs leaves time for the cluster's answers.
        answer = self._reader.read(QUERIES, deadline.within(deadline.remaining() / 2))
        yield from answer.faults
        yield from jvm_samples((self.cluster, self.target), answer.values)
        applications = applications_by_client(answer.values)
        yield from guarantee_samples((self.cluster, self.target), answer.values, applications)
        if applications:
            yield from self._changelogs(frozenset(applications.values()), deadline)

    def _changelogs(self, applications: Iterable[str], deadline: Deadline) -> Iterator[Sample | Fault]:
        try:
            metadata = self._cluster.metadata(deadline, max_age=self.interval)
        except AskError as error:
            yield error.fault
            return
        owners = changelog_owners(metadata.topics, applications)
        partitions = {topic: metadata.partitions(topic) for topic in owners}
        ends = both_ends(self._cluster.client, metadata, chain.from_iterable(partitions.values()), deadline)
        yield from ends.faults
        for topic, application in owners.items():
            mine = partitions[topic]
            if all(partition in ends.high for partition in mine):
                lag = sum(max(0, ends.high[partition] - ends.stable[partition]) for partition in mine)
                yield catalogue.STREAMS_CHANGELOG_LAG_OFFSETS(float(lag), self.cluster, self.target, application, topic)


def applications_by_client(readings: Iterable[MBeanValue]) -> Mapping[str, str]:
    """The application.id of each client in this JVM: as it reports it, otherwise from its client id."""
    said: dict[str, str] = {}
    guessed: dict[str, str] = {}
    for mbean, attribute, value in readings:
        if mbean.type != "stream-metrics":
            continue
        client = mbean.properties.get("client-id", "")
        if attribute == "application-id" and isinstance(value, str):
            said[client] = value
        elif "application-id" in mbean.properties:
            said[client] = mbean.properties["application-id"]
        elif match := _CLIENT_ID.fullmatch(client):
            guessed[client] = match["application"]
    return {**guessed, **said}


def changelog_owners(topics: Iterable[str], applications: Iterable[str]) -> Mapping[str, str]:
    """The changelog topics of these applications, ``<application.id>-<store>-changelog``, by topic.

    The longest name wins: of ``totals`` and ``totals-eu``, the latter has ``totals-eu-x-changelog``.
    """
    known = frozenset(applications)
    owners = {}
    for topic in topics:
        if topic.endswith(_CHANGELOG):
            # The applications are not gone through: there may be thousands, and as many topics.
            dashes = [at for at, sign in enumerate(topic) if sign == "-"]
            owner = next((topic[:at] for at in reversed(dashes) if topic[:at] in known), None)
            if owner is not None:
                owners[topic] = owner
    return owners
