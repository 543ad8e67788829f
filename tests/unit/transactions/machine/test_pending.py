"""The queue of aborts whose outcome waits: the order in which they are due, and what one costs beside many others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.machine.entries import Ended, Entry
from exporter.transactions.machine.pending import PendingAborts
from exporter.transactions.outcome import DELIVERY_SLACK_MS, FENCE_WINDOW_MS, LATE_FENCE_WINDOW_MS
from exporter.words import Outcome
from tests.helpers.calls import calls_of


def aborted(number: int) -> Ended:
    return Ended(Entry(f"id-{number}", 0), number, 0, 2, Outcome.ABORTED, 0, 0, number, 1000, number)


class Due(int):
    """A number whose comparisons ``calls_of`` counts."""

    def __eq__(self, other: object) -> bool:
        return int(self).__eq__(int(other))  # type: ignore[call-overload]

    def __lt__(self, other: int) -> bool:
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        return int(self) > int(other)

    __hash__ = int.__hash__


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans())), st.integers(0, 40), st.integers(0, 10))
def test_aborts_are_due_by_the_end_of_their_window_and_then_in_the_order_of_the_log(
    added: list[tuple[int, bool]], log_ms: int, step_ms: int
) -> None:
    pending = PendingAborts()
    known = []
    for number, (due_ms, settled) in enumerate(added):
        transaction = aborted(number)
        pending.add(transaction, due_ms)
        if settled:
            transaction.entry.pending = None
        else:
            known.append((due_ms, number))
    pending.set_back(step_ms)
    known = sorted((due_ms - step_ms, number) for due_ms, number in known)
    assert [(decision.due_ms, decision.transaction.offset) for decision in pending.unsettled] == known
    assert [pending.due_ms(decision.transaction) for decision in pending.unsettled] == [due_ms for due_ms, _ in known]
    assert pending.first_due_ms == (known[0][0] + DELIVERY_SLACK_MS if known else None)
    over = [number for due_ms, number in known if due_ms < log_ms]
    assert [decision.offset for decision in pending.due(log_ms + DELIVERY_SLACK_MS)] == over
    assert [decision.transaction.offset for decision in pending.unsettled] == [
        number for _, number in known[len(over) :]
    ]


def test_what_one_abort_costs_does_not_grow_with_how_many_wait() -> None:
    pending = PendingAborts()
    for number in range(5000):
        pending.add(aborted(number), Due(number + FENCE_WINDOW_MS))
    late = aborted(5000)
    assert sum(calls_of(lambda: pending.add(late, Due(LATE_FENCE_WINDOW_MS))).values()) < 100
    newest = pending.unsettled[-1]
    assert sum(calls_of(lambda: pending.due_ms(newest.transaction)).values()) < 10
    assert sum(calls_of(lambda: pending.first_due_ms).values()) < 10
