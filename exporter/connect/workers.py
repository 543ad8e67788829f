"""MBeans of a Connect worker on the tasks that it runs (ConnectMetricsRegistry)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.connect.failures import TaskKey
from exporter.connect.rest import Connector, Task
from exporter.jvm.reader import MBeanQuery, MBeanValue
from exporter.words import FailureCause

CONNECTOR = "kafka.connect:type=connector-metrics,connector=*"
TASK = "kafka.connect:type=connector-task-metrics,connector=*,task=*"
SOURCE_TASK = "kafka.connect:type=source-task-metrics,connector=*,task=*"
SINK_TASK = "kafka.connect:type=sink-task-metrics,connector=*,task=*"

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
    ),
    MBeanQuery(SINK_TASK, ("sink-record-read-total", "sink-record-send-total")),
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
        """What only grows from the task's start on: records that it polled, or that it read."""
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
        self._states: dict[str, str] = {}
        values: dict[TaskKey, dict[str, Any]] = defaultdict(dict)
        for mbean, attribute, value in readings:
            connector = mbean.properties.get("connector", "")
            task = mbean.properties.get("task")
            if task is not None:
                values[connector, task][attribute] = value
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
        self._sources = {mbean.properties.get("connector", "") for mbean in _of(readings, "source-task-metrics")}
        self._sinks = {mbean.properties.get("connector", "") for mbean in _of(readings, "sink-task-metrics")}

    def connectors(self) -> tuple[Connector, ...]:
        """The connectors as far as MBeans know them: no settings, and no reason of a failure."""
        names = {*self._types, *self._states, *(connector for connector, _ in self.tasks)}
        return tuple(
            Connector(
                name=name,
                type=self._type(name),
                state=self._states.get(name, ""),
                tasks=tuple(
                    Task(name, task, numbers.status, cause=FailureCause.OTHER if numbers.status == "failed" else None)
                    for (connector, task), numbers in sorted(self.tasks.items())
                    if connector == name
                ),
            )
            for name in sorted(names)
        )

    def _type(self, connector: str) -> str:
        said = self._types.get(connector, "")
        if said in {"source", "sink"}:
            return said
        return "source" if connector in self._sources else "sink" if connector in self._sinks else ""


def _of(readings: Iterable[MBeanValue], kind: str) -> Iterator[Any]:
    return (reading.mbean for reading in readings if reading.mbean.type == kind)
