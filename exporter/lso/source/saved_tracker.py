"""The state of the stall tracker over a restart: ``stalls.json``, or ``stalls-TOPIC_ID.json`` where that is of another
transaction log of the same cluster id: the cluster was formatted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.cluster import Cluster
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.lso.tracker import StallTracker

_LOG = "log"
"""The key of the log's topic id, beside the anchor."""


class SavedTracker:
    """Restores the tracker once, and saves it after changes."""

    def __init__(self, cluster: Cluster, watch: StallTracker) -> None:
        self._cluster = cluster
        self._watch = watch
        self._name = "stalls"
        self._topic_id = ""  # of the transaction log, "" while it is not known
        self._restored = False
        self._last: tuple[object, ...] = ()  # as it was last saved

    def restore(self, metadata: Metadata) -> None:
        """Restore, once, what an earlier process saved of the same transaction log, and of topics that are the same by
        this metadata.
        """
        self._topic_id = metadata.topic_ids.get(TRANSACTION_STATE, "") or self._topic_id
        if self._restored:
            return
        state, cluster_id = self._cluster.state, self._cluster.cluster_id
        document = state.load(cluster_id, self._name)
        if _log_of(document) not in {"", self._topic_id}:
            if not self._topic_id:
                return  # without a log nothing can be held, and the state of the other one stays
            self._name = f"{self._name}-{self._topic_id}"
            document = state.load(cluster_id, self._name)
        self._restored = True
        self._watch.identify(metadata.topic_ids)
        self._watch.remember(document)

    def save(self) -> None:
        state, cluster_id = self._cluster.state, self._cluster.cluster_id
        if not state.kept or not self._restored:
            return
        newest = (self._topic_id, *self._watch.remembered())
        if newest == self._last and state.has(cluster_id, self._name):
            return
        document = self._watch.memory()
        if document and self._topic_id:
            document[""][_LOG] = self._topic_id
        if state.save(cluster_id, self._name, document):
            self._last = newest


def _log_of(document: Mapping[str, Any]) -> str:
    """The topic id of the log that a saved state is of; "" where it does not say so."""
    anchor = document.get("")
    found = anchor.get(_LOG) if isinstance(anchor, dict) else None
    return found if isinstance(found, str) else ""
