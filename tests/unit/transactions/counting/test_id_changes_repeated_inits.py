"""Producers that are initialised for each transaction, told apart from starts, crashes and rollouts."""

from __future__ import annotations

import pytest

from exporter.transactions.counting.id_changes import MOST_APPLICATIONS, MOST_INITS, WINDOW, RecentInits
from exporter.transactions.facts import RepeatedInits
from exporter.transactions.machine.entries import Entry


def note(inits: RecentInits, at: float, transactions: int, name: str = "pay-1", application: str = "pay") -> None:
    entry = Entry(name, 0, application)
    entry.record_ms = round(at * 1000)
    inits.note(entry, transactions)


def test_an_init_for_each_transaction_is_seen_after_a_minute() -> None:
    inits = RecentInits()
    for number in range(30):
        note(inits, 1000 + 3.0 * number, number)
        assert bool(inits.repeated(1000 + 3.0 * number, {"pay": number})) is (number >= 20)
    assert inits.repeated(1090.0, {"pay": 30}) == {"pay": RepeatedInits(30, 1, 30, 90.0)}


@pytest.mark.parametrize(
    ("number", "gap", "each", "ids"),
    [(7, 60.0, 1, 1), (100, 1.0, 1, 100), (200, 0.1, 0, 50), (40, 10.0, 50, 1)],
    ids=["a pod that crashes", "a rollout of many instances", "a start of a minute", "an init now and then"],
)
def test_starts_and_rollouts_are_no_finding(number: int, gap: float, each: int, ids: int) -> None:
    inits = RecentInits()
    for at in range(number):
        note(inits, 1000 + gap * at, each * at, f"pay-{at % ids}")
    assert inits.repeated(1000 + gap * number, {"pay": each * number}) == {}


def test_a_client_that_was_mended_is_forgotten() -> None:
    inits = RecentInits()
    for number in range(100):
        note(inits, 1000.0 + number, number)
    assert inits.repeated(1100.0, {"pay": 100})
    assert inits.repeated(1100.0, {"pay": 1000}) == {}, "many transactions since"
    assert inits.repeated(1101.0 + WINDOW, {"pay": 100}) == {}


def test_what_is_remembered_is_bounded() -> None:
    inits = RecentInits()
    for number in range(MOST_APPLICATIONS + 1):
        for at in range(2 * MOST_INITS):
            note(inits, 1000.0 + at, at, application=f"app-{number}")
    found = inits.repeated(1200.0, {})
    assert len(found) == MOST_APPLICATIONS
    assert {seen.inits for seen in found.values()} == {MOST_INITS}
