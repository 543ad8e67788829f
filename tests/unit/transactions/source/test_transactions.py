"""Tests of the source ``transactions``: identity, internal topics, and the open transactions by polling."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import catalogue
from exporter.cluster import ClusterIdentity
from exporter.core.fact_store import FactStore
from exporter.core.reading import read_source
from exporter.model import Deadline, Fault, Reason, Source
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.facts import (
    CoordinatorTime,
    KnownIds,
    LoggedTransactions,
    LogRefused,
    OpenTransaction,
    OpenTransactions,
)
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import TxnlogSource
from exporter.words import TransactionState
from tests.helpers.cluster import LOG, OFFSETS, FakeKafka, FakeTransaction, Partition, places, read
from tests.helpers.scenes import world_with_one_open
from tests.helpers.sources import transactions_source

TOPICS = catalogue.INTERNAL_TOPIC_PARTITIONS
OPEN = catalogue.TRANSACTIONS_OPEN
TAIL = LoggedTransactions(OpenTransactions("txnlog", (), complete=True), CoordinatorTime())


def whole_world() -> FakeKafka:
    world = world_with_one_open()
    world.levels = {"transaction.version": 2}
    world.settings = {LOG: {"min.insync.replicas": "2"}, OFFSETS: {"min.insync.replicas": "1"}}
    for topic in world.topics[LOG]:
        topic.replicas = topic.isr = (1, 2, 3)
    return world


def test_the_cluster_says_who_it_is() -> None:
    world = whole_world()
    seen = read(world, transactions_source(world))
    assert seen.values(catalogue.CLUSTER_INFO) == {("cluster-1", "k1:9092", "2"): 1}
    assert seen.facts[ClusterIdentity] == ClusterIdentity("cluster-1", "k1:9092", 2, 1)


def test_a_cluster_before_4_0_has_no_transaction_version() -> None:
    world = whole_world()
    world.levels = {}
    seen = read(world, transactions_source(world))
    assert seen.values(catalogue.CLUSTER_INFO) == {("cluster-1", "k1:9092", ""): 1}


def test_an_upgrade_of_the_transaction_version_is_seen_at_the_next_read() -> None:
    world = whole_world()
    world.levels = {"transaction.version": 0}
    source = transactions_source(world)
    assert read(world, source).values(catalogue.CLUSTER_INFO) == {("cluster-1", "k1:9092", "0"): 1}
    world.levels = {"transaction.version": 2}
    world.time.pass_(source.interval)
    seen = read(world, source)
    assert seen.values(catalogue.CLUSTER_INFO) == {("cluster-1", "k1:9092", "2"): 1}
    assert seen.facts[ClusterIdentity] == ClusterIdentity("cluster-1", "k1:9092", 2, 1)


def test_internal_topics_are_counted_by_condition() -> None:
    world = whole_world()
    world.topics[LOG][0].isr = (1,)
    world.topics[LOG][1].leader = None
    seen = read(world, transactions_source(world))
    assert {labels[1]: value for labels, value in seen.values(TOPICS).items() if labels[0] == LOG} == {
        "total": 2,
        "offline": 1,
        "under_replicated": 1,
        "under_min_isr": 1,
    }
    assert seen.reasons == {Reason.NO_LEADER}


@pytest.mark.parametrize(
    ("replicas", "isr", "minimum", "short"),
    [
        ((1,), (1,), "2", 0),
        ((1, 2), (1, 2), "3", 0),
        ((1, 2), (1,), "3", 1),
        ((1, 2, 3), (1, 2), "2", 0),
        ((1, 2, 3), (1,), "2", 1),
    ],
)
def test_no_more_replicas_than_a_partition_has_must_be_in_sync(
    replicas: tuple[int, ...], isr: tuple[int, ...], minimum: str, short: int
) -> None:
    world = whole_world()
    world.settings[LOG] = {"min.insync.replicas": minimum}
    world.topics[LOG][0].replicas, world.topics[LOG][0].isr = replicas, isr
    seen = read(world, transactions_source(world))
    assert seen.value(TOPICS, LOG, "under_min_isr") == short
    broken = catalogue.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS
    assert ((LOG, "under_min_isr") in seen.values(broken)) is bool(short)


def test_partitions_of_an_internal_topic_that_break_one_after_the_other_are_no_long_gap() -> None:
    world = whole_world()
    source = transactions_source(world)
    broken = catalogue.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS
    assert read(world, source).values(broken) == {}
    first, second = world.topics[LOG]
    begun = {}
    for number, partition in ((0, first), (1, second)):
        first.isr = second.isr = (1, 2, 3)
        partition.isr = (1,)
        world.time.pass_(120.0)
        begun[number] = world.time.wall
        assert read(world, source).values(broken) == {(LOG, "under_min_isr"): begun[number]}
    world.time.pass_(60.0)
    first.leader = None
    seen = read(world, source).values(broken)
    assert seen == {(LOG, "under_min_isr"): begun[1], (LOG, "offline"): world.time.wall}


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_since_when_a_partition_is_broken_is_dated_anew_when_our_wall_clock_is_set(jump: float) -> None:
    world = whole_world()
    source = transactions_source(world)
    broken = catalogue.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS
    world.topics[LOG][0].isr = (1,)
    read(world, source)
    world.time.pass_(100.0)
    world.time.wall += jump
    assert read(world, source).values(broken) == {(LOG, "under_min_isr"): world.time.wall - 100.0}


def test_without_describe_configs_under_min_isr_is_absent_and_the_grant_is_named_and_it_comes_after_it() -> None:
    world = whole_world()
    world.refuse["DescribeConfigs"] = 29
    source = transactions_source(world)
    seen = read(world, source)
    assert seen.value(TOPICS, LOG, "total") == 2
    assert seen.value(TOPICS, LOG, "under_min_isr") is None
    assert any("grant DESCRIBE_CONFIGS" in fault.detail for fault in seen.faults)
    world.refuse.clear()
    world.time.pass_(30.0)
    seen = read(world, source)
    assert not seen.faults
    assert seen.value(TOPICS, LOG, "under_min_isr") == 0
    world.refuse["DescribeConfigs"] = 29
    world.time.pass_(301.0)
    assert read(world, source).value(TOPICS, LOG, "under_min_isr") is None


def test_ids_are_unavailable_where_their_coordinator_cannot_write() -> None:
    world = whole_world()
    known = KnownIds({0: {"app": 3, "etl": 1}, 1: {"app": 4}})
    source = transactions_source(world)
    unavailable = catalogue.TRANSACTIONAL_IDS_UNAVAILABLE
    assert read(world, source, known).values(unavailable) == {("app",): 0, ("etl",): 0}
    world.topics[LOG][1].isr = (1,)
    world.time.pass_(5.0)
    assert read(world, source, known).values(unavailable) == {("app",): 4, ("etl",): 0}
    world.topics[LOG][0].leader = None
    world.time.pass_(5.0)
    assert read(world, source, known).values(unavailable) == {("app",): 7, ("etl",): 1}
    world.time.pass_(5.0)
    assert not read(world, source).values(unavailable)


def test_an_empty_cluster_has_no_transactions_and_no_fault() -> None:
    world = FakeKafka()
    seen = read(world, transactions_source(world))
    assert not seen.faults
    now = world.time.monotonic
    assert seen.facts[OpenTransactions] == OpenTransactions("transactions", (), complete=True, as_of=now)


def test_where_the_log_is_not_read_polling_serves_the_open_transactions() -> None:
    world = whole_world()
    seen = read(world, transactions_source(world))
    opened = seen.facts[OpenTransactions]
    assert isinstance(opened, OpenTransactions)
    assert opened.complete
    assert [(transaction.transactional_id, transaction.partitions) for transaction in opened.transactions] == [
        ("app-1", places("orders", 0))
    ]
    assert seen.value(OPEN, "app", "ongoing") == 1
    assert seen.value(catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS, "app", "app-1", "7", "3", "ongoing") == 60


def test_while_the_tail_serves_them_coordinators_are_asked_now_and_then() -> None:
    world = whole_world()
    source = transactions_source(world)
    for _ in range(60):
        seen = read(world, source, TAIL)
        assert seen.facts[OpenTransactions] == TAIL.opened
        assert seen.value(OPEN, "app", "ongoing") is None
        world.time.pass_(1.0)
    assert len(world.requests("ListTransactions")) == 2


def test_the_cluster_is_read_once_an_interval_and_its_samples_stay_between() -> None:
    world = whole_world()
    source = transactions_source(world)
    for _ in range(20):
        seen = read(world, source, TAIL)
        assert seen.values(catalogue.CLUSTER_INFO)
        assert seen.value(TOPICS, LOG, "total") == 2
        world.time.pass_(source.pace)
    assert world.looks.count((LOG, OFFSETS)) == 4


@pytest.mark.parametrize(
    ("refuse", "reason", "word"),
    [
        ({"DescribeTransactions": 53}, Reason.AUTHORIZATION, "DESCRIBE on TransactionalId:*"),
        ({"ListTransactions": 14}, Reason.COORDINATOR, "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_what_could_not_be_asked_is_a_fault_and_never_complete(
    refuse: dict[str, int], reason: Reason, word: str
) -> None:
    world = whole_world()
    world.refuse = refuse
    source = transactions_source(world)
    seen = read(world, source)
    assert seen.reasons == {reason}
    opened = seen.facts[OpenTransactions]
    assert isinstance(opened, OpenTransactions)
    assert not opened.complete
    assert word in " ".join(opened.missing)
    # With the tail serving, too, and until it is mended.
    assert read(world, source, TAIL).reasons == {reason}
    world.time.pass_(5.0)
    assert read(world, source, TAIL).reasons == {reason}
    world.refuse = {}
    world.time.pass_(5.0)
    assert not read(world, source, TAIL).faults


def test_one_coordinator_of_two_that_is_down_leaves_the_others_answers() -> None:
    world = whole_world()
    world.brokers[2] = "k2:9092"
    world.topics[LOG][1] = Partition(2, replicas=(1, 2, 3), isr=(1, 2, 3))
    world.transactions["app-2"] = FakeTransaction(8, "Ongoing", [("orders", 1)], 0, 60_000, 1_789_999_000_000)
    source = transactions_source(world)
    assert read(world, source).value(OPEN, "app", "ongoing") == 2
    world.down = {2}
    world.time.pass_(5.0)
    seen = read(world, source)
    assert seen.reasons == {Reason.UNREACHABLE}
    assert seen.value(OPEN, "app", "ongoing") == 1
    opened = seen.facts[OpenTransactions]
    assert isinstance(opened, OpenTransactions)
    assert not opened.complete


def test_a_cluster_that_is_down_is_one_fault_and_comes_back() -> None:
    world = whole_world()
    source = transactions_source(world)
    world.down = {1}
    seen = read(world, source)
    assert [fault.reason for fault in seen.faults] == [Reason.UNREACHABLE]
    assert seen.samples == []
    world.down = set()
    world.time.pass_(5.0)
    assert read(world, source).value(OPEN, "app", "ongoing") == 1


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["poll", "tail", "tail", "cut", "mend", "wait"]), max_size=60))
def test_the_open_transactions_are_published_once_whether_the_tail_serves_them_or_a_poll(steps: list[str]) -> None:
    world = whole_world()
    cluster = world.cluster()
    publishing: Source = TransactionsSource(cluster, TransactionsConfig())
    tail: Source = TxnlogSource(cluster, TransactionsConfig(), world.tail)
    board = FactStore()
    origins: list[str] = []

    def take_turn(source: Source) -> None:
        deadline = Deadline.after(1.0, world.time.clock.monotonic)
        snapshot = read_source(source, deadline, board.facts(world.time.monotonic), world.time.clock)
        published = any(sample.metric is OPEN for sample in snapshot.every_sample())
        assert published == (source is publishing)
        origins.extend(fact.origin for fact in snapshot.facts if isinstance(fact, OpenTransactions))
        board.post((source.name,), snapshot)

    for step in steps:
        if step in {"cut", "mend"}:
            world.log_reads.refused = step == "cut"
        else:
            world.time.pass_(1.0)
        if step == "wait":  # so long that facts expire
            world.time.pass_(20.0)
        if step in {"poll", "tail"}:
            take_turn(publishing if step == "poll" else tail)
    for refused, origin in ((False, "txnlog"), (True, "transactions")):
        world.log_reads.refused = refused
        for _ in range(40):
            world.time.pass_(1.0)
            take_turn(tail)
            take_turn(publishing)
        assert origins[-1] == origin


def test_while_the_tail_serves_them_an_open_id_is_described_once_in_five_minutes() -> None:
    world = whole_world()
    source = transactions_source(world)
    for _ in range(300):
        read(world, source, TAIL)
        world.time.pass_(1.0)
    described = [request for _, name, request in world.asked if name == "DescribeTransactions"]
    assert [transaction.transactional_ids for transaction in described if "app-1" in transaction.transactional_ids] == [
        ["app-1"]
    ]
    world.transactions["app-2"] = FakeTransaction(8, "Ongoing", [("orders", 1)], 3, 60_000, 1_789_999_000_000)
    world.asked.clear()
    opened = read(world, source).facts[OpenTransactions]
    assert isinstance(opened, OpenTransactions)
    assert {transaction.transactional_id for transaction in opened.transactions} == {"app-1", "app-2"}


# --- The coordinators' time ---

LATE = catalogue.OVERDUE_TRANSACTIONS
DISTANCE = catalogue.CLOCK_DISTANCE_SECONDS


def open_for(world: FakeKafka, seconds: float, *, skew: float) -> OpenTransaction:
    """Open for so long by its coordinator, whose clock our clock is ``skew`` seconds ahead of; its timeout is 60 s."""
    began = world.time.wall - skew - seconds
    return OpenTransaction("app-1", "app", 7, 3, TransactionState.ONGOING, began, 60.0, None, places("orders", 0))


def logged(
    world: FakeKafka, transaction: OpenTransaction, time: CoordinatorTime, as_of: float = 0.0
) -> LoggedTransactions:
    opened = OpenTransactions("txnlog", (transaction,), complete=True, as_of=world.time.monotonic - as_of)
    return LoggedTransactions(opened, time)


def time_of(world: FakeKafka, skew: float) -> CoordinatorTime:
    """By a record that has just arrived from a coordinator whose clock our wall clock is ``skew`` seconds ahead of."""
    ahead = world.time.monotonic - world.time.wall + skew
    return CoordinatorTime(ahead, ahead)


@pytest.mark.parametrize("skew", [80.0, -80.0, 0.0, 7200.0])
@pytest.mark.parametrize(("seconds", "late"), [(1.0, 0), (74.0, 0), (76.0, 1)])
def test_a_transaction_is_overdue_by_the_clock_of_its_coordinator(skew: float, seconds: float, late: int) -> None:
    world, transaction = whole_world(), open_for(whole_world(), seconds, skew=skew)
    world.transactions["app-1"].start_ms = round((transaction.started or 0.0) * 1000)
    seen = read(world, transactions_source(world), logged(world, transaction, time_of(world, skew)))
    assert seen.value(LATE, "app") == late
    assert seen.values(DISTANCE) == {(): pytest.approx(skew)}
    time = seen.facts[CoordinatorTime]
    assert isinstance(time, CoordinatorTime)
    assert time.ahead == pytest.approx(skew)
    assert time.at_most == pytest.approx(skew)


def test_a_transaction_that_may_have_ended_while_nothing_was_read_is_not_overdue() -> None:
    world = whole_world()
    time = time_of(world, 0.0)
    world.time.pass_(40.0)  # the process was stopped: what it knows is of 40 s ago
    fact = logged(world, open_for(world, 90.0, skew=0.0), time, as_of=40.0)
    assert read(world, transactions_source(world), fact).value(LATE, "app") == 0
    assert (
        read(
            world, transactions_source(world), replace(fact, opened=replace(fact.opened, as_of=world.time.monotonic))
        ).value(LATE, "app")
        == 1
    )


def test_a_transaction_is_not_overdue_any_more_once_its_coordinators_clock_is_less_certain() -> None:
    world = whole_world()
    world.transactions["app-1"].start_ms = round((world.time.wall - 90.0) * 1000)
    source, fact = transactions_source(world), logged(world, open_for(world, 90.0, skew=0.0), time_of(world, 0.0))
    assert read(world, source, fact).value(LATE, "app") == 1
    world.time.pass_(5.0)
    unknown = replace(fact, clock=CoordinatorTime())
    assert read(world, source, unknown).value(LATE, "app") == 0
    world.time.pass_(5.0)
    assert read(world, source, fact).value(LATE, "app") == 1


@pytest.mark.parametrize(("state", "started"), [("Empty", None), ("CompleteAbort", 90.0), ("Ongoing", 10.0)])
def test_what_the_log_has_open_and_its_coordinator_says_is_not_open_is_not_overdue(
    state: str, started: float | None
) -> None:
    """Its Ongoing record was replicated after its append had failed for the coordinator, which never began it."""
    world = whole_world()
    start_ms = -1 if started is None else round((world.time.wall - started) * 1000)
    world.transactions["app-1"].state, world.transactions["app-1"].start_ms = state, start_ms
    source, transaction = transactions_source(world), open_for(world, 90.0, skew=0.0)
    for _ in range(10):
        seen = read(world, source, logged(world, transaction, time_of(world, 0.0)))
        assert not seen.value(LATE, "app")
        assert not seen.values(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS)
        world.time.pass_(1.0)
    assert sum(name == "DescribeTransactions" for _, name, _ in world.asked) < 8


@pytest.mark.parametrize("code", [15, 16, 14, 53])
def test_a_coordinator_that_does_not_say_so_ends_no_overdue_transaction(code: int) -> None:
    world = whole_world()
    world.refuse["DescribeTransactions"] = code
    source, transaction = transactions_source(world), open_for(world, 90.0, skew=0.0)
    assert read(world, source, logged(world, transaction, time_of(world, 0.0))).value(LATE, "app") == 1
    world.refuse.clear()
    world.transactions["app-1"].state = "Empty"
    world.time.pass_(5.0)
    assert not read(world, source, logged(world, transaction, time_of(world, 0.0))).value(LATE, "app")
    world.down.add(1)
    world.time.pass_(5.0)
    assert not read(world, source, logged(world, transaction, time_of(world, 0.0))).value(LATE, "app")
    world.down.clear()
    world.transactions["app-1"].state, world.transactions["app-1"].start_ms = (
        "Ongoing",
        round((transaction.started or 0.0) * 1000),
    )
    world.time.pass_(5.0)
    assert read(world, source, logged(world, transaction, time_of(world, 0.0))).value(LATE, "app") == 1


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_decided_transaction_that_waits_for_its_markers_is_not_overdue(state: TransactionState) -> None:
    world = whole_world()
    transaction = open_for(world, 90.0, skew=0.0)._replace(state=state, prepared=world.time.wall - 85.0)
    seen = read(world, transactions_source(world), logged(world, transaction, time_of(world, 0.0)))
    assert seen.value(LATE, "app") == 0
    assert seen.value(OPEN, "app", state) == 1


def test_polled_transactions_are_overdue_once_they_were_seen_open_for_that_long_whatever_our_clock_says() -> None:
    world = whole_world()
    world.transactions["app-1"].start_ms = round((world.time.wall - 500.0) * 1000)
    source = transactions_source(world)
    for _ in range(76):
        seen = read(world, source, LogRefused())
        assert seen.value(LATE, "app") == 0
        assert not seen.values(DISTANCE)
        world.time.pass_(1.0)
    world.time.pass_(5.0)
    assert read(world, source, LogRefused()).value(LATE, "app") == 1


def test_a_broker_that_answers_from_an_old_view_is_a_fault() -> None:
    world = whole_world()
    world.stale = [Fault(Reason.STALE, "broker 2 at k2:9092 answers from a view of the cluster that is 9 s old")]
    assert read(world, transactions_source(world)).faults == world.stale


@pytest.mark.parametrize("logged_before", [False, True])
def test_polled_transactions_are_not_overdue_while_the_log_may_show_whose_clock_it_is(logged_before: bool) -> None:
    """Another coordinator, whose clock is 90 s ahead, has stamped the start of another transaction."""
    world = whole_world()
    world.transactions["app-1"].start_ms = round((world.time.wall - 5.0) * 1000)
    world.transactions["app-2"] = FakeTransaction(8, start_ms=round((world.time.wall + 90.0) * 1000))
    source = transactions_source(world)
    if logged_before:
        read(world, source, logged(world, open_for(world, 5.0, skew=0.0), time_of(world, 0.0)))
        world.time.pass_(31.0)
    seen = read(world, source)
    assert seen.value(OPEN, "app", TransactionState.ONGOING) == 2
    assert seen.value(LATE, "app") == 0
    assert seen.facts[CoordinatorTime] == CoordinatorTime()
