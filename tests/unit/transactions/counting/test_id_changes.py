"""Ids that were never seen before, from the records of coordinators: which are noted, their use, and the bounds."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.applications.applications import Application, Grouping
from exporter.catalogue import CANARY
from exporter.posture.check import CheckResult
from exporter.posture.stable_ids import id_checks
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.counting.id_changes import DAY, MOST_IDS, MOST_NEW, changes_by_design
from exporter.transactions.facts import IdChanges, IdLife
from exporter.transactions.machine.state_machine import StateMachine
from tests.helpers.coordinator import CoordinatorId

START_MS = 1_790_000_000_000
UUIDS = tuple(f"{digit * 8}-1f1f-4111-8b1f-{digit * 11}c" for digit in "23456789")


class Log:
    """One partition of the log, and the aggregates of an agent that knew every id at ``START_MS``."""

    def __init__(self, caps: TransactionsConfig | None = None) -> None:
        self.aggregates = Aggregates(Grouping(), caps or TransactionsConfig())
        self.machine = StateMachine(0, self.aggregates.appeared)
        self._offset = 0
        self._producer_ids = count(1000)
        self._ids: dict[str, CoordinatorId] = {}

    def at(self, seconds: float, transactional_id: str, *, transactions: int = 0, aborts: bool = False) -> None:
        """A start of a producer with this id, and so many transactions of a second each."""
        known = self._ids.get(transactional_id)
        if known is None:
            known = CoordinatorId(transactional_id, 2, False, 0, self._producer_ids)
            self._ids[transactional_id] = known
        known.now = START_MS + round(seconds * 1000)
        known.initialise()
        for _ in range(transactions):
            known.add("orders", 0)
            known.now += 1000
            if aborts:
                known.now += 60_000
                known.end_by_server(10)
            else:
                known.end(commit=True, markers_ms=10)
        self._read(known)

    def begin(self, seconds: float, transactional_id: str) -> None:
        """A start of a producer with this id, and a transaction that stays open."""
        self.at(seconds, transactional_id)
        known = self._ids[transactional_id]
        known.add("orders", 0)
        self._read(known)

    def commit(self, seconds: float, transactional_id: str) -> None:
        known = self._ids[transactional_id]
        known.now = START_MS + round(seconds * 1000)
        known.end(commit=True, markers_ms=10)
        self._read(known)

    def described(self) -> tuple[Application, ...]:
        self.aggregates.counted()
        return self.aggregates.applications.described

    def _read(self, known: CoordinatorId) -> None:
        for written in known.written:
            for event in self.machine.apply(self._offset, written.ms, written.key, written.value):
                self.aggregates.take(event, new=True)
            self._offset += 1
        known.written.clear()

    def changes(self, seconds: float) -> dict[str, IdChanges]:
        return self.aggregates.applications.new_ids.changes(self.machine.known_of, START_MS / 1000 + seconds)


@pytest.fixture
def log() -> Log:
    log = Log()
    log.aggregates.applications.new.complete_since(START_MS / 1000)
    return log


def life(transactional_id: str, first: float | None, last: float) -> IdLife:
    start = START_MS / 1000
    return IdLife(transactional_id, None if first is None else start + first, start + last)


def test_new_ids_have_their_first_and_their_last_use_and_those_before_have_no_first(log: Log) -> None:
    old = f"pay-{UUIDS[7]}"
    log.at(-500, old, transactions=1)
    for at, uuid in enumerate(UUIDS[:3]):
        log.at(100 * at, f"pay-{uuid}", transactions=2)
    found = log.changes(900)["pay"]
    used = 2.02
    assert found.ids == (
        life(f"pay-{UUIDS[2]}", 200, 200 + used),
        life(f"pay-{UUIDS[1]}", 100, 100 + used),
        life(f"pay-{UUIDS[0]}", 0, used),
        life(old, None, -500 + 1.01),
    )
    assert (found.at, found.returned) == (START_MS / 1000 + 900, None)


def test_the_last_use_of_an_id_whose_transaction_the_coordinator_aborted_is_its_begin(log: Log) -> None:
    for at, uuid in enumerate(UUIDS[:3]):
        log.at(100 * at, f"pay-{uuid}", transactions=1, aborts=True)
    assert [known_id.last for known_id in log.changes(900)["pay"].ids] == [
        START_MS / 1000 + number for number in (200, 100, 0)
    ]


def test_two_new_ids_are_no_evidence_and_nothing_is_noted_before_all_ids_are_known() -> None:
    log = Log()
    for at, uuid in enumerate(UUIDS[:4]):
        log.at(at, f"pay-{uuid}")
    log.aggregates.applications.new.complete_since(START_MS / 1000 + 10)
    for at, uuid in enumerate(UUIDS[4:6]):
        log.at(20 + at, f"pay-{uuid}")
    assert log.changes(100) == {}


def test_ids_of_the_applications_beyond_the_cap_are_no_evidence() -> None:
    log = Log(caps=TransactionsConfig(applications=1))
    log.aggregates.applications.new.complete_since(START_MS / 1000)
    for at, uuid in enumerate(UUIDS[:4]):
        log.at(at, f"first-{uuid}")
        log.at(at, f"{'abcd'[at]}-{uuid}")
    assert set(log.changes(100)) == {"first"}


def test_an_id_that_is_initialised_again_returned_and_its_first_initialisation_is_no_return(log: Log) -> None:
    for at, uuid in enumerate(UUIDS[:3]):
        log.at(at, f"pay-{uuid}")
    assert log.changes(100)["pay"].returned is None
    log.at(50, f"pay-{UUIDS[0]}")
    assert log.changes(100)["pay"].returned == START_MS / 1000 + 50


def test_new_ids_of_a_job_that_its_commits_show_to_be_flinks_are_left_out_and_its_kind_is_known(log: Log) -> None:
    for checkpoint in range(5):  # the subtask takes its next id before it commits the last one
        log.begin(10 * checkpoint, f"sums-0-{12_340 + checkpoint}")
        if checkpoint:
            log.commit(10 * checkpoint + 1, f"sums-0-{12_339 + checkpoint}")
    assert log.changes(100) == {}
    (sums,) = log.described()
    assert sums == Application("sums", "flink")


def test_a_pool_of_producers_with_two_numbers_is_not_flinks_and_new_ids_of_it_are_evidence(log: Log) -> None:
    for at in range(4):
        for pod in range(3):
            log.at(60 * at + pod, f"ledger-tx-ledger-{pod}-{12_340 + at}", transactions=3)
    assert {known_id.transactional_id for known_id in log.changes(900)["ledger-tx-ledger"].ids} == {
        f"ledger-tx-ledger-{pod}-{12_340 + at}" for at in range(4) for pod in range(3)
    }
    (ledger,) = log.described()
    assert ledger == Application("ledger-tx-ledger", "producer")


def test_a_day_later_they_are_no_new_ids(log: Log) -> None:
    for at, uuid in enumerate(UUIDS[:3]):
        log.at(at, f"pay-{uuid}")
    assert set(log.changes(DAY)) == {"pay"}
    assert log.changes(DAY + 1) == {}


def test_what_is_kept_and_what_is_returned_have_limits(log: Log) -> None:
    for at in range(MOST_IDS + 50):
        log.at(at, f"pay-{at:08x}-1f1f-4111-8b1f-c{at:011x}")
    found = log.changes(1000)["pay"].ids
    assert len(found) == MOST_IDS
    assert sum(life.first is not None for life in found) == MOST_NEW


@pytest.mark.parametrize("apart", [0.1, 0.8, 3.0])
def test_what_is_kept_of_ids_that_come_fast_is_of_more_than_a_minute_and_an_id_for_each_transaction_fails(
    log: Log, apart: float
) -> None:
    number = round(120 / apart)
    for at in range(number):
        log.at(apart * at, f"txn-{at:08x}-1f1f-4111-8b1f-0000000000ff")
        log.begin(apart * at, f"txn-{at:08x}-1f1f-4111-8b1f-0000000000ff")
        log.commit(apart * at + 0.05, f"txn-{at:08x}-1f1f-4111-8b1f-0000000000ff")
    found = log.changes(165)
    firsts = [life.first for life in found["txn"].ids if life.first is not None]
    assert len(firsts) == min(number, MOST_NEW)
    assert max(firsts) - min(firsts) > 60
    assert found["txn"].returned is None or apart > 1
    (check,) = id_checks(found, {})
    assert check.verdict is CheckResult.FAILED


@pytest.mark.parametrize(
    "transactional_id",
    [
        f"counts-{UUIDS[0]}-1",  # Streams, exactly_once_v2
        "counts-0_1",  # Streams, exactly_once
        "job-application_1700000000000_0001",  # Spark on YARN
        "job-app-20261122101010-0001",
        "etl-orders-0",
        f"{CANARY}-3",
        "_confluent-ksql-default_transient_1234_5",
        "",
    ],
)
def test_what_an_engine_makes_anew_is_by_design_also_where_a_pattern_of_the_user_names_it(
    transactional_id: str,
) -> None:
    assert changes_by_design(Grouping((), ["etl"]), transactional_id)
    assert changes_by_design(Grouping(("(?P<application>[^-_]+).*",), ["etl"]), transactional_id)


@pytest.mark.parametrize(
    "transactional_id",
    [f"pay-{UUIDS[0]}", "pay-5d9c8f7b64-kxq2z", UUIDS[0], "pay-1790000000123", "sink-0-17", f"sink-{'a' * 32}-3"],
)
def test_what_no_engine_made_is_not_by_design(transactional_id: str) -> None:
    assert not changes_by_design(Grouping((), ["etl"]), transactional_id)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=12))
def test_every_new_id_was_first_used_when_it_appeared_and_is_never_used_before_it(
    starts: list[tuple[int, int]],
) -> None:
    log = Log()
    log.aggregates.applications.new.complete_since(START_MS / 1000)
    first: dict[str, float] = {}
    for at, (number, transactions) in enumerate(starts):
        name = f"pay-{UUIDS[number]}"
        log.at(10 * at, name, transactions=transactions)
        first.setdefault(name, START_MS / 1000 + 10 * at)
    found = log.changes(1000)
    assert set(found) == ({"pay"} if len(first) >= 3 else set())
    for known in found.values():
        assert {known_id.transactional_id: known_id.first for known_id in known.ids} == first
        assert all(known_id.first is not None and known_id.first <= known_id.last <= known.at for known_id in known.ids)
        assert (known.returned is not None) == (len(first) < len(starts))
