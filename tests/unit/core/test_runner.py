"""The runner: a failure affects only its source, and samples expire in time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.cluster import ClusterIdentity
from exporter.core.fact_store import FactStore
from exporter.core.reading import next_start, read_source
from exporter.core.runner import Group, Runner
from exporter.core.worker import STOOD_GRACE
from exporter.model import (
    Clock,
    Deadline,
    Distribution,
    Fact,
    Facts,
    Fault,
    Kind,
    Metric,
    Notes,
    Reason,
    Sample,
    Snapshot,
    Source,
)
from exporter.transactions.facts import OpenTransactions

AGE = Metric("test_age_seconds", Kind.GAUGE, "An age.", ("who",))
OPEN = Metric("test_open_seconds", Kind.HISTOGRAM, "How long.", ("who",))
IDENTITY = ClusterIdentity("id", "b:9092", 2, 3)
ELSEWHERE = ClusterIdentity("other", "c:9092", 2, 3)
FAULT = Fault(Reason.UNREACHABLE, "broker 1 is gone")
WAIT = 10.0
"""Longer than anything here takes; a test that waits so long has failed."""


@dataclass
class ScriptedSource:
    """A source with scripted reads."""

    answer: Callable[[Deadline, Facts], Iterable[Sample | Fault | Fact]] = lambda *_: ()
    name: str = "scripted"
    target: str = "prod"
    cluster: str = "prod"
    interval: float = 0.01
    pace: float = 0.01
    timeout: float = 5.0
    closed: list[str] = field(default_factory=list)

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        yield from self.answer(deadline, facts)

    def close(self) -> None:
        self.closed.append(threading.current_thread().name)


@dataclass
class RecordingSink:
    """A sink that records everything, and lets a test wait for a condition."""

    swaps: list[dict[tuple[str, ...], Snapshot]] = field(default_factory=list)
    dropped: list[tuple[str, ...]] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def swap(self, snapshots: Mapping[tuple[str, ...], Snapshot]) -> None:
        with self.news:
            self.swaps.append(dict(snapshots))
            self.news.notify_all()

    def drop(self, keys: Collection[tuple[str, ...]]) -> None:
        with self.news:
            self.dropped += keys
            self.news.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.news:
            assert self.news.wait_for(condition, WAIT)

    def own(self, name: str = "source_up") -> list[Sample]:
        """The latest own samples of each source whose family's name has this in it."""
        latest: dict[tuple[str, ...], Snapshot] = {}
        for swap in self.swaps:
            latest |= {key: snapshot for key, snapshot in swap.items() if key[-1] == "agent"}
        return [sample for snapshot in latest.values() for sample in snapshot.samples if name in sample.metric.name]

    def reads(self) -> list[Snapshot]:
        return [snapshot for swap in self.swaps for key, snapshot in swap.items() if key[-1] != "agent"]


@pytest.fixture
def notebook() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def run(notebook: RecordingSink) -> Iterator[Callable[..., Runner]]:
    runners: list[Runner] = []

    def start(*groups: Group, clock: Clock | None = None) -> Runner:
        runner = Runner(groups, notebook, clock)
        runners.append(runner)
        runner.start()
        return runner

    yield start
    for runner in runners:
        runner.stop(Deadline.after(WAIT))


def group(*sources: Source, key: str = "prod") -> Group:
    return Group(key, sources)


def read_once(source: Source, facts: Facts | None = None) -> Snapshot:
    return read_source(source, Deadline.after(5), facts or Facts(), Clock())


# --- take -------------------------------------------------------------------------------------------------------------


def test_what_was_yielded_before_a_bug_is_kept_and_the_bug_is_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    def answer(*_: object) -> Iterator[Sample | Fault | Fact]:
        yield AGE(1, "x")
        yield IDENTITY
        raise KeyError("password=hunter2")

    snapshot = read_once(ScriptedSource(answer))
    assert snapshot.samples == (AGE(1, "x"),)
    assert snapshot.facts == (IDENTITY,)
    assert [fault.reason for fault in snapshot.faults] == [Reason.INTERNAL]
    assert "KeyError in answer" in snapshot.faults[0].detail
    assert "hunter2" not in snapshot.faults[0].detail
    assert "Traceback" in caplog.text
    assert not snapshot.up


