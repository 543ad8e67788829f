"""Which cluster, and which transaction log, this process reads: what another one answers is refused.

An address may lead to another cluster while the process runs (a DNS name that moves, a standby). A cluster that was
formatted again with its old cluster id has a new topic id of ``__transaction_state`` (KIP-516): its offsets, epochs and
producer ids begin again, and say nothing about the earlier ones.
"""

from __future__ import annotations

import threading

from exporter.kafka.faults import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.model import Fault, Reason

WHAT_ENDS_IT = (
    "nothing of it is taken. This ends when the first one answers again, or with a restart of kafka-eos-exporter, which"
    " then reads this one"
)


class ClusterIdentityCheck:
    """The cluster id and the topic id of the transaction log that were seen first. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cluster_id = ""
        self._topic_id = ""

    @property
    def known(self) -> bool:
        """Return whether a cluster was seen."""
        return bool(self._cluster_id)

    def check(self, label: str, said: Metadata) -> None:
        """Compare an answer to Metadata with the first. Raises AskError where it is of another cluster or another log.

        What an answer does not have (a topic id before Kafka 2.8, a topic that is missing) is not compared.
        """
        topic_id = said.topic_ids.get(TRANSACTION_STATE, "")
        with self._lock:
            self._cluster_id = self._cluster_id or said.cluster_id
            if said.cluster_id and said.cluster_id != self._cluster_id:
                text = f"{label} belongs to the cluster {said.cluster_id}, and this process reads {self._cluster_id}"
                raise AskError(Fault(Reason.IDENTITY, f"{text}: {WHAT_ENDS_IT}"))
            self._topic_id = self._topic_id or topic_id
            if topic_id and topic_id != self._topic_id:
                text = f"{label} has another {TRANSACTION_STATE}, with the topic id {topic_id} and not {self._topic_id}"
                why = "the cluster was formatted again with the same cluster id, or the topic was deleted"
                raise AskError(Fault(Reason.IDENTITY, f"{text}: {why}; {WHAT_ENDS_IT}"))
