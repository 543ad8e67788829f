"""What the MBeans of Connect's workers show of connectors and tasks."""

from __future__ import annotations

from typing import Any

from exporter.connect.rest import Connector, Task
from exporter.connect.workers import WorkerView
from exporter.jvm.answers import MBeanValue
from exporter.jvm.mbeans import parse_object_name
from exporter.words import FailureCause


def reading(connector: str, task: str, status: str) -> MBeanValue:
    name = f"kafka.connect:type=connector-task-metrics,connector={connector},task={task}"
    return MBeanValue(parse_object_name(name), "status", status)


class WalkedTasks(dict[Any, Any]):
    """Tasks that count how often somebody goes through all of them."""

    walks = 0

    def items(self) -> Any:
        self.walks += 1
        return super().items()


def test_all_tasks_are_gone_through_once_for_all_connectors() -> None:
    view = WorkerView([reading("b", "0", "FAILED"), reading("a", "1", "RUNNING"), reading("a", "0", "RUNNING")])
    tasks = WalkedTasks(view.tasks)
    view.tasks = tasks
    assert view.connectors() == (
        Connector("a", "", tasks=(Task("a", "0", "running"), Task("a", "1", "running"))),
        Connector("b", "", tasks=(Task("b", "0", "failed", cause=FailureCause.OTHER),)),
    )
    assert tasks.walks == 1
