"""One JVM with Kafka Streams in it: clients, threads and tasks by MBeans, changelogs by the cluster's offsets."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporter import catalogue
from exporter.jvm.reader import JvmAnswer, JvmReader, MBeanQuery, MBeanValue
from exporter.kafka.client import AskError
from exporter.kafka.requests.offsets import both_ends
from exporter.model import Deadline, Fact, Facts, Fault, Sample, TopicPartition
from exporter.sources.cluster import Cluster, ClusterSource

log = logging.getLogger(__name__)

CLIENT = "kafka.streams:type=stream-metrics,client-id=*"
# States as numbers, for KIP-714 (KIP-1091, Kafka 4.0): what remains where a jmx_exporter drops texts.
CLIENT_NUMBER = "kafka.streams:type=stream-metrics,process-id=*,application-id=*,client-id=*"
THREAD = "kafka.streams:type=stream-thread-metrics,thread-id=*"
THREAD_NUMBER = "kafka.streams:type=stream-thread-metrics,process-id=*,thread-id=*"
UPDATER = "kafka.streams:type=stream-state-updater-metrics,thread-id=*"
TASK = "kafka.streams:type=stream-task-metrics,thread-id=*,task-id=*"

QUERIES = (
    MBeanQuery(CLIENT, ("state", "application-id")),
    MBeanQuery(CLIENT_NUMBER, ("client-state",)),
    MBeanQuery(THREAD, ("state", "commit-total", "commit-latency-avg", "commit-latency-max")),
    MBeanQuery(THREAD_NUMBER, ("thread-state",)),
    MBeanQuery(UPDATER, ("active-restoring-tasks", "active-paused-tasks")),
    MBeanQuery(TASK, ("restore-remaining-records-total",)),
)

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_CLIENT_ID = re.compile(rf"(?P<application>.+)-{_UUID}", re.DOTALL)  # KafkaStreams: <application.id>-<process UUID>
# StreamThread.create: thread and state updater share the client id before and the number behind these.
_THREAD, _UPDATER = "-StreamThread-", "-StateUpdater-"
_CHANGELOG = "-changelog"  # ProcessorStateManager.STATE_CHANGELOG_TOPIC_SUFFIX


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """``target`` names the JVM, as ``host:port``."""

    target: str
    interval: float = 10.0
    timeout: float = 8.0


class StreamsSource(ClusterSource[Cluster]):
    """Source ``streams`` of one JVM."""

    name = "streams"

    def __init__(self, cluster: Cluster, settings: StreamsSettings, jvm: JvmReader) -> None:
        super().__init__(cluster)
        self._jvm = jvm
        self.target = settings.target
        self.pace = self.interval = settings.interval
        self.timeout = settings.timeout
        self._dropped: frozenset[str] = frozenset()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:  # noqa: ARG002 the protocol's
        # At most half of the time, so that a JVM that hangs leaves time for the cluster's answers.
        answer = self._jvm.read(QUERIES, deadline.within(deadline.remaining() / 2))
        yield from answer.faults
        self._say_left_out(answer)
        yield from jvm_samples((self.cluster, self.target), answer.values)
        if applications := applications_of(answer.values):
            yield from self._changelogs(applications, deadline)

    def _changelogs(self, applications: Iterable[str], deadline: Deadline) -> Iterator[Sample | Fault]:
        client = self._cluster.client
        try:
            metadata = self._cluster.metadata(deadline, max_age=self.interval)
        except AskError as error:
            yield error.fault
            return
        owners = changelog_owners(metadata.topics, applications)
        partitions = [TopicPartition(topic, number) for topic in owners for number in metadata.topics[topic]]
        ends = both_ends(client, metadata, partitions, deadline)
        yield from ends.faults
        for topic, application in owners.items():
            mine = [partition for partition in partitions if partition.topic == topic]
            if all(partition in ends.high for partition in mine):
                lag = sum(max(0, ends.high[each] - ends.stable[each]) for each in mine)
                yield catalogue.STREAMS_CHANGELOG_LAG_OFFSETS(float(lag), self.cluster, self.target, application, topic)

    def _say_left_out(self, answer: JvmAnswer) -> None:
        """Log what the rules of a jmx_exporter drop, with the rule that would add it, when it changes."""
        notes = frozenset(
            f"the jmx_exporter leaves out {missing.attribute} of {missing.query.pattern}; "
            f"put first into its rules: {missing.remedy}"
            for missing in answer.missing
        )
        for note in sorted(notes - self._dropped):
            log.info("streams %s: %s", self.target, note)
        self._dropped = notes


def jvm_samples(head: tuple[str, str], readings: Sequence[MBeanValue]) -> Iterator[Sample]:
    """Samples of MBeans. ``head`` are the cluster's name and the target."""
    threads: dict[str, dict[str, float]] = defaultdict(dict)
    restoring: dict[str, float] = {}
    remaining: dict[tuple[str, str], float] = {}
    for mbean, attribute, value in readings:
        thread = mbean.properties.get("thread-id", "")
        if isinstance(value, str):
            continue
        if mbean.type == "stream-thread-metrics":
            threads[thread][attribute] = value
        elif mbean.type == "stream-state-updater-metrics":
            restoring[thread] = restoring.get(thread, 0.0) + value
        elif mbean.type == "stream-task-metrics":
            remaining[thread, mbean.properties.get("task-id", "")] = value
    thread_states = states(
        readings, "stream-thread-metrics", "thread-id", "thread-state", catalogue.STREAMS_THREAD_STATES
    )
    for (thread, task), records in remaining.items():
        # Transaction markers in the changelog are never subtracted: 13 may "remain" of a running task (seen on 4.3.1).
        # Its thread runs, with everything restored, and the thread's state updater has nothing to restore.
        done = (
            thread_states.get(thread, "running") == "running" and restoring.get(thread.replace(_THREAD, _UPDATER)) == 0
        )
        yield catalogue.STREAMS_RESTORE_REMAINING_RECORDS(0.0 if done else records, *head, thread, task)
    for thread, numbers in threads.items():
        if (commits := numbers.get("commit-total")) is not None:
            yield catalogue.STREAMS_THREAD_COMMITS_TOTAL(commits, *head, thread)
    for thread, numbers in threads.items():
        for stat in ("avg", "max"):
            if (millis := numbers.get(f"commit-latency-{stat}")) is not None:
                yield catalogue.STREAMS_THREAD_COMMIT_LATENCY_SECONDS(millis / 1000, *head, thread, stat)
    for thread, tasks in restoring.items():
        yield catalogue.STREAMS_RESTORING_TASKS(tasks, *head, thread)
    for thread, state in thread_states.items():
        yield catalogue.STREAMS_THREAD_STATE(1.0, *head, thread, state)
    for client, state in states(
        readings, "stream-metrics", "client-id", "client-state", catalogue.STREAMS_CLIENT_STATES
    ).items():
        yield catalogue.STREAMS_CLIENT_STATE(1.0, *head, client, state)


