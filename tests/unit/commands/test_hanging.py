from __future__ import annotations

import pytest

from exporter.commands.hanging import EVERYWHERE, Where, search
from exporter.commands.log_rounds import MARGIN_SECONDS
from exporter.commands.runner import ClusterReport
from exporter.kafka.client import AskError
from exporter.lso.facts import Stall
from exporter.lso.next_step import next_step
from exporter.lso.proof.evidence import CONFIRM_SECONDS
from exporter.model import Deadline, TopicPartition
from exporter.words import BlockerKind
from tests.helpers.one_broker import NOW, OneBroker

LEDGER = TopicPartition("ledger", 0)
ORPHAN = (777, 4, 90.0)


def found(world: OneBroker, older_than: float = 60.0, where: Where = EVERYWHERE) -> ClusterReport[Stall]:
    return search(world.cluster(), Deadline.after(30), older_than, world.sleep, world.reader, where)


def test_a_transaction_that_the_log_does_not_have_twice_is_hanging(capsys: pytest.CaptureFixture[str]) -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]})
    look = found(world)
    [stall] = look.found
    assert (stall.partition, stall.blocker.producer_id, stall.blocker.start_offset) == (LEDGER, 777, 4)
    assert stall.blocker.kind is BlockerKind.HANGING
    assert (stall.last_stable_offset, stall.high_watermark, stall.leader) == (4, 10, 1)
    assert (look.undecided, look.not_asked) == ((), ())
    assert world.slept == [CONFIRM_SECONDS + MARGIN_SECONDS]
    assert "abort --topic ledger --partition 0 --start-offset 4" in f"{next_step(stall, 'k1:9092', 0.0)}"
    assert "1 may hang; looking again in 30s" in capsys.readouterr().err


def test_topics_that_may_not_be_described_are_not_without_a_hanging_transaction() -> None:
    look = found(OneBroker(topics_denied=True))
    assert (look.found, len(look.not_asked)) == ((), 1)
    assert "grant READ on Topic:*" in look.not_asked[0]
    named = Where("__transaction_state")
    assert found(OneBroker(topics_denied=True), where=named).not_asked == ()


def test_a_new_cluster_has_no_hanging_transaction_and_one_whose_topics_are_hidden_may_have() -> None:
    assert found(OneBroker(without_topics=True)).not_asked == ()
    assert len(found(OneBroker(without_topics=True, topics_denied=True)).not_asked) == 1
    with pytest.raises(AskError, match="topic typo"):
        found(OneBroker(), where=Where("typo"))


def test_one_that_its_coordinator_has_is_not_and_nobody_waits() -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]}, known={"pay-1": (777, frozenset({LEDGER}))})
    assert found(world).found == ()
    assert world.slept == []


def test_one_that_only_the_log_knows_is_not_hanging_whatever_the_coordinators_list() -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]}, known={"pay-1": (777, frozenset({LEDGER}))}, unlisted={"pay-1"})
    look = found(world)
    assert (look.found, look.undecided, world.slept) == ((), (), [])


def test_one_whose_id_is_open_elsewhere_only_cannot_be_told() -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]}, known={"pay-1": (777, frozenset({TopicPartition("other", 0)}))})
    look = found(world)
    assert look.found == ()
    [stall] = look.undecided
    assert "transactional.id 'pay-1' has a transaction open in the log" in stall.blocker.missing[0]
    assert next_step(stall, "k1:9092", 0.0).command is None


def test_a_coordinator_that_is_not_loaded_leaves_it_undecided() -> None:
    look = found(OneBroker(opened={LEDGER: [ORPHAN]}, unloaded=True))
    assert look.found == ()
    [stall] = look.undecided
    assert "NOT_COORDINATOR" in stall.blocker.missing[0]


