"""Facts that the source of a Connect cluster publishes for the status page and the posture checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.connect.failures import TaskKey
from exporter.connect.preflight import PluginSupport
from exporter.connect.rest import Connector
from exporter.model import Fact


@dataclass(frozen=True, slots=True)
class ConnectState(Fact):
    """The connectors of one Connect cluster, as its REST API or its workers' MBeans describe them.

    ``by_rest`` is False where only MBeans were read: then settings and reasons of failures are not known. ``notes`` are
    sentences on signals that are missing because of the configuration.
    ``group_id`` is "" where it is not configured. ``transactional`` has by source task whether its MBeans show
    transactions, ``leader_transactional`` whether the leader's do (preparing or enabled), ``workers`` by address
    whether REST shows that exactly-once is enabled, ``plugins`` what source plugins answer about their support without
    settings, ``supports`` by connector what unsupported ones answer with its settings, ``versions`` by address that of
    Connect; what is not known is absent or None.
    """

    name: str
    connectors: tuple[Connector, ...]
    by_rest: bool
    notes: tuple[str, ...] = ()
    group_id: str = ""
    transactional: Mapping[TaskKey, bool] = field(default_factory=dict, hash=False)
    leader_transactional: bool | None = None
    workers: Mapping[str, bool] = field(default_factory=dict, hash=False)
    plugins: Mapping[str, PluginSupport] = field(default_factory=dict, hash=False)
    supports: Mapping[str, PluginSupport] = field(default_factory=dict, hash=False)
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    source_tasks: frozenset[TaskKey] = field(init=False, repr=False, compare=False)
    """The tasks that may be a source's."""
    task_workers: frozenset[str] = field(init=False, repr=False, compare=False)
    """The workers that run a task."""

    def support(self, connector: Connector) -> PluginSupport | None:
        """The plugin's answer for this connector. Unsupported without settings is unknown: they may change it."""
        if connector.name in self.supports:
            return self.supports[connector.name]
        support = self.plugins.get(connector.plugin)
        return PluginSupport.UNKNOWN if support is PluginSupport.UNSUPPORTED else support

    def __post_init__(self) -> None:
        # Made here once: each of thousands of tasks is compared with them.
        found = [(connector, task) for connector in self.connectors for task in connector.tasks]
        sources = frozenset((connector.name, task.task) for connector, task in found if connector.type != "sink")
        object.__setattr__(self, "source_tasks", sources)
        object.__setattr__(self, "task_workers", frozenset(task.worker for _, task in found if task.worker))
