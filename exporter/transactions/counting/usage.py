"""Who uses transactions, and how: input of the posture checks from the transaction log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from exporter.applications.applications import Grouping
from exporter.transactions.facts import ApplicationTimeouts, ConnectTaskId, TransactionUse
from exporter.transactions.machine.records import NO_TIMEOUT_MS
from exporter.transactions.machine.state_machine import StateMachine


def transaction_use(
    machines: Iterable[StateMachine], written: Iterable[str], grouping: Grouping, since_ms: int
) -> TransactionUse:
    """From the ids that wrote a transaction since then (Unix milliseconds), and the topics that were ever ``written``.

    Topics of finished transactions are in ``written``; only those of open ones are decoded here.
    """
    machines = list(machines)
    topics = set(written)
    found: Counter[tuple[str, int]] = Counter()
    connect_ids: dict[str, ConnectTaskId] = {}
    for machine in machines:
        for entry in machine.open.values():
            if entry.record_ms >= since_ms:
                topics.update([partition.topic for partition in entry.transaction().partitions])
        lately = [each for each in machine.entries.values() if each.record_ms >= since_ms]
        found.update([(recent.application, recent.client_version) for recent in lately if recent.section])
        found.update(machine.finished.clients_since(since_ms))
        for entry in machine.known(grouping.is_connect_task) if grouping.connect_groups else ():
            timeout = entry.timeout_ms / 1000 if 0 <= entry.timeout_ms < NO_TIMEOUT_MS else None
            connect_ids[entry.transactional_id] = ConnectTaskId(entry.record_ms >= since_ms, timeout)
    timeouts: dict[str, set[int]] = {}
    two_phase: Counter[str] = Counter()
    for machine in machines:
        lately = [each for each in machine.entries.values() if each.record_ms >= since_ms]
        seen = [(recent.application, recent.timeout_ms) for recent in lately]
        for application, timeout_ms in (*seen, *machine.finished.timeouts_since(since_ms)):
            if timeout_ms == NO_TIMEOUT_MS:
                two_phase[application] += 1
            elif timeout_ms > 0:
                timeouts.setdefault(application, set()).add(timeout_ms)
    clients: dict[str, dict[int, int]] = {}
    for (application, version), ids in found.items():
        if version >= 0:
            clients.setdefault(application, {})[version] = ids
    limits = {
        name: ApplicationTimeouts(
            min(found, default=0) / 1000 or None, max(found, default=0) / 1000 or None, two_phase[name]
        )
        for name in timeouts.keys() | two_phase.keys()
        for found in (timeouts.get(name, set()),)
    }
    return TransactionUse(frozenset(topics), clients, connect_ids, grouping.connect_groups, timeouts=limits)
