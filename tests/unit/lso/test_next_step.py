"""What to do about a stalled partition: the command that tears a living transaction is shown for hanging ones only."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.lso.next_step import clock_time, next_step, quoted, shown
from exporter.model import Blocker, BlockerKind, Completion, MarkerWait, Stall, TopicPartition, TransactionState

NOW = 1_795_255_200.0  # 2026-11-21 10:00:00 UTC
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
MEAN = st.sampled_from([
    "x abort --topic t --partition 0 --start-offset 1", "abort", "'; rm -rf / #", "$(id)", "`id`", "a\nb", "-x", "",
    "it's\n", "--topic", "é\u202e",
])  # fmt: skip
IDS = ANY_TEXT | MEAN


NODES = st.lists(st.integers(1, 9), max_size=3).map(tuple)
COMPLETIONS = st.builds(
    Completion, st.sampled_from(MarkerWait), st.none() | st.integers(1, 9), NODES, NODES, st.none() | st.integers(1, 3)
)


@st.composite
def stalls(draw: st.DrawFn, kinds: st.SearchStrategy[BlockerKind]) -> Stall:
    kind = draw(kinds)
    blocker = Blocker(
        transactional_id=draw(IDS),
        application=draw(IDS),
        producer_id=draw(st.none() | st.integers(0, 2**63 - 1)),
        producer_epoch=draw(st.none() | st.integers(0, 32767)),
        start_offset=draw(st.integers(0, 2**63 - 1)),
        kind=kind,
        state=draw(st.none() | st.sampled_from(TransactionState)),
        started=draw(st.none() | st.floats(-1e18, 1e18)),
        timeout=draw(st.none() | st.floats(0, 1e9)),
        missing=tuple(draw(st.lists(IDS, max_size=3))),
        completion=draw(st.none() | COMPLETIONS),
    )
    partition = TopicPartition(draw(IDS), draw(st.integers(0, 10**6)))
    return Stall(
        partition, NOW - 60, blocker.start_offset, blocker.start_offset + 5, draw(st.none() | st.just(3)), blocker
    )


def stall(kind: BlockerKind, **changes: object) -> Stall:
    blocker = Blocker("pay-3", "pay", 4711, 5, 100, kind, TransactionState.ONGOING, NOW - 200, 900.0)
    return Stall(TopicPartition("orders", 7), NOW - 190, 100, 142, 2, blocker._replace(**changes))  # type: ignore[arg-type]


@given(stalls(st.sampled_from([kind for kind in BlockerKind if kind is not BlockerKind.HANGING])))
def test_the_command_that_tears_a_transaction_is_never_shown_unless_it_hangs(case: Stall) -> None:
    step = next_step(case, "b:9092", NOW)
    only = "kafka-transactions.sh --bootstrap-server b:9092 forceTerminateTransaction --transactionalId "
    assert step.command is None or step.command.startswith(only)
    assert step.command is None or case.blocker.kind is BlockerKind.OPEN
    ours = f"{step.text} {step.warning}"
    given_texts = {*case.blocker.missing, *case.blocker[:2], case.partition.topic, *map(shown, case.blocker[:2])} - {""}
    for given_text in sorted(given_texts, key=len, reverse=True):
        ours = ours.replace(given_text, "?")
    assert "abort" not in ours
    assert "--start-offset" not in ours


@given(stalls(st.just(BlockerKind.HANGING)))
def test_the_command_for_a_hanging_transaction_names_exactly_its_partition_and_offset(case: Stall) -> None:
    command = next_step(case, "b1:9092,b2:9092", NOW).command
    assert command is not None
    if case.partition.topic.isprintable():
        assert shlex.split(command) == [
            "kafka-transactions.sh", "--bootstrap-server", "b1:9092,b2:9092", "abort", "--topic", case.partition.topic,
            "--partition", str(case.partition.partition), "--start-offset", str(case.blocker.start_offset),
        ]  # fmt: skip


@given(stalls(st.sampled_from(BlockerKind)))
def test_every_command_is_one_line_that_prints_as_it_is(case: Stall) -> None:
    command = next_step(case, "b:9092", NOW).command
    assert command is None or command.isprintable()


def test_a_hanging_transaction_has_the_line_of_the_design() -> None:
    step = next_step(stall(BlockerKind.HANGING, transactional_id=""), "b1:9092", NOW)
    assert step.command == (
        "kafka-transactions.sh --bootstrap-server b1:9092 abort --topic orders --partition 7 --start-offset 100"
    )


def test_an_open_transaction_says_who_when_it_ends_by_itself_and_what_forcing_costs() -> None:
    step = next_step(stall(BlockerKind.OPEN), "b1:9092", NOW)
    assert step.command == (
        "kafka-transactions.sh --bootstrap-server b1:9092 forceTerminateTransaction --transactionalId pay-3"
    )
    assert "instance of pay with transactional.id pay-3" in step.text
    assert "2026-11-21 10:11:40 UTC or up to 10 s later, in at most 11m 50s" in step.text
    assert step.warning is not None
    assert "throws away" in step.warning
    assert "Flink" in step.warning
    assert "initialise a producer with the same transactional.id" in step.warning


def test_an_open_transaction_past_its_timeout_points_at_the_coordinator() -> None:
    step = next_step(stall(BlockerKind.OPEN, started=NOW - 1000), "b1:9092", NOW)
    assert "should have ended it at 2026-11-21 09:58:20 UTC, 1m 40s ago" in step.text


def test_an_open_two_phase_commit_transaction_never_ends_by_itself() -> None:
    assert "never times out" in next_step(stall(BlockerKind.OPEN, timeout=None), "b1:9092", NOW).text


def test_an_open_transaction_without_an_id_has_no_command() -> None:
    step = next_step(stall(BlockerKind.OPEN, transactional_id=""), "b1:9092", NOW)
    assert step.command is None
    assert "producer with id 4711" in step.text


ORDERS_7, ORDERS_2 = TopicPartition("orders", 7), TopicPartition("orders", 2)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (None, "The log of orders-7 lacks the marker; it is led by broker 2. Look whether that broker is up"),
        (
            Completion(MarkerWait.NOT_WRITTEN, 2, (1, 2), (), 2),
            "The log of orders-7 lacks the marker; it is led by broker 2. Look whether that broker is up",
        ),
        (
            Completion(MarkerWait.NOT_WRITTEN, 2, (2,), (1, 3), 2),
            "Too few replicas are in sync: min.insync.replicas is 2, in sync: broker 2. Bring back broker 1, broker 3.",
        ),
        (
            Completion(MarkerWait.NOT_REPLICATED, 2, (2,), (1,), 2),
            "The marker is in the log of orders-7 at broker 2 and is not replicated. Too few replicas are in sync",
        ),
        (
            Completion(MarkerWait.NOT_REPLICATED, 2, (2,), (1,), None),
            "is not replicated. In sync: broker 2. Not in sync: broker 1. Bring back what is missing.",
        ),
        (
            Completion(MarkerWait.NOT_REPLICATED, 2, (1, 2), (), 2),
            "is not replicated. In sync are broker 1, broker 2: look which of them does not follow.",
        ),
        (
            Completion(MarkerWait.LEADER_AWAY, None, (2,), (1,), 2),
            "orders-7 waits for its marker and has no leader: start broker 1, broker 2.",
        ),
    ],
)
def test_a_completing_transaction_says_what_its_marker_waits_for_and_gives_no_command(
    seen: Completion | None, said: str
) -> None:
    step = next_step(
        stall(BlockerKind.COMPLETING, state=TransactionState.PREPARE_COMMIT, completion=seen), "b1:9092", NOW
    )
    assert step.command is None
    assert "decided to commit it" in step.text
    assert said in step.text


def test_a_completing_transaction_names_the_partitions_that_its_coordinator_waits_for() -> None:
    case = stall(BlockerKind.COMPLETING, unmarked=frozenset({ORDERS_7, ORDERS_2}))
    assert "waits for the markers of orders-2, orders-7." in next_step(case, "b1:9092", NOW).text
    many = stall(BlockerKind.COMPLETING, unmarked=frozenset(TopicPartition("orders", each) for each in range(30)))
    assert "and 20 more." in next_step(many, "b1:9092", NOW).text
    assert "waits for the markers" not in next_step(stall(BlockerKind.COMPLETING), "b1:9092", NOW).text


def test_a_completing_transaction_on_a_partition_without_a_leader_says_so() -> None:
    case = stall(BlockerKind.COMPLETING)._replace(leader=None)
    assert "orders-7 waits for its marker and has no leader" in next_step(case, "b1:9092", NOW).text


def test_an_unknown_blocker_says_what_could_not_be_asked_and_forbids_to_act() -> None:
    step = next_step(stall(BlockerKind.UNKNOWN, missing=("DESCRIBE on TransactionalId:*",)), "b1:9092", NOW)
    assert step.command is None
    assert "DESCRIBE on TransactionalId:*" in step.text
    assert step.warning is not None
    assert "Do nothing" in step.warning


@given(IDS)
def test_a_quoted_word_is_that_word_again_in_bash(word: str) -> None:
    line = quoted(word)
    assert line.isprintable()
    printed = subprocess.run(
        ["bash", "-c", f"printf %s {line}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    ).stdout
    assert printed.decode() == word


@given(stalls(st.sampled_from([BlockerKind.OPEN, BlockerKind.HANGING])))
def test_no_id_can_send_control_characters_to_a_terminal(case: Stall) -> None:
    assert next_step(case, "b:9092", NOW).text.isprintable()


@pytest.mark.parametrize("instant", [-1e30, 1e30, float("inf"), float("nan")])
def test_a_timestamp_that_no_calendar_has_is_no_crash(instant: float) -> None:
    assert clock_time(instant) == "an impossible time"
