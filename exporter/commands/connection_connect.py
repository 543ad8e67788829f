"""``check connection --connect``: whether the principal of a Connect worker may do what exactly-once sources need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.bounds.text import printable
from exporter.cluster import Cluster
from exporter.commands.output import print_table
from exporter.commands.settings import UsageError
from exporter.connect.grants import Answer, Grant, GrantVerdict, Need, WorkerSettings, judge, needs, worker_settings
from exporter.kafka.requests.grants import (
    Allowed,
    Operation,
    group_operations,
    topics_and_cluster,
    transactional_id_operations,
)
from exporter.linter.files import FileError, read
from exporter.model import Deadline, Fault, Reason
from exporter.status.command_documents import GrantDocument

MOST_TASKS = 1000
"""Greatest number of tasks of all connectors: each is asked for by itself."""


def worker_of(path: Path, connectors: Sequence[str], topics: Sequence[str]) -> WorkerSettings:
    """The settings of a worker's file, with connectors as ``NAME`` or ``NAME=TASKS``. Raises UsageError."""
    tasks = dict(map(_tasks, connectors))
    if sum(tasks.values()) > MOST_TASKS:
        raise UsageError(f"--connector: more than {MOST_TASKS} tasks")
    try:
        return worker_settings({setting.name: setting.value for setting in read(path)}, tasks, topics)
    except (FileError, ValueError) as error:
        raise UsageError(f"{path} {error}") from None


def _tasks(text: str) -> tuple[str, int]:
    name, equals, number = text.rpartition("=")
    if not equals:
        return text, 1
    if not name or not number.isascii() or not number.isdigit() or not int(number[:10]):
        raise UsageError(f"--connector {text}: expected NAME or NAME=TASKS, such as orders=4")
    return name, int(number[:10])


def grants_of(cluster: Cluster, worker: WorkerSettings, deadline: Callable[[], Deadline]) -> tuple[Grant, ...]:
    """Ask the cluster about each need. Raises AskError when no broker answers."""
    client = cluster.client
    metadata = cluster.metadata(deadline())
    wanted = tuple(needs(worker))
    topics = list(dict.fromkeys(need.name for need in wanted if need.kind == "Topic"))
    known = topics_and_cluster(client, metadata, topics, deadline())
    group = group_operations(client, metadata, worker.group, deadline())
    ids = {
        name: transactional_id_operations(client, metadata, name, deadline()) for name, _ in worker.transactional_ids
    }

    def ask(need: Need) -> Answer:
        operation = Operation[need.operation]
        if need.kind == "TransactionalId":
            return ids[need.name][operation]
        if need.kind == "Group":
            return _has(group, operation)
        if need.kind == "Cluster":
            return _has(known.cluster, operation)
        if need.name in known.missing:
            return Fault(Reason.UNKNOWN_TOPIC, _missing(known.cluster))
        return _has(known.topics[need.name], operation)

    return judge(wanted, ask)


def _has(allowed: Allowed, operation: Operation) -> Answer:
    return allowed if isinstance(allowed, Fault) else int(operation) in allowed


def _missing(cluster: Allowed) -> str:
    text = "the topic does not exist: a cluster shows no grants on it before; to create it the worker needs CREATE"
    return f"{text} (granted on the cluster)" if _has(cluster, Operation.CREATE) is True else text


def documents(grants: Sequence[Grant]) -> list[GrantDocument]:
    """The rows for programs."""
    return [
        {
            "operation": grant.need.operation,
            "resource_type": grant.need.kind,
            "resource": grant.need.name,
            "why": grant.need.why,
            "verdict": grant.verdict.value,
            "note": grant.note,
        }
        for grant in grants
    ]


def print_grants(worker: WorkerSettings, grants: Sequence[Grant]) -> None:
    """A table for people, and the notes below it."""
    print(printable(f"what a worker of Connect group {worker.group} needs, for the principal of this connection"))
    print_table(
        ("grant", "verdict", "what for"),
        (
            (f"{need.operation} on {need.kind}:{need.name}", verdict.value, need.why if verdict is not _OK else "")
            for need, verdict, _ in grants
        ),
    )
    for need, _, note in grants:
        if note:
            print(printable(f"{need.operation} on {need.kind}:{need.name}: {note}"))
    if not worker.tasks:
        print("Ids of tasks are <group.id>-<connector>-<task>: name the connectors by --connector NAME=TASKS.")


_OK = GrantVerdict.GRANTED
