"""Who uses transactions, and how: input of the posture checks from the transaction log."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.model import ConnectTaskId, TransactionUse
from exporter.transactions.applications import Grouping
from exporter.transactions.entries import Entry
from exporter.transactions.records import NO_TIMEOUT_MS


def transaction_use(
    entries: Iterable[Entry], written: Iterable[str], grouping: Grouping, since_ms: float
) -> TransactionUse:
    """From the ids that wrote a transaction since then (Unix milliseconds), and the topics that were ever ``written``.

    Topics of finished transactions are in ``written``; only those of open ones are decoded here.
    """
    topics = set(written)
    clients: dict[str, dict[int, int]] = {}
    connect_ids: dict[str, ConnectTaskId] = {}
    for entry in entries:
        if grouping.is_connect_task(entry.transactional_id):
            timeout = entry.timeout_ms / 1000 if 0 <= entry.timeout_ms < NO_TIMEOUT_MS else None
            connect_ids[entry.transactional_id] = ConnectTaskId(entry.record_ms >= since_ms, timeout)
        if entry.record_ms < since_ms or not entry.section:
            continue
        if entry.open:
            topics.update(partition.topic for partition in entry.transaction().partitions)
        if entry.client_version >= 0:
            versions = clients.setdefault(entry.application, {})
            versions[entry.client_version] = versions.get(entry.client_version, 0) + 1
    return TransactionUse(frozenset(topics), clients, connect_ids, grouping.connect_groups)
