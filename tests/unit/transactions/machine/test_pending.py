"""The queue of aborts whose outcome waits: the order in which they are due, and what one costs beside many others."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.pending import PendingAborts
from exporter.transactions.outcome import DELIVERY_SLACK_MS, FENCE_WINDOW_MS, LATE_FENCE_WINDOW_MS
from exporter.transactions.transaction import Transaction
from tests.helpers.calls import calls_of

NONE = frozenset[int]()


def add(pending: PendingAborts, number: int, due_ms: int) -> Entry:
    """Queue an abort of an id of its own."""
    entry = Entry(f"id-{number}", 0)
    pending.add(entry, Transaction(entry.transactional_id, 1, NONE, NONE, commit=False, offset=number), due_ms)
    return entry


def offsets(entries: Iterable[Entry]) -> list[int]:
    return [entry.pending.offset for entry in entries if entry.pending is not None]


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
        entry = add(pending, number, due_ms)
        if settled:
            entry.pending = None
        else:
            known.append((due_ms, number))
    pending.set_back(step_ms)
    known = sorted((due_ms - step_ms, number) for due_ms, number in known)
    assert [entry.due_ms for entry in pending.unsettled] == [due_ms for due_ms, _ in known]
    assert offsets(pending.unsettled) == [number for _, number in known]
    assert pending.first_due_ms == (known[0][0] + DELIVERY_SLACK_MS if known else None)
    over = [number for due_ms, number in known if due_ms < log_ms]
    assert offsets(pending.due(log_ms + DELIVERY_SLACK_MS)) == over
    assert offsets(pending.unsettled) == [number for _, number in known[len(over) :]]


def test_what_one_abort_costs_does_not_grow_with_how_many_wait() -> None:
    pending = PendingAborts()
    for number in range(5000):
        add(pending, number, Due(number + FENCE_WINDOW_MS))
    assert sum(calls_of(lambda: add(pending, 5000, Due(LATE_FENCE_WINDOW_MS))).values()) < 100
    assert sum(calls_of(lambda: pending.first_due_ms).values()) < 10
