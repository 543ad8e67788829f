"""What the coordinators and the cluster say: identity, internal topics, and the open transactions by polling."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import catalogue
from exporter.core.facts import Board
from exporter.core.runner import take
from exporter.model import ClusterIdentity, Deadline, Fault, KnownIds, OpenTransactions, Reason, Source
from exporter.sources.transactions import TransactionsSettings, TransactionsSource
from exporter.sources.txnlog import TxnlogSettings, TxnlogSource
from tests.world import LOG, OFFSETS, Partition, Transaction, World, partitions, places, read

TOPICS = catalogue.INTERNAL_TOPIC_PARTITIONS
OPEN = catalogue.TRANSACTIONS_OPEN
TAIL = OpenTransactions("txnlog", (), complete=True)


def world_of() -> World:
    world = World(topics={LOG: partitions(2), OFFSETS: partitions(1)}, levels={"transaction.version": 2})
    world.settings = {LOG: {"min.insync.replicas": "2"}, OFFSETS: {"min.insync.replicas": "1"}}
    for each in world.topics[LOG]:
        each.replicas = each.isr = (1, 2, 3)
    world.transactions["app-1"] = Transaction(7, "Ongoing", [("orders", 0)], 3, 60_000, 1_789_999_000_000)
    return world


def source_of(world: World) -> TransactionsSource:
    """One that has said that it will expose what it polls."""
    source = TransactionsSource(world.cluster(), TransactionsSettings(tail_grace=0.0))
    source._takes_over = True
    return source


def test_the_cluster_says_who_it_is() -> None:
    world = world_of()
    seen = read(world, source_of(world))
    assert seen.values(catalogue.CLUSTER_INFO) == {("cluster-1", "k1:9092", "2"): 1}
    assert seen.facts[ClusterIdentity] == ClusterIdentity("cluster-1", "k1:9092", 2, 1)


def test_a_cluster_before_4_0_has_no_transaction_version() -> None:
    world = world_of()
    world.levels = {}
    seen = read(world, source_of(world))
    assert seen.values(catalogue.CLUSTER_INFO) == {("cluster-1", "k1:9092", ""): 1}


def test_internal_topics_are_counted_by_condition() -> None:
    world = world_of()
    world.topics[LOG][0].isr = (1,)
    world.topics[LOG][1].leader = None
    seen = read(world, source_of(world))
    assert {labels[1]: value for labels, value in seen.values(TOPICS).items() if labels[0] == LOG} == {
        "total": 2,
        "offline": 1,
        "under_replicated": 1,
        "under_min_isr": 1,
    }
    assert seen.reasons == {Reason.NO_LEADER}


def test_without_describe_configs_under_min_isr_is_absent_and_the_grant_is_named_and_it_comes_after_it() -> None:
    world = world_of()
    world.refuse["DescribeConfigs"] = 29
    source = source_of(world)
    seen = read(world, source)
    assert seen.value(TOPICS, LOG, "total") == 2
    assert seen.value(TOPICS, LOG, "under_min_isr") is None
    assert any("grant DESCRIBE_CONFIGS" in fault.detail for fault in seen.faults)
    world.refuse.clear()
    world.time.pass_(30.0)
    seen = read(world, source)
    assert not seen.faults
    assert seen.value(TOPICS, LOG, "under_min_isr") == 0


def test_ids_are_unavailable_where_their_coordinator_cannot_write() -> None:
    world = world_of()
    known = KnownIds({0: {"app": 3, "etl": 1}, 1: {"app": 4}})
    source = source_of(world)
    unavailable = catalogue.TRANSACTIONAL_IDS_UNAVAILABLE
    assert read(world, source, known).values(unavailable) == {("app",): 0, ("etl",): 0}
    world.topics[LOG][1].isr = (1,)
    assert read(world, source, known).values(unavailable) == {("app",): 4, ("etl",): 0}
    world.topics[LOG][0].leader = None
    assert read(world, source, known).values(unavailable) == {("app",): 7, ("etl",): 1}
    assert not read(world, source).values(unavailable)


def test_an_empty_cluster_has_no_transactions_and_no_fault() -> None:
    world = World()
    seen = read(world, source_of(world))
    assert not seen.faults
    assert seen.facts[OpenTransactions] == OpenTransactions("transactions", (), complete=True)


def test_where_the_log_is_not_read_polling_serves_the_open_transactions() -> None:
    world = world_of()
    seen = read(world, source_of(world))
    opened = seen.facts[OpenTransactions]
    assert isinstance(opened, OpenTransactions)
    assert opened.complete
    assert [(each.transactional_id, each.partitions) for each in opened.transactions] == [
        ("app-1", places("orders", 0))
    ]
    assert seen.value(OPEN, "app", "ongoing") == 1
    assert seen.value(catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS, "app", "app-1", "7", "3", "ongoing") == 60


def test_while_the_tail_serves_them_nothing_is_given_twice_and_coordinators_are_asked_now_and_then() -> None:
    world = world_of()
    source = source_of(world)
    for _ in range(12):
        seen = read(world, source, TAIL)
        assert OpenTransactions not in seen.facts
        assert not seen.values(OPEN)
        world.time.pass_(5.0)
    assert len(world.requests("ListTransactions")) == 2


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
    world = world_of()
    world.refuse = refuse
    source = source_of(world)
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
    world = world_of()
    world.brokers[2] = "k2:9092"
    world.topics[LOG][1] = Partition(2, replicas=(1, 2, 3), isr=(1, 2, 3))
    world.transactions["app-2"] = Transaction(8, "Ongoing", [("orders", 1)], 0, 60_000, 1_789_999_000_000)
    source = source_of(world)
    assert read(world, source).value(OPEN, "app", "ongoing") == 2
    world.down = {2}
    seen = read(world, source)
    assert seen.reasons == {Reason.UNREACHABLE}
    assert seen.value(OPEN, "app", "ongoing") == 1
    opened = seen.facts[OpenTransactions]
    assert isinstance(opened, OpenTransactions)
    assert not opened.complete


def test_a_cluster_that_is_down_is_one_fault_and_comes_back() -> None:
    world = world_of()
    source = source_of(world)
    world.down = {1}
    seen = read(world, source)
    assert [fault.reason for fault in seen.faults] == [Reason.UNREACHABLE]
    assert seen.samples == []
    world.down = set()
    assert read(world, source).value(OPEN, "app", "ongoing") == 1


def test_polled_transactions_are_told_at_once_and_shown_once_the_tail_had_time_to_catch_up() -> None:
    world = world_of()
    source = TransactionsSource(world.cluster(), TransactionsSettings(tail_grace=4.0))
    early = read(world, source)
    assert OpenTransactions in early.facts
    assert early.values(OPEN) == {}
    assert not early.facts[OpenTransactions].exposes  # type: ignore[attr-defined]
    world.time.monotonic += 5
    said = read(world, source)
    assert said.facts[OpenTransactions].exposes  # type: ignore[attr-defined]
    assert said.values(OPEN) == {}
    assert source.pace == 1.0
    assert read(world, source).value(OPEN, "app", "ongoing") == 1
    assert source.pace == source.interval


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["poll", "tail", "tail", "cut", "mend", "wait"]), max_size=60))
def test_polling_and_the_tail_never_expose_the_same_and_take_over_from_each_other(steps: list[str]) -> None:
    world = world_of()
    cluster = world.cluster()
    polling: Source = TransactionsSource(cluster, TransactionsSettings())
    tail: Source = TxnlogSource(cluster, TxnlogSettings(), world.tail)
    board = Board()
    exposed: dict[str, bool] = {}

    def take_turn(source: Source) -> None:
        deadline = Deadline.after(1.0, world.time.clock.monotonic)
        snapshot = take(source, deadline, board.facts(world.time.monotonic), world.time.clock)
        exposed[source.name] = any(sample.metric is OPEN for sample in snapshot.samples)
        assert not all(exposed.values()) or len(exposed) < 2
        board.post((source.name,), snapshot)

    for step in steps:
        if step in {"cut", "mend"}:
            world.read_refused = step == "cut"
        else:
            world.time.pass_(1.0)
        if step == "wait":  # so long that both facts and gauges expire
            world.time.pass_(20.0)
            exposed.clear()
        if step in {"poll", "tail"}:
            take_turn(polling if step == "poll" else tail)
    world.read_refused = False
    for _ in range(10):
        world.time.pass_(1.0)
        take_turn(tail)
        take_turn(polling)
    assert exposed == {"txnlog": True, "transactions": False}
    world.read_refused = True
    for _ in range(40):
        world.time.pass_(1.0)
        take_turn(tail)
        take_turn(polling)
    assert exposed == {"txnlog": False, "transactions": True}


def test_a_broker_that_answers_from_an_old_view_is_a_fault() -> None:
    world = world_of()
    world.stale = [Fault(Reason.STALE, "broker 2 at k2:9092 answers from a view of the cluster that is 9 s old")]
    assert read(world, source_of(world)).faults == world.stale
