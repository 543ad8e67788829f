"""The last stable offsets: stalls, their starts and holders, and the requests that they cost."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import catalogue
from exporter.core.reading import next_start
from exporter.flink.facts import FlinkId, FlinkTransaction, FlinkTransactions
from exporter.kafka.log.tail import Polled
from exporter.lso.facts import Completion, Stall, Stalls
from exporter.lso.next_step import next_step
from exporter.lso.proof.evidence import OpenStart
from exporter.lso.proof.prover import RENEW_SECONDS, Prover
from exporter.lso.proof.rounds import Rounds
from exporter.lso.source.lso import LsoSource
from exporter.model import Deadline, Fact, Fault, KnownLogEnd, KnownLogEnds, Reason, TopicPartition
from exporter.settings.sections import LsoConfig, TopicsConfig
from exporter.transactions.facts import CoordinatorTime, OpenTransaction, OpenTransactions, ReleaseTimes
from exporter.transactions.machine.records import Status
from exporter.words import BlockerKind, MarkerWait, Precommit, TransactionState
from tests.helpers.cluster import (
    LOG,
    FakeKafka,
    FakeTail,
    FakeTransaction,
    OpenWriter,
    Partition,
    SourceRead,
    partitions,
    read,
    world_of,
)
from tests.helpers.coordinator import CoordinatorRecord
from tests.helpers.scenes import go_on, stand
from tests.helpers.sources import lso_source
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

SINCE = catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS
STALLED = catalogue.STALLED_PARTITIONS
HANGING = catalogue.HANGING_TRANSACTIONS
WITHHELD = catalogue.TOPIC_WITHHELD_RECORD_AGE_SECONDS
ABORT = "abort --topic"


def within(world: FakeKafka) -> Deadline:
    return Deadline.after(10.0, world.time.clock.monotonic)


def stalls(seen: SourceRead) -> tuple[Stall, ...]:
    found = seen.facts[Stalls]
    assert isinstance(found, Stalls)
    return found.stalls


def steps(world: FakeKafka, seen: SourceRead) -> str:
    """All texts of the next step."""
    return " ".join(f"{next_step(stall, 'k1:9092', world.time.wall)}" for stall in stalls(seen))


def write(world: FakeKafka, name: str, producer_id: int, status: Status, *places: tuple[str, int]) -> None:
    """A record of the transaction log, of one partition."""
    topics = [(topic, [number]) for topic, number in places]
    value = encode_value(1, producer_id, 0, 60_000, status, topics or None, 1, 1, kafka_tags(producer_id, -1, 0))
    world.write([CoordinatorRecord(0, world.topics[LOG][0].high_watermark, 1, encode_key(name), value)])


def opened(*transactions: OpenTransaction, complete: bool = True) -> OpenTransactions:
    return OpenTransactions("txnlog", transactions, complete)


def open_transaction(
    *places: tuple[str, int], producer_id: int = 7, state: TransactionState = TransactionState.ONGOING
) -> OpenTransaction:
    written = frozenset(TopicPartition(*place) for place in places)
    return OpenTransaction(f"app-{producer_id}", "app", producer_id, 0, state, 1_789_999_000.0, 60.0, None, written)


# --- How late readers are ---

AGE = catalogue.TOPIC_WITHHELD_RECORD_AGE_SECONDS


def test_the_age_of_the_oldest_withheld_record_is_that_of_its_transaction() -> None:
    world = world_of(orders=2, refunds=1)
    source = lso_source(world)
    started = world.time.wall - 4.0
    fact = opened(open_transaction(("orders", 0))._replace(started=started))
    stand(world, "orders")
    assert read(world, source, fact).value(AGE, "orders") == pytest.approx(4.0)
    assert go_on(world, source, 60, fact).value(AGE, "orders") == pytest.approx(64.0)
    partition = world.topics["orders"][0]
    partition.stable, partition.writers = partition.high_watermark, []
    ended = go_on(world, source, 5, opened())
    assert ended.value(AGE, "orders") == 0.0
    assert ended.value(AGE, "refunds") is None  # no transaction was seen there


def test_the_age_of_a_withheld_record_is_absent_while_its_topic_is_not_read() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    stand(world, "orders")
    fact = opened(open_transaction(("orders", 0)))
    assert read(world, source, fact).value(AGE, "orders") is not None
    world.topics["orders"][0].leader = None
    assert go_on(world, source, 120, fact).value(AGE, "orders") is None


def test_a_write_between_the_answers_with_ends_and_with_lsos_is_no_transaction() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    partition = world.topics["orders"][0]
    partition.stable, partition.high_watermark = 7, 8
    assert read(world, source).value(AGE, "orders") is None
    partition.stable, partition.high_watermark = 8, 8
    assert go_on(world, source, 60).value(AGE, "orders") is None
    partition.high_watermark = 9  # no coordinator and no leader says who holds it
    assert go_on(world, source, 60).value(AGE, "orders") == pytest.approx(60, abs=6)


# --- What is a stall ---


def test_a_quiet_topic_is_no_stall() -> None:
    world = world_of(orders=2)
    world.topics["orders"][0].high_watermark = 40
    seen = go_on(world, lso_source(world), 120)
    assert seen.value(STALLED, "orders") == 0
    assert seen.value(catalogue.TOPIC_LSO_LAG_OFFSETS, "orders") == 0
    assert seen.value(HANGING, "orders") == 0
    assert stalls(seen) == ()


def test_a_flink_job_that_commits_after_its_open_transactions_were_read_is_no_stall() -> None:
    """The open transactions are those of the read before: in them it is open."""
    world = world_of(orders=1)
    source = lso_source(world)
    stand(world, "orders")
    fact = opened(open_transaction(("orders", 0)))
    waits = FlinkTransaction(FlinkId("app", 0, 7), 60.0, Precommit.NO, None, True, False, None, False, None)
    assert stalls(go_on(world, source, 40, fact, FlinkTransactions({7: waits}))) == ()
    assert stalls(go_on(world, source, 5, fact, FlinkTransactions({}, frozenset({7})))) == ()
    assert len(stalls(go_on(world, source, 5, fact, FlinkTransactions({})))) == 1


@pytest.mark.parametrize("seconds", [0.4, 1.0, 2.0, 3.0, 6.0])
def test_reads_are_never_so_far_apart_that_what_they_give_expires(seconds: float) -> None:
    world = world_of(orders=30)
    source = lso_source(world)
    world.offset_seconds = seconds
    fact = opened(open_transaction(*(("orders", number) for number in range(30))))
    began = world.time.monotonic
    for number in range(30):
        read(world, source, fact)
        stand(world, "orders", number)
        assert source.interval <= source.pace <= 1.5 * source.interval
        world.time.monotonic = began = next_start(began, world.time.monotonic, source.pace)


def test_an_lso_that_moves_is_no_stall_however_far_it_is_behind() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    for turn in range(30):
        stand(world, "orders", at=turn, end=10_000)
        seen = read(world, source)
        world.time.pass_(5.0)
        assert seen.value(STALLED, "orders") == 0
        assert seen.value(catalogue.TOPIC_LSO_LAG_OFFSETS, "orders") == 10_000 - turn


def test_an_lso_that_stands_for_the_threshold_is_a_stall_since_it_was_seen_to_stand() -> None:
    world = world_of(orders=2)
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders", 1)
    fact = opened(open_transaction(("orders", 1)))
    began = world.time.wall
    assert go_on(world, source, 25, fact).value(STALLED, "orders") == 0
    seen = go_on(world, source, 5, fact)
    assert seen.value(STALLED, "orders") == 1
    assert seen.values(SINCE) == {("orders", "1"): began}
    assert seen.values(catalogue.LSO_LAG_OFFSETS) == {("orders", "1"): 15}
    assert seen.values(catalogue.LSO_BLOCKER_INFO) == {("app", "orders", "1", "app-7", "7", "0", "10", "open"): 1}
    world.topics["orders"][1].stable = None
    seen = go_on(world, source, 5, fact)
    assert seen.value(STALLED, "orders") == 0
    assert not seen.values(SINCE)


@pytest.mark.parametrize(
    ("early", "pace"),
    [(0.0, 5.25), (0.2, 5.45), (0.7, 5.95), (1.0, 5.0), (2.5, 5.0), (-0.2, 5.05), (-0.3, 5.0), (-4.0, 5.0)],
)
def test_a_read_just_before_a_stall_is_due_is_delayed(early: float, pace: float) -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders")
    fact = opened(open_transaction(("orders", 0)))
    read(world, source, fact)
    assert source.pace == 5.0
    world.time.pass_(25.0 - early)  # the next look in 5 seconds is this much before the threshold
    assert read(world, source, fact).value(STALLED, "orders") == 0
    assert source.pace == pytest.approx(pace)
    world.time.pass_(source.pace)
    assert read(world, source, fact).value(STALLED, "orders") == (early < 1.0)


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5])
def test_a_stall_is_reported_when_it_is_due_also_where_a_read_takes_long(seconds: float) -> None:
    """It counts from the answer of one read to the request of another. Six intervals on, that is too short."""
    world = world_of(orders=1)
    source = lso_source(world)
    world.offset_seconds = seconds
    fact = opened(open_transaction(("orders", 0)))
    began = world.time.monotonic
    read(world, source, fact)
    stand(world, "orders")
    first = next_start(began, world.time.monotonic, source.pace) + 4 * seconds  # the last answer of that read
    seen: SourceRead | None = None
    while seen is None or not stalls(seen):
        world.time.monotonic = began = next_start(began, world.time.monotonic, source.pace)
        seen = read(world, source, fact)
    assert world.time.monotonic - first <= 30.5


def test_a_stall_older_than_this_process_dates_from_its_holder_or_the_end_of_the_one_before() -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    fact = opened(open_transaction(("orders", 0)))
    seen = go_on(world, lso_source(world), 30, fact)
    assert seen.values(SINCE) == {("orders", "0"): 1_789_999_000.0}
    released = ReleaseTimes({TopicPartition("orders", 0): 1_789_999_500.0})
    seen = go_on(world, lso_source(world), 30, fact, released)
    assert seen.values(SINCE) == {("orders", "0"): 1_789_999_500.0}


def test_a_transaction_that_began_before_the_agent_is_a_stall_at_the_second_read_of_the_agent() -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    old = opened(open_transaction(("orders", 0))._replace(started=world.time.wall - 835, timeout=900.0))
    source = lso_source(world)
    assert stalls(read(world, source, old)) == (), "its leader is not confirmed yet"
    world.time.pass_(source.interval)
    [stall] = stalls(read(world, source, old))
    assert stall.since == pytest.approx(world.time.wall - source.interval - 835, abs=1)
    assert world.confirmed_topics == [["orders"]]


@pytest.mark.parametrize("case", ["younger", "incomplete", "ended before", "starts elsewhere", "decided"])
def test_without_that_proof_a_stall_is_known_after_the_threshold(case: str) -> None:
    world = world_of(orders=1)
    partition = stand(world, "orders")
    transaction = open_transaction(("orders", 0))._replace(started=world.time.wall - 835)
    facts: list[Fact] = []
    if case == "younger":
        transaction = transaction._replace(started=world.time.wall - 5)
    elif case == "ended before":
        facts = [ReleaseTimes({TopicPartition("orders", 0): world.time.wall - 5})]
    elif case == "starts elsewhere":
        partition.writers = [OpenWriter(7, 5)]
    elif case == "decided":
        transaction = transaction._replace(state=TransactionState.PREPARE_COMMIT)
    known = opened(transaction, complete=case != "incomplete")
    source = lso_source(world)
    for _ in range(2):
        assert stalls(read(world, source, known, *facts)) == ()
        world.time.pass_(source.interval)


def test_since_survives_a_restart_and_the_stall_is_known_at_the_first_read(tmp_path: Path) -> None:
    world = world_of(orders=1)
    source = lso_source(world, tmp_path)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders")
    began = world.time.wall
    go_on(world, source, 60, opened(open_transaction(("orders", 0))))
    source.close()
    world.time.pass_(600.0)
    seen = read(world, lso_source(world, tmp_path))
    assert seen.values(SINCE) == {("orders", "0"): began}


def test_a_cluster_that_was_formatted_again_has_a_state_of_its_own(tmp_path: Path) -> None:
    """Brokers that name no topic ids but that of the log: nothing else tells its stalls from the earlier ones."""

    def stalled(world: FakeKafka, log: str) -> float:
        world.topic_ids = {LOG: log}
        stand(world, "orders")
        source = lso_source(world, tmp_path)
        began: float = go_on(world, source, 60).values(SINCE)["orders", "0"]
        source.close()
        return began

    world = world_of(orders=1)
    first = stalled(world, "log-1")
    world.time.pass_(600.0)
    assert stalled(world, "log-2") >= first + 600.0
    world.time.pass_(600.0)
    assert stalled(world, "log-1") == first
    assert sorted(path.name for path in tmp_path.glob("*/stalls*")) == ["stalls-log-2.json", "stalls.json"]


def test_a_cluster_without_a_log_leaves_the_state_of_one_that_had_it(tmp_path: Path) -> None:
    world = world_of(orders=1)
    world.topic_ids = {LOG: "log-1"}
    stand(world, "orders")
    source = lso_source(world, tmp_path)
    go_on(world, source, 60)
    source.close()
    (kept,) = tmp_path.glob("*/stalls.json")
    before = kept.read_text()
    world.topic_ids = {}
    source = lso_source(world, tmp_path)
    go_on(world, source, 60)
    source.close()
    assert kept.read_text() == before


def test_an_lso_that_moved_while_no_agent_ran_is_no_old_stall(tmp_path: Path) -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    go_on(world, lso_source(world, tmp_path), 60)
    stand(world, "orders", at=12)
    seen = read(world, lso_source(world, tmp_path))
    assert seen.value(STALLED, "orders") == 0


def test_since_survives_a_gap_of_unread_time() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders")
    began = world.time.wall
    go_on(world, source, 40, opened(open_transaction(("orders", 0))))
    world.down = {1}
    seen = go_on(world, source, 60)
    assert seen.reasons == {Reason.UNREACHABLE}
    assert seen.samples == []
    world.down = set()
    assert go_on(world, source, 5).values(SINCE) == {("orders", "0"): began}


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_wall_clock_that_jumps_a_day_neither_makes_nor_ends_a_stall(jump: float) -> None:
    world = world_of(orders=2)
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders", 0)
    began = world.time.wall
    fact = opened(open_transaction(("orders", 0), ("orders", 1)))
    go_on(world, source, 40, fact)
    stand(world, "orders", 1)
    seen = go_on(world, source, 5, fact)
    assert set(seen.values(SINCE)) == {("orders", "0")}
    world.time.wall += jump
    seen = go_on(world, source, 10, fact)
    assert seen.values(SINCE) == {("orders", "0"): began + jump}  # its age goes on


# --- Who holds it ---


def test_a_hanging_transaction_is_named_with_its_line_once_it_is_proven_twice() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    stand(world, "orders")
    seen = go_on(world, source, 30)
    assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]
    assert "a proof takes two rounds" in steps(world, seen)
    assert seen.value(HANGING, "orders") == 0
    assert ABORT not in steps(world, seen)
    world.time.pass_(5.0)
    seen = read(world, source)
    assert seen.values(catalogue.LSO_BLOCKER_INFO) == {("", "orders", "0", "", "7", "0", "10", "hanging"): 1}
    assert seen.value(HANGING, "orders") == 1
    assert "abort --topic orders --partition 0 --start-offset 10" in steps(world, seen)
    assert go_on(world, source, 300).value(HANGING, "orders") == 1


class SlowTail(FakeTail):
    """A long log: one record in half a second."""

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        self._world.time.pass_(0.5)
        return super().poll(1, seconds)


def test_a_proof_that_reads_a_long_log_keeps_no_other_stall_waiting() -> None:
    world = world_of(orders=1)
    for number in range(8):
        write(world, f"app-{number}", 100 + number, Status.COMPLETE_COMMIT)
    cluster = world.cluster()
    source = LsoSource(cluster, LsoConfig(), TopicsConfig(), Prover(cluster, lambda: SlowTail(world)))
    stand(world, "orders")
    reads: list[tuple[float, float]] = []
    proven = False
    while not proven:
        began = world.time.monotonic
        proven = read(world, source).value(HANGING, "orders") == 1
        ended = world.time.monotonic
        reads.append((began, ended - began))
        world.time.monotonic = next_start(began, ended, source.pace)
    slow = [at for at, seconds in reads if seconds]
    assert len(slow) == 5  # nine records and the end of the log, two polls in a read; the second round finds no more
    assert max(seconds for _, seconds in reads) == 1.0
    assert [later - sooner for sooner, later in pairwise(slow)] == [1.5] * 4
    assert source.pace == 5.0


def test_a_stall_that_was_seen_before_the_proof_of_another_is_reported_when_it_is_due() -> None:
    """The reads that a proof makes come between those at the interval, which go on at their own instants."""
    world = world_of(orders=1, carts=1)
    for number in range(9):
        write(world, f"app-{number}", 100 + number, Status.COMPLETE_COMMIT)
    cluster = world.cluster()
    source = LsoSource(cluster, LsoConfig(), TopicsConfig(), Prover(cluster, lambda: SlowTail(world)))
    known = opened(open_transaction(("carts", 0), producer_id=8)._replace(started=world.time.wall))
    stand(world, "orders")
    stand(world, "carts", producer_id=8)
    first, reads = world.time.monotonic, []
    seen: SourceRead | None = None
    while seen is None or "carts" not in {stall.partition.topic for stall in stalls(seen)}:
        reads.append(world.time.monotonic - first)
        seen = read(world, source, known)
        world.time.monotonic = next_start(first + reads[-1], world.time.monotonic, source.pace)
    assert 1.5 in {later - sooner for sooner, later in pairwise(reads)}
    assert reads[-1] == pytest.approx(30.0, abs=0.5)


def test_what_the_log_has_open_is_never_hanging_whatever_the_coordinators_say() -> None:
    """Situations in which a live transaction looks hanging: no coordinator lists it, and only the log has it."""
    for status in (Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT):
        world = world_of(orders=1)
        stand(world, "orders")
        write(world, "app-1", 7, status, ("orders", 0))
        seen = go_on(world, lso_source(world), 300)
        assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]
        assert ABORT not in steps(world, seen)
        assert "transactional.id 'app-1' has a transaction open in the log" in steps(world, seen)


@pytest.mark.parametrize("epoch_end", [(0, 1), (-1, -1), (3, 9)])
def test_a_log_that_lost_records_and_grew_again_is_read_from_its_start(epoch_end: tuple[int, int]) -> None:
    """An unclean election after the first round: the end is beyond the old one, and what is before it is new."""
    world = world_of(orders=1)
    world.topics[LOG][0].epoch = 4
    for number in range(5):
        write(world, f"app-{number}", 100 + number, Status.COMPLETE_COMMIT)
    source = lso_source(world)
    stand(world, "orders")
    go_on(world, source, 20)
    assert world.log_reads.tails == 1, "the first round"
    world.log[0].clear()
    world.topics[LOG][0].high_watermark = 0
    write(world, "app-0", 100, Status.COMPLETE_COMMIT)
    write(world, "app-1", 7, Status.ONGOING, ("orders", 0))
    for number in range(2, 7):
        write(world, f"app-{number}", 100 + number, Status.COMPLETE_COMMIT)
    world.topics[LOG][0].epoch, world.topics[LOG][0].epoch_end = 5, epoch_end
    seen = go_on(world, source, 300)
    assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]
    assert ABORT not in steps(world, seen)
    assert "transactional.id 'app-1' has a transaction open in the log" in steps(world, seen)


@pytest.mark.parametrize("elected", [False, True])
def test_a_known_end_of_the_log_proves_nothing_after_an_election(elected: bool) -> None:
    """An unclean election of a quiet partition of the log takes the records of a transaction and nothing before them:
    what is written next has the offset that was the end when the partition had nothing open.
    """
    world = world_of(orders=1)
    log = world.topics[LOG][0]
    log.epoch, log.epoch_begins = 4, 3
    for number in range(5):
        write(world, f"app-{number}", 100 + number, Status.COMPLETE_COMMIT)
    source = lso_source(world)
    world.topics["orders"][0].high_watermark = 10
    read(world, source, opened(), KnownLogEnds(world.time.monotonic, {0: KnownLogEnd(5, 4)}))
    world.time.pass_(1_000.0)
    read(world, source, opened())
    stand(world, "orders")
    if elected:
        log.epoch, log.epoch_begins = 5, 5
    write(world, "app-1", 101, Status.COMPLETE_COMMIT)
    seen = go_on(world, source, 300, opened())
    kind = BlockerKind.UNKNOWN if elected else BlockerKind.HANGING
    assert [stall.blocker.kind for stall in stalls(seen)] == [kind]
    assert (ABORT in steps(world, seen)) is not elected


@pytest.mark.parametrize("at", [10, 30])
def test_a_partition_that_lost_a_marker_was_not_closed_before_what_is_open_now(at: int) -> None:
    """An unclean election of the partition took the marker of an old commit, and it grew again before the next read."""
    world = world_of(orders=1)
    log = world.topics[LOG][0]
    log.epoch, log.epoch_begins = 4, 1
    write(world, "app-7", 7, Status.PREPARE_COMMIT, ("orders", 0))
    write(world, "app-7", 7, Status.COMPLETE_COMMIT)
    for number in range(3):
        write(world, f"app-{number}", 100 + number, Status.COMPLETE_COMMIT)
    source = lso_source(world)
    world.topics["orders"][0].high_watermark = 25
    read(world, source, opened(), KnownLogEnds(world.time.monotonic, {0: KnownLogEnd(5, 4)}))
    world.time.pass_(1_000.0)
    go_on(world, source, 300, opened())
    world.topics["orders"][0].high_watermark = 30
    go_on(world, source, 100, opened())
    stand(world, "orders", at=at, end=31)
    seen = go_on(world, source, 300, opened())
    assert (ABORT in steps(world, seen)) is (at == 30)


def test_a_log_without_a_record_of_the_producer_id_was_made_anew_and_proves_nothing() -> None:
    """Somebody deleted the topic: what it decided is gone, and the new one is whole from its first record on."""
    world = world_of(orders=1)
    stand(world, "orders")
    world.log.clear()
    world.topics[LOG][0].high_watermark = 0
    write(world, "app-9", 9, Status.COMPLETE_COMMIT)
    seen = go_on(world, lso_source(world), 300)
    assert ABORT not in steps(world, seen)
    assert "the log was made anew since, or lost it" in steps(world, seen)


def test_where_no_leader_says_whether_the_log_lost_records_nothing_is_proven() -> None:
    world = world_of(orders=1)
    write(world, "app-9", 9, Status.COMPLETE_COMMIT)
    source = lso_source(world)
    stand(world, "orders")
    go_on(world, source, 20)
    world.topics[LOG][0].epoch = 1
    world.refuse["OffsetForLeaderEpoch"] = 29
    seen = go_on(world, source, 300)
    assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]
    assert "OffsetForLeaderEpoch" in steps(world, seen)
    world.refuse.clear()
    # The election may have taken a commit: who reads the log only now cannot know.
    assert "had an election" in steps(world, go_on(world, source, 60))


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_is_not_loaded_leaves_it_unknown(code: int) -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    world.unloaded = {0: code}
    source = lso_source(world)
    seen = go_on(world, source, 300)
    assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]
    assert "does not prove to have loaded it" in steps(world, seen)
    assert seen.value(HANGING, "orders") is None
    assert world.log_reads.tails == 0, "the log was not read in vain"
    world.unloaded = {}
    assert go_on(world, source, 60).value(HANGING, "orders") == 1


def test_without_read_on_the_log_it_stays_unknown_with_the_grant() -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    write(world, "app-9", 9, Status.COMPLETE_COMMIT)
    world.log_reads.refused = True
    seen = go_on(world, lso_source(world), 300)
    assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]
    assert "grant READ on Topic:__transaction_state" in steps(world, seen)
    assert ABORT not in steps(world, seen)
    assert seen.value(HANGING, "orders") is None


@pytest.mark.parametrize("hidden", [True, False])
def test_a_cluster_that_shows_no_transaction_log_leaves_it_unknown(hidden: bool) -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    if hidden:
        world.hidden[LOG] = Fault(Reason.AUTHORIZATION, "grant DESCRIBE on Topic:__transaction_state")
    else:
        del world.topics[LOG]
    seen = go_on(world, lso_source(world), 300)
    assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]
    assert ABORT not in steps(world, seen)
    assert ("grant DESCRIBE" if hidden else "shows no topic __transaction_state") in steps(world, seen)


def test_a_record_that_is_not_understood_leaves_it_unknown_until_a_newer_one_of_the_id_is() -> None:
    world = world_of(orders=1)
    world.write([CoordinatorRecord(0, 0, 0, encode_key("app-9"), b"\x00\x09")])
    stand(world, "orders")
    source = lso_source(world)
    seen = go_on(world, source, 120)
    assert "is not understood" in steps(world, seen)
    assert ABORT not in steps(world, seen)
    write(world, "app-9", 9, Status.COMPLETE_COMMIT)
    assert go_on(world, source, 60).value(HANGING, "orders") == 1


def test_a_producer_id_that_begins_another_transaction_is_hanging_no_more() -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    source = lso_source(world)
    assert go_on(world, source, 60, opened()).value(HANGING, "orders") == 1
    write(world, "app-7", 7, Status.ONGOING, ("orders", 0))
    for fact in (
        opened(open_transaction(("orders", 0))),
        opened(open_transaction(("other", 0))),
        opened(complete=False),
    ):
        seen = read(world, source, fact)
        assert ABORT not in steps(world, seen)
        assert not seen.value(HANGING, "orders")


def test_a_commit_that_lost_its_marker_above_a_hanging_transaction_takes_its_line_away() -> None:
    """The producer id of the hanging one commits in the same partition between two reads, and the marker is dropped."""
    world = world_of(orders=1)
    partition = stand(world, "orders")
    source = lso_source(world)
    assert go_on(world, source, 60, opened()).value(HANGING, "orders") == 1
    write(world, "app-7", 7, Status.PREPARE_COMMIT, ("orders", 0))
    write(world, "app-7", 7, Status.COMPLETE_COMMIT)
    seen = go_on(world, source, RENEW_SECONDS + 15, opened())
    assert not seen.value(HANGING, "orders")
    assert ABORT not in steps(world, seen)
    assert partition.writers == [OpenWriter(7, 10)]


def test_a_producer_that_writes_above_a_hanging_transaction_takes_its_line_away_at_once() -> None:
    world = world_of(orders=1)
    partition = stand(world, "orders")
    source = lso_source(world)
    assert go_on(world, source, 60, opened()).value(HANGING, "orders") == 1
    partition.writers = [OpenWriter(7, 10, last_sequence=3)]
    assert ABORT not in steps(world, go_on(world, source, source.interval, opened()))


def test_a_log_of_many_reads_delays_nothing_but_the_proof() -> None:
    """The log takes longer than one read may: it is read on in the next ones, and no gauge waits for it."""
    world = world_of(orders=1)
    world.write([CoordinatorRecord(0, 0, 0, encode_key("app-9"), None)])
    stand(world, "orders")
    world.log_reads.cut, world.log_reads.cut_seconds = True, 0.5
    source = lso_source(world)
    for _ in range(10):
        seen = read(world, source)
        assert seen.value(catalogue.TOPIC_LSO_LAG_OFFSETS, "orders") == 15
        assert ABORT not in steps(world, seen)
        world.time.pass_(5.0)
    world.log_reads.cut = False
    assert go_on(world, source, 60).value(HANGING, "orders") == 1


def test_what_a_coordinator_has_is_open_or_completing_and_never_aborted() -> None:
    for state, kind in (("Ongoing", "open"), ("PrepareCommit", "completing"), ("PrepareAbort", "completing")):
        world = world_of(orders=1)
        stand(world, "orders")
        world.transactions["app-1"] = FakeTransaction(7, state, [("orders", 0)], 0, 60_000, 1)
        seen = go_on(world, lso_source(world), 60)
        assert [stall.blocker.kind.value for stall in stalls(seen)] == [kind]
        assert stalls(seen)[0].blocker.transactional_id == "app-1"
        assert seen.value(HANGING, "orders") == 0
        assert ABORT not in steps(world, seen)


def test_a_marker_on_its_way_is_never_hanging() -> None:
    """No coordinator has the transaction in one read, and in the next it is gone: each holder another one."""
    world = world_of(orders=1)
    source = lso_source(world)
    for turn in range(40):
        stand(world, "orders", at=10 + turn // 3, end=500)
        seen = read(world, source)
        world.time.pass_(5.0)
        assert all(stall.blocker.kind is not BlockerKind.HANGING for stall in stalls(seen))
        assert seen.value(HANGING, "orders") == 0


@settings(max_examples=25)
@given(st.data())
def test_every_stalled_partition_has_exactly_one_blocker_and_abort_is_for_hanging_ones_only(
    data: st.DataObject,
) -> None:
    world = world_of(orders=3, payments=2)
    world.transactions["app-1"] = FakeTransaction(7, "Ongoing", [("orders", 0), ("payments", 1)], 0, 60_000, 1)
    world.transactions["app-2"] = FakeTransaction(8, "PrepareCommit", [("orders", 1)], 0, 60_000, 1)
    source = lso_source(world)
    for _ in range(12):
        for rows in (world.topics["orders"], world.topics["payments"]):
            for row in rows:
                if data.draw(st.integers(0, 3)) == 0:
                    row.high_watermark += data.draw(st.integers(0, 5))
                    row.stable = data.draw(st.none() | st.integers(0, row.high_watermark))
                    row.writers = [
                        OpenWriter(data.draw(st.sampled_from([7, 8, 9])), start)
                        for start in data.draw(st.sets(st.integers(0, 8), max_size=2))
                    ]
        world.refuse = data.draw(
            st.sampled_from([{}, {}, {}, {"DescribeProducers": 29}, {"DescribeTransactions": 53}, {"ListOffsets": 6}])
        )
        seen = read(world, source)
        if Stalls in seen.facts:
            rows_of = [(labels[1], labels[2]) for labels in seen.values(catalogue.LSO_BLOCKER_INFO)]
            assert sorted(rows_of) == sorted(seen.values(SINCE)) == sorted(seen.values(catalogue.LSO_LAG_OFFSETS))
            assert len(rows_of) == sum(seen.values(STALLED).values()) == len(stalls(seen))
            for stall in stalls(seen):
                step = f"{next_step(stall, 'k1:9092', world.time.wall)}"
                assert (ABORT in step) == (stall.blocker.kind is BlockerKind.HANGING)
        world.time.pass_(data.draw(st.sampled_from([5.0, 5.0, 20.0, 60.0])))


# --- What it costs ---


def test_at_each_read_hot_and_standing_partitions_are_asked_one_of_every_leader_and_a_part_of_all() -> None:
    world = world_of(orders=50, idle=50)  # and the internal topic
    source = lso_source(world)
    stand(world, "idle", 3)
    read(world, source)
    assert len(asked_offsets(world)) == 101
    world.asked.clear()
    swept: set[tuple[str, int]] = set()
    for _ in range(12):
        world.time.pass_(5.0)
        read(world, source, opened(open_transaction(("orders", 1), ("orders", 2))))
        asked = asked_offsets(world)
        assert {("orders", 1), ("orders", 2), ("idle", 3)} <= asked
        assert len(asked) <= 3 + 1 + 9
        swept |= asked
        world.asked.clear()
    assert len(swept) == 101


def test_new_partitions_are_read_when_they_are_first_listed() -> None:
    world = world_of(orders=50)
    source = lso_source(world)
    read(world, source)
    world.topics["fresh"] = partitions(30)
    world.asked.clear()
    go_on(world, source, 60)
    read(world, source)
    assert {("fresh", number) for number in range(30)} <= asked_offsets(world)
    world.asked.clear()
    world.time.pass_(5.0)
    read(world, source)
    assert len(asked_offsets(world)) <= 1 + 7


def asked_offsets(world: FakeKafka) -> set[tuple[str, int]]:
    """The partitions whose offsets were requested."""
    return {
        (topic.name, partition.partition_index)
        for request in world.requests("ListOffsets")
        for topic in request.topics
        for partition in topic.partitions
    }


def test_busy_partitions_whose_lso_moves_cost_no_describe_producers() -> None:
    world = world_of(orders=4)
    source = lso_source(world)
    fact = opened(open_transaction(*[("orders", number) for number in range(4)])._replace(started=world.time.wall))
    for turn in range(20):
        for number in range(4):
            stand(world, "orders", number, at=turn, end=turn + 5)
        read(world, source, fact)
        world.time.pass_(5.0)
    assert world.requests("DescribeProducers") == []


def test_while_a_coordinator_has_the_holder_nothing_is_asked_again() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    stand(world, "orders")
    go_on(world, source, 60, opened(open_transaction(("orders", 0))))
    assert len(world.requests("DescribeProducers")) == 1
    assert world.requests("ListTransactions") == []


def test_a_transaction_in_a_topic_that_is_new_is_read_at_once() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    read(world, source)
    world.topics["fresh"] = partitions(1)
    stand(world, "fresh")
    fact = opened(open_transaction(("fresh", 0)))
    world.time.pass_(5.0)
    assert read(world, source, fact).value(catalogue.TOPIC_LSO_LAG_OFFSETS, "fresh") == 15


def test_ten_thousand_quiet_topics_are_counts_and_no_fault() -> None:
    world = world_of(**{f"t{number}": 1 for number in range(10_000)})
    seen = read(world, lso_source(world))
    assert not seen.faults
    assert len(seen.values(STALLED)) == 10_001
    assert not seen.values(SINCE)


# --- Weather ---


def test_with_one_leader_of_three_dead_the_others_are_read_and_it_comes_back_by_itself() -> None:
    world = world_of(orders=3)
    world.brokers |= {2: "k2:9092", 3: "k3:9092"}
    for number, partition in enumerate(world.topics["orders"]):
        partition.leader = number + 1
    source = lso_source(world)
    for number in range(3):
        stand(world, "orders", number, producer_id=7 + number)
    go_on(world, source, 30)
    world.down = {3}
    seen = go_on(world, source, 60)
    assert seen.reasons == {Reason.UNREACHABLE}
    assert set(seen.values(SINCE)) == {("orders", "0"), ("orders", "1")}
    world.down = set()
    seen = go_on(world, source, 5)
    assert not seen.faults
    assert set(seen.values(SINCE)) == {("orders", "0"), ("orders", "1"), ("orders", "2")}


def test_nothing_hangs_and_nothing_is_withheld_is_not_said_of_a_topic_whose_stalled_partition_is_not_read() -> None:
    world = world_of(orders=2)
    world.brokers = {1: "k1:9092", 2: "k2:9092"}
    world.topics["orders"][1].leader = 2
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders", 1)
    seen = go_on(world, source, 150)
    assert (seen.value(HANGING, "orders"), seen.value(WITHHELD, "orders")) == (1, 150)
    world.down = {2}
    seen = go_on(world, source, 60)
    assert ("orders",) not in {**seen.values(HANGING), **seen.values(WITHHELD)}
    stand(world, "orders", 0, producer_id=8)
    assert go_on(world, source, 60).value(WITHHELD, "orders") == 60
    world.down = set()
    assert go_on(world, source, 5).value(WITHHELD, "orders") == 275


def test_a_partition_without_leader_is_a_fault_and_the_others_are_read() -> None:
    world = world_of(orders=2)
    world.topics["orders"][1].leader = None
    seen = read(world, lso_source(world))
    assert seen.reasons == {Reason.NO_LEADER}
    assert seen.value(STALLED, "orders") == 0


def test_a_topic_deleted_between_two_calls_is_no_fault_and_leaves_nothing_behind(tmp_path: Path) -> None:
    world = world_of(orders=1, gone=1)
    source = lso_source(world, tmp_path)
    stand(world, "gone")
    go_on(world, source, 40)
    del world.topics["gone"]
    seen = read(world, source)
    assert not seen.faults
    seen = go_on(world, source, 5)
    assert not seen.faults
    assert set(seen.values(STALLED)) == {("orders",), (LOG,)}
    assert "gone" not in (tmp_path / "cluster-1" / "stalls.json").read_text()


def test_a_cluster_that_did_not_answer_at_the_first_read_is_swept_when_it_does() -> None:
    world = world_of(orders=2)
    world.refuse["ListOffsets"] = 13
    source = lso_source(world)
    assert read(world, source).samples == []
    world.refuse.clear()
    world.time.pass_(5.0)
    assert read(world, source).value(STALLED, "orders") == 0


def test_topics_are_chosen_by_name_and_internal_ones_are_watched_unless_excluded() -> None:
    world = world_of(orders=1, other=1)
    source = LsoSource(world.cluster(), LsoConfig(), TopicsConfig(include=("^ord",)))
    assert set(read(world, source).values(STALLED)) == {("orders",), (LOG,)}
    source = LsoSource(world.cluster(), LsoConfig(), TopicsConfig(exclude=("^__", "^other")))
    assert set(read(world, source).values(STALLED)) == {("orders",)}


def test_a_topic_that_a_pattern_takes_too_long_for_is_a_fault_and_the_others_are_watched() -> None:
    slow = "a" * 100 + "!"
    world = world_of(**{"aaa": 1, slow: 1, "orders": 1})
    source = LsoSource(world.cluster(), LsoConfig(), TopicsConfig(include=("^(a|a)*$", "^ord"), exclude=("^__",)))
    for _ in range(2):  # unknown is shown as long as the topic is there
        seen = read(world, source)
        assert set(seen.values(STALLED)) == {("aaa",), ("orders",)}
        (fault,) = seen.faults
        assert fault.reason is Reason.TIMEOUT
        assert fault.detail.startswith("topics.include: '^(a|a)*$' takes too long on 'aaa")


def test_topics_and_stalls_that_come_and_go_leave_nothing_behind() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    watch = source._watch
    for turn in range(20):
        for number in range(50):
            world.topics[f"t-{turn}-{number}"] = partitions(1)
            stand(world, f"t-{turn}-{number}")
        go_on(world, source, 65)
        for number in range(50):
            del world.topics[f"t-{turn}-{number}"]
        world.down = {1} if turn % 3 == 0 else set()
        go_on(world, source, 65)
        world.down = set()
    go_on(world, source, 65)
    sizes = [
        len(watch.readings),
        len(watch.standing),
        len(watch.producers._answers),
        len(watch._saved),
        len(source._partitions._unknown),
    ]
    assert sizes == [2, 0, 0, 0, 0]


# --- Brokers that are cut off from the controller ---


def stalled_at_a_deposed_leader(world: FakeKafka) -> Partition:
    """Broker 2 leads; broker 1 led before, has not learned of it, and its LSO does not move."""
    partition = world.topics["orders"][0]
    partition.leader, partition.epoch, partition.deposed, partition.high_watermark = 2, 7, 1, 40
    world.believes = 1
    return partition


def test_a_deposed_leader_whose_lso_does_not_move_makes_no_stall() -> None:
    world = world_of(orders=1)
    world.brokers = {1: "k1:9092", 2: "k2:9092"}
    stalled_at_a_deposed_leader(world)
    source = lso_source(world)
    seen = read(world, source)
    for _ in range(60):
        seen = read(world, source)
        assert stalls(seen) == ()
        assert seen.value(STALLED, "orders") == 0
        world.time.pass_(5.0)
    assert seen.value(catalogue.TOPIC_LSO_LAG_OFFSETS, "orders") == 0


def test_where_the_newest_leader_does_not_answer_a_stall_of_the_one_before_is_not_shown() -> None:
    world = world_of(orders=1)
    world.brokers = {1: "k1:9092", 2: "k2:9092"}
    stalled_at_a_deposed_leader(world)
    world.down = {2}
    source = lso_source(world)
    seen = read(world, source)
    for _ in range(20):
        seen = read(world, source)
        assert not seen.values(SINCE)
        world.time.pass_(5.0)
    assert seen.reasons == {Reason.UNREACHABLE}


def test_a_stall_stays_when_its_leader_moves_and_the_lso_does_not_move_at_the_new_one() -> None:
    world = world_of(orders=1)
    world.brokers = {1: "k1:9092", 2: "k2:9092"}
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    began = world.time.wall
    partition = stand(world, "orders")
    seen = go_on(world, source, 60, opened(open_transaction(("orders", 0))))
    partition.leader, partition.epoch = 2, partition.epoch + 1
    for _ in range(12):
        world.time.pass_(5.0)
        seen = read(world, source, opened(open_transaction(("orders", 0))))
        assert seen.values(SINCE) == {("orders", "0"): began}
    assert stalls(seen)[0].leader == 2


def test_all_brokers_are_asked_for_the_leaders_of_stalled_partitions_only_and_now_and_then() -> None:
    world = world_of(orders=1, quiet=1)
    stand(world, "orders")
    # No proof is under way, which asks all brokers as well; and the transaction is younger than the threshold.
    known = opened(open_transaction(("orders", 0))._replace(started=world.time.wall))
    go_on(world, lso_source(world), 25, known)
    assert world.confirmed_topics == []
    world.time.pass_(5.0)
    known = opened(open_transaction(("orders", 0))._replace(started=world.time.wall))
    source = lso_source(world)
    go_on(world, source, 120, known)
    assert world.confirmed_topics == [["orders"]] * 10


# --- Decided transactions whose markers do not arrive ---


def decided_transaction(world: FakeKafka, *pending: tuple[str, int]) -> OpenTransactions:
    """As the log names it, with both partitions; its coordinator waits for the markers of ``pending``."""
    world.transactions["app-7"] = FakeTransaction(7, "PrepareCommit", pending)
    return opened(open_transaction(("orders", 0), ("orders", 1), state=TransactionState.PREPARE_COMMIT))


def unreplicated(world: FakeKafka) -> Partition:
    """A partition of two replicas, one of them gone: its leader has the marker, and shows nothing open."""
    partition = stand(world, "orders")
    partition.writers, partition.replicas, partition.isr = [], (1, 2), (1,)
    world.settings["orders"] = {"min.insync.replicas": "2"}
    return partition


def test_a_marker_that_is_written_and_not_replicated_is_completing_with_the_replicas_that_are_missing() -> None:
    world = world_of(orders=2)
    unreplicated(world)
    seen = go_on(world, lso_source(world), 30, decided_transaction(world, ("orders", 0)))
    (stall,) = stalls(seen)
    assert (stall.blocker.kind, stall.blocker.transactional_id) == (BlockerKind.COMPLETING, "app-7")
    assert stall.blocker.completion == Completion(MarkerWait.NOT_REPLICATED, 1, (1,), (2,), 2)
    assert seen.values(catalogue.LSO_BLOCKER_INFO) == {("app", "orders", "0", "app-7", "7", "0", "10", "completing"): 1}


def test_only_the_partitions_that_the_coordinator_waits_for_are_named() -> None:
    world = world_of(orders=2)
    unreplicated(world)
    seen = go_on(world, lso_source(world), 30, decided_transaction(world, ("orders", 0)))
    assert stalls(seen)[0].blocker.unmarked == frozenset({TopicPartition("orders", 0)})
    assert "orders-0" in steps(world, seen)
    assert "orders-1" not in steps(world, seen)


def test_a_partition_whose_lso_is_at_its_end_is_not_named_though_its_broker_has_not_answered_for_it() -> None:
    world = world_of(orders=2)
    unreplicated(world)
    seen = go_on(world, lso_source(world), 30, decided_transaction(world, ("orders", 0), ("orders", 1)))
    assert stalls(seen)[0].blocker.unmarked == frozenset({TopicPartition("orders", 0)})
    assert "orders-1" not in steps(world, seen)


def test_a_transaction_whose_marker_here_is_acknowledged_does_not_hold_the_partition() -> None:
    world = world_of(orders=2)
    unreplicated(world)
    seen = go_on(world, lso_source(world), 30, decided_transaction(world, ("orders", 1)))
    assert [stall.blocker.kind for stall in stalls(seen)] == [BlockerKind.UNKNOWN]


def test_a_marker_that_is_not_written_is_completing_and_its_leader_is_named() -> None:
    world = world_of(orders=2)
    stand(world, "orders")
    seen = go_on(world, lso_source(world), 30, decided_transaction(world, ("orders", 0), ("orders", 1)))
    (stall,) = stalls(seen)
    assert stall.blocker.completion == Completion(MarkerWait.NOT_WRITTEN, 1, (1,), (), None)
    assert "lacks the marker; it is led by broker 1" in steps(world, seen)


def test_what_the_marker_waits_for_is_asked_again_at_every_read() -> None:
    world = world_of(orders=2)
    partition = stand(world, "orders")
    partition.replicas = partition.isr = (1, 2)
    source = lso_source(world)
    fact = decided_transaction(world, ("orders", 0))
    go_on(world, source, 30, fact)
    partition.writers, partition.isr = [], (1,)
    (stall,) = stalls(go_on(world, source, 5, fact))
    assert stall.blocker.completion == Completion(MarkerWait.NOT_REPLICATED, 1, (1,), (2,), None)


def test_where_the_coordinator_cannot_be_asked_the_log_names_the_decided_transaction() -> None:
    world = world_of(orders=2)
    unreplicated(world)
    fact = decided_transaction(world, ("orders", 0))
    world.refuse["DescribeTransactions"] = 14
    (stall,) = stalls(go_on(world, lso_source(world), 30, fact))
    assert (stall.blocker.kind, stall.blocker.unmarked) == (BlockerKind.COMPLETING, None)


# --- Holders whose records are deleted ---


def test_a_hanging_transaction_whose_records_retention_deletes_stays_one_stall_since_it_began() -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    partition = stand(world, "orders")
    began = go_on(world, source, 90).values(SINCE)  # with the sweep, whose second of the minute differs by process
    for _ in range(6):
        partition.stable = partition.stable + 2 if partition.stable is not None else None
        seen = go_on(world, source, 20)
        assert seen.values(SINCE) == began
        assert [(stall.blocker.kind, stall.blocker.start_offset) for stall in stalls(seen)] == [
            (BlockerKind.HANGING, 10)
        ]
        assert read(world, source).value(HANGING, "orders") == 1


def test_a_topic_made_again_at_the_same_lso_is_a_new_stall(tmp_path: Path) -> None:
    world = world_of(orders=1)
    world.topic_ids = {"orders": "a"}
    stand(world, "orders")
    source = lso_source(world, tmp_path)
    began = world.time.wall
    assert go_on(world, source, 60).values(SINCE) == {("orders", "0"): began}
    source.close()
    world.topic_ids = {"orders": "b"}
    assert not read(world, lso_source(world, tmp_path)).values(SINCE)
    again = world.time.wall
    seen = go_on(world, source, 90)
    assert seen.values(SINCE)[("orders", "0")] > again


@pytest.mark.parametrize("ahead", [80.0, -80.0])
def test_a_stall_is_dated_in_the_coordinators_time_where_our_clock_is_noticed_to_be_wrong(ahead: float) -> None:
    world = world_of(orders=2)
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders", 0)
    began = world.time.wall
    fact = opened(open_transaction(("orders", 0)))
    go_on(world, source, 40, fact)
    seen = read(world, source, fact, CoordinatorTime(ahead, ahead))
    assert seen.values(SINCE) == {("orders", "0"): began - ahead}
    assert read(world, source, fact).values(SINCE) == {("orders", "0"): began - ahead}


@pytest.mark.parametrize("set_by", [3600.0, -3600.0])
def test_a_clock_that_is_set_moves_no_date_whatever_the_log_says_later(set_by: float) -> None:
    world = world_of(orders=1)
    source = lso_source(world)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders")
    began = {("orders", "0"): world.time.wall}
    fact = opened(open_transaction(("orders", 0)))
    apart = world.time.wall - world.time.monotonic
    known = CoordinatorTime(-apart, -apart).beside(apart)  # of the last read of the log, before the clock is set
    go_on(world, source, 40, fact, known)
    world.time.wall += set_by
    assert read(world, source, fact, known).values(SINCE) == began
    assert read(world, source, fact).values(SINCE) == began  # no new record shows the distance
    assert read(world, source, fact, CoordinatorTime(set_by, set_by)).values(SINCE) == began
    world.time.wall -= set_by
    assert read(world, source, fact).values(SINCE) == began


@pytest.mark.parametrize("ahead", [80.0, -80.0])
def test_a_stall_that_is_older_than_the_agent_has_its_coordinators_instant(ahead: float) -> None:
    world = world_of(orders=1)
    stand(world, "orders")
    fact = opened(open_transaction(("orders", 0)))
    source = lso_source(world)
    read(world, source, fact)
    world.time.pass_(30.0)
    seen = read(world, source, fact, CoordinatorTime(ahead, ahead))
    assert seen.values(SINCE) == {("orders", "0"): 1_789_999_000.0}


@pytest.mark.parametrize("wrong", [53.0, -53.0, 86_400.0, -86_400.0])
@pytest.mark.parametrize("known", [True, False])
def test_a_life_with_a_wrong_clock_dates_no_stall_of_the_next_life_wrongly(
    tmp_path: Path, wrong: float, *, known: bool
) -> None:
    """By the boot id, or by the distance from the coordinators' clock."""
    world = world_of(orders=1)
    world.time.boot = "" if known else "boot-1"
    right = world.time.wall
    fact = opened(open_transaction(("orders", 0)))
    facts = [CoordinatorTime(wrong, wrong)] if known else []
    world.time.wall = right + wrong
    source = lso_source(world, tmp_path)
    read(world, source, *facts)
    world.time.pass_(5.0)
    stand(world, "orders")
    go_on(world, source, 40, fact, *facts)
    source.close()
    world.time.wall -= wrong
    facts = [CoordinatorTime(0.0, 0.0)] if known else []
    world.time.pass_(7.0)
    assert read(world, lso_source(world, tmp_path), fact, *facts).values(SINCE) == {("orders", "0"): right + 5.0}