def test_without_read_on_the_log_it_is_undecided_with_the_grant() -> None:
    look = found(OneBroker(opened={LEDGER: [ORPHAN]}, read_denied=True))
    assert look.found == ()
    [stall] = look.undecided
    assert "grant READ on Topic:__transaction_state" in stall.blocker.missing[0]
    assert "grant READ on Topic:__transaction_state" in look.not_asked[0]
    assert next_step(stall, "k1:9092", 0.0).command is None


def test_what_reading_the_log_cost_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]}, known={"pay-1": (9, frozenset({LEDGER}))})
    found(world)
    assert "read the transaction log of prod: 4 records, " in capsys.readouterr().err


def test_one_partition_is_searched_alone() -> None:
    world = OneBroker(
        opened={LEDGER: [ORPHAN], TopicPartition("ledger", 1): [(778, 1, 90.0)], TopicPartition("x", 0): [ORPHAN]}
    )
    look = found(world, where=Where("ledger", 0))
    assert [stall.partition for stall in look.found] == [LEDGER]


@pytest.mark.parametrize(
    ("where", "said"), [(Where("ledgr"), "topic ledgr: "), (Where("ledger", 7), "partition 7 of topic ledger: ")]
)
def test_what_cannot_be_searched_is_an_error_and_not_none(where: Where, said: str) -> None:
    with pytest.raises(AskError, match=said):
        found(OneBroker(opened={LEDGER: [ORPHAN]}), where=where)


def test_a_marker_that_arrives_before_the_second_read_clears_it() -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]})

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        world.opened.clear()

    assert search(world.cluster(), Deadline.after(30), 60.0, sleep, world.reader).found == ()


def test_a_producer_that_began_another_transaction_before_the_second_read_is_not_hanging() -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]})

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        world.opened[LEDGER] = [(777, 9, 0.0)]

    assert search(world.cluster(), Deadline.after(30), 60.0, sleep, world.reader).found == ()


def test_one_whose_producer_wrote_lately_is_left_out() -> None:
    assert found(OneBroker(opened={LEDGER: [ORPHAN]}), older_than=100.0).found == ()


def test_a_write_dated_in_the_future_does_not_hide_it() -> None:
    [stall] = found(OneBroker(opened={LEDGER: [(777, 4, -1800.0)]})).found
    assert (stall.blocker.kind, stall.blocker.started, stall.since) == (BlockerKind.HANGING, None, NOW)
    assert found(OneBroker(opened={LEDGER: [(777, 4, -59.0)]})).found == ()


def test_without_the_grant_to_describe_ids_nothing_is_hanging_and_no_command_is_shown() -> None:
    look = found(OneBroker(opened={LEDGER: [ORPHAN]}, describe_denied=True))
    assert look.found == ()
    [stall] = look.undecided
    assert stall.blocker.kind is BlockerKind.UNKNOWN
    assert "grant DESCRIBE on TransactionalId:*" in stall.blocker.missing[0]
    assert next_step(stall, "k1:9092", 0.0).command is None


@pytest.mark.parametrize("when", ["first", "second"])
def test_a_grant_that_is_missing_in_either_read_leaves_it_undecided(when: str) -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN]}, describe_denied=when == "first")

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        world.describe_denied = not world.describe_denied

    look = search(world.cluster(), Deadline.after(30), 60.0, sleep, world.reader)
    assert look.found == ()
    assert len(look.undecided) == 1


def test_every_hanging_transaction_of_a_partition_is_found() -> None:
    world = OneBroker(opened={LEDGER: [ORPHAN, (778, 6, 90.0)], TopicPartition("other", 1): [(779, 1, 90.0)]})
    assert {stall.blocker.producer_id for stall in found(world).found} == {777, 778, 779}


def test_what_is_being_proven_and_how_long_it_takes_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    found(OneBroker(opened={LEDGER: [ORPHAN]}))
    said = capsys.readouterr().err
    assert "A transaction is proven to hang when its partition and the whole transaction log show twice, 30s" in said
    assert "Reading the log took" in said
    assert said.index("Reading the log took") < said.index("1 may hang; looking again in 30s ...")
