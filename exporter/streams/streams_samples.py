"""Metrics of Kafka Streams to samples: the same MBeans whether they are read from a JVM or pushed by its clients."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from exporter import catalogue
from exporter.jvm.answers import MBeanValue
from exporter.model import Sample
from exporter.producers import producer_samples

NUMBERS: Mapping[str, tuple[str, ...]] = {
    "stream-metrics": ("client-state", "failed-stream-threads"),
    "stream-thread-metrics": ("thread-state", "commit-total", "commit-latency-avg", "commit-latency-max"),
    "stream-state-updater-metrics": ("active-restoring-tasks", "active-paused-tasks"),
    "stream-task-metrics": ("restore-remaining-records-total",),
}
"""The attributes that are numbers, by the type of their MBean."""

# StreamThread.create: thread and state updater share the client id before and the number behind these.
_THREAD, _UPDATER = "-StreamThread-", "-StateUpdater-"
CONSUMER = "consumer-coordinator-metrics"
OFFSET_COMMITS = "commit-total"
REBALANCES: Mapping[str, str] = {"completed": "rebalance-total", "failed": "failed-rebalance-total"}
# ClientUtils: the clients of a thread; with exactly_once (until Kafka 3.x) each task has a producer.
_THREADS_CONSUMER = re.compile(r"(?P<thread>(?P<client>.+)-StreamThread-\d+)-consumer", re.DOTALL)
_THREADS_PRODUCER = re.compile(r"(?P<client>.+)-StreamThread-\d+(?P<task>-\d+_\d+)?-producer", re.DOTALL)


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
            total = restoring.get(thread, 0.0) + value  # pushed numbers may be of any size: their sum stays finite
            restoring[thread] = max(-sys.float_info.max, min(sys.float_info.max, total))
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
    for mbean, attribute, value in readings:
        if mbean.type == "stream-metrics" and attribute == "failed-stream-threads" and isinstance(value, float):
            yield catalogue.STREAMS_FAILED_THREADS_TOTAL(value, *head, mbean.properties.get("client-id", ""))
    yield from _rebalances(head, readings)


def guarantee_samples(
    head: tuple[str, str], readings: Iterable[MBeanValue], applications: Mapping[str, str]
) -> Iterator[Sample]:
    """How the applications of this JVM commit, from what their clients did. ``applications`` has their client ids.

    No MBean has processing.guarantee. A thread commits either with its producer, which called initTransactions then,
    or with commitSync of its consumer (TaskExecutor.commitOffsetsOrTransaction). Where neither was seen, none is given.
    """
    found: set[tuple[str, str]] = set()
    for mbean, attribute, value in readings:
        client_id = mbean.properties.get("client-id", "")
        if not isinstance(value, float) or value <= 0:
            continue
        if mbean.type == producer_samples.TYPE and attribute == producer_samples.INIT:
            match = _THREADS_PRODUCER.fullmatch(client_id)
            guarantee = "exactly_once" if match is not None and match["task"] else "exactly_once_v2"
        elif mbean.type == CONSUMER and attribute == OFFSET_COMMITS:
            match, guarantee = _THREADS_CONSUMER.fullmatch(client_id), "at_least_once"
        else:
            continue
        if match is not None and match["client"] in applications:
            found.add((applications[match["client"]], guarantee))
    for application, guarantee in sorted(found):
        yield catalogue.STREAMS_PROCESSING_GUARANTEE(1.0, *head, application, guarantee)


def _rebalances(head: tuple[str, str], readings: Iterable[MBeanValue]) -> Iterator[Sample]:
    results = {attribute: result for result, attribute in REBALANCES.items()}
    for mbean, attribute, value in readings:
        if mbean.type != CONSUMER or attribute not in results or not isinstance(value, float):
            continue
        if match := _THREADS_CONSUMER.fullmatch(mbean.properties.get("client-id", "")):
            yield catalogue.STREAMS_REBALANCES_TOTAL(value, *head, match["thread"], results[attribute])


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
