"""Source ``transactions`` where the log is not read: outcomes by two reads of the coordinators."""

from __future__ import annotations

from pathlib import Path

from exporter import catalogue
from exporter.agent.with_thresholds import WithThresholds
from exporter.applications.applications import Grouping
from exporter.core.thresholds import Thresholds
from exporter.kafka.requests.transactions import Description, Listing
from exporter.model import IgnoredSource, Reason
from exporter.settings.plain import TransactionsConfig
from exporter.transactions.counting.observed import CoordinatorLook
from exporter.transactions.counting.observed_counts import ACTIVE_SECONDS, IDLE_PER_LOOK, MOST_IDS, ObservedTransactions
from exporter.transactions.facts import (
    CoordinatorTime,
    LoggedTransactions,
    LogRefused,
    OpenTransactions,
    TransactionsElsewhere,
)
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import POLLED_INSTEAD, TxnlogSource
from exporter.words import ObservedOutcome
from tests.helpers.cluster import OFFSETS, FakeKafka, FakeTransaction, SourceRead, partitions, read, world_of
from tests.helpers.scenes import BEGUN_MS, world_with_one_open
from tests.helpers.sources import transactions_source

COUNTS = catalogue.TRANSACTIONS_OBSERVED_TOTAL
LAST = catalogue.LAST_TRANSACTION_OBSERVED_TIMESTAMP_SECONDS
EPOCHS = catalogue.PRODUCER_EPOCHS_OBSERVED_TOTAL
REFUSED = LogRefused("READ is refused")


def counted(seen: SourceRead, application: str = "app") -> dict[str, float]:
    return {labels[1]: value for labels, value in seen.values(COUNTS).items() if labels[0] == application and value}


def test_every_outcome_is_there_at_zero_from_the_first_poll() -> None:
    world = world_with_one_open()
    seen = read(world, transactions_source(world, outcomes="polling"))
    assert seen.values(COUNTS) == {("app", outcome): 0 for outcome in ObservedOutcome.values()}
    assert seen.values(EPOCHS) == {("app",): 0}
    assert not seen.values(LAST)
    assert not seen.faults


def test_a_commit_between_two_polls_is_counted_and_dated() -> None:
    world, source = world_with_one_open(), None
    source = transactions_source(world, outcomes="polling")
    read(world, source)
    world.transactions["app-1"].state = "CompleteCommit"
    world.time.pass_(5.0)
    seen = read(world, source)
    assert counted(seen) == {"committed": 1}
    assert seen.values(LAST) == {("app", "committed"): world.time.wall}
    world.transactions["app-1"] = FakeTransaction(7, "CompleteCommit", (), 4, 60_000, BEGUN_MS + 9000)
    world.time.pass_(5.0)
    seen = read(world, source)
    assert counted(seen) == {"committed": 2}
    assert seen.value(EPOCHS, "app") == 1


def test_an_id_that_came_between_two_polls_is_counted_and_one_that_was_hidden_is_not() -> None:
    world = world_with_one_open()
    source = transactions_source(world, outcomes="polling")
    read(world, source)
    world.transactions["new-1"] = FakeTransaction(9, "CompleteCommit", (), 0, 60_000, BEGUN_MS + 1)
    world.transactions["old-1"] = FakeTransaction(5, "CompleteCommit", (), 0, 60_000, BEGUN_MS - 1)
    world.time.pass_(5.0)
    seen = read(world, source)
    assert counted(seen, "new") == {"committed": 1}
    assert counted(seen, "old") == {}


def test_an_id_that_comes_after_an_incomplete_poll_is_not_counted() -> None:
    world = world_with_one_open()
    source = transactions_source(world, outcomes="polling")
    read(world, source)
    world.refuse["ListTransactions"] = 14
    world.time.pass_(5.0)
    assert read(world, source).reasons == {Reason.COORDINATOR}
    world.refuse.clear()
    world.transactions["new-1"] = FakeTransaction(9, "CompleteCommit", (), 0, 60_000, BEGUN_MS + 1)
    world.time.pass_(5.0)
    assert counted(read(world, source), "new") == {}


