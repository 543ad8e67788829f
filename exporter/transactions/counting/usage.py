"""Who uses transactions, and how: input of the posture checks from the transaction log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from exporter.applications.applications import Grouping
from exporter.transactions.facts import ApplicationTimeouts, ConnectTaskId, TransactionUse
from exporter.transactions.machine.finished import UsedId
from exporter.transactions.machine.records import NO_TIMEOUT_MS
from exporter.transactions.machine.state_machine import StateMachine


def transaction_use(
    machines: Iterable[StateMachine], written: Iterable[str], grouping: Grouping, since_ms: int
) -> TransactionUse:
    """From the ids that wrote a transaction since then (Unix milliseconds), and the topics that were ever ``written``.

    Topics of finished transactions are in ``written``; only those of open ones are decoded here.
    """
    topics = set(written)
    used: Counter[UsedId] = Counter()
    connect_ids: dict[str, ConnectTaskId] = {}
    for machine in machines:
        lately = [entry for entry in machine.entries.values() if entry.record_ms >= since_ms]
        used.update([(own.application, own.client_version, own.timeout_ms, bool(own.section)) for own in lately])
        used.update(machine.finished.used_since(since_ms))
        for entry in machine.open.values():
            if entry.record_ms >= since_ms:
                topics.update([partition.topic for partition in entry.transaction().partitions])
        for entry in machine.known(grouping.is_connect_task) if grouping.connect_groups else ():
            timeout = entry.timeout_ms / 1000 if 0 <= entry.timeout_ms < NO_TIMEOUT_MS else None
            connect_ids[entry.transactional_id] = ConnectTaskId(entry.record_ms >= since_ms, timeout)
    clients: defaultdict[str, Counter[int]] = defaultdict(Counter)
    timeouts: defaultdict[str, set[float]] = defaultdict(set)
    two_phase: Counter[str] = Counter()
    for (application, version, timeout_ms, named), ids in used.items():
        if named and version >= 0:
            clients[application][version] += ids
        if timeout_ms == NO_TIMEOUT_MS:
            two_phase[application] += ids
        elif timeout_ms > 0:
            timeouts[application].add(timeout_ms / 1000)
    limits = {
        name: ApplicationTimeouts(min(timeouts[name], default=None), max(timeouts[name], default=None), two_phase[name])
        for name in timeouts.keys() | two_phase.keys()
    }
    return TransactionUse(frozenset(topics), dict(clients), connect_ids, grouping.connect_groups, timeouts=limits)
