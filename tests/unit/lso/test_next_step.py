"""Next steps for a stalled partition: no line that ends a transaction without its evidence."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.flink.facts import FlinkId, FlinkTransaction
from exporter.lso.facts import Blocker, Completion, Stall
from exporter.lso.next_step import MEANING, clock_time, next_step
from exporter.lso.proof.evidence import HangingProof
from exporter.lso.shell import quoted, shown
from exporter.model import TopicPartition
from exporter.transactions.decided.fate import Fate, Judgement
from exporter.words import BlockerKind, MarkerWait, Precommit, TransactionState
from tests.helpers.proofs import committed, logged, proof_of, proven
from tests.helpers.transactions import decision_of

ROOT = Path(__file__).parents[3]
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
        flink=draw(st.booleans()),
    )
    partition = TopicPartition(draw(IDS), draw(st.integers(0, 10**6)))
    return Stall(
        partition, NOW - 60, blocker.start_offset, blocker.start_offset + 5, draw(st.none() | st.just(3)), blocker
    )


def stall(kind: BlockerKind, **changes: object) -> Stall:
    blocker = Blocker("pay-3", "pay", 4711, 5, 100, kind, TransactionState.ONGOING, NOW - 200, 900.0)
    return Stall(TopicPartition("orders", 7), NOW - 190, 100, 142, 2, blocker._replace(**changes))  # type: ignore[arg-type]


def words(case: Stall) -> str:
    """All that the step says in words of its own: what the cluster's texts are is blanked."""
    step = next_step(case, "b:9092", NOW)
    ours = f"{step.text} {step.warning}"
    given_texts = {*case.blocker.missing, *case.blocker[:2], case.partition.topic, *map(shown, case.blocker[:2])} - {""}
    for given_text in sorted(given_texts, key=len, reverse=True):
        ours = ours.replace(given_text, "?")
    return ours


@given(stalls(st.sampled_from(BlockerKind)))
def test_without_evidence_no_kind_of_holder_gets_a_line(case: Stall) -> None:
    step = next_step(case, "b:9092", NOW)
    assert (step.command, step.check, step.expect) == (None, None, None)
    assert "--start-offset" not in words(case)
    assert "kafka-transactions" not in words(case)


@given(stalls(st.sampled_from([kind for kind in BlockerKind if kind is not BlockerKind.HANGING])))
def test_a_proof_that_it_hangs_gives_no_line_for_another_kind(case: Stall) -> None:
    assert next_step(proven(case), "b:9092", NOW).command is None


def test_a_proof_about_another_transaction_gives_no_line() -> None:
    others = [
        proof_of(TopicPartition("orders", 8)),
        proof_of(producer_id=4712),
        proof_of(start_offset=101),
    ]
    for other in others:
        step = next_step(stall(BlockerKind.HANGING, evidence=other), "b:9092", NOW)
        assert step.command is None
        assert "no proof" in step.text


@given(stalls(st.just(BlockerKind.HANGING)))
def test_the_command_for_a_hanging_transaction_names_exactly_its_partition_and_offset(case: Stall) -> None:
    step = next_step(proven(case), "b1:9092,b2:9092", NOW)
    assert step.command is not None
    assert step.check is not None
    if case.partition.topic.isprintable():
        place = ["--topic", case.partition.topic, "--partition", str(case.partition.partition)]
        assert shlex.split(step.command) == [
            "kafka-transactions.sh", "--bootstrap-server", "b1:9092,b2:9092", "abort", *place,
            "--start-offset", str(case.blocker.start_offset),
        ]  # fmt: skip
        assert shlex.split(step.check) == [
            "kafka-eos-exporter", "transactions", "hanging", "--bootstrap-server", "b1:9092,b2:9092", *place,
        ]  # fmt: skip


@given(stalls(st.just(BlockerKind.OPEN)), st.floats(0, 2e9))
def test_an_open_transaction_gets_its_line_only_where_the_log_has_it_and_it_is_overdue_and_not_flinks(
    case: Stall, watched: float
) -> None:
    blocker = logged(case.blocker, watched)
    step = next_step(case._replace(blocker=blocker), "b:9092", NOW)
    late = blocker.timeout is not None and watched > blocker.timeout + 15 and not blocker.flink
    assert (step.command is not None) == (step.check is not None) == late


