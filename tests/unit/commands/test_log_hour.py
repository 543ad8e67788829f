"""Tests of the one look at the last hour of the log: it settles outcomes as the agent does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from exporter.commands import log_hour
from exporter.commands.log_hour import LogHour, read_hour
from exporter.model import Deadline
from exporter.transactions.facts import UncleanEnds
from exporter.transactions.source.txnlog import TxnlogSource
from exporter.transactions.transaction import Transaction
from tests.helpers.cluster import FakeKafka, read
from tests.helpers.sources import txnlog_source
from tests.unit.transactions.source.test_txnlog import LogScript, log_world

LONG = 600.0
READ_SECONDS = 1.0


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., LogHour]:
    """One look at a world whose clock passes a second with each read."""

    def ask(world: FakeKafka, seconds: float = 60.0, *, settle: bool = True) -> LogHour:
        monkeypatch.setattr(log_hour, "TxnlogSource", partial(TxnlogSource, open_tail=world.tail))
        monkeypatch.setattr("exporter.commands.log_hour.time.sleep", lambda _: world.time.pass_(READ_SECONDS))
        deadline = Deadline.after(seconds, world.time.clock.monotonic)
        return read_hour(world.cluster(), deadline, settle=settle)

    return ask


def dead(world: FakeKafka, *, v2: bool = True, timeout: bool = True) -> LogScript:
    """A client whose transaction the server ended a minute ago; nobody wrote to the log since."""
    script = LogScript(world, "pay-1", v2=v2)
    script["pay-1"].initialise(timeout_ms=8_000)
    script["pay-1"].add("orders", 0)
    world.time.pass_(12.0 if timeout else 2.0)
    script["pay-1"].end_by_server(5)
    script.write()
    world.time.pass_(60.0)
    return script


def ends(hour: LogHour) -> list[tuple[str, str]]:
    unclean = hour.facts.get(UncleanEnds)
    return [] if unclean is None else [(end.transactional_id, end.outcome_word) for end in unclean.ends]


@pytest.mark.parametrize("v2", [True, False])
def test_the_last_timeout_of_a_dead_client_is_found_without_another_record(
    look: Callable[..., LogHour], v2: bool
) -> None:
    world = log_world()
    dead(world, v2=v2)
    hour = look(world)
    assert ends(hour) == [("pay-1", "timed_out")]
    assert (hour.faults, hour.undecided) == ((), ())


def test_it_says_what_an_agent_says(look: Callable[..., LogHour]) -> None:
    world = log_world()
    dead(world)
    source = txnlog_source(world)
    known: tuple[Transaction, ...] = ()
    for _ in range(10):
        found = read(world, source).facts[UncleanEnds]
        assert isinstance(found, UncleanEnds)
        known = found.ends
        world.time.pass_(READ_SECONDS)
    hour = look(world)
    assert ends(hour) == [(end.transactional_id, end.outcome_word) for end in known] == [("pay-1", "timed_out")]


def test_a_fence_that_the_next_record_shows_is_not_called_a_timeout(look: Callable[..., LogHour]) -> None:
    world = log_world()
    script = LogScript(world, "pay-1")
    script["pay-1"].initialise(timeout_ms=8_000)
    script["pay-1"].add("orders", 0)
    world.time.pass_(2.0)
    script["pay-1"].end_by_server(5)
    script["pay-1"].initialise()
    script.write()
    assert ends(look(world)) == [("pay-1", "fenced")]


def test_what_is_not_settled_in_time_is_listed_as_undecided(look: Callable[..., LogHour]) -> None:
    world = log_world()
    dead(world)
    hour = look(world, seconds=1.5)
    assert ends(hour) == []
    assert [(end.transactional_id, end.outcome_word) for end in hour.undecided] == [("pay-1", "undecided")]


def test_where_the_log_s_end_is_not_said_nothing_waits_for_ever(look: Callable[..., LogHour]) -> None:
    world = log_world()
    dead(world)
    world.refuse["ListOffsets"] = 6
    began = world.time.monotonic
    hour = look(world, seconds=LONG)
    assert hour.faults or hour.undecided
    assert world.time.monotonic - began < 20


def test_aborts_that_come_later_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = log_world()
    script = dead(world)
    other = LogScript(world, "busy-1")
    other._offset = script._offset

    def busy(_: float) -> None:
        world.time.pass_(READ_SECONDS)
        other["busy-1"].initialise()
        other["busy-1"].add("orders", 0)
        other["busy-1"].end(commit=False, markers_ms=5)
        other.write()

    monkeypatch.setattr("exporter.commands.log_hour.time.sleep", busy)
    monkeypatch.setattr(log_hour, "TxnlogSource", partial(TxnlogSource, open_tail=world.tail))
    began = world.time.monotonic
    hour = read_hour(world.cluster(), Deadline.after(LONG, world.time.clock.monotonic), settle=True)
    assert ("pay-1", "timed_out") in ends(hour)
    assert hour.undecided == ()
    assert world.time.monotonic - began < 20


def test_who_does_not_ask_for_outcomes_does_not_wait(look: Callable[..., LogHour]) -> None:
    world = log_world()
    dead(world)
    began = world.time.monotonic
    assert look(world, settle=False).undecided == ()
    assert world.time.monotonic - began <= 2 * READ_SECONDS
