"""Who uses transactions, and how: what the posture checks want to know of the transaction log."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from exporter.model import TransactionUse
from exporter.transactions.entries import Entry


def transaction_use(
    entries: Iterable[Entry], written: Iterable[str], is_connect_task: Callable[[str], bool], since_ms: float
) -> TransactionUse:
    """From the ids that wrote a transaction since then (Unix milliseconds), and the topics that were ever ``written``.

    Finished transactions were told of their topics when they finished; only open ones have theirs decoded here.
    """
    topics = set(written)
    clients: dict[str, dict[int, int]] = {}
    connect_ids: set[str] = set()
    for entry in entries:
        if is_connect_task(entry.transactional_id):
            connect_ids.add(entry.transactional_id)
        if entry.record_ms < since_ms or not entry.section:
            continue
        if entry.open:
            topics.update(partition.topic for partition in entry.transaction().partitions)
        if entry.client_version >= 0:
            versions = clients.setdefault(entry.application, {})
            versions[entry.client_version] = versions.get(entry.client_version, 0) + 1
    return TransactionUse(frozenset(topics), clients, frozenset(connect_ids))