@given(stalls(st.sampled_from([BlockerKind.HANGING, BlockerKind.OPEN])))
def test_every_command_is_one_line_that_prints_as_it_is(case: Stall) -> None:
    if case.blocker.kind is BlockerKind.OPEN:
        case = case._replace(blocker=logged(case.blocker._replace(timeout=60.0, flink=False), 100.0))
    else:
        case = proven(case)
    step = next_step(case, "b:9092", NOW)
    assert step.command is not None
    assert step.check is not None
    assert step.command.isprintable()
    assert step.check.isprintable()


def test_a_hanging_transaction_has_the_line_of_the_design() -> None:
    step = next_step(proven(stall(BlockerKind.HANGING, transactional_id="")), "b1:9092", NOW)
    assert step.command == (
        "kafka-transactions.sh --bootstrap-server b1:9092 abort --topic orders --partition 7 --start-offset 100"
    )
    assert step.check == (
        "kafka-eos-exporter transactions hanging --bootstrap-server b1:9092 --topic orders --partition 7"
    )
    assert "no transactional.id has this transaction open" in step.text


def test_a_hanging_transaction_has_its_evidence_that_nothing_was_promised() -> None:
    case = proven(stall(BlockerKind.HANGING, transactional_id=""))
    assert "The log has no decision that its records can belong to." in next_step(case, "b1:9092", NOW).text
    proof = case.blocker.evidence
    assert isinstance(proof, HangingProof)
    epochs = frozenset({0}), frozenset({1})
    abort = decision_of("pay-1", 4711, *epochs, commit=False, v2=True, at=NOW, completed=NOW)
    aborted = HangingProof(proof.first, replace(proof.second, judgement=Judgement(Fate.ABORTED, abort)))
    step = next_step(case._replace(blocker=case.blocker._replace(evidence=aborted)), "b1:9092", NOW)
    assert f"The log has the ABORT of pay-1 since {clock_time(NOW)}." in step.text


def test_a_hanging_transaction_names_the_id_that_had_its_producer_id_last() -> None:
    case = proven(stall(BlockerKind.HANGING, transactional_id=""))
    proof = case.blocker.evidence
    assert isinstance(proof, HangingProof)
    assert "was last that of" not in next_step(case, "b1:9092", NOW).text
    for first, second in (("", "ghost-1"), ("ghost-1", ""), ("ghost-0", "ghost-1")):
        known = HangingProof(replace(proof.first, owner=first), replace(proof.second, owner=second))
        step = next_step(case._replace(blocker=case.blocker._replace(evidence=known)), "b1:9092", NOW)
        assert "Producer id 4711 was last that of ghost-1, which does not have this transaction open." in step.text
        assert "is not compacted beyond it until then" in step.text


def test_an_open_transaction_says_who_and_when_it_ends_by_itself_and_has_no_line_before() -> None:
    case = stall(BlockerKind.OPEN)
    step = next_step(case._replace(blocker=logged(case.blocker)), "b1:9092", NOW)
    assert "instance of pay with transactional.id pay-3" in step.text
    assert "2026-11-21 10:11:40 UTC or up to 10 s later, in at most 11m 50s" in step.text
    assert step.command is None
    rare = next_step(case._replace(blocker=case.blocker._replace(scan_late=140.0)), "b1:9092", NOW)
    assert "2026-11-21 10:11:40 UTC or up to 150 s later, in at most 14m 10s" in rare.text


@pytest.mark.parametrize(("behind", "said"), [
    (70.0, "should have ended it at 2026-11-21 09:59:30 UTC, 30s ago"),
    (None, "The coordinator ends it 15m after it began; its clock is not known yet."),
])  # fmt: skip
def test_when_it_ends_by_itself_is_by_the_clock_of_its_coordinator(behind: float | None, said: str) -> None:
    case = stall(BlockerKind.OPEN, started=NOW - 1000)
    known = case.blocker._replace(scan_behind=behind)
    step = next_step(case._replace(blocker=logged(known)), "b1:9092", NOW)
    assert "It is open for 16m 40s." in step.text
    assert said in step.text


def test_an_overdue_transaction_points_at_the_coordinator_and_says_what_forcing_costs() -> None:
    case = stall(BlockerKind.OPEN, started=NOW - 1000)
    step = next_step(case._replace(blocker=logged(case.blocker, 1000.0)), "b1:9092", NOW)
    assert "should have ended it at 2026-11-21 09:58:20 UTC, 1m 40s ago" in step.text
    assert step.command == (
        "kafka-transactions.sh --bootstrap-server b1:9092 forceTerminateTransaction --transactionalId pay-3"
    )
    assert step.check == "kafka-transactions.sh --bootstrap-server b1:9092 describe --transactional-id pay-3"
    assert step.expect == "it still shows state Ongoing with producer id 4711 and epoch 5"
    assert step.warning is not None
    assert "throws away" in step.warning
    assert "initialise a producer with the same transactional.id" in step.warning