@pytest.mark.parametrize("wrong", [53.0, -53.0])
def test_a_wrong_clock_of_the_next_life_neither_makes_nor_delays_a_stall(tmp_path: Path, wrong: float) -> None:
    world = world_of(orders=1)
    world.time.boot = "boot-1"
    source = lso_source(world, tmp_path)
    read(world, source)
    world.time.pass_(5.0)
    stand(world, "orders")
    began = world.time.wall
    fact = opened(open_transaction(("orders", 0)))
    read(world, source, fact)
    source.close()
    world.time.wall += wrong
    source = lso_source(world, tmp_path)
    assert not go_on(world, source, 25, fact).values(SINCE)
    assert go_on(world, source, 5, fact).values(SINCE) == {("orders", "0"): began + wrong}
    seen = go_on(world, source, 5, fact, CoordinatorTime(wrong, wrong))
    assert seen.values(SINCE) == {("orders", "0"): began}


def test_a_log_that_loses_records_while_a_round_reads_it_leaves_a_gap() -> None:
    world = world_of(orders=1)
    write(world, "app-9", 9, Status.COMPLETE_COMMIT)
    stand(world, "orders")
    rounds = Rounds(world.cluster(), world.reader)
    held = OpenStart(TopicPartition("orders", 0), 7, 10)
    rounds.begin({held: world.time.monotonic}, within(world))
    assert rounds.read_on(within(world))
    world.topics[LOG][0].epoch, world.topics[LOG][0].epoch_end = 1, (0, 0)
    (found,) = rounds.finish(within(world))
    assert list(found.open_gaps()) == ["__transaction_state is not read to its end in partition 0"]
    assert rounds.opened() == OpenTransactions(
        "txnlog", (), complete=False, missing=("__transaction_state-0 lost records that were read",)
    )