def test_a_read_that_raises_at_once_is_a_fault_too() -> None:
    def answer(*_: object) -> Iterable[Sample]:
        raise ValueError

    assert [fault.reason for fault in read_once(ScriptedSource(answer)).faults] == [Reason.INTERNAL]


def test_a_read_with_a_fault_keeps_its_samples_and_is_not_up() -> None:
    snapshot = read_once(ScriptedSource(lambda *_: (AGE(1, "x"), FAULT, AGE(2, "y"))))
    assert snapshot.samples == (AGE(1, "x"), AGE(2, "y"))
    assert snapshot.faults == (FAULT,)
    assert not snapshot.up


@pytest.mark.parametrize(
    "misshapen",
    [Sample(AGE, ("a", "b"), 1.0), Sample(AGE, ("a",), Distribution((), 0, 0)), Sample(OPEN, ("a",), 1.0)],
)
def test_a_sample_that_cannot_be_written_is_its_sources_bug(misshapen: Sample) -> None:
    snapshot = read_once(ScriptedSource(lambda *_: (AGE(1, "x"), misshapen)))
    assert snapshot.samples == (AGE(1, "x"),)
    assert [fault.reason for fault in snapshot.faults] == [Reason.INTERNAL]


def test_the_source_is_given_the_deadline_and_the_facts() -> None:
    seen: list[object] = []

    def answer(deadline: Deadline, facts: Facts) -> tuple[Sample, ...]:
        seen.extend((deadline, facts.get(ClusterIdentity)))
        return ()

    deadline = Deadline.after(3)
    read_source(ScriptedSource(answer), deadline, Facts({ClusterIdentity: IDENTITY}), Clock())
    assert seen == [deadline, IDENTITY]


# --- The schedule -----------------------------------------------------------------------------------------------------


def test_the_next_read_begins_one_interval_after_the_start_of_the_last() -> None:
    assert next_start(began=100, now=101, interval=5) == 105


def test_a_read_that_overran_does_not_make_the_next_ones_burst() -> None:
    assert next_start(began=100, now=112, interval=5) == 115


@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0.01, 1e3))
def test_the_next_start_is_on_the_grid_and_not_in_the_past(began: float, took: float, interval: float) -> None:
    start = next_start(began, began + took, interval)
    assert start >= began + interval * 0.999
    assert start >= began + took - 1e-6
    assert start - (began + took) <= interval * 1.001


# --- Facts ------------------------------------------------------------------------------------------------------------


def posted(*facts: Fact, ended: float = 0.0, faults: tuple[Fault, ...] = ()) -> Snapshot:
    return Snapshot("s", "t", "c", 5.0, (), faults, facts, 0.0, ended, 0.0)


def test_a_fact_lives_three_intervals_of_the_source_that_made_it() -> None:
    board = FactStore()
    board.post(("a",), posted(IDENTITY))
    assert board.facts(14.9).get(ClusterIdentity) == IDENTITY
    assert board.facts(15.0).get(ClusterIdentity) is None


def test_a_fact_survives_a_read_that_failed_and_not_one_that_no_longer_says_it() -> None:
    board = FactStore()
    board.post(("a",), posted(IDENTITY))
    board.post(("a",), posted(Notes(("note",)), ended=5, faults=(FAULT,)))
    assert board.facts(6).get(ClusterIdentity) == IDENTITY
    assert board.facts(6).all(ClusterIdentity) == (IDENTITY,)
    assert board.facts(15).all(Fact) == (Notes(("note",)),)
    board.post(("a",), posted(ended=10))
    assert board.facts(11).get(ClusterIdentity) is None


def test_a_source_that_says_nothing_leaves_the_facts_of_others() -> None:
    board = FactStore()
    polled, tailed = OpenTransactions("transactions", (), complete=True), OpenTransactions("txnlog", (), complete=True)
    board.post(("transactions",), posted(polled))
    board.post(("txnlog",), posted(tailed))
    board.post(("transactions",), posted())
    assert board.facts(1).get(OpenTransactions) == tailed


