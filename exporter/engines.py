"""The engines around a cluster, Connect and Kafka Streams: from settings to their sources."""

from __future__ import annotations

from typing import NamedTuple

from exporter.config import Config
from exporter.config_targets import Connect, Streams
from exporter.connect.rest import ConnectRest
from exporter.jmx.reader import reader_for
from exporter.model import Source
from exporter.sources.cluster import Cluster
from exporter.sources.connect import ConnectSettings, ConnectSource
from exporter.sources.streams import StreamsSettings, StreamsSource


class Engines(NamedTuple):
    """What is configured of the engines on one cluster."""

    connect: tuple[Connect, ...] = ()
    streams: tuple[Streams, ...] = ()

    @property
    def connect_groups(self) -> tuple[str, ...]:
        """The group ids by which their tasks' transactional ids are known."""
        return tuple(each.group_id for each in self.connect if each.group_id)


def engines_of(config: Config, cluster: str) -> Engines:
    """The engines on this cluster: those that name it, and those that name none, which only a single one allows."""
    return Engines(
        connect=tuple(each for each in config.connect if each.cluster in {"", cluster}),
        streams=tuple(each for each in config.streams if each.cluster in {"", cluster}),
    )


def engine_sources(cluster: Cluster, engines: Engines) -> tuple[Source, ...]:
    """One source for each Connect cluster and for each JVM with Streams in it."""
    return (
        *(_connect(cluster, each) for each in engines.connect),
        *(_streams(cluster, each) for each in engines.streams),
    )


def _connect(cluster: Cluster, config: Connect) -> ConnectSource:
    return ConnectSource(
        cluster,
        ConnectSettings(config.name, config.group_id, config.interval),
        ConnectRest([config.endpoint(url) for url in config.rest]) if config.rest else None,
        [reader_for(worker.target()) for worker in config.workers],
    )


def _streams(cluster: Cluster, config: Streams) -> StreamsSource:
    target = config.target()
    return StreamsSource(cluster, StreamsSettings(target.name, config.interval), reader_for(target))
