"""The JVMs that are read, those in the settings and those in target files, and the sources that read them: brokers,
producers, Streams.

Imported where there is one to read only: what reads them takes time at the start, and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from exporter.brokers.source import BrokersSource
from exporter.cluster import Cluster
from exporter.core.target_files import FileTarget, TargetFiles
from exporter.jvm.reader import AgentKind, JvmReader, JvmTarget, reader_for
from exporter.model import Source
from exporter.producers.source.producers import ProducersSource
from exporter.settings.targets import TARGET, Discovered
from exporter.streams.source import StreamsSource

MOST_SECONDS = 10.0
"""Longest wait in seconds for a JVM; never longer than its interval."""


class WatchedJvm(NamedTuple):
    """A JVM to be read. An equal one is kept when targets change. ``node_id`` is a broker's, None to detect it."""

    source: str
    cluster: str
    target: JvmTarget
    interval: float
    node_id: int | None = None

    @property
    def key(self) -> str:
        """The group's key."""
        return f"{self.cluster} {self.source} {self.target.endpoint.url}"


def listed(entry: Discovered, target: FileTarget) -> JvmTarget:
    """The JVM of a target in a file. The labels ``__scheme__`` and ``__metrics_path__`` apply, as in Prometheus."""
    pattern = entry.target()
    url = pattern.endpoint.url.replace(TARGET, target.address)
    if scheme := target.labels.get("__scheme__"):
        url = f"{scheme}://{url.partition('://')[2]}"
    if pattern.way is AgentKind.JMX_EXPORTER and (path := target.labels.get("__metrics_path__")):
        url = f"{url.partition('://')[0]}://{target.address}/{path.lstrip('/')}"
    return replace(pattern, endpoint=replace(pattern.endpoint, url=url))


class JvmReaders:
    """Return the readers of the JVMs that these entries list now. A JVM that stays keeps its reader. For one thread."""

    def __init__(self, entries: Sequence[Discovered]) -> None:
        self._entries = tuple((entry, TargetFiles(entry.file_sd)) for entry in entries)
        self._readers: dict[JvmTarget, JvmReader] = {}

    def __call__(self) -> tuple[JvmReader, ...]:
        """All of them now; reads only files that changed."""
        self._readers = {
            target: self._readers.get(target) or reader_for(target) for target in dict.fromkeys(self._targets())
        }
        return tuple(self._readers.values())

    def _targets(self) -> Iterator[JvmTarget]:
        for entry, files in self._entries:
            if entry.file_sd:
                yield from (listed(entry, target) for target in files.targets())
            else:
                yield entry.target()


def jvm_source(jvm: WatchedJvm, cluster: Cluster) -> Source:
    """The source that reads this JVM."""
    reader = reader_for(jvm.target)
    timeout = min(MOST_SECONDS, jvm.interval)
    if jvm.source == "brokers":
        return BrokersSource(cluster, jvm.target.endpoint, reader, jvm.interval, timeout, jvm.node_id)
    if jvm.source == "streams":
        return StreamsSource(cluster, jvm.target.name, reader, jvm.interval)
    return ProducersSource(cluster, jvm.target.name, reader, jvm.interval, timeout)
