"""Who uses transactions, and how: what the posture checks want to know of the transaction log."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from exporter.applications import Application
from exporter.ledger import Entry
from exporter.model import TransactionUse


def transaction_use(
    entries: Iterable[Entry], written: Iterable[str], application_of: Callable[[str], Application], since_ms: float
) -> TransactionUse:
    """From the ids that wrote a transaction since then (Unix milliseconds), and the topics that were ever ``written``.

    Decodes the partitions of each id's newest transaction, which may still be open.
    """
    topics = set(written)
    clients: dict[str, dict[int, int]] = {}
    connect_ids: set[str] = set()
    for entry in entries:
        if application_of(entry.transactional_id).kind == "connect_task":
            connect_ids.add(entry.transactional_id)
        if entry.record_ms < since_ms or not entry.section:
            continue
        topics.update(partition.topic for partition in entry.partitions())
        if entry.client_version >= 0:
            versions = clients.setdefault(entry.application, {})
            versions[entry.client_version] = versions.get(entry.client_version, 0) + 1
    return TransactionUse(frozenset(topics), clients, frozenset(connect_ids))
