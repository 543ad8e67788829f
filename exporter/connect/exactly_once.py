"""Whether a source connector writes exactly-once, by evidence. Pure functions.

A source task writes in transactions when its worker has ``exactly.once.source.support=enabled``, whatever the connector
asks for (DistributedHerder.startTask). In this order: the task's MBeans, the configuration of its worker, and the id
``<group.id>-<connector>-<task>`` in the transaction log (Worker.taskTransactionalId), where it can be of one task only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector, Task
from exporter.model import Word
from exporter.transactions.facts import ConnectTaskId


class Guarantee(Word):
    """The work of the tasks of a source connector."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    MIXED = "mixed"  # some tasks write in transactions, others do not
    UNKNOWN = "unknown"


class SourceEvidence(NamedTuple):
    """``found`` is a sentence with the evidence, or with why it is unknown."""

    guarantee: Guarantee
    found: str


class LoggedIds(NamedTuple):
    """Ids of Connect's tasks in the transaction log, and every group of workers that is configured or in the log."""

    ids: Mapping[str, ConnectTaskId]
    groups: frozenset[str]


class _Seen(NamedTuple):
    transactional: bool | None
    why: str


def source_evidence(
    connector: Connector, state: ConnectState, others: Sequence[ConnectState], log: LoggedIds | None
) -> SourceEvidence:
    """The guarantee of this source connector of ``state``. ``others`` are all Connect clusters of the Kafka cluster
    that are read; ``log`` is None where the transaction log is not read.
    """
    seen = [_task(connector, task, state, others, log) for task in connector.tasks]
    if not seen:
        return SourceEvidence(Guarantee.UNKNOWN, "it has no task")
    why = "; ".join(dict.fromkeys(observed.why for observed in seen))
    verdicts = {observed.transactional for observed in seen}
    if verdicts == {True}:
        return SourceEvidence(Guarantee.EXACTLY_ONCE, why)
    if True in verdicts and False in verdicts:
        count = sum(observed.transactional is True for observed in seen)
        return SourceEvidence(Guarantee.MIXED, f"{count} of {len(seen)} tasks write in transactions ({why})")
    if False in verdicts:
        return SourceEvidence(Guarantee.AT_LEAST_ONCE, why)
    return SourceEvidence(
        Guarantee.UNKNOWN, "; ".join(dict.fromkeys(observed.why for observed in seen if observed.transactional is None))
    )


class _Rival(NamedTuple):
    """A task of another group that would have the same id; ``known`` are the states of that group that are read."""

    group: str
    connector: str
    task: str
    known: Sequence[ConnectState]


def _rivals(
    transactional_id: str, state: ConnectState, others: Sequence[ConnectState], groups: frozenset[str]
) -> Iterator[_Rival]:
    read = frozenset(other.group_id for other in others if other.group_id)
    head, dash, task = transactional_id.rpartition("-")
    for group in _groups_before(head + dash, read, groups):
        if group != state.group_id:
            known = [other for other in others if other.group_id == group]
            yield _Rival(group, head[len(group) + 1 :], task, known)


@lru_cache(maxsize=1)
def _groups_before(start: str, read: frozenset[str], groups: frozenset[str]) -> tuple[str, ...]:
    """The groups that begin this start of an id, which all tasks of a connector have: kept for the next task."""
    # The groups are not gone through: any client may name its ids as leaders of Connect do.
    prefixes = (start[: dash.start()] for dash in re.finditer("-", start))
    return tuple(prefix for prefix in prefixes if prefix in read or prefix in groups)


def other_readings(
    transactional_id: str, state: ConnectState, others: Sequence[ConnectState], groups: frozenset[str]
) -> tuple[str, ...]:
    """Tasks of other groups that may have the same id as a task of ``state``, as messages.

    For a group whose connectors are read this is known; a task of any other group may have the id.
    """
    return tuple(
        f"task {rival.task} of connector {rival.connector} of group {rival.group}"
        for rival in _rivals(transactional_id, state, others, groups)
        if rival.connector and (not rival.known or any(_runs(one, rival.connector, rival.task) for one in rival.known))
    )