def states(readings: Iterable[MBeanValue], kind: str, key: str, number: str, names: Sequence[str]) -> Mapping[str, str]:
    """The state of each, from the attribute ``state``, otherwise from ``number``, which counts in the order of the
    enum.

    A state that is not in ``names`` is of a newer Kafka, and left out.
    """
    worded: dict[str, str] = {}
    counted: dict[str, str] = {}
    for mbean, attribute, value in readings:
        if mbean.type != kind:
            continue
        who = mbean.properties.get(key, "")
        if attribute == "state" and isinstance(value, str):
            worded[who] = value.lower()
        elif attribute == number and isinstance(value, float) and 0 <= value < len(names):
            counted[who] = names[int(value)]
    return {who: state for who, state in {**counted, **worded}.items() if state in names}


def applications_of(readings: Iterable[MBeanValue]) -> frozenset[str]:
    """The application.ids in this JVM: as its clients report them, otherwise from their client ids."""
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
    return frozenset({**guessed, **said}.values())


def changelog_owners(topics: Iterable[str], applications: Iterable[str]) -> Mapping[str, str]:
    """The changelog topics of these applications, ``<application.id>-<store>-changelog``, by topic.

    The longest name wins: of ``totals`` and ``totals-eu``, the latter has ``totals-eu-x-changelog``.
    """
    longest_first = sorted(applications, key=len, reverse=True)
    owners = {}
    for topic in topics:
        if topic.endswith(_CHANGELOG):
            owner = next((each for each in longest_first if topic.startswith(each + "-")), None)
            if owner is not None:
                owners[topic] = owner
    return owners