def test_a_clock_that_is_wrong_makes_no_transaction_overdue() -> None:
    case = stall(BlockerKind.OPEN, started=NOW - 10_000)
    assert next_step(case._replace(blocker=logged(case.blocker, 30.0)), "b1:9092", NOW).command is None


def test_an_overdue_transaction_whose_id_began_anew_has_no_line() -> None:
    case = stall(BlockerKind.OPEN, started=NOW - 1000)
    older = logged(case.blocker, 1000.0)._replace(producer_id=4712)
    assert next_step(case._replace(blocker=older), "b1:9092", NOW).command is None


@pytest.mark.parametrize(("precommit", "said"), [
    (Precommit.PROVEN, "Precommitted at 2026-11-21 09:58:20 UTC"),
    (Precommit.LIKELY, "Likely precommitted"),
    (Precommit.NO, "Not known to be precommitted"),
])  # fmt: skip
@pytest.mark.parametrize(("deadline", "when"), [
    (NOW + 700, "Start the job from its last checkpoint before 2026-11-21 10:11:40 UTC, in 11m 40s"),
    (NOW - 60, "Its timeout passed at 2026-11-21 09:59:00 UTC, 1m ago: start the job from its last checkpoint now"),
    (None, "start the job from its last checkpoint"),
])  # fmt: skip
def test_a_transaction_of_a_flink_job_has_its_deadline_and_never_a_line(
    precommit: Precommit, said: str, deadline: float | None, when: str
) -> None:
    found = FlinkTransaction(
        FlinkId("sums", 3, 17), 60.0, precommit, NOW - 100, waiting=False, at_risk=True, deadline=deadline,
        committing=False, last_commit=None,
    )  # fmt: skip
    case = stall(BlockerKind.OPEN, started=NOW - 2000, flink=True, checkpoint=found)
    step = next_step(case._replace(blocker=logged(case.blocker, 3000.0)), "b1:9092", NOW)
    assert (step.command, step.check) == (None, None)
    assert "Flink job sums, subtask 3, with a checkpoint every 1m" in step.text
    assert said in step.text
    assert when in step.text
    assert step.warning is not None
    assert "Do not end it by hand" in step.warning
    assert "checkpoint was completed" not in step.text
    sure = case._replace(blocker=case.blocker._replace(checkpoint=found._replace(committing=True)))
    assert "The checkpoint was completed" in next_step(sure, "b1:9092", NOW).text


@pytest.mark.parametrize(
    ("committed", "completed", "left"),
    [
        (NOW - 100 + 121, False, True),
        (NOW - 100 + 120, False, False),
        (NOW - 100 + 121, True, False),
        (None, False, False),
    ],
    ids=["two checkpoints later", "not yet", "its own checkpoint was completed", "none"],
)
def test_a_transaction_that_a_running_job_left_behind_is_not_ended_by_another_start(
    committed: float | None, completed: bool, left: bool
) -> None:
    found = FlinkTransaction(
        FlinkId("sums", 3, 17), 60.0, Precommit.PROVEN, NOW - 100, waiting=False, at_risk=True, deadline=NOW + 700,
        committing=completed, last_commit=committed,
    )  # fmt: skip
    case = stall(BlockerKind.OPEN, started=NOW - 2000, flink=True, checkpoint=found)
    step = next_step(case._replace(blocker=logged(case.blocker, 3000.0)), "b1:9092", NOW)
    assert ("The job runs, and committed later checkpoints" in step.text) is left
    assert ("Start the job" in step.text) is not left
    assert step.command is None
    assert step.warning is not None


@pytest.mark.parametrize(("started", "when"), [(NOW - 200, "before 2026-11-21 10:11:40 UTC"), (NOW - 1000, "ago")])
def test_a_transaction_that_may_be_flinks_or_a_pools_has_both_steps_and_no_line(started: float, when: str) -> None:
    case = stall(BlockerKind.OPEN, started=started, flink=True)
    step = next_step(case._replace(blocker=logged(case.blocker, 1000.0)), "b1:9092", NOW)
    assert (step.command, step.check) == (None, None)
    assert "may be of a pool of producers, or of a Flink job" in step.text
    assert "pool of producers: restart that instance. The coordinator " in step.text  # ends it, or should have
    assert "is committed when the job starts from its last checkpoint" in step.text
    assert when in step.text
    assert step.warning is not None
    assert "Do not end it by hand" in step.warning


