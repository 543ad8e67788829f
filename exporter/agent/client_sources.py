"""Sources that are added and removed while the agent runs: JVMs of brokers, producers and Streams, and clients that
post statistics.

Each is a group of its own, so that adding or removing one does not affect the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from exporter.cluster import Cluster
from exporter.core.runner import Group, GroupState, Runner
from exporter.core.target_files import TargetFiles
from exporter.model import Clock, Deadline, Source
from exporter.settings.root import Config
from exporter.settings.targets import BrokerJvm, Producers, Streams

if TYPE_CHECKING:
    from exporter.agent.jvm_sources import WatchedJvm
    from exporter.agent.receivers import Receivers

log = logging.getLogger(__name__)

FILES_INTERVAL = 5.0
STOP_SECONDS = 2.0


class _Running(NamedTuple):
    jvm: WatchedJvm
    cluster: Cluster


class Clients:
    """Keeps the runner's groups of JVMs as in the settings and the target files."""

    def __init__(self, runner: Runner, receivers: Receivers | None, clock: Clock) -> None:
        """``receivers`` is None where nothing is posted."""
        self._runner = runner
        self._receivers = receivers
        self._clock = clock
        self._lock = threading.Lock()  # guards the four below
        self._config: Config | None = None
        self._clusters: Mapping[str, Cluster] = {}
        self._running: dict[str, _Running] = {}
        self._files: dict[tuple[Path, ...], TargetFiles] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="target files", daemon=True)

    def apply(self, config: Config, clusters: Mapping[str, Cluster]) -> None:
        """Apply these settings; ``clusters`` are those that are read, by key."""
        with self._lock:
            if self._receivers is not None and self._config is None:
                self._runner.add(Group(_INGEST, self._posted(self._receivers), common=True))
            self._config, self._clusters = config, dict(clusters)
            wanted = {entry.file_sd for entry in _entries(config) if entry.file_sd}
            self._files = {paths: self._files.get(paths) or TargetFiles(paths) for paths in wanted}
            self._follow()

    @staticmethod
    def prepare(config: Config) -> None:
        """Import what ``apply`` of these settings, and their target files, will need. Raises ImportError."""
        if _entries(config):
            from exporter.agent import jvm_sources  # noqa: F401, PLC0415 -- see there

    def start(self) -> None:
        """Read the target files at each interval."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading the target files. The runner stops the sources."""
        self._stopping.set()

    def states(self, states: Iterable[GroupState]) -> list[GroupState]:
        """The runner's groups, with each JVM of a broker named with its cluster."""
        with self._lock:
            parents = {key: running.jvm.cluster for key, running in self._running.items()}
            parents[_INGEST] = next(iter(self._clusters), "")
        found = {state.key: state for state in states}
        kept = {key: state for key, state in found.items() if key not in parents}
        for key, parent in parents.items():
            if key in found and parent in kept:
                kept[parent] = replace(kept[parent], sources=kept[parent].sources + found[key].sources)
        return list(kept.values())

    def groups_of(self, cluster: str) -> list[str]:
        """The keys of the groups of JVMs and posts that are shown with this cluster."""
        with self._lock:
            found = [key for key, running in self._running.items() if running.jvm.cluster == cluster]
            return [*found, _INGEST] if cluster == next(iter(self._clusters), None) else found

    def _posted(self, receivers: Receivers) -> tuple[Source, ...]:
        from exporter.agent.receivers import posted_sources  # noqa: PLC0415 -- see there

        return posted_sources(receivers, self._only_cluster)

    def _only_cluster(self) -> str:
        """The name of the only cluster, "" when there are several or it is not known yet."""
        clusters = self._clusters
        return next(iter(clusters.values())).name if len(clusters) == 1 else ""

    def _keep_looking(self) -> None:
        while not self._stopping.wait(FILES_INTERVAL):
            with self._lock:
                if self._files and not self._stopping.is_set():
                    self._follow()

    def _follow(self) -> None:
        """Stop what was removed or has changed, start what is new. The caller holds the lock."""
        wanted = {jvm.key: jvm for jvm in self._wanted()}
        deadline = Deadline.after(STOP_SECONDS, self._clock.monotonic)
        for key, running in list(self._running.items()):
            if wanted.get(key) != running.jvm or self._clusters.get(running.jvm.cluster) is not running.cluster:
                del self._running[key]
                self._runner.remove(key, deadline)
                log.info("no longer reading %s", key)
        for key, jvm in wanted.items():
            if key not in self._running:
                cluster = self._clusters[jvm.cluster]
                group = Group(key, (self._source(jvm, cluster),), common=True)
                self._running[key] = _Running(jvm, cluster)
                self._runner.add(group)

    def _source(self, jvm: WatchedJvm, cluster: Cluster) -> Source:
        from exporter.agent.jvm_sources import jvm_source  # noqa: PLC0415 -- see there

        return jvm_source(jvm, cluster)

    def _wanted(self) -> Iterator[WatchedJvm]:
        if self._config is None:
            return
        for key in self._clusters:
            for cluster in self._config.clusters:
                if cluster.name == key:
                    yield from self._jvms("brokers", key, cluster.brokers)
            here = [producer for producer in self._config.producers if producer.cluster in {"", key}]
            yield from self._jvms("producers", key, here)
            yield from self._jvms(
                "streams", key, [stream for stream in self._config.streams if stream.cluster in {"", key}]
            )

    def _jvms(
        self, source: str, cluster: str, entries: Sequence[BrokerJvm | Producers | Streams]
    ) -> Iterator[WatchedJvm]:
        if not entries:
            return
        from exporter.agent.jvm_sources import WatchedJvm, listed  # noqa: PLC0415 -- see there

        for entry in entries:
            node_id = entry.id if isinstance(entry, BrokerJvm) else None
            if not entry.file_sd:
                yield WatchedJvm(source, cluster, entry.target(), entry.interval, node_id)
                continue
            for target in self._files[entry.file_sd].targets():
                label = target.labels.get("id", "")
                number = int(label) if source == "brokers" and label.isdecimal() else node_id
                yield WatchedJvm(source, cluster, listed(entry, target), entry.interval, number)


_INGEST = "ingest"


def _entries(config: Config) -> list[BrokerJvm | Producers | Streams]:
    brokers = [broker for cluster in config.clusters for broker in cluster.brokers]
    return [*brokers, *config.producers, *config.streams]
