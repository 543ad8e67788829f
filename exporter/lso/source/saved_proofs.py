"""``proofs.json``: what was judged of open records, and where the transaction log ended, over a restart.

It is of one transaction log: that of another topic id, as after the cluster was formatted, has nothing in common with
it. Instants are of the monotonic clock and of use within one boot of the machine.
"""

from __future__ import annotations

import logging
import math

from exporter.cluster import Cluster
from exporter.lso.proof.judged import JudgedRecords
from exporter.lso.proof.log_history import SAVED_SECONDS, LogHistory

log = logging.getLogger(__name__)

NAME = "proofs"


class SavedProofs:
    """Loads and saves both. Not thread-safe: for the worker of source ``lso``."""

    def __init__(self, cluster: Cluster, history: LogHistory, judged: JudgedRecords) -> None:
        self._cluster = cluster
        self._history = history
        self._judged = judged
        self._topic_id = ""
        self._saved_at = -math.inf
        self._changed = 0

    def of_log(self, topic_id: str) -> None:
        """Name the log by its topic id, "" where it is not known. What is known of another one is dropped."""
        if not topic_id or topic_id == self._topic_id:
            return
        if self._topic_id:
            self._history.clear()
            self._judged.clear()
        self._topic_id = topic_id
        document = self._cluster.state.load(self._cluster.cluster_id, NAME)
        if document.get("topic_id") != topic_id:
            return
        clock = self._cluster.clock
        try:
            self._judged.restore(document)
            if clock.boot and document.get("boot") == clock.boot:
                self._history.restore(document["ends"], clock.monotonic())
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            log.warning("the saved proofs cannot be used (%s): they are made again", type(error).__name__)

    def save(self) -> None:
        """Save what changed, the ends of the log at most once in five minutes."""
        now = self._cluster.clock.monotonic()
        state = self._cluster.state
        due = now - self._saved_at >= SAVED_SECONDS or self._judged.changed != self._changed
        if not state.kept or not self._topic_id or not due:
            return
        document = {"topic_id": self._topic_id, "boot": self._cluster.clock.boot, "ends": self._history.document()}
        if state.save(self._cluster.cluster_id, NAME, {**document, **self._judged.document()}):
            self._saved_at, self._changed = now, self._judged.changed
