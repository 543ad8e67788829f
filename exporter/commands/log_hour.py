"""The last hour of the transaction log in one look: what the agent's own source says once it has reached the end."""

from __future__ import annotations

import time

from exporter.cluster.cluster import Cluster
from exporter.model import Deadline, Fact, Facts, Fault, Sample, SampleBatch
from exporter.transactions.counting.aggregates import Caps
from exporter.transactions.facts import LoggedTransactions
from exporter.transactions.source.txnlog import TxnlogSettings, TxnlogSource

_SLICE_SECONDS = 5.0


def read_hour(
    cluster: Cluster, deadline: Deadline, caps: Caps | None = None
) -> tuple[Sample | SampleBatch | Fault | Fact, ...]:
    """Result of the last read: LoggedTransactions when the end was reached, otherwise faults or nothing."""
    source = TxnlogSource(cluster, TxnlogSettings(caps or Caps(), timeout=_SLICE_SECONDS))
    found: tuple[Sample | SampleBatch | Fault | Fact, ...] = ()
    try:
        while not deadline.over:
            found = tuple(source.read(deadline.within(_SLICE_SECONDS), Facts()))
            if any(isinstance(fact, Fault | LoggedTransactions) for fact in found):
                break
            time.sleep(0.1)
    finally:
        source.close()
    return found
