"""Groups that read uncommitted records are proven by a look, and no other group is accused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exporter.groups.facts import GroupsBeyondLso
from exporter.groups.source.groups import GroupsSource
from exporter.groups.source.isolation import AGAIN_SECONDS, CREDIT_SECONDS, MOST_AT_ONCE, MOST_CREDIT, MOST_ROUNDS
from exporter.transactions.facts import TransactionUse
from tests.helpers.cluster import FakeGroup, FakeKafka, read
from tests.helpers.scenes import held_world
from tests.helpers.sources import groups_source

WRITTEN = TransactionUse(frozenset({"orders"}), {}, {})


def steps(world: FakeKafka, *taken: Callable[[], object]) -> Callable[[float], None]:
    """A pause between two looks in which the next of these things happens."""
    left = list(taken)

    def pause(seconds: float) -> None:
        world.time.pass_(seconds)
        if left:
            left.pop(0)()

    return pause


def commit(world: FakeKafka, group: str, offset: int) -> Callable[[], object]:
    return lambda: world.groups[group].committed.update({("orders", 0): offset})


def looked(world: FakeKafka, source: GroupsSource) -> GroupsBeyondLso:
    fact = read(world, source, WRITTEN).facts[GroupsBeyondLso]
    assert isinstance(fact, GroupsBeyondLso)
    return fact


def reader(offset: int = 90, members: Sequence[str] = ("m-1", "m-2"), kind: str = "") -> FakeGroup:
    return FakeGroup({("orders", 0): offset}, members, kind)


def test_a_commit_above_a_last_stable_offset_that_was_read_after_it_is_proof_while_such_a_member_runs() -> None:
    for kind in ("", "Consumer"):
        world = held_world()
        world.groups["reader"] = reader(70, kind=kind)
        source = groups_source(world, pause=steps(world, lambda: None, commit(world, "reader", 95)))
        proven = GroupsBeyondLso(frozenset({("reader", "orders")}))
        assert looked(world, source) == proven
        world.topics["orders"][0].stable = None
        world.groups["reader"].members = ["m-2", "m-3"]
        assert looked(world, source) == proven, "one of them runs on, and the last stable offset has passed"
        world.groups["reader"].members = ["m-3"]
        assert looked(world, source).pairs == frozenset()


def test_a_transaction_that_ends_before_the_look_proves_nothing_and_the_commit_counts() -> None:
    world = held_world()
    world.groups["reader"] = reader(70)

    def both() -> None:
        commit(world, "reader", 95)()
        world.topics["orders"][0].stable = None

    source = groups_source(world, pause=steps(world, both))
    assert looked(world, source) == GroupsBeyondLso(frozenset(), {"reader": 1})


def test_a_group_that_was_reset_to_the_latest_offset_is_not_accused() -> None:
    world = held_world()
    world.groups["billing"] = reader(100)
    source = groups_source(world)
    assert [looked(world, source).pairs for _ in range(5)] == [frozenset()] * 5


def test_a_reset_between_two_looks_needs_other_members_and_is_no_proof() -> None:
    world = held_world()
    world.groups["billing"] = reader(70)

    def reset() -> None:
        world.groups["billing"] = reader(100, ["m-3"])

    assert looked(world, groups_source(world, pause=steps(world, reset))).pairs == frozenset()


def test_commits_without_members_and_members_that_cannot_be_asked_for_prove_nothing() -> None:
    world = held_world()
    world.groups["assigned"] = reader(85, ())
    source = groups_source(world, pause=steps(world, commit(world, "assigned", 95)))
    assert looked(world, source) == GroupsBeyondLso(frozenset())
    world.groups["assigned"] = reader(85)
    world.refuse["DescribeGroups"] = 30
    source = groups_source(world, pause=steps(world, commit(world, "assigned", 95)))
    assert looked(world, source) == GroupsBeyondLso(frozenset())


def test_groups_that_read_no_topic_of_transactions_are_not_looked_at() -> None:
    world = held_world()
    world.topics["orders"][0].stable = None
    world.groups["billing"] = reader(70)
    source = groups_source(world)
    fact = read(world, source).facts[GroupsBeyondLso]
    assert fact == GroupsBeyondLso(frozenset())
    assert len(world.requests("OffsetFetch")) == 1


def test_rounds_of_looks_are_few_once_there_were_many_whatever_groups_come() -> None:
    world = held_world()
    source = groups_source(world)
    before = 0
    for number in range(2 * round(MOST_CREDIT)):
        world.groups = {f"g-{number}": reader(70)}
        looked(world, source)
        if number == MOST_CREDIT:
            before = len(world.requests("OffsetFetch"))
    assert len(world.requests("OffsetFetch")) == before + MOST_CREDIT - 1, "only the lag is read"
    world.time.pass_(CREDIT_SECONDS)
    looked(world, source)
    assert len(world.requests("OffsetFetch")) > before + MOST_CREDIT


def test_of_many_groups_all_are_looked_at_in_turn_and_then_seldom() -> None:
    world = held_world()
    for number in range(MOST_AT_ONCE + 5):
        world.groups[f"g-{number:02}"] = reader(70)
    source = groups_source(world)
    assert len(looked(world, source).unproven) == MOST_AT_ONCE
    assert len(looked(world, source).unproven) == MOST_AT_ONCE + 5
    for _ in range(2 * MOST_ROUNDS):
        looked(world, source)
    before = len(world.requests("OffsetFetch"))
    assert len(looked(world, source).unproven) == MOST_AT_ONCE + 5
    assert len(world.requests("OffsetFetch")) == before + 1, "only the lag is read"
    world.time.pass_(AGAIN_SECONDS)
    looked(world, source)
    assert len(world.requests("OffsetFetch")) > before + 3
