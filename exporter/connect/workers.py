"""MBeans of a Connect worker on the tasks that it runs (ConnectMetricsRegistry)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter.bounds.text import cut
from exporter.connect.failures import TaskKey
from exporter.connect.rest import LONGEST_VERSION, Connector, Task
from exporter.jvm.reader import JvmAnswer, MBeanQuery, MBeanValue
from exporter.words import FailureCause

CONNECTOR = "kafka.connect:type=connector-metrics,connector=*"
TASK = "kafka.connect:type=connector-task-metrics,connector=*,task=*"
SOURCE_TASK = "kafka.connect:type=source-task-metrics,connector=*,task=*"
SINK_TASK = "kafka.connect:type=sink-task-metrics,connector=*,task=*"
PRODUCER = "kafka.producer:type=producer-metrics,client-id=*"

QUERIES = (
    MBeanQuery(CONNECTOR, ("connector-type", "status")),
    MBeanQuery(
        TASK,
        (
            "status",
            "running-ratio",
            "offset-commit-success-percentage",
            "offset-commit-failure-percentage",
            "offset-commit-avg-time-ms",
            "offset-commit-max-time-ms",
        ),
    ),
    MBeanQuery(
        SOURCE_TASK,
        (
            "source-record-poll-total",
            "source-record-write-total",
            "transaction-size-min",
            "transaction-size-avg",
            "transaction-size-max",
        ),
        presence=True,
    ),
    MBeanQuery(SINK_TASK, ("sink-record-read-total", "sink-record-send-total", "offset-commit-completion-total")),
    MBeanQuery(PRODUCER, ("txn-init-time-ns-total",), presence=True),
    MBeanQuery("kafka.connect:type=app-info,id=*", ("Version",)),
)


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """The metrics of one task by attribute name, numbers and texts; an attribute that the worker does not report is
    absent.
    """

    numbers: Mapping[str, float]
    status: str = ""

    def get(self, *names: str) -> float | None:
        """The first of these attributes that is there."""
        return next((self.numbers[name] for name in names if name in self.numbers), None)

    @property
    def records(self) -> float | None:
        """Counts that only grow from the task's start on: records that it polled, or that it read."""
        return self.get("source-record-poll-total", "sink-record-read-total")

    @property
    def commit_ratios(self) -> Mapping[str, float]:
        """Share of offset commits by result; empty before the first, when both are 0. The attributes are named
        percentage and hold ratios.
        """
        found = {
            result: ratio
            for result in ("success", "failure")
            if (ratio := self.get(f"offset-commit-{result}-percentage")) is not None
        }
        return found if any(found.values()) else {}


class WorkerView:
    """Folds the readings of one worker or several."""

    def __init__(self, readings: Iterable[MBeanValue]) -> None:
        self._types: dict[str, str] = {}
        self._types_of_tasks: dict[str, str] = {}
        self._states: dict[str, str] = {}
        values: dict[TaskKey, dict[str, Any]] = defaultdict(dict)
        for mbean, attribute, value in readings:
            if mbean.domain != "kafka.connect":
                continue
            connector = mbean.properties.get("connector", "")
            task = mbean.properties.get("task")
            if task is not None:
                values[connector, task][attribute] = value
                if mbean.type in {"source-task-metrics", "sink-task-metrics"}:
                    self._types_of_tasks[connector] = mbean.type.partition("-")[0]
            elif attribute == "connector-type":
                self._types[connector] = str(value).lower()
            elif attribute == "status":
                self._states[connector] = str(value).lower()
        self.tasks: Mapping[TaskKey, TaskNumbers] = {
            key: TaskNumbers(
                {name: value for name, value in found.items() if isinstance(value, float)},
                str(found.get("status", "")).lower(),
            )
            for key, found in values.items()
        }

    def connectors(self) -> tuple[Connector, ...]:
        """The connectors as far as MBeans know them: no settings, and no reason of a failure."""
        tasks: dict[str, list[Task]] = defaultdict(list)
        for (name, task), numbers in sorted(self.tasks.items()):
            cause = FailureCause.OTHER if numbers.status == "failed" else None
            tasks[name].append(Task(name, task, numbers.status, cause=cause))
        return tuple(
            Connector(
                name=name,
                type=self._type(name),
                state=self._states.get(name, ""),
                tasks=tuple(tasks.get(name, ())),
            )
            for name in sorted({*self._types, *self._states, *tasks})
        )

    def _type(self, connector: str) -> str:
        said = self._types.get(connector, "")
        return said if said in {"source", "sink"} else self._types_of_tasks.get(connector, "")


def versions_by_mbeans(answers: Iterable[JvmAnswer]) -> dict[str, str]:
    """The version of each worker by its id, ``host:port`` (AppInfoParser); a jmx_exporter leaves it out."""
    return {
        mbean.properties.get("id", ""): cut(value, LONGEST_VERSION)
        for answer in answers
        for mbean, attribute, value in answer.values
        if mbean.type == "app-info" and attribute == "Version" and isinstance(value, str)
    }


def transactional_tasks(answers: Iterable[JvmAnswer]) -> dict[TaskKey, bool]:
    """Return whether each source task that a worker runs writes in transactions.

    ``transaction-size-*`` exist for the tasks of ExactlyOnceWorkerSourceTask alone (ConnectMetricsRegistry), with or
    without a value. A task is absent where that cannot be seen: a jmx_exporter's rules may leave the attributes out.
    """
    found: dict[TaskKey, bool] = {}
    for answer in answers:
        sizes: dict[TaskKey, bool] = {}
        for mbean, attribute, _ in answer.values:
            if mbean.type == "source-task-metrics" and "task" in mbean.properties:
                key = (mbean.properties.get("connector", ""), mbean.properties["task"])
                sizes[key] = sizes.get(key, False) or attribute.startswith("transaction-size-")
        certain = answer.exhaustive and not any(query.pattern == SOURCE_TASK for query in answer.failed)
        for key, transactional in sizes.items():
            if transactional or certain:
                # A task that moved may be seen on two workers: the one with transactions is settled by its own MBean.
                found[key] = found.get(key, False) or transactional
    return found


def leader_is_transactional(answers: Sequence[JvmAnswer], group_id: str) -> bool | None:
    """Return whether the leader of the group writes the config topic in transactions: its worker is preparing or
    enabled.

    Its producer has the client id ``<group.id>-configs-leader`` (seen on 4.3.1). None where not every worker answered
    in full, and where the group is not known.
    """
    if not group_id or not answers:
        return None
    leader = f"{group_id}-configs-leader"
    if any(value.mbean.properties.get("client-id") == leader for answer in answers for value in answer.values):
        return True
    whole = all(answer.exhaustive and not answer.faults for answer in answers)
    return False if whole else None