def test_facts_of_a_common_group_are_seen_by_all_until_it_is_removed() -> None:
    common = FactStore()
    board = FactStore(common)
    common.post(("a",), posted(IDENTITY))
    assert board.facts(1).all(ClusterIdentity) == (IDENTITY,)
    assert board.facts(1).get(ClusterIdentity) is None, "of which group is not known by the type alone"
    common.drop(("a",))
    assert board.facts(1).all(ClusterIdentity) == ()


def test_sources_of_a_group_see_each_others_facts_and_those_of_common_groups(
    notebook: RecordingSink, run: Callable[..., Runner]
) -> None:
    seen: dict[str, list[object]] = {"same": [], "other": []}
    common: list[tuple[ClusterIdentity, ...]] = []

    def listen(who: str) -> Callable[[Deadline, Facts], tuple[Sample, ...]]:
        def answer(_: Deadline, facts: Facts) -> tuple[Sample, ...]:
            seen[who].append(facts.get(ClusterIdentity))
            common.append(facts.all(ClusterIdentity))
            return ()

        return answer

    maker = ScriptedSource(lambda *_: (IDENTITY,), name="maker")
    runner = run(
        group(maker, ScriptedSource(listen("same"), name="same", cluster=""), key="a"),
        group(ScriptedSource(listen("other"), name="other"), key="b"),
    )
    notebook.wait_for(lambda: IDENTITY in seen["same"] and len(seen["other"]) > 5)
    assert set(seen["other"]) == {None}
    jvm = ScriptedSource(lambda *_: (ELSEWHERE,), name="jvm")
    runner.add(Group("c", (jvm,), common=True))
    notebook.wait_for(lambda: (IDENTITY, ELSEWHERE) in common and (ELSEWHERE,) in common)
    runner.remove("c", Deadline.after(WAIT))
    common.clear()
    notebook.wait_for(lambda: len(common) > 10)
    assert not [found for found in common[-4:] if ELSEWHERE in found]


# --- Metrics of reading -------------------------------------------------------------------------------


def test_every_reason_is_counted_from_zero_before_the_first_fault(
    notebook: RecordingSink, run: Callable[..., Runner]
) -> None:
    gate = threading.Event()

    def answer(*_: object) -> tuple[Sample, ...]:
        gate.wait(WAIT)
        return ()

    run(group(ScriptedSource(answer)))
    notebook.wait_for(lambda: bool(notebook.swaps))
    counts = {sample.labels[-1]: sample.value for sample in notebook.own("faults_total")}
    gate.set()
    assert counts == dict.fromkeys(Reason, 0)
    assert {sample.labels[:3] for sample in notebook.own("faults_total")} == {("prod", "scripted", "prod")}


def test_faults_add_up_by_reason_and_up_is_the_last_reads(notebook: RecordingSink, run: Callable[..., Runner]) -> None:
    answers = iter([(FAULT, FAULT, Fault(Reason.TIMEOUT, "late")), ()])
    run(group(ScriptedSource(lambda *_: next(answers, ()), pace=0.05)))
    notebook.wait_for(lambda: [sample.value for sample in notebook.own()] == [0.0])
    assert notebook.own("last_success") == []
    notebook.wait_for(lambda: [sample.value for sample in notebook.own()] == [1.0])
    counts = {sample.labels[-1]: sample.value for sample in notebook.own("faults_total") if sample.value}
    assert counts == {"unreachable": 2, "timeout": 1}
    assert len(notebook.own("last_success")) == 1
    assert len(notebook.own("duration")) == 1


def test_what_was_read_and_how_reading_went_change_at_the_same_instant(
    notebook: RecordingSink, run: Callable[..., Runner]
) -> None:
    run(group(ScriptedSource(lambda *_: (AGE(1, "x"),))))
    notebook.wait_for(lambda: bool(notebook.reads()))
    with_data = [swap for swap in notebook.swaps if ("prod", "scripted", "0") in swap]
    assert all(len(swap) == 2 for swap in with_data)


