"""The state of the stall tracker over a restart: ``stalls.json``."""

from __future__ import annotations

from exporter.cluster.cluster import Cluster
from exporter.kafka.requests.metadata import Metadata
from exporter.lso.tracker import StallTracker


class SavedTracker:
    """Restores the tracker once, and saves it after changes."""

    def __init__(self, cluster: Cluster, watch: StallTracker) -> None:
        self._cluster = cluster
        self._watch = watch
        self._restored = False
        self._last: tuple[object, ...] = ()  # as it was last saved

    def restore(self, metadata: Metadata) -> None:
        """Restore, once, what an earlier process saved of topics that are the same by this metadata."""
        if not self._restored:
            self._restored = True
            self._watch.identify(metadata.topic_ids)
            self._watch.remember(self._cluster.state.load(self._cluster.cluster_id, "stalls"))

    def save(self) -> None:
        state, cluster_id = self._cluster.state, self._cluster.cluster_id
        if not state.kept:
            return
        newest = self._watch.remembered()
        if (newest != self._last or not state.has(cluster_id, "stalls")) and state.save(
            cluster_id, "stalls", self._watch.memory()
        ):
            self._last = newest
