"""The clusters that a terminal command reads, and the teams that own their applications."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence

from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.commands.settings import UsageError, config_source
from exporter.config import ClusterConfig, Config
from exporter.core import logs
from exporter.core.state import StateDir
from exporter.kafka.client import AskError, ClusterClient
from exporter.model import CommandError
from exporter.views.applications import OwnerOf


def configured(options: argparse.Namespace) -> Config:
    """The settings that the flags name. With a file, ``--cluster.name`` selects a cluster of it, and is no setting."""
    given = dict(vars(options))
    if "config" in given:
        given.pop("--cluster.name", None)
    return config_source(argparse.Namespace(**given)).load()


def owner_of(config: Config) -> OwnerOf:
    """The team of an application by the setting ``owners``, "" where no entry matches."""
    owners = config.owned()
    return lambda application: owners.of_any([("application", application)]) or ""


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[list[tuple[Cluster, ClusterConfig]]]:
    """The configured clusters with their settings; their connections are closed at the end. Connects to nothing."""
    config = configured(options)
    logs.configure(vars(options).get("--log.level", "error"), "text")
    clusters = [(_cluster(settings, config), settings) for settings in _chosen(options, config)]
    try:
        yield clusters
    finally:
        for cluster, _ in clusters:
            cluster.client.close()


@contextlib.contextmanager
def one_cluster(options: argparse.Namespace, what: str) -> Iterator[Cluster]:
    """The only cluster; ``what`` says that there must be one. Raises CommandError, also where it does not answer."""
    with opened(options) as clusters:
        if len(clusters) != 1:
            raise UsageError(f"{what}: choose one of {len(clusters)} with --cluster.name")
        [(cluster, _)] = clusters
        try:
            yield cluster
        except AskError as error:
            raise CommandError(f"could not ask {cluster.target}: {error.fault.detail}") from None


def _chosen(options: argparse.Namespace, config: Config) -> Sequence[ClusterConfig]:
    """The clusters to read: with a file, ``--cluster.name`` selects one."""
    given = vars(options)
    name = given.get("--cluster.name")
    if name is None or "config" not in given:
        return config.clusters
    chosen = [cluster for cluster in config.clusters if cluster.name == name]
    if not chosen:
        names = ", ".join(cluster.name or "(one without a name)" for cluster in config.clusters)
        raise UsageError(f"--cluster.name {name}: no such cluster in {given['config']}; there are: {names}")
    return chosen


def _cluster(settings: ClusterConfig, config: Config) -> Cluster:
    return Cluster(
        settings.kafka,
        ClusterClient(settings.kafka),
        Grouping([application.pattern for application in config.applications]),
        # A command writes no state, and never moves the agent's positions.
        StateDir(None),
        settings.name,
    )
