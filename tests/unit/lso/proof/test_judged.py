"""Judgements of open records that are kept: over elections and restarts, and what ends them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.lso.proof.evidence import OpenStart, WriterState
from exporter.lso.proof.judged import MOST, JudgedRecords
from exporter.lso.proof.log_history import MARGIN_SECONDS, LogHistory
from exporter.model import KnownLogEnd, KnownLogEnds, TopicPartition
from exporter.transactions.decided.fate import Fate, Judgement
from exporter.transactions.machine.log_changes import LogChanges, PartitionChanges, Window
from exporter.transactions.machine.records import Status
from exporter.words import BlockerKind
from tests.helpers.cluster import LOG, FakeKafka, world_of
from tests.helpers.scenes import go_on, stand
from tests.helpers.sources import lso_source
from tests.helpers.transactions import decision_of
from tests.unit.lso.source.test_lso import ABORT, opened, stalls, steps, write

FOLLOWED = LogChanges({})
LOST = LogChanges({0: PartitionChanges(lost=(Window(1_000.0, 1_005.0, 3),))})
PLACE = TopicPartition("orders", 0)
HELD = OpenStart(PLACE, 7, 10)
WRITER = WriterState(0, 1_700_000_000.0, 4)
READ = {0: KnownLogEnd(40, 3)}
COMMIT = decision_of(
    "pay-1", 7, frozenset({0}), frozenset({0}), commit=True, v2=False, begun=1.0, at=2.0, partitions=frozenset({PLACE})
)._replace(offset=5, leader_epoch=1)


def kinds(world: FakeKafka, directory: Path, seconds: float, facts: LogChanges | None) -> list[BlockerKind]:
    """The kinds of holders after an agent has run for so long, from its start."""
    source = lso_source(world, directory)
    seen = go_on(world, source, seconds, opened(), *([facts] if facts is not None else []))
    assert (ABORT in steps(world, seen)) is (stalls(seen)[0].blocker.kind is BlockerKind.HANGING)
    source.close()
    return [stall.blocker.kind for stall in stalls(seen)]


def judged_world() -> FakeKafka:
    world = world_of(orders=1)
    world.topic_ids[LOG] = "log-1"
    stand(world, "orders")
    return world


def test_what_was_proven_stays_proven_when_the_log_elects_another_leader_and_the_agent_restarts(tmp_path: Path) -> None:
    world = judged_world()
    assert kinds(world, tmp_path, 60, FOLLOWED) == [BlockerKind.HANGING]
    world.topics[LOG][0].epoch += 1
    assert kinds(world, tmp_path, 60, FOLLOWED) == [BlockerKind.HANGING]
    assert kinds(world, tmp_path / "other", 60, FOLLOWED) == [BlockerKind.UNKNOWN]


@pytest.mark.parametrize("why", ["lost records", "another log", "not followed", "the producer has written"])
def test_nothing_is_known_any_more_after(why: str, tmp_path: Path) -> None:
    world = judged_world()
    assert kinds(world, tmp_path, 60, FOLLOWED) == [BlockerKind.HANGING]
    world.topics[LOG][0].epoch += 1
    facts: LogChanges | None = FOLLOWED
    if why == "lost records":
        facts = LOST
    elif why == "another log":
        world.topic_ids[LOG] = "log-2"
    elif why == "not followed":
        facts = None
    else:
        writer = world.topics["orders"][0].writers[0]
        world.topics["orders"][0].writers = [writer._replace(epoch=1)]
    assert kinds(world, tmp_path, 60, facts) == [BlockerKind.UNKNOWN]


@pytest.mark.parametrize(("lost", "kind"), [(0, BlockerKind.HANGING), (1, BlockerKind.UNKNOWN)])
def test_a_judgement_of_a_log_that_lost_records_while_no_agent_followed_it_is_not_used(
    lost: int, kind: BlockerKind, tmp_path: Path
) -> None:
    """``proofs.json`` beside files of the log that know of no loss: they are older, newer, or not there."""
    world = judged_world()
    for number in range(2):
        write(world, f"app-{number}", 100 + number, Status.COMPLETE_COMMIT)
    assert kinds(world, tmp_path, 60, FOLLOWED) == [BlockerKind.HANGING]
    log = world.topics[LOG][0]
    log.epoch, log.epoch_end = 1, (0, log.high_watermark - lost)
    write(world, "app-2", 102, Status.COMPLETE_COMMIT)
    assert kinds(world, tmp_path, 60, FOLLOWED) == [kind]


@pytest.mark.parametrize(
    "said",
    [Judgement(Fate.NEVER), Judgement(Fate.COMMITTED, COMMIT), Judgement(Fate.ABORTED, COMMIT._replace(commit=False))],
)
def test_a_judgement_is_the_same_after_it_was_saved(said: Judgement) -> None:
    judged = JudgedRecords()
    judged.follow(LOST)
    judged.note(HELD, WRITER, said, READ)
    again = JudgedRecords()
    again.restore(judged.document())
    assert again.of(HELD, WRITER) is None  # the log is not followed yet
    again.follow(LOST)
    assert again.of(HELD, WRITER) is None  # the leaders of the log were not asked
    assert again.unconfirmed == READ
    again.confirmed()
    assert again.of(HELD, WRITER) == said
    assert again.of(HELD, WRITER._replace(last_sequence=5)) is None
    again.follow(FOLLOWED)
    assert again.of(HELD, WRITER) is None


@pytest.mark.parametrize(
    "said",
    [["never"], ["unknown", None], ["committed", None], ["committed", COMMIT._replace(commit=False)], ["never", [1]]],
)
def test_a_judgement_that_was_not_written_by_an_agent_is_refused(said: list[object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        JudgedRecords().restore({"losses": [], "read": [], "judged": [["orders", 0, 7, 10, 0, None, 4, *said]]})


def test_only_the_newest_judgements_are_kept() -> None:
    judged = JudgedRecords()
    judged.follow(FOLLOWED)
    for offset in range(MOST + 3):
        judged.note(HELD._replace(start_offset=offset), WRITER, Judgement(Fate.NEVER), READ)
    assert len(judged.document()["judged"]) == MOST
    assert judged.of(HELD._replace(start_offset=2), WRITER) is None


def test_the_ends_of_the_log_are_known_again_after_a_restart() -> None:
    history = LogHistory()
    for minute in range(60):
        history.note(KnownLogEnds(60.0 * minute, {0: KnownLogEnd(minute, 4), 7: KnownLogEnd(2 * minute, 5)}))
    again = LogHistory()
    again.restore(history.document(), 3_600.0)
    assert again.before(3_600.0 + MARGIN_SECONDS - 300.0) == {0: (55, 4), 7: (110, 5)}
    assert again.before(MARGIN_SECONDS - 1.0) == {}
    with pytest.raises(ValueError, match="future"):
        LogHistory().restore(history.document(), 10.0)