def test_counts_stay_while_no_coordinator_answers_and_go_on_after_it() -> None:
    world = world_with_one_open()
    source = transactions_source(world, outcomes="polling")
    read(world, source)
    world.transactions["app-1"].state = "CompleteCommit"
    world.time.pass_(5.0)
    read(world, source)
    world.down = {1}
    world.time.pass_(5.0)
    seen = read(world, source)
    assert seen.faults
    assert counted(seen) == {"committed": 1}
    world.down = set()
    world.transactions["app-1"] = FakeTransaction(7, "CompleteAbort", (), 4, 60_000, BEGUN_MS + 9000)
    world.time.pass_(5.0)
    assert counted(read(world, source)) == {"committed": 1, "aborted": 1}


def test_a_transaction_near_its_timeout_is_described_each_second_and_its_timeout_is_seen() -> None:
    world = world_with_one_open()
    source = transactions_source(world, outcomes="polling")
    read(world, source)
    for _ in range(12):
        world.time.pass_(5.0)
        read(world, source)
    before = len(world.requests("ListTransactions"))
    world.time.pass_(1.0)
    read(world, source)  # open for 61 s of 60, and the next list is due in 4 s
    world.transactions["app-1"].state, world.transactions["app-1"].epoch = "CompleteAbort", 4
    seen = None
    for _ in range(3):
        world.time.pass_(1.0)
        seen = read(world, source)
    assert len(world.requests("ListTransactions")) == before
    assert seen is not None
    assert counted(seen) == {}
    for _ in range(4):
        world.time.pass_(1.0)
        seen = read(world, source)
    assert counted(seen) == {"timed_out": 1}


def test_the_log_is_polled_for_where_it_is_refused_and_only_with_auto() -> None:
    world = world_with_one_open()
    assert not read(world, transactions_source(world, outcomes="log"), REFUSED).values(COUNTS)
    assert not read(world, transactions_source(world, outcomes="auto")).values(COUNTS)
    source = transactions_source(world, outcomes="auto")
    assert read(world, source, REFUSED).values(COUNTS)
    readable = LoggedTransactions(OpenTransactions("txnlog", (), complete=True), CoordinatorTime())
    world.time.pass_(5.0)
    assert not read(world, source, readable, REFUSED).values(COUNTS)


def test_without_polling_only_open_states_are_listed() -> None:
    world = world_with_one_open()
    read(world, transactions_source(world, outcomes="log"))
    assert all(request.state_filters for request in world.requests("ListTransactions"))


def test_thresholds_of_polled_applications_are_exposed_once() -> None:
    world = world_with_one_open()
    judged = WithThresholds(transactions_source(world, outcomes="polling"), Thresholds, world.time.clock)
    seen = read(world, judged)
    assert seen.value(catalogue.APPLICATION_THRESHOLD_RATIO, "app", "unclean") == 0.05
    assert len([sample for sample in seen.samples if sample.metric is catalogue.APPLICATION_THRESHOLD_RATIO]) == 1


def test_applications_beyond_the_cap_are_counted_together() -> None:
    world = world_with_one_open()
    world.transactions["pay-1"] = FakeTransaction(8, "Ongoing", (), 0, 60_000, BEGUN_MS)
    seen = read(world, transactions_source(world, outcomes="polling", applications=1))
    assert {labels[0] for labels in seen.values(COUNTS)} == {"app", catalogue.OVERFLOW}


# --- The log is refused ---


def test_a_log_that_is_refused_from_the_start_is_declared_and_no_longer_a_ticket(tmp_path: Path) -> None:
    world = world_with_one_open()
    world.log_reads.refused = True
    source = TxnlogSource(world.cluster(tmp_path), TransactionsConfig(), world.tail)
    seen = read(world, source)
    for _ in range(3):
        world.time.pass_(1.0)
        seen = read(world, source)
    assert Reason.AUTHORIZATION in seen.reasons
    assert seen.facts[IgnoredSource] == IgnoredSource(POLLED_INSTEAD)
    assert LogRefused in seen.facts
    source.close()


def test_a_log_that_is_refused_where_polling_is_off_stays_a_fault(tmp_path: Path) -> None:
    world = world_with_one_open()
    world.log_reads.refused = True
    source = TxnlogSource(world.cluster(tmp_path), TransactionsConfig(outcomes="log"), world.tail)
    for _ in range(3):
        seen = read(world, source)
        world.time.pass_(1.0)
        assert IgnoredSource not in seen.facts
        assert LogRefused not in seen.facts
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


