"""The grants that the principal of a Connect worker needs for exactly-once sources, and which of them it has. Pure.

The needs are those of KIP-618 and of Kafka Connect's user guide ("Exactly-once source connectors"): the workers' own
topics and group, the ids of the leader's and of the tasks' producers, and the topics that the tasks write to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from exporter.model import Fault, Word

Answer = bool | Fault
"""Whether an operation is allowed, or why that is not known."""


class GrantVerdict(Word):
    """The state of a grant."""

    GRANTED = "granted"
    REFUSED = "refused"
    NOT_KNOWN = "not known"


class Need(NamedTuple):
    """An operation on a resource, and what fails without it."""

    operation: str
    kind: Literal["Cluster", "Group", "Topic", "TransactionalId"]
    name: str
    why: str


class Grant(NamedTuple):
    """A need and its verdict. ``note`` is why it is not known, or what stands in for it; "" otherwise."""

    need: Need
    verdict: GrantVerdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The inputs that decide the grants: the names of a worker's settings file, the tasks of each connector, and their
    topics.

    A name is "" where the file does not have it. ``tasks`` has the number of tasks by connector.
    """

    group: str
    config_topic: str
    offset_topic: str
    status_topic: str
    tasks: Mapping[str, int]
    topics: Sequence[str] = ()

    @property
    def transactional_ids(self) -> Iterator[tuple[str, str]]:
        """Each id and whose it is (DistributedConfig.transactionalProducerId, Worker.taskTransactionalId)."""
        yield f"connect-cluster-{self.group}", "the leader writes the config topic with it and fences former leaders"
        for connector, tasks in sorted(self.tasks.items()):
            for task in range(tasks):
                yield f"{self.group}-{connector}-{task}", f"task {task} of {connector} commits its transactions with it"


def worker_settings(values: Mapping[str, str], tasks: Mapping[str, int], topics: Sequence[str]) -> WorkerSettings:
    """The names in a worker's settings. Raises ValueError for settings that have no group.id."""
    if not values.get("group.id"):
        raise ValueError("has no group.id: it is no file of a distributed Connect worker")
    config, offset, status = (values.get(f"{kind}.storage.topic", "") for kind in ("config", "offset", "status"))
    return WorkerSettings(values["group.id"], config, offset, status, tasks, topics)


def needs(worker: WorkerSettings) -> Iterator[Need]:
    """Every grant, in the order in which a worker that starts needs them."""
    yield Need("READ", "Group", worker.group, "the worker does not join its group")
    for topic, what in (
        (worker.config_topic, "configurations"),
        (worker.offset_topic, "offsets of sources"),
        (worker.status_topic, "states of tasks"),
    ):
        if topic:
            yield Need("READ", "Topic", topic, f"the worker does not start: it reads the {what} there")
            yield Need("WRITE", "Topic", topic, f"the worker cannot write the {what}")
    for transactional_id, whose in worker.transactional_ids:
        yield Need("WRITE", "TransactionalId", transactional_id, whose)
        yield Need("DESCRIBE", "TransactionalId", transactional_id, whose)
    for topic in worker.topics:
        yield Need("WRITE", "Topic", topic, "the tasks cannot write their records")
    yield Need("IDEMPOTENT_WRITE", "Cluster", "kafka-cluster", "no producer gets an id, before Kafka 2.8")


def judge(wanted: Iterable[Need], ask: Callable[[Need], Answer]) -> tuple[Grant, ...]:
    """A verdict for each need. ``ask`` is called once for each of them.

    Since Kafka 2.8 WRITE on any topic stands in for IDEMPOTENT_WRITE on the cluster (KIP-679).
    """
    found: list[Grant] = []
    for need in wanted:
        answer = ask(need)
        if isinstance(answer, Fault):
            found.append(Grant(need, GrantVerdict.NOT_KNOWN, answer.detail))
        elif answer:
            found.append(Grant(need, GrantVerdict.GRANTED))
        elif need.operation == "IDEMPOTENT_WRITE" and _may_write(found):
            found.append(Grant(need, GrantVerdict.GRANTED, "by WRITE on a topic (KIP-679, Kafka 2.8 and later)"))
        else:
            found.append(Grant(need, GrantVerdict.REFUSED))
    return tuple(found)


def _may_write(found: Iterable[Grant]) -> bool:
    return any(
        grant.need.kind == "Topic" and grant.need.operation == "WRITE" and grant.verdict is GrantVerdict.GRANTED
        for grant in found
    )
