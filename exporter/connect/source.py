"""One Connect cluster: by its REST API, by its workers' MBeans, or both; one series per fact.

REST is preferred for states, settings and reasons of failures, MBeans for numbers. Commits of exactly-once source tasks
come from the transaction log, where every task has its own id (Worker.taskTransactionalId), those of sink tasks from
their MBeans.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from exporter import catalogue
from exporter.cluster import NamedCluster, TargetSource
from exporter.connect import debezium
from exporter.connect.exactly_once import counts_for
from exporter.connect.facts import ConnectState
from exporter.connect.failures import FailureCounter, TaskKey, TaskSnapshot
from exporter.connect.preflight import Preflight
from exporter.connect.rest import Connector, RestAnswer, Task, run_concurrently
from exporter.connect.workers import (
    QUERIES,
    TaskNumbers,
    WorkerView,
    leader_is_transactional,
    transactional_tasks,
    versions_by_mbeans,
)
from exporter.jvm.reader import JvmAnswer, JvmReader
from exporter.model import Deadline, Fact, Facts, Fault, Reason, Sample
from exporter.transactions.facts import TaskCommits
from exporter.words import FailureCause

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 8.0
ALL_QUERIES = (*QUERIES, *debezium.QUERIES)

WITHOUT_REST = (
    "rest is not configured: it would add why tasks fail, the connectors' exactly-once settings, and tasks that no "
    "worker runs"
)
WITHOUT_WORKERS = (
    "workers are not configured: their MBeans would add transaction sizes, records written, ratios and times of offset "
    "commits, and crash loops between two reads"
)
WITHOUT_GROUP = "group_id is not configured: it would add the commits of exactly-once source tasks"


class RestReader(Protocol):
    """The REST API of one Connect cluster."""

    def read(self, deadline: Deadline) -> RestAnswer: ...


class ConnectSource(TargetSource[NamedCluster]):
    """Source ``connect`` of one Connect cluster. ``rest`` or ``workers`` is None where it is not configured.

    ``workers`` returns the readers of the current workers, which may change between reads.
    """

    name = "connect"

    def __init__(
        self,
        cluster: NamedCluster,
        target: str,
        rest: RestReader | None,
        workers: Callable[[], Sequence[JvmReader]] | None,
        group_id: str = "",
        interval: float = 10.0,
    ) -> None:
        """``target`` is the configured name of the Connect cluster; ``group_id`` is its workers' group.id, "" if
        unknown.
        """
        super().__init__(cluster, target, interval, TIMEOUT_SECONDS)
        self._group_id = group_id
        self._rest = rest
        self._workers = workers
        self._failures = FailureCounter()
        self._snapshots = debezium.SnapshotRestarts()
        self._written: dict[TaskKey, float] = {}
        self._commits: dict[TaskKey, float] = {}
        self._sink_commits: dict[TaskKey, float] = {}
        self._notes = tuple(
            note
            for note, lacking in (
                (WITHOUT_REST, rest is None),
                (WITHOUT_WORKERS, workers is None),
                (WITHOUT_GROUP, not group_id),
            )
            if lacking
        )
        for note in self._notes:
            log.info("connect %s: %s", target, note)

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        rest, answers = self._ask(deadline)
        faults = [*(rest.faults if rest else ()), *(fault for answer in answers for fault in answer.faults)]
        yield from faults
        readings = [reading for answer in answers for reading in answer.values]
        view = WorkerView(readings)
        everyone = not any(answer.faults for answer in answers)
        by_mbeans = view.connectors() if readings or (answers and everyone) else None
        connectors = by_mbeans if rest is None else rest.connectors
        if connectors is not None:
            complete = (
                everyone if rest is None else not rest.faults and all(connector.state for connector in connectors)
            )
            self._look(connectors, view.tasks, complete=complete)
            state = self._state(connectors, rest, answers)
            yield state
            yield from self._states(connectors)
            for address, version in state.versions.items():
                yield catalogue.CONNECT_WORKER_INFO(1.0, self.cluster, self.target, self.target, address, version)
            self._keep_commits(state, facts)
        yield from self._numbers(view.tasks)
        yield from debezium.debezium_samples((self.cluster, self.target, self.target), readings, self._snapshots)
        self._keep(view.tasks, everyone=everyone)
        yield from self._counters()

    def _state(
        self, connectors: tuple[Connector, ...], rest: RestAnswer | None, answers: Sequence[JvmAnswer]
    ) -> ConnectState:
        group = self._group_id
        preflight = rest.preflight if rest is not None else Preflight()
        return ConnectState(
            self.target,
            connectors,
            rest is not None,
            self._notes,
            group,
            transactional_tasks(answers),
            leader_is_transactional(answers, group),
            preflight.workers,
            preflight.plugins,
            preflight.connectors,
            rest.versions if rest is not None else versions_by_mbeans(answers),
        )

    # --- Asking ---

    def _ask(self, deadline: Deadline) -> tuple[RestAnswer | None, list[JvmAnswer]]:
        """Send all requests in parallel. One that does not return in time is a fault, like one that failed."""
        workers = self._workers() if self._workers is not None else ()
        questions: list[Callable[[], RestAnswer | JvmAnswer]] = [
            partial(worker.read, ALL_QUERIES, deadline) for worker in workers
        ]
        if self._rest is not None:
            questions.append(partial(self._rest.read, deadline))
        late = Fault(Reason.TIMEOUT, f"a question to Connect {self.target} has not returned at the deadline")
        rest: RestAnswer | None = None if self._rest is None else RestAnswer(None, (late,))
        answers = []
        for number, answer in enumerate(run_concurrently(questions, deadline)):
            if isinstance(answer, RestAnswer):
                rest = answer
            elif number < len(workers):
                answers.append(answer or JvmAnswer(faults=(late,)))
        return rest, answers

    def _look(self, connectors: Sequence[Connector], numbers: Mapping[TaskKey, TaskNumbers], *, complete: bool) -> None:
        snapshots = {}
        for connector in connectors:
            for task in connector.tasks:
                key = (connector.name, task.task)
                snapshots[key] = _look_at(task, numbers.get(key))
        self._failures.count(snapshots, complete=complete)

    # --- Samples ---

    def _states(self, connectors: Sequence[Connector]) -> Iterator[Sample]:
        head = (self.cluster, self.target, self.target)
        for connector in connectors:
            info = (connector.name, connector.type, connector.exactly_once_support, connector.transaction_boundary)
            yield catalogue.CONNECT_CONNECTOR_INFO(1.0, *head, *info)
        for connector in connectors:
            for task in connector.tasks:
                if task.state:
                    yield catalogue.CONNECT_TASK_STATE(1.0, *head, connector.name, task.task, task.state)

    def _numbers(self, tasks: Mapping[TaskKey, TaskNumbers]) -> Iterator[Sample]:
        head = (self.cluster, self.target, self.target)
        for key, numbers in tasks.items():
            for stat in ("min", "avg", "max"):
                if (size := numbers.get(f"transaction-size-{stat}")) is not None:
                    yield catalogue.CONNECT_TASK_TRANSACTION_SIZE_RECORDS(size, *head, *key, stat)
            for result, ratio in numbers.commit_ratios.items():
                yield catalogue.CONNECT_TASK_OFFSET_COMMIT_RATIO(ratio, *head, *key, result)
            for stat in ("avg", "max"):
                if (millis := numbers.get(f"offset-commit-{stat}-time-ms")) is not None:
                    yield catalogue.CONNECT_TASK_OFFSET_COMMIT_SECONDS(millis / 1000, *head, *key, stat)

    def _keep(self, tasks: Mapping[TaskKey, TaskNumbers], *, everyone: bool) -> None:
        """Counters keep their last value while their source does not answer."""
        written = {
            key: count
            for key, numbers in tasks.items()
            if (count := numbers.get("source-record-write-total", "sink-record-send-total")) is not None
        }
        commits = {
            key: count
            for key, numbers in tasks.items()
            if (count := numbers.get("offset-commit-completion-total")) is not None
        }
        self._written = written if everyone else {**self._written, **written}
        self._sink_commits = commits if everyone else {**self._sink_commits, **commits}

    def _keep_commits(self, state: ConnectState, facts: Facts) -> None:
        """Commits of source tasks, for those whose ids can be of no other group's task: see ``counts_for``."""
        commits = facts.get(TaskCommits)
        if commits is None or not state.group_id:
            return
        others = facts.all(ConnectState)
        ids = {
            (connector.name, task.task): f"{state.group_id}-{connector.name}-{task.task}"
            for connector in state.connectors
            if connector.type != "sink"
            for task in connector.tasks
        }
        self._commits = {
            key: commits.by_id[name]
            for key, name in ids.items()
            if name in commits.by_id and counts_for(*key, state, others, commits.groups)
        }

    def _counters(self) -> Iterator[Sample]:
        head = (self.cluster, self.target, self.target)
        for key, causes in self._failures.counts.items():
            for cause, count in causes.items():
                yield catalogue.CONNECT_TASK_FAILURES_TOTAL(float(count), *head, *key, cause.value)
        for key, written in self._written.items():
            yield catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL(written, *head, *key)
        for key, commits in (self._commits | self._sink_commits).items():
            yield catalogue.CONNECT_TASK_COMMITS_TOTAL(float(commits), *head, *key)


def _look_at(task: Task, numbers: TaskNumbers | None) -> TaskSnapshot:
    failed = task.state == "failed"
    if numbers is None or numbers.status not in {"", "failed"}:
        # REST and the worker disagree on the state: the metrics may be of another start of the task.
        return TaskSnapshot(failed, task.cause or FailureCause.OTHER, task.mark)
    return TaskSnapshot(
        failed, task.cause or FailureCause.OTHER, task.mark, numbers.records, numbers.get("running-ratio")
    )