# --- Which ids are described ---


def observed() -> ObservedTransactions:
    return ObservedTransactions(Grouping(), 500)


def rows(count: int, state: str = "CompleteCommit") -> list[Listing]:
    return [Listing(f"app-{number}", number, state) for number in range(count)]


def complete(number: int, started: float = 100.0) -> Description:
    return Description(f"app-{number}", number, 0, "CompleteCommit", 60.0, started, frozenset())


def described(found: ObservedTransactions, count: int, at: float) -> None:
    found.take({f"app-{number}": complete(number) for number in range(count)}, CoordinatorLook(at, at), at, listed=True)


def test_ids_that_were_not_used_for_long_are_described_in_turn() -> None:
    found, count = observed(), IDLE_PER_LOOK * 2 + 5
    assert len(found.choose(rows(count), 0.0)) == count
    described(found, count, 0.0)
    assert len(found.choose(rows(count), ACTIVE_SECONDS - 1)) == count
    later = ACTIVE_SECONDS + 1
    turns = [found.choose(rows(count), later) for _ in range(3)]
    assert [len(turn) for turn in turns] == [IDLE_PER_LOOK] * 3
    assert len({text for turn in turns for text in turn}) == count


def test_an_idle_id_with_another_state_or_producer_is_described_at_once() -> None:
    found, count = observed(), IDLE_PER_LOOK * 3
    found.choose(rows(count), 0.0)
    described(found, count, 0.0)
    listed = rows(count)
    listed[-1] = Listing("app-2999", 2999, "CompleteAbort")
    listed[-2] = Listing("app-2998", 9999, "CompleteCommit")
    assert {"app-2999", "app-2998"} <= {*found.choose(listed, ACTIVE_SECONDS + 1)}


def test_of_too_many_ids_the_newest_are_polled_and_the_others_reported() -> None:
    found = observed()
    chosen = found.choose([*rows(MOST_IDS + 10), Listing("old", -1, "Ongoing")], 0.0)
    assert len(chosen) == MOST_IDS
    assert "app-0" not in chosen
    dropped = [sample for sample in found.samples("prod") if sample.metric is catalogue.SERIES_DROPPED]
    assert [sample.value for sample in dropped] == [11.0]


def test_ids_that_expired_are_forgotten_and_count_nothing_when_they_come_back_with_an_old_start() -> None:
    found = observed()
    described(found, 3, 0.0)
    found.forget_all_but(["app-0"])
    described(found, 3, 1.0)
    assert not any(sample.value for sample in found.samples("prod") if sample.metric is COUNTS)
    found.take({"app-1": complete(1, 101.0)}, CoordinatorLook(2.0, 2.0), 2.0, listed=True)
    assert [sample.labels[2] for sample in found.samples("prod") if sample.metric is COUNTS and sample.value] == [
        ObservedOutcome.COMMITTED
    ]


# --- Brokers without __transaction_state that have transactions, as Redpanda's ---


def elsewhere_of() -> FakeKafka:
    world = FakeKafka(topics={OFFSETS: partitions(1)}, elsewhere=True, brokers={1: "r1:9092", 2: "r2:9092"})
    world.transactions["app-1"] = FakeTransaction(7, "Ongoing", [("orders", 0)], 3, 60_000, BEGUN_MS)
    return world


def test_transactions_without_a_log_are_open_and_their_outcomes_are_polled() -> None:
    world = elsewhere_of()
    source = TransactionsSource(world.cluster(), TransactionsConfig())
    log = TxnlogSource(world.cluster(), TransactionsConfig())
    first = read(world, source)
    assert first.facts[TransactionsElsewhere] == TransactionsElsewhere()
    assert first.values(catalogue.TRANSACTIONS_OPEN)["app", "ongoing"] == 1
    assert not first.faults
    logged = read(world, log, TransactionsElsewhere())
    assert LoggedTransactions not in logged.facts
    refused = logged.facts[LogRefused]
    world.time.pass_(5.0)
    read(world, source, refused)
    world.transactions["app-1"].state = "CompleteCommit"
    world.time.pass_(5.0)
    assert counted(read(world, source, refused)) == {"committed": 1}


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
