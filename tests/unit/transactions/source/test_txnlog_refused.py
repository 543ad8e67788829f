"""Where the transaction log is refused, or there is none: what is open stays, outcomes are absent and say why."""

from __future__ import annotations

from pathlib import Path

from exporter import catalogue
from exporter.model import IgnoredSource, Reason
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.facts import LoggedTransactions, LogRefused, TransactionsElsewhere
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import NO_LOG, NOT_GRANTED, TxnlogSource
from tests.helpers.cluster import OFFSETS, FakeKafka, FakeTransaction, partitions, read, world_of
from tests.helpers.scenes import BEGUN_MS, world_with_one_open


def test_a_log_that_is_refused_from_the_start_is_declared_and_no_longer_a_ticket(tmp_path: Path) -> None:
    world = world_with_one_open()
    world.log_reads.refused = True
    source = TxnlogSource(world.cluster(tmp_path), TransactionsConfig(), world.tail)
    seen = read(world, source)
    for _ in range(3):
        world.time.pass_(1.0)
        seen = read(world, source)
    assert Reason.AUTHORIZATION in seen.reasons
    assert seen.facts[IgnoredSource] == IgnoredSource(NOT_GRANTED)
    assert LogRefused in seen.facts
    assert not seen.values(catalogue.TRANSACTIONS_TOTAL)
    source.close()


def test_a_grant_that_is_taken_away_later_stays_a_fault(tmp_path: Path) -> None:
    world = world_with_one_open()
    source = TxnlogSource(world.cluster(tmp_path), TransactionsConfig(), world.tail)
    for _ in range(3):
        read(world, source)
        world.time.pass_(1.0)
    world.log_reads.refused = True
    seen = read(world, source)
    for _ in range(8):
        world.time.pass_(1.0)
        seen = read(world, source)
    assert Reason.AUTHORIZATION in seen.reasons
    assert LogRefused not in seen.facts
    source.close()


# --- Brokers without __transaction_state that have transactions, as Redpanda's ---


def elsewhere_of() -> FakeKafka:
    world = FakeKafka(topics={OFFSETS: partitions(1)}, elsewhere=True, brokers={1: "r1:9092", 2: "r2:9092"})
    world.transactions["app-1"] = FakeTransaction(7, "Ongoing", [("orders", 0)], 3, 60_000, BEGUN_MS)
    return world


def test_transactions_without_a_log_are_open_and_have_no_outcomes() -> None:
    world = elsewhere_of()
    source = TransactionsSource(world.cluster(), TransactionsConfig())
    log = TxnlogSource(world.cluster(), TransactionsConfig())
    first = read(world, source)
    assert first.facts[TransactionsElsewhere] == TransactionsElsewhere()
    assert first.values(catalogue.TRANSACTIONS_OPEN)["app", "ongoing"] == 1
    assert not first.faults
    logged = read(world, log, TransactionsElsewhere())
    assert LoggedTransactions not in logged.facts
    assert LogRefused in logged.facts
    assert logged.facts[IgnoredSource] == IgnoredSource(NO_LOG)
    assert not logged.values(catalogue.TRANSACTIONS_TOTAL)


def test_a_cluster_that_has_made_no_transaction_is_none_of_these() -> None:
    world = world_of(log=0, offsets=1)
    source = TransactionsSource(world.cluster(), TransactionsConfig())
    log = TxnlogSource(world.cluster(), TransactionsConfig())
    assert TransactionsElsewhere not in read(world, source).facts
    seen = read(world, log)
    assert LogRefused not in seen.facts
    assert LoggedTransactions in seen.facts


def test_an_idle_cluster_without_a_log_is_known_by_the_ids_that_it_lists() -> None:
    world = elsewhere_of()
    world.transactions["app-1"].state = "CompleteAbort"
    assert TransactionsElsewhere in read(world, TransactionsSource(world.cluster(), TransactionsConfig())).facts
