"""Outcomes by polling: what two descriptions prove, and that no sequence of looks counts what did not happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.counting.observed import (
    RESTART_SECONDS,
    CoordinatorLook,
    DescribedId,
    SeenId,
    compare,
    first_seen,
)
from exporter.words import ObservedOutcome

COMMITTED, ABORTED, TIMED_OUT, FENCED, UNKNOWN = ObservedOutcome
TIMEOUT = 60.0


def at(state: str, epoch: int = 3, started: float | None = 100.0, pid: int = 7) -> DescribedId:
    return DescribedId(pid, epoch, state, None if state == "Empty" else started, TIMEOUT)


def outcomes(*looks: tuple[float, DescribedId]) -> list[ObservedOutcome]:
    """Return the counts of an id that is described at these monotonic seconds, the first of which counts nothing."""
    seen: SeenId | None = None
    found: list[ObservedOutcome] = []
    for instant, described in looks:
        look = CoordinatorLook(instant, instant)
        change = first_seen(described, look, new=False) if seen is None else compare(seen, described, look)
        seen = change.seen
        found += change.ended
    return found


V1 = [(0.0, at("Ongoing", started=10.0)), (1.0, at("CompleteCommit", started=10.0))]
"""A commit in its epoch: a client before Transactions V2."""


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(0, at("CompleteCommit"))], []),
        ([(0, at("Ongoing")), (1, at("CompleteCommit"))], [COMMITTED]),
        ([(0, at("Ongoing")), (1, at("PrepareCommit")), (2, at("CompleteCommit"))], [COMMITTED]),
        ([(0, at("PrepareCommit")), (1, at("CompleteCommit"))], []),
        ([(0, at("CompleteCommit")), (1, at("CompleteCommit", started=101.0))], [COMMITTED]),
        ([(0, at("CompleteCommit")), (1, at("CompleteCommit"))], []),
        ([(0, at("CompleteCommit")), (1, at("CompleteAbort", started=101.0))], [ABORTED]),
        ([(0, at("CompleteCommit")), (1, at("Ongoing", started=101.0))], []),
        ([(0, at("Ongoing")), (1, at("Ongoing", started=101.0))], [UNKNOWN]),
        ([(0, at("Ongoing")), (1, at("CompleteCommit", started=101.0))], [UNKNOWN, COMMITTED]),
        ([(0, at("Ongoing")), (1, at("Empty", epoch=4))], [UNKNOWN]),
        ([(0, at("Empty")), (1, at("Ongoing")), (2, at("CompleteAbort"))], [ABORTED]),
        ([(0, at("CompleteCommit")), (1, at("Empty", epoch=4))], []),
        # A producer id that is used up: the next transaction has another one, and epoch 0.
        ([(0, at("Ongoing", epoch=32766)), (1, at("CompleteCommit", epoch=0, pid=8))], [COMMITTED]),
        ([(0, at("Dead")), (1, at("Dead"))], []),
        # A state that is not known here shows nothing of the transaction before it.
        ([(0, at("Dead")), (1, at("CompleteCommit"))], []),
        ([(0, at("Dead")), (1, at("PrepareAbort")), (2, at("CompleteAbort"))], []),
        ([(0, at("Dead")), (1, at("Ongoing")), (2, at("CompleteCommit"))], [COMMITTED]),
        ([(0, at("Dead")), (1, at("CompleteCommit", started=101.0))], [COMMITTED]),
        ([(0, at("Dead")), (1, at("Empty", epoch=4))], []),
    ],
)
def test_a_new_start_or_a_decision_is_one_transaction(
    looks: list[tuple[float, DescribedId]], expected: list[ObservedOutcome]
) -> None:
    assert outcomes(*looks) == expected


def test_an_abort_in_its_epoch_is_the_clients_however_late() -> None:
    assert outcomes((0, at("Empty")), (1, at("Ongoing")), (200, at("Ongoing")), (201, at("CompleteAbort"))) == [ABORTED]


def test_a_raised_epoch_before_the_timeout_is_a_fence_of_a_v1_client_and_nothing_of_another() -> None:
    fenced = ((2.0, at("Ongoing")), (3.0, at("CompleteAbort", epoch=4)))
    assert outcomes(*V1, *fenced) == [COMMITTED, FENCED]
    v2 = [(0.0, at("Ongoing", epoch=2, started=10.0)), (1.0, at("CompleteCommit", epoch=3, started=10.0))]
    assert outcomes(*v2, *fenced) == [COMMITTED, ABORTED]


def test_an_epoch_raised_by_two_is_a_fence_only_of_a_v1_client_between_two_close_polls() -> None:
    def of(later: float) -> list[ObservedOutcome]:
        return outcomes(*V1, (2.0, at("Ongoing")), (2.0 + later, at("Empty", epoch=5)))

    assert of(1.0) == [COMMITTED, FENCED]
    assert of(RESTART_SECONDS) == [COMMITTED, FENCED]
    assert of(RESTART_SECONDS + 1) == [COMMITTED, UNKNOWN]
    assert outcomes((1.0, at("Empty")), (2.0, at("Ongoing")), (3.0, at("Empty", epoch=5))) == [UNKNOWN]
    assert outcomes(*V1, (2.0, at("Ongoing")), (3.0, at("Empty", epoch=4))) == [COMMITTED, UNKNOWN]
    assert outcomes(*V1, (2.0, at("Ongoing")), (3.0, at("Ongoing", epoch=5, started=101.0))) == [COMMITTED, UNKNOWN]


def test_an_abort_seen_past_the_timeout_is_a_timeout_once_no_producer_comes() -> None:
    late = [(0.0, at("Empty")), (1.0, at("Ongoing")), (61.0, at("Ongoing")), (62.0, at("CompleteAbort", epoch=4))]
    assert outcomes(*late) == []
    assert outcomes(*late, (66.9, at("CompleteAbort", epoch=4))) == []
    assert outcomes(*late, (67.0, at("CompleteAbort", epoch=4))) == [TIMED_OUT]
    assert outcomes(*late, (67.0, at("CompleteAbort", epoch=4)), (90.0, at("Empty", epoch=5))) == [TIMED_OUT]
    assert outcomes(*late, (63.0, at("Empty", epoch=5))) == [ABORTED]
    assert outcomes(*late, (90.0, at("Ongoing", epoch=4, started=190.0))) == [ABORTED]


def test_an_abort_of_a_v1_client_that_may_be_past_the_timeout_is_no_fence() -> None:
    begun = [*V1, (2.0, at("Ongoing")), (61.0, at("CompleteAbort", epoch=4))]
    assert outcomes(*begun) == [COMMITTED]
    assert outcomes(*begun, (70.0, at("CompleteAbort", epoch=4))) == [COMMITTED, TIMED_OUT]
    assert outcomes(*begun, (62.0, at("Empty", epoch=5))) == [COMMITTED, ABORTED]


def test_a_new_id_is_counted_when_the_poll_before_did_not_have_it() -> None:
    look = CoordinatorLook(1.0, 1.0)
    assert first_seen(at("CompleteCommit"), look, new=True).ended == (COMMITTED,)
    assert first_seen(at("PrepareAbort"), look, new=True).ended == (ABORTED,)
    assert first_seen(at("Ongoing"), look, new=True).ended == ()
    assert first_seen(at("CompleteCommit"), look, new=False).ended == ()
    assert first_seen(at("Dead"), look, new=True).ended == ()


# --- Any history, any looks ---


@dataclass
class Coordinator:
    """One id as its coordinator keeps it, the true outcomes, and every state that it ever had."""

    now: float = 1000.0
    pid: int = 7
    epoch: int = 0
    state: str = "Empty"
    started: float | None = None
    v2: bool = False
    inits_at: float = float("-inf")
    truth: Counter[str] = field(default_factory=Counter)
    states: list[tuple[float, DescribedId]] = field(default_factory=list)

    def note(self) -> None:
        self.states.append((self.now, DescribedId(self.pid, self.epoch, self.state, self.started, TIMEOUT)))

    def pass_(self, seconds: float) -> None:
        """Time passes; the scan ends a transaction that is past its timeout."""
        self.now += seconds
        if self.state == "Ongoing" and self.started is not None and self.now - self.started >= TIMEOUT:
            self.now = max(self.now, self.started + TIMEOUT)
            self._abort("timed_out")

    def begin(self) -> None:
        if self.state != "Ongoing":
            self.now += 0.001
            self.state, self.started = "Ongoing", self.now
            self.note()

    def end(self, *, commit: bool) -> None:
        if self.state == "Ongoing":
            self.epoch += self.v2
            self.truth["committed" if commit else "aborted"] += 1
            self._complete("Commit" if commit else "Abort")

    def init(self, *, v2: bool) -> None:
        """A producer is initialised: it fences what is open. Restarts are not faster than the rule allows for."""
        if self.now - self.inits_at <= 2 * RESTART_SECONDS:
            self.pass_(2 * RESTART_SECONDS)
        if self.state == "Ongoing":
            self._abort("fenced")
            self.now += 0.2
        self.inits_at = self.now
        self.epoch += 1
        self.state, self.started, self.v2 = "Empty", None, v2
        self.note()

    def _abort(self, why: str) -> None:
        self.epoch += 1
        self.truth[why] += 1
        self._complete("Abort")

    def _complete(self, what: str) -> None:
        self.state = f"Prepare{what}"
        self.note()
        self.now += 0.01
        self.state = f"Complete{what}"
        self.note()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "commit", "abort", "init_v1", "init_v2"]),
        st.sampled_from([0.0, 0.3, 2.0, 7.0, 25.0, 65.0]),
    ),
    min_size=1,
    max_size=30,
)


def history(steps: Sequence[tuple[str, float]], *, v2: bool) -> Coordinator:
    world = Coordinator(v2=v2)
    world.note()
    for step, seconds in steps:
        if step == "begin":
            world.begin()
        elif step in {"commit", "abort"}:
            world.end(commit=step == "commit")
        else:
            world.init(v2=step == "init_v2")
        world.pass_(seconds)
    return world


def seen_of(world: Coordinator, interval: float, offset: float, stale: frozenset[int]) -> Counter[str]:
    """Return what looks at this interval count; a look in ``stale`` is answered by a coordinator one state behind."""
    found: Counter[str] = Counter()
    seen: SeenId | None = None
    instant, number = 1000.0 + offset, 0
    while instant <= world.now + 2 * interval + 10:
        places = [place for place, (since, _) in enumerate(world.states) if since <= instant]
        if places:
            place = max(0, places[-1] - 1) if number in stale else places[-1]
            look = CoordinatorLook(instant, instant)
            described = world.states[place][1]
            change = first_seen(described, look, new=False) if seen is None else compare(seen, described, look)
            seen = change.seen
            found.update(outcome.value for outcome in change.ended)
        instant += interval
        number += 1
    return found


@given(
    STEPS,
    st.booleans(),
    st.sampled_from([0.25, 1.0, 5.0, 30.0]),
    st.floats(0.0, 30.0),
)
def test_polling_never_counts_more_than_the_log(
    steps: list[tuple[str, float]], v2: bool, interval: float, offset: float
) -> None:
    world = history(steps, v2=v2)
    found = seen_of(world, interval, offset, frozenset())
    for outcome in ("committed", "timed_out", "fenced"):
        assert found[outcome] <= world.truth[outcome], outcome
    lost = ("aborted", "timed_out", "fenced")
    assert sum(found[outcome] for outcome in lost) <= sum(world.truth[outcome] for outcome in lost)
    assert found.total() <= world.truth.total()


@given(STEPS, st.booleans(), st.sampled_from([0.25, 1.0, 5.0]), st.frozensets(st.integers(1, 60)))
def test_answers_of_a_coordinator_that_was_replaced_count_nothing_twice(
    steps: list[tuple[str, float]], v2: bool, interval: float, stale: frozenset[int]
) -> None:
    world = history(steps, v2=v2)
    found = seen_of(world, interval, 0.0, stale)
    assert found["committed"] <= world.truth["committed"]
    assert found.total() <= world.truth.total()


@given(st.lists(st.sampled_from(["commit", "abort"]), min_size=1, max_size=20), st.booleans())
def test_polls_faster_than_the_client_count_every_end(ends: list[str], v2: bool) -> None:
    steps = [step for end in ends for step in (("begin", 1.0), (end, 1.0))]
    world = history(steps, v2=v2)
    found = seen_of(world, 0.25, 0.0, frozenset())
    assert {outcome: found[outcome] for outcome in ("committed", "aborted")} == {
        outcome: world.truth[outcome] for outcome in ("committed", "aborted")
    }
