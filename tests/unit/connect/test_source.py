"""One Connect cluster from the answers of real workers: by REST, by MBeans, by both, and when some are silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest

from exporter import catalogue
from exporter.connect.facts import ConnectState
from exporter.connect.failures import DELETED_AFTER
from exporter.connect.rest import RestAnswer, parse
from exporter.connect.source import (
    WITHOUT_GROUP,
    WITHOUT_REST,
    WITHOUT_WORKERS,
    ConnectSource,
)
from exporter.connect.workers import QUERIES
from exporter.jvm.answers import JvmAnswer, MBeanValue
from exporter.jvm.mbeans import parse_object_name
from exporter.model import Deadline, Facts, Fault, Metric, Reason, Sample
from exporter.transactions.facts import TaskCommits
from exporter.words import FailureCause
from tests.helpers.recordings import RECORDINGS, jolokia_answer

CAPTURES = RECORDINGS / "connect"
HEAD = ("demo", "main", "main")
DEAD = Fault(Reason.UNREACHABLE, "c1:8083: connection refused")


class NamedReader(NamedTuple):
    name: str = "demo"


@dataclass
class ScriptedReaders:
    """Both kinds of readers: what it answers may be changed between two reads."""

    answer: RestAnswer | JvmAnswer

    def read(self, *_: object) -> RestAnswer | JvmAnswer:
        return self.answer


def rest_answer(text: str | None = None) -> RestAnswer:
    return parse((text or (CAPTURES / "rest.json").read_text()).encode(), "c1:8083")


WORKERS = tuple((CAPTURES / f"worker-{number}.json").read_text() for number in (1, 2))


def worker_of(connector: str, task: int) -> int:
    """The index of the worker that the task ran on: where a task runs differs between captures."""
    (found,) = (at for at, text in enumerate(WORKERS) if f"connector={connector},task={task}" in text)
    return found


class Read(NamedTuple):
    samples: tuple[Sample, ...]
    faults: tuple[Fault, ...]
    state: ConnectState | None

    def of(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """Values by the labels behind cluster, target and connect."""
        assert all(sample.labels[:3] == HEAD for sample in self.samples)
        return {sample.labels[3:]: sample.value for sample in self.samples if sample.metric is metric}  # type: ignore[misc]


def read(source: ConnectSource, commits: TaskCommits | None = None) -> Read:
    facts = Facts({TaskCommits: commits} if commits else {})
    given = list(source.read(Deadline.after(5), facts))
    return Read(
        tuple(fact for fact in given if isinstance(fact, Sample)),
        tuple(fact for fact in given if isinstance(fact, Fault)),
        next((fact for fact in given if isinstance(fact, ConnectState)), None),
    )


def source(rest: object, workers: Sequence[object], group_id: str = "etl") -> ConnectSource:
    readers = (lambda: workers) if workers else None
    return ConnectSource(NamedReader(), "main", rest, readers, group_id)  # type: ignore[arg-type]


@pytest.fixture
def rest() -> ScriptedReaders:
    return ScriptedReaders(rest_answer()._replace(versions={"c1:8083": "4.3.1"}))


@pytest.fixture
def workers() -> list[ScriptedReaders]:
    return [ScriptedReaders(jolokia_answer(text, QUERIES)) for text in WORKERS]


def test_workers_say_their_versions_where_rest_is_not_set(workers: list[ScriptedReaders]) -> None:
    worker = parse_object_name("kafka.connect:type=app-info,id=c1:8083")
    assert worker is not None
    assert isinstance(workers[0].answer, JvmAnswer)
    said = (MBeanValue(worker, "Version", "3.5.1"), *workers[0].answer.values)
    workers[0].answer = replace(workers[0].answer, values=said)
    assert read(source(None, workers)).of(catalogue.CONNECT_WORKER_INFO) == {("c1:8083", "3.5.1"): 1.0}


def test_both_ways_together_give_every_family_once(rest: ScriptedReaders, workers: list[ScriptedReaders]) -> None:
    seen = read(source(rest, workers), TaskCommits({"etl-steps-0": 3, "etl-steps-1": 40, "etl-copy-0": 9}))
    assert not seen.faults
    keys = [(sample.metric, sample.labels) for sample in seen.samples]
    assert len(keys) == len(set(keys))
    families = {row for row in catalogue.rows() if row.source == "connect" and "threshold" not in row.labels}
    families -= {row for row in families if row.name.startswith("kafka_eos_debezium_")}  # its own file
    assert {sample.metric for sample in seen.samples} == families


def test_states_and_settings_come_from_rest(rest: ScriptedReaders, workers: list[ScriptedReaders]) -> None:
    seen = read(source(rest, workers))
    assert seen.of(catalogue.CONNECT_CONNECTOR_INFO) == {
        ("copy", "sink", "", ""): 1.0,
        ("crash", "source", "requested", "poll"): 1.0,
        ("orders-interval", "source", "requested", "interval"): 1.0,
        ("orders-source", "source", "requested", "poll"): 1.0,
        ("steps", "source", "required", "connector"): 1.0,
    }
    assert seen.of(catalogue.CONNECT_TASK_STATE) == {
        ("copy", "0", "running"): 1.0,
        ("crash", "0", "failed"): 1.0,
        ("orders-interval", "0", "running"): 1.0,
        ("orders-source", "0", "running"): 1.0,
        ("steps", "0", "failed"): 1.0,
        ("steps", "1", "running"): 1.0,
    }


def test_numbers_come_from_the_workers(rest: ScriptedReaders, workers: list[ScriptedReaders]) -> None:
    seen = read(source(rest, workers))
    sizes = seen.of(catalogue.CONNECT_TASK_TRANSACTION_SIZE_RECORDS)
    assert {key: size for key, size in sizes.items() if key[0] == "steps"} == {
        ("steps", "1", stat): 10.0 for stat in ("min", "avg", "max")
    }
    assert ("orders-source", "0", "avg") not in sizes, "it is idle: unknown is absent"
    written = seen.of(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL)
    assert written["orders-source", "0"] == 100.0
    assert written["copy", "0"] == 100.0
    ratios = seen.of(catalogue.CONNECT_TASK_OFFSET_COMMIT_RATIO)
    assert ratios["copy", "0", "success"] == 1.0
    assert ratios["copy", "0", "failure"] == 0.0
    assert ("crash", "0", "success") not in ratios, "it never committed: both are 0, and that is no ratio"
    seconds = seen.of(catalogue.CONNECT_TASK_OFFSET_COMMIT_SECONDS)
    assert 0 < seconds["steps", "1", "avg"] <= seconds["steps", "1", "max"] < 1


def test_commits_of_source_tasks_come_from_the_log_and_of_sink_tasks_from_the_worker(
    rest: ScriptedReaders, workers: list[ScriptedReaders]
) -> None:
    reader = source(rest, workers)
    seen = read(reader, TaskCommits({"etl-steps-0": 3, "etl-steps-1": 40, "etl-copy-0": 9, "etl-gone-0": 1}))
    sink = seen.of(catalogue.CONNECT_TASK_COMMITS_TOTAL)["copy", "0"]
    assert sink not in (0.0, 9.0), "its worker counts the commits of a sink task"
    commits = {("steps", "0"): 3.0, ("steps", "1"): 40.0, ("copy", "0"): sink}
    assert seen.of(catalogue.CONNECT_TASK_COMMITS_TOTAL) == commits
    assert read(reader, None).of(catalogue.CONNECT_TASK_COMMITS_TOTAL) == commits, "they stand still without the log"


def test_failures_are_zero_first_and_counted_by_cause_when_they_come(
    rest: ScriptedReaders, workers: list[ScriptedReaders]
) -> None:
    well = (CAPTURES / "rest.json").read_text().replace('"FAILED"', '"RUNNING"')
    reader = source(rest, [])
    rest.answer = rest_answer(well)
    first = read(reader).of(catalogue.CONNECT_TASK_FAILURES_TOTAL)
    assert set(first.values()) == {0.0}
    assert {key[2] for key in first} == set(FailureCause.values())
    rest.answer = rest_answer()
    seen = read(reader).of(catalogue.CONNECT_TASK_FAILURES_TOTAL)
    assert {key for key, count in seen.items() if count} == {
        ("steps", "0", "invalid_epoch"),
        ("crash", "0", "other"),
    }
    assert read(reader).of(catalogue.CONNECT_TASK_FAILURES_TOTAL) == seen


def test_rest_alone_says_what_the_workers_would_add(rest: ScriptedReaders) -> None:
    seen = read(source(rest, []))
    assert {sample.metric for sample in seen.samples} == {
        catalogue.CONNECT_CONNECTOR_INFO,
        catalogue.CONNECT_WORKER_INFO,
        catalogue.CONNECT_TASK_STATE,
        catalogue.CONNECT_TASK_FAILURES_TOTAL,
    }
    assert seen.state is not None
    assert seen.state.notes == (WITHOUT_WORKERS,)
    assert not seen.faults


def test_mbeans_alone_give_states_and_say_what_rest_would_add(workers: list[ScriptedReaders]) -> None:
    seen = read(source(None, workers, group_id=""))
    assert seen.of(catalogue.CONNECT_TASK_STATE)["crash", "0", "failed"] == 1.0
    assert seen.of(catalogue.CONNECT_CONNECTOR_INFO)["steps", "source", "", ""] == 1.0
    assert seen.of(catalogue.CONNECT_CONNECTOR_INFO)["copy", "sink", "", ""] == 1.0
    assert seen.state is not None
    assert seen.state.notes == (WITHOUT_REST, WITHOUT_GROUP)
    assert not seen.faults


def test_mbeans_alone_count_a_failure_as_other(workers: list[ScriptedReaders]) -> None:
    reader = source(None, workers)
    failed = [worker.answer for worker in workers]
    for readers, text in zip(workers, WORKERS, strict=True):
        readers.answer = jolokia_answer(text.replace('"failed"', '"running"'), QUERIES)
    assert not any(read(reader).of(catalogue.CONNECT_TASK_FAILURES_TOTAL).values())
    for readers, answer in zip(workers, failed, strict=True):
        readers.answer = answer
    seen = read(reader).of(catalogue.CONNECT_TASK_FAILURES_TOTAL)
    assert {key for key, count in seen.items() if count} == {("crash", "0", "other"), ("steps", "0", "other")}


def test_without_rest_answering_there_are_no_states_and_no_new_failures(
    rest: ScriptedReaders, workers: list[ScriptedReaders]
) -> None:
    reader = source(rest, workers)
    before = read(reader)
    rest.answer = RestAnswer(None, (DEAD,))
    seen = read(reader)
    assert seen.faults == (DEAD,)
    assert not seen.of(catalogue.CONNECT_TASK_STATE)
    assert not seen.of(catalogue.CONNECT_CONNECTOR_INFO)
    assert seen.state is None
    failures = catalogue.CONNECT_TASK_FAILURES_TOTAL
    assert seen.of(failures) == before.of(failures)
    assert seen.of(catalogue.CONNECT_TASK_OFFSET_COMMIT_RATIO), "the workers answer"


@pytest.mark.parametrize("gone", [False, True])
def test_without_any_worker_answering_it_is_not_known_which_connectors_there_are(
    workers: list[ScriptedReaders], gone: bool
) -> None:
    reader = source(None, workers)
    before = read(reader)
    for worker in workers:
        worker.answer = JvmAnswer(faults=(DEAD,))
    if gone:
        workers.clear()
    failures = catalogue.CONNECT_TASK_FAILURES_TOTAL
    for _ in range(DELETED_AFTER):
        seen = read(reader)
        assert seen.state is None
        assert seen.of(failures) == before.of(failures) != {}


def test_one_dead_worker_costs_its_gauges_and_no_counter(rest: ScriptedReaders, workers: list[ScriptedReaders]) -> None:
    reader = source(rest, workers)
    before = read(reader)
    dead = worker_of("steps", 1)
    workers[dead].answer = JvmAnswer(faults=(DEAD,))
    seen = read(reader)
    assert seen.faults == (DEAD,)
    written = catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL
    assert seen.of(written) == before.of(written)
    ratios = seen.of(catalogue.CONNECT_TASK_OFFSET_COMMIT_RATIO)
    for connector, task in (("copy", 0), ("steps", 0), ("steps", 1), ("orders-source", 0)):
        assert ((connector, str(task), "success") in ratios) == (worker_of(connector, task) != dead)


def test_a_deleted_connector_takes_its_counters_along(rest: ScriptedReaders) -> None:
    reader = source(rest, [])
    assert any(key[0] == "steps" for key in read(reader).of(catalogue.CONNECT_TASK_FAILURES_TOTAL))
    assert isinstance(rest.answer, RestAnswer)
    assert rest.answer.connectors is not None
    rest.answer = RestAnswer(tuple(connector for connector in rest.answer.connectors if connector.name != "steps"), ())
    for _ in range(DELETED_AFTER):
        read(reader)
    assert not any(key[0] == "steps" for key in read(reader).of(catalogue.CONNECT_TASK_FAILURES_TOTAL))


def test_workers_that_come_and_go_are_asked_and_reported_with_the_next_read(rest: ScriptedReaders) -> None:
    there: list[ScriptedReaders] = []
    source = ConnectSource(NamedReader(), "main", rest, lambda: there, "etl")  # type: ignore[arg-type, return-value]
    assert not read(source).of(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL)
    there.append(ScriptedReaders(jolokia_answer(WORKERS[0], QUERIES)))
    seen = read(source)
    written = seen.of(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL)
    assert written
    assert not any("workers are not configured" in note for note in (seen.state.notes if seen.state else ()))
    there.clear()
    assert not read(source).of(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL)