def test_an_open_transaction_without_a_known_timeout_may_never_end_by_itself() -> None:
    said = "Its timeout is not known, or it has none, as in two-phase commit: then it never ends by itself."
    assert said in next_step(stall(BlockerKind.OPEN, timeout=None), "b1:9092", NOW).text


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
            Completion(MarkerWait.NOT_WRITTEN, 2, (2,), (), 2),
            "The log of orders-7 lacks the marker; it is led by broker 2. Look whether that broker is up",
        ),
        (
            Completion(MarkerWait.NOT_WRITTEN, 2, (2,), (1,), 3),
            "min.insync.replicas is 3, of 2 replicas, in sync: broker 2. Bring back broker 1.",
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
    many = stall(BlockerKind.COMPLETING, unmarked=frozenset(TopicPartition("orders", number) for number in range(30)))
    assert "and 20 more." in next_step(many, "b1:9092", NOW).text
    assert "waits for the markers" not in next_step(stall(BlockerKind.COMPLETING), "b1:9092", NOW).text


def test_a_partition_whose_leader_is_not_known_is_not_said_to_have_none() -> None:
    text = next_step(stall(BlockerKind.COMPLETING)._replace(leader=None), "b1:9092", NOW).text
    assert "orders-7 waits for its marker, and which broker leads it is not known" in text
    assert "no leader" not in text


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
    case = proven(case) if case.blocker.kind is BlockerKind.HANGING else case
    assert next_step(case, "b:9092", NOW).text.isprintable()


@pytest.mark.parametrize("instant", [-1e30, 1e30, float("inf"), float("nan")])
def test_a_timestamp_that_no_calendar_has_is_no_crash(instant: float) -> None:
    assert clock_time(instant) == "an impossible time"


@pytest.mark.parametrize("kind", BlockerKind)
def test_every_kind_is_explained_wherever_kinds_are_listed(kind: BlockerKind) -> None:
    assert kind in MEANING, "MEANING in exporter/lso/next_step.py"
    for page, line in (
        ("README.md", rf"\| `{kind}` \|"),
        ("docs/internals/architecture.md", rf"\| [a-z, ]*\b{kind}\b[a-z, ]* \| the kinds of a blocker"),
        ("alerts/runbooks/KafkaEosLsoStalled.md", rf"\*\*{kind}\*\*: "),
    ):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert re.search(f"^{line}", text, re.MULTILINE), f"{page} says nothing of a holder of kind {kind}"


def test_a_committed_transaction_without_its_marker_has_no_line_and_says_what_releases_it() -> None:
    case = stall(BlockerKind.UNMARKED)
    case = case._replace(blocker=committed(case.blocker, case.partition))
    step = next_step(case, "b:9092", NOW)
    assert step.command is None
    assert step.check is None
    assert step.text == (
        "Unmarked: the transaction log has the COMMIT of pay-3 since 2026-11-21 09:56:50 UTC, its client was told so,"
        " and orders-7 lacks the commit marker, seen last at 2026-11-21 09:59:50 UTC. Its other partitions,"
        " with their marker: payments-1; without it: payments-2. Readers of committed records get nothing of orders-7"
        " from offset 100 on. Its records are released by the next commit of the same producer id on this partition:"
        " let pay-3 write to it and commit. Where that application is gone, another client of the same"
        " transactional.id can commit one record there. That works while the coordinator gives this id the same"
        " producer id. Where it does not (the id has expired, or its epochs are used up), copy the records of orders-7"
        " from offset 100 on out with a read_uncommitted consumer before anything else."
    )
    assert "Do not end it by hand" in (step.warning or "")


def test_evidence_about_another_partition_says_nothing_about_this_one() -> None:
    case = stall(BlockerKind.UNMARKED)
    case = case._replace(blocker=committed(case.blocker, TopicPartition("orders", 8)))
    assert "payments-1" not in next_step(case, "b:9092", NOW).text


@given(stalls(st.just(BlockerKind.UNMARKED)))
def test_what_was_committed_never_has_a_line(case: Stall) -> None:
    step = next_step(case, "b:9092", NOW)
    assert (step.command, step.check, step.expect) == (None, None, None)