def shared_ids(connector: Connector, state: ConnectState, others: Sequence[ConnectState]) -> tuple[str, ...]:
    """Ids of the connector's tasks that a task of another group that is read has too, each as a message with both.

    Tasks whose MBeans show that they write without transactions have no id.
    """
    found = []
    for task in connector.tasks:
        name = _id(state, connector.name, task.task)
        if state.transactional.get((connector.name, task.task)) is False:
            continue
        for rival in _rivals(name, state, others, frozenset()):
            if any(
                _runs(one, rival.connector, rival.task)
                and one.transactional.get((rival.connector, rival.task)) is not False
                for one in rival.known
            ):
                other = f"task {rival.task} of connector {rival.connector} of group {rival.group}"
                found.append(f"{name} is the id of its task {task.task} and of {other}")
    return tuple(found)


def counts_for(
    connector: str, task: str, state: ConnectState, others: Sequence[ConnectState], groups: frozenset[str]
) -> bool:
    """Return whether transactions of a task's id are this task's: by its MBeans, else if the id can be of no other
    task.
    """
    transactional = state.transactional.get((connector, task))
    if transactional is False:
        return False
    rivals = other_readings(_id(state, connector, task), state, others, groups)
    # Where the MBeans of both are read, the id belongs to the one that writes in transactions.
    return not rivals or (transactional is True and not _rival_may_write(state, connector, task, others, groups))


def _rival_may_write(
    state: ConnectState, connector: str, task: str, others: Sequence[ConnectState], groups: frozenset[str]
) -> bool:
    return any(
        not rival.known or any(one.transactional.get((rival.connector, rival.task)) is not False for one in rival.known)
        for rival in _rivals(_id(state, connector, task), state, others, groups)
    )


def _task(
    connector: Connector, task: Task, state: ConnectState, others: Sequence[ConnectState], log: LoggedIds | None
) -> _Seen:
    by_mbeans = state.transactional.get((connector.name, task.task))
    if by_mbeans is not None:
        negation = "have" if by_mbeans else "have no"
        return _Seen(by_mbeans, f"the MBeans of its tasks {negation} transaction sizes")
    by_worker = _by_worker(task, state)
    if by_worker is not None:
        value = "enabled" if by_worker else "not enabled"
        return _Seen(by_worker, f"exactly.once.source.support is {value} on its workers, as REST shows")
    return _by_log(connector, task, state, others, log)


def _by_worker(task: Task, state: ConnectState) -> bool | None:
    """By the configuration of the task's worker.

    Where addresses differ from the workers' own names, only if as many workers as run tasks answered, all alike.
    """
    if task.worker in state.workers:
        return state.workers[task.worker]
    names, values = state.task_workers, set(state.workers.values())
    if len(values) == 1 and names.isdisjoint(state.workers) and len(state.workers) >= len(names):
        return next(iter(values))
    return None


def _by_log(
    connector: Connector, task: Task, state: ConnectState, others: Sequence[ConnectState], log: LoggedIds | None
) -> _Seen:
    if log is None:
        return _Seen(None, "neither the workers' MBeans nor the transaction log show it")
    if not state.group_id:
        return _Seen(None, "group_id is not configured, so its transactional ids are not known")
    name = _id(state, connector.name, task.task)
    entry = log.ids.get(name)
    if entry is None:
        return _Seen(
            None,
            f"the log has no id {name}: it writes without transactions, or wrote nothing for "
            "transactional.id.expiration.ms; the workers' MBeans distinguish the two",
        )
    if rivals := other_readings(name, state, others, log.groups):
        return _Seen(
            None, f"the id {name} may also be that of {' or '.join(rivals)}: the workers' MBeans distinguish them"
        )
    if not entry.recent:
        return _Seen(
            None,
            f"the last transaction of {name} is more than an hour old: an idle task, or one that no longer uses "
            "transactions; the workers' MBeans distinguish the two",
        )
    return _Seen(True, f"the id {name} had a transaction in the last hour")


def _runs(state: ConnectState, connector: str, task: str) -> bool:
    return (connector, task) in state.source_tasks


def _id(state: ConnectState, connector: str, task: str) -> str:
    return f"{state.group_id}-{connector}-{task}"


def timeouts(connector: Connector, state: ConnectState, log: LoggedIds | None) -> Iterator[float]:
    """Transaction timeouts of the connector's tasks as the log has them, in seconds."""
    for task in connector.tasks:
        entry = log.ids.get(_id(state, connector.name, task.task)) if log is not None and state.group_id else None
        if entry is not None and entry.timeout is not None:
            yield entry.timeout