def test_faults_are_logged_when_they_change_and_not_in_every_cycle(
    notebook: RecordingSink, run: Callable[..., Runner], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    answers = [(FAULT,)] * 5 + [(FAULT, Fault(Reason.TIMEOUT, "late"))] * 5 + [()] * 5
    run(group(ScriptedSource(lambda *_: answers.pop(0) if answers else ())))
    notebook.wait_for(lambda: len(notebook.reads()) > 15)
    assert [record.getMessage() for record in caplog.records] == [
        "unreachable: broker 1 is gone", "timeout: late", "answers again",
    ]  # fmt: skip


def test_the_same_bug_has_one_traceback_in_the_log(
    notebook: RecordingSink, run: Callable[..., Runner], caplog: pytest.LogCaptureFixture
) -> None:
    def answer(*_: object) -> Iterable[Sample]:
        raise ZeroDivisionError

    run(group(ScriptedSource(answer)))
    notebook.wait_for(lambda: len(notebook.reads()) > 5)
    assert caplog.text.count("Traceback") == 1


# --- Overruns ---------------------------------------------------------------------------------------------------------


class Hanging(ScriptedSource):
    """A source whose read hangs until the test releases it."""

    def __init__(self, name: str = "hanging", timeout: float = 0.01) -> None:
        super().__init__(name=name, timeout=timeout)
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.inside = 0
        self.most_inside = 0

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.release()
        self.let_go.wait(WAIT)
        self.inside -= 1
        yield AGE(1, "late")


@pytest.mark.parametrize(("stood", "shown"), [(4.0, True), (40.0, False)])
def test_of_a_read_in_which_the_process_did_not_move_only_counters_are_left(
    notebook: RecordingSink, run: Callable[..., Runner], stood: float, shown: bool
) -> None:
    now = [100.0]
    done = threading.Event()

    def answer(deadline: Deadline, _: Facts) -> Iterator[Sample | Fault | Fact]:
        yield AGE(1.0, "x")
        yield OPEN(Distribution((), 0.0, 0), "x")
        yield IDENTITY
        if not done.is_set():
            done.set()
            now[0] = deadline.at + stood

    assert (stood > STOOD_GRACE) is not shown
    runner = run(group(ScriptedSource(answer, pace=1000.0)), clock=Clock(monotonic=lambda: now[0]))
    notebook.wait_for(lambda: bool(notebook.reads()))
    [read] = notebook.reads()
    assert [sample.metric for sample in read.samples] == ([AGE, OPEN] if shown else [OPEN])
    assert (IDENTITY in read.facts) is shown
    assert [fault.detail.split(" s ")[0] for fault in read.faults] == ([] if shown else ["a read came back 40"])
    assert [source.up for source in runner.states()[0].sources] == [shown]


def test_a_read_that_hangs_is_a_fault_and_is_never_doubled(notebook: RecordingSink, run: Callable[..., Runner]) -> None:
    source = Hanging()
    runner = run(group(source, ScriptedSource(lambda *_: (AGE(1, "x"),), name="fine")))
    notebook.wait_for(lambda: [sample.value for sample in notebook.own() if sample.labels[1] == "hanging"] == [0.0])
    [state] = [state for state in runner.states()[0].sources if state.source == "hanging"]
    assert state.faults[0].reason is Reason.TIMEOUT
    assert [sample.value for sample in notebook.own() if sample.labels[1] == "fine"] == [1.0]
    source.let_go.set()
    notebook.wait_for(lambda: [sample.value for sample in notebook.own() if sample.labels[1] == "hanging"] == [1.0])
    assert source.most_inside == 1
    late = [sample for sample in notebook.own("faults_total") if sample.labels[1:] == ("hanging", "prod", "timeout")]
    assert [sample.value for sample in late] == [1]


def test_a_runner_is_ready_once_every_source_answered_failed_or_hung(
    notebook: RecordingSink, run: Callable[..., Runner]
) -> None:
    gate, hanging = threading.Event(), Hanging()

    def slow(*_: object) -> tuple[Sample, ...]:
        gate.wait(WAIT)
        return ()

    runner = run(
        group(
            ScriptedSource(lambda *_: (), name="answers"), ScriptedSource(lambda *_: (FAULT,), name="fails"), key="a"
        ),
        group(hanging, key="b"),
        group(ScriptedSource(slow, name="slow"), key="c"),
    )
    notebook.wait_for(lambda: len({sample.labels[1] for sample in notebook.own()}) == 3)
    assert not runner.ready()
    gate.set()
    notebook.wait_for(lambda: len({sample.labels[1] for sample in notebook.own()}) == 4)
    assert runner.ready()
    hanging.let_go.set()


# --- Adding and removing groups
# -------------------------------------------------------------------------------------------------


def test_stop_ends_every_thread_and_closes_each_source_once(notebook: RecordingSink) -> None:
    before = set(threading.enumerate())
    sources = [ScriptedSource(lambda *_: (AGE(1, "x"),)) for _ in range(4)]
    runner = Runner([group(*sources)], notebook)
    runner.start()
    notebook.wait_for(lambda: len(notebook.reads()) > 8)
    assert runner.stop(Deadline.after(WAIT)) == []
    assert [len(source.closed) for source in sources] == [1, 1, 1, 1]
    runner._watch.join(WAIT)
    assert not set(threading.enumerate()) - before


def test_stop_returns_at_its_deadline_and_names_the_read_that_hangs(notebook: RecordingSink) -> None:
    source = Hanging()
    runner = Runner([group(source)], notebook)
    runner.start()
    assert source.entered.acquire(timeout=WAIT)
    assert runner.stop(Deadline.after(0.05)) == [("prod", "hanging", "0")]
    source.let_go.set()


def test_connections_are_released_before_reads_are_waited_for(notebook: RecordingSink) -> None:
    source = Hanging()
    runner = Runner([Group("prod", (source,), release=source.let_go.set)], notebook)
    runner.start()
    assert source.entered.acquire(timeout=WAIT)
    assert runner.stop(Deadline.after(WAIT)) == []


def test_a_removed_group_is_forgotten_and_what_it_still_reads_is_not_published(
    notebook: RecordingSink, run: Callable[..., Runner]
) -> None:
    source = Hanging(timeout=60.0)
    runner = run(group(source, key="gone"), group(ScriptedSource(lambda *_: (AGE(1, "x"),)), key="stays"))
    assert source.entered.acquire(timeout=WAIT)
    assert runner.remove("gone", Deadline.after(0.05)) == [("gone", "hanging", "0")]
    assert ("gone", "hanging", "0") in notebook.dropped
    count = len(notebook.swaps)
    source.let_go.set()
    notebook.wait_for(lambda: bool(source.closed) and len(notebook.swaps) > count + 3)
    assert all(key[0] == "stays" for swap in notebook.swaps[count + 1 :] for key in swap)
    assert [state.key for state in runner.states()] == ["stays"]


def test_a_group_added_while_running_is_read_and_others_keep_their_counters(
    notebook: RecordingSink, run: Callable[..., Runner]
) -> None:
    runner = run(group(ScriptedSource(lambda *_: (FAULT,), name="old"), key="a"))
    notebook.wait_for(lambda: len(notebook.reads()) >= 3)
    runner.add(group(ScriptedSource(lambda *_: (AGE(1, "x"),), name="new"), key="b"))
    notebook.wait_for(lambda: any(sample.labels[1] == "new" for sample in notebook.own()))
    [count] = [
        sample.value
        for sample in notebook.own("faults_total")
        if sample.labels[1] == "old" and sample.labels[3] == "unreachable"
    ]
    assert isinstance(count, int)
    assert count >= 3
    with pytest.raises(ValueError, match="already"):
        runner.add(group(key="a"))


def test_a_source_whose_name_is_found_out_later_changes_its_labels(
    notebook: RecordingSink, run: Callable[..., Runner]
) -> None:
    source = ScriptedSource(target="127.0.0.1:9092", cluster="")

    def answer(*_: object) -> tuple[Sample, ...]:
        source.target = source.cluster = "the-id"
        return ()

    source.answer = answer
    run(group(source))
    notebook.wait_for(lambda: bool(notebook.own()))
    assert [sample.labels for sample in notebook.own()] == [("the-id", "scripted", "the-id")]
    assert {sample.labels[0] for sample in notebook.own("faults_total")} == {"the-id"}
