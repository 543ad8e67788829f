"""The clusters that a terminal command reads."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from exporter.applications.applications import Grouping
from exporter.cluster.cluster import Cluster
from exporter.commands.report import ClusterReport
from exporter.commands.settings import UsageError, config_source
from exporter.config import ClusterConfig, Config
from exporter.core import logs
from exporter.core.state import StateDir
from exporter.kafka.client import AskError, ClusterClient
from exporter.model import Deadline

T = TypeVar("T")


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[list[tuple[Cluster, ClusterConfig]]]:
    """The configured clusters with their settings; their connections are closed at the end. Connects to nothing."""
    config, chosen = _chosen(options)
    logs.configure(vars(options).get("--log.level", "error"), "text")
    clusters = [(_cluster(settings, config), settings) for settings in chosen]
    try:
        yield clusters
    finally:
        for cluster, _ in clusters:
            cluster.client.close()


def _chosen(options: argparse.Namespace) -> tuple[Config, Sequence[ClusterConfig]]:
    """The settings and the clusters to read: with a file, ``--cluster.name`` selects one."""
    given = vars(options)
    name = given.get("--cluster.name")
    if name is None or "config" not in given:
        config = config_source(options).load()
        return config, config.clusters
    config = config_source(argparse.Namespace(**{key: given[key] for key in given if key != "--cluster.name"})).load()
    chosen = [cluster for cluster in config.clusters if cluster.name == name]
    if not chosen:
        names = ", ".join(cluster.name or "(one without a name)" for cluster in config.clusters)
        raise UsageError(f"--cluster.name {name}: no such cluster in {given['config']}; there are: {names}")
    return config, chosen


def _cluster(settings: ClusterConfig, config: Config) -> Cluster:
    return Cluster(
        settings.kafka,
        ClusterClient(settings.kafka),
        Grouping([application.pattern for application in config.applications]),
        # A command writes no state, and never moves the agent's positions.
        StateDir(None),
        settings.name,
    )


def read_all(
    options: argparse.Namespace, report: Callable[[Cluster, ClusterConfig, Deadline], ClusterReport[T]]
) -> list[ClusterReport[T]]:
    """Read each cluster in turn, ``--timeout`` each. One that does not answer is in the report as not read."""
    reports = []
    with opened(options) as clusters:
        for cluster, settings in clusters:
            try:
                reports.append(report(cluster, settings, Deadline.after(options.timeout)))
            except AskError as error:
                reports.append(ClusterReport(cluster, (), (error.fault.detail,)))
    return reports
