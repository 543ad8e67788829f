"""The tail of the transaction log: its counters over starts, restarts and faults of brokers."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sized
from pathlib import Path
from typing import TypeVar, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from exporter import catalogue
from exporter.flink.facts import FlinkTransactions
from exporter.kafka.log.tail import Polled
from exporter.kafka.requests.configs import SCAN_INTERVAL
from exporter.model import Fact, Fault, Reason
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.facts import (
    KnownIds,
    LoggedTransactions,
    OpenTransaction,
    ReleaseTimes,
    UncleanEnds,
)
from exporter.transactions.machine.log_changes import LogChanges
from exporter.transactions.machine.records import Status, decode_key, decode_value
from exporter.transactions.outcome import is_overdue
from exporter.transactions.recent import Recent
from exporter.transactions.source.log_partitions import SCANS_INTERVAL
from exporter.transactions.source.txnlog import TxnlogSource
from exporter.words import Outcome
from tests.helpers.cluster import LOG, FakeKafka, FakeTransaction, SourceRead, partitions, places, read, world_of
from tests.helpers.coordinator import (
    BEGIN_MS,
    CoordinatorId,
    CoordinatorRecord,
    GeneratedLog,
    Written,
    histories,
    merge,
)
from tests.helpers.sources import txnlog_source
from tests.helpers.strategies import encode_key

F = TypeVar("F", bound=Fact)
COUNTED = catalogue.TRANSACTIONS_TOTAL
KAFKAS_STATES = {1: "Ongoing", 2: "PrepareCommit", 3: "PrepareAbort"}


def counts(seen: SourceRead) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, outcome), value in seen.values(COUNTED).items():
        found[outcome] += int(value)
    return +found


def coordinate(world: FakeKafka) -> None:
    """Let the coordinators say what the log says."""
    world.transactions.clear()
    for rows in world.log.values():
        for record in rows:
            name = decode_key(record.key)
            if record.value is None:
                world.transactions.pop(name, None)
                continue
            value = decode_value(record.value)
            state = KAFKAS_STATES.get(value.status, "Empty")
            world.transactions[name] = FakeTransaction(
                value.producer_id,
                state,
                value.partitions or (),
                value.producer_epoch,
                value.timeout_ms,
                value.start_ms,
            )


def go_to(world: FakeKafka, ms: int) -> None:
    world.time.pass_(max(0.0, ms / 1000 - world.time.wall))


def log_world(log_partitions: int = 1) -> FakeKafka:
    world = world_of(log=log_partitions)
    world.time.wall = BEGIN_MS / 1000
    return world


class LogScript:
    """Ids with transactions, whose records go to the log on request."""

    def __init__(self, world: FakeKafka, *names: str, level: int = 2, v2: bool = True) -> None:
        self.world = world
        self._written: dict[str, int] = dict.fromkeys(names, 0)
        producer_ids = iter(range(100, 200))
        self.ids = {name: CoordinatorId(name, level, v2, BEGIN_MS, producer_ids) for name in names}
        self._offset = 0

    def __getitem__(self, name: str) -> CoordinatorId:
        producer = self.ids[name]
        producer.now = max(producer.now, round(self.world.time.wall * 1000))
        return producer

    def write(self) -> None:
        fresh: list[tuple[Written, str]] = []
        for name, producer in self.ids.items():
            fresh += [(record, name) for record in producer.written[self._written[name] :]]
            self._written[name] = len(producer.written)
        fresh.sort(key=lambda row: row[0].ms)
        records = []
        for record, _ in fresh:
            records.append(CoordinatorRecord(0, self._offset, record.ms, record.key, record.value))
            self._offset += 1
        self.world.write(records)
        if records:
            go_to(self.world, records[-1].ms)

    def commit(self, name: str) -> None:
        producer = self[name]
        producer.add("orders", 0)
        producer.end(commit=True, markers_ms=5)
        self.write()


# --- The time of a read ---


def test_reads_follow_each_other_at_once_while_records_wait() -> None:
    world = log_world()
    script = LogScript(world, "pay-1")
    for _ in range(300):
        script.commit("pay-1")
    tail = world.tail(world.cluster().properties, LOG)
    poll = tail.poll

    def take_time(limit: int, seconds: float) -> list[Polled]:
        world.time.pass_(0.6)
        return poll(limit, seconds)

    tail.poll = take_time  # type: ignore[method-assign]
    source = TxnlogSource(world.cluster(), TransactionsConfig(), lambda *_: tail)
    assert source.pace == 1.0
    paces = []
    for _ in range(4):
        read(world, source)
        paces.append(source.pace)
    assert paces == [0.02, 1.0, 1.0, 1.0], "two batches of 300 in the first read, 900 records and more in all"
    world.log_reads.cut = True
    script.commit("pay-1")
    world.time.pass_(5.0)
    read(world, source)
    assert source.pace == 1.0, "what cannot be read is not asked for again and again"


def test_the_next_read_is_when_an_abort_gets_its_outcome() -> None:
    """It waits 5.5 s of log time, from the last read of records on."""
    world = log_world()
    script = LogScript(world, "app-1")
    source = txnlog_source(world)
    script["app-1"].initialise()
    read(world, source)
    script["app-1"].add("orders", 0)
    script["app-1"].end(commit=False, markers_ms=5)
    script.write()
    read(world, source)
    paces = [source.pace]
    while source.pace == 1.0:
        world.time.pass_(source.pace)
        assert counts(read(world, source)).get("aborted", 0) == 0
        paces.append(source.pace)
    assert paces[:-1] == [1.0] * 5
    assert paces[-1] == pytest.approx(0.502)
    world.time.pass_(source.pace)
    assert counts(read(world, source)) == {"aborted": 1}
    assert source.pace == 1.0


# --- Every transaction once, over all processes ---


@settings(max_examples=30, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(histories(), st.data())
def test_over_all_restarts_every_transaction_is_counted_once_with_its_true_outcome(
    history: GeneratedLog, data: st.DataObject
) -> None:
    world = log_world(history.log_partitions)
    anchor = CoordinatorId("app-9", 2, True, BEGIN_MS, iter([5]))
    anchor.initialise()
    world.write(merge([anchor], history.log_partitions).records)
    shift = {number: len(rows) for number, rows in world.log.items()}
    records = [record._replace(offset=record.offset + shift.get(record.partition, 0)) for record in history.records]
    begun = data.draw(st.integers(0, len(records)), label="records before the first start")
    first = {number: shift.get(number, 0) for number in range(history.log_partitions)}
    for record in records[:begun]:
        first[record.partition] = record.offset + 1
    shown: Counter[tuple[str, ...]] = Counter()
    seen: SourceRead | None = None
    at = begun
    publish(world, records[:begun])

    def look(source: TxnlogSource) -> SourceRead:
        """No counter is ever lower than it was shown before, by any process; it may be absent."""
        seen = read(world, source)
        assert not seen.faults
        for metric in (COUNTED, catalogue.PRODUCER_INITS_TOTAL):
            for labels, value in seen.values(metric).items():
                assert value >= shown[metric.name, *labels]
                shown[metric.name, *labels] = value
        return seen

    with tempfile.TemporaryDirectory() as directory:
        while True:
            source = txnlog_source(world, Path(directory))
            for _ in range(data.draw(st.integers(1, 3), label="reads")):
                seen = look(source)
                world.time.pass_(data.draw(st.sampled_from([0.0, 1.0, 11.0]), label="seconds"))
                size = data.draw(st.integers(1, 12), label="records")
                publish(world, records[at : at + size])
                at += size
            if at >= len(records):
                for _ in range(9):
                    seen = look(source)
                    world.time.pass_(1.0)
                break
            seen = look(source)
            if data.draw(st.booleans(), label="clean stop"):
                source.close()
            missed = data.draw(st.integers(0, 12), label="records in the outage")
            publish(world, records[at : at + missed])
            at += missed
    assert seen is not None
    truth = Counter(
        end.outcome.value for end in history.ends if end.offset + shift.get(end.partition, 0) >= first[end.partition]
    )
    assert counts(seen) == truth
    inits = sum(seen.values(catalogue.PRODUCER_INITS_TOTAL).values())
    assert inits == sum(record.initialised and record.offset >= first[record.partition] for record in records)


def publish(world: FakeKafka, records: Iterable[CoordinatorRecord]) -> None:
    for record in records:
        go_to(world, record.ms)
        world.write([record])
    coordinate(world)


# --- Starts ---


def test_a_first_start_dates_the_last_hour_and_counts_none_of_it() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    story["app-1"].initialise()
    story.commit("app-1")
    story.ids["app-1"].add("orders", 0)
    story.ids["app-1"].now += 100
    story.ids["app-1"].end_by_server(5)
    story.ids["app-1"].initialise()
    story.write()
    seen = read(world, txnlog_source(world))
    assert counts(seen) == {}
    assert set(seen.values(COUNTED)) == {("app", producer.value) for producer in Outcome}
    assert seen.value(catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS, "app", "committed") == BEGIN_MS / 1000 + 0.005
    assert [end.outcome for end in fact(seen, UncleanEnds).ends] == ["fenced"]
    assert seen.value(catalogue.TRANSACTIONAL_IDS, "app") == 1


@pytest.mark.parametrize("jump", [7200.0, -7200.0, 30 * 86_400.0])
def test_a_jump_of_our_wall_clock_moves_nothing_into_the_last_hour_or_out_of_it(jump: float) -> None:
    world = log_world()
    story = LogScript(world, "app-1", "app-2")
    source = txnlog_source(world)
    for name in ("app-1", "app-2"):
        story[name].initialise()
    story.write()
    read(world, source)
    story["app-1"].add("orders", 0)
    story["app-1"].end_by_server(5)
    story["app-1"].initialise()
    story.write()
    for _ in range(20):  # records that come while the end of the log is known date it
        world.time.pass_(1.0)
        story.commit("app-2")
        read(world, source)
    before = read(world, source)
    assert [end.outcome for end in fact(before, UncleanEnds).ends] == ["fenced"]
    world.time.wall += jump
    world.time.pass_(20.0)
    after = read(world, source)
    for metric in (catalogue.TRANSACTIONAL_IDS, catalogue.RECENT_PRODUCER_FENCES, COUNTED):
        assert after.values(metric) == before.values(metric) != {}
    assert fact(after, UncleanEnds).ends == fact(before, UncleanEnds).ends
    assert fact(after, KnownIds) == fact(before, KnownIds)
    opened, earlier = fact(after, LoggedTransactions).opened, fact(before, LoggedTransactions).opened
    assert opened.transactions == earlier.transactions
    assert opened.as_of is not None
    assert opened.as_of > (earlier.as_of or 0.0), "the tail is as current as before"
    world.time.wall -= jump
    world.time.pass_(1.0)
    again = read(world, source)
    assert again.values(catalogue.RECENT_PRODUCER_FENCES) == before.values(catalogue.RECENT_PRODUCER_FENCES)
    assert not [*before.faults, *after.faults, *again.faults]


def test_an_abort_that_waited_at_the_first_start_is_not_counted_after_a_restart(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    story["app-1"].initialise()
    story["app-1"].add("orders", 0)
    story["app-1"].end(commit=False, markers_ms=5)
    story.write()
    read(world, txnlog_source(world, tmp_path))
    source = txnlog_source(world, tmp_path)
    for _ in range(9):
        assert counts(read(world, source)) == {}
        world.time.pass_(1.0)


def test_a_partition_that_appears_later_is_read_from_its_beginning() -> None:
    world = log_world()
    source = txnlog_source(world)
    read(world, source)
    world.topics[LOG] += partitions(1)
    late = CoordinatorId("app-1", 2, True, BEGIN_MS + 9_000, iter([7]))
    late.initialise()
    late.add("orders", 0)
    late.end(commit=True, markers_ms=1)
    world.write([record._replace(partition=1) for record in merge([late], 1).records])
    world.time.pass_(10.0)
    read(world, source)
    assert counts(read(world, source)) == {"committed": 1}


def test_a_cluster_without_a_transaction_log_is_an_answer_and_what_comes_later_is_counted(tmp_path: Path) -> None:
    world = FakeKafka()
    world.time.wall = BEGIN_MS / 1000
    source = txnlog_source(world, tmp_path)
    seen = read(world, source)
    assert not seen.faults
    assert fact(seen, LoggedTransactions).opened.complete
    assert seen.value(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS) == 0
    source.close()
    world.topics[LOG] = partitions(1)
    story = LogScript(world, "app-1")
    story["app-1"].initialise()
    story.commit("app-1")
    assert counts(read(world, txnlog_source(world, tmp_path))) == {"committed": 1}


def test_a_partition_that_gave_no_answer_at_the_first_start_is_not_read_from_zero_after_a_restart(
    tmp_path: Path,
) -> None:
    world = log_world(2)
    old = CoordinatorId("app-1", 2, True, BEGIN_MS - 9_000_000, iter([7]))
    old.initialise()
    old.add("orders", 0)
    old.end(commit=True, markers_ms=1)
    world.write([record._replace(partition=1) for record in merge([old], 1).records])
    world.topics[LOG][1].leader = None
    seen = read(world, txnlog_source(world, tmp_path))
    assert seen.reasons == {Reason.NO_LEADER}
    world.topics[LOG][1].leader = 1
    assert counts(read(world, txnlog_source(world, tmp_path))) == {}


@pytest.mark.parametrize("saved", ["garbage", '{"partitions": 3}', '{"partitions": {"0": {"next": 999}}}', "[]"])
def test_a_saved_position_that_cannot_be_trusted_is_as_good_as_none(tmp_path: Path, saved: str) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    story["app-1"].initialise()
    story.commit("app-1")
    (tmp_path / "cluster-1").mkdir()
    (tmp_path / "cluster-1" / "txnlog.json").write_text(saved)
    source = txnlog_source(world, tmp_path)
    assert counts(read(world, source)) == {}
    story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 1}


def test_offsets_that_compaction_took_in_an_outage_are_counted_as_lost(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    story["app-1"].initialise()
    story.commit("app-1")
    read(world, txnlog_source(world, tmp_path))
    for _ in range(3):
        story.commit("app-1")
    world.log[0] = world.log[0][:4] + world.log[0][-1:]
    seen = read(world, txnlog_source(world, tmp_path))
    assert counts(seen) == {"committed": 1}
    assert seen.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 8


# --- Positions and counters over restarts ---


def two_partitions() -> tuple[FakeKafka, LogScript]:
    """A log whose partition 1 has nothing but an old initialisation; all that happens is in partition 0."""
    world = log_world(2)
    other = CoordinatorId("other-1", 2, True, BEGIN_MS - 9_000_000, iter([7]))
    other.initialise()
    world.write([record._replace(partition=1) for record in merge([other], 1).records])
    return world, LogScript(world, "app-1")


def test_a_partition_that_does_not_answer_keeps_its_position_through_any_number_of_restarts(tmp_path: Path) -> None:
    world, story = two_partitions()
    source = txnlog_source(world, tmp_path)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 1}
    world.topics[LOG][0].leader = None
    story.commit("app-1")
    for _ in range(3):
        world.time.pass_(20.0)
        source = txnlog_source(world, tmp_path)
        assert read(world, source).reasons == {Reason.NO_LEADER}
        source.close()
    world.topics[LOG][0].leader = 1
    story.commit("app-1")
    seen = read(world, txnlog_source(world, tmp_path))
    assert counts(seen) == {"committed": 3}
    assert seen.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 0


def test_a_partition_without_a_leader_at_a_start_does_not_hide_the_counters_of_the_others(tmp_path: Path) -> None:
    world, story = two_partitions()
    source = txnlog_source(world, tmp_path)
    story["app-1"].initialise()
    read(world, source)
    story.commit("app-1")
    read(world, source)
    world.topics[LOG][1].leader = None
    story.commit("app-1")
    seen = read(world, txnlog_source(world, tmp_path))
    assert seen.reasons == {Reason.NO_LEADER}
    assert counts(seen) == {"committed": 2}


def test_after_a_kill_the_counters_are_absent_until_the_log_is_read_and_then_go_on(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world, tmp_path)
    read(world, source)
    story["app-1"].initialise()
    for _ in range(3):
        story.commit("app-1")
        read(world, source)
    story.commit("app-1")
    again = txnlog_source(world, tmp_path)
    world.log_reads.silent = {0}
    for _ in range(2):
        seen = read(world, again)
        assert not seen.values(COUNTED)
        assert not seen.values(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL)
        world.time.pass_(1.0)
    world.log_reads.silent = set()
    seen = read(world, again)
    assert counts(seen) == {"committed": 4}
    assert seen.values(catalogue.TRANSACTION_COMPLETION_SECONDS)["app",].count == 4
    assert seen.values(catalogue.TRANSACTION_OPEN_SECONDS)["app", "committed"].count == 4
    assert seen.value(catalogue.PRODUCER_INITS_TOTAL, "app") == 1


def test_counters_that_were_shown_are_kept_also_where_compaction_took_their_records(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world, tmp_path)
    read(world, source)
    story["app-1"].initialise()
    for _ in range(3):
        story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 3}
    story.commit("app-1")
    world.log[0] = world.log[0][-1:]
    seen = read(world, txnlog_source(world, tmp_path))
    assert counts(seen) == {"committed": 4}
    assert seen.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 2


def test_where_a_snapshot_cannot_be_written_the_journal_keeps_what_was_shown(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world, tmp_path)
    read(world, source)
    draft = tmp_path / "cluster-1" / "txnlog.new"
    draft.mkdir()  # the draft of a snapshot cannot be written
    story["app-1"].initialise()
    for turn in range(4):
        story.commit("app-1")
        world.time.pass_(11.0)
        assert counts(read(world, source)) == {"committed": turn + 1}
    assert counts(read(world, txnlog_source(world, tmp_path))) == {"committed": 4}


def test_lost_records_stay_counted_over_a_restart(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world, tmp_path)
    read(world, source)
    story["app-1"].initialise()
    for _ in range(3):
        story.commit("app-1")
    world.log[0] = world.log[0][-1:]
    assert read(world, source).value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 9
    assert read(world, txnlog_source(world, tmp_path)).value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 9


def test_an_open_transaction_that_is_older_than_the_hour_is_known_after_a_restart(tmp_path: Path) -> None:
    """Its coordinator does not answer: only what was kept says when it began."""
    world = log_world()
    story = LogScript(world, "app-1", "busy-1")
    source = txnlog_source(world, tmp_path)
    read(world, source)
    for name in story.ids:
        story[name].initialise()
    story["app-1"].add("orders", 3)
    story.write()
    read(world, source)
    world.time.pass_(7_200.0)
    for _ in range(500):
        story.commit("busy-1")
    read(world, source)
    world.refuse["ListTransactions"] = 14
    opened = fact(read(world, txnlog_source(world, tmp_path)), LoggedTransactions).opened
    assert [(transaction.transactional_id, transaction.partitions) for transaction in opened.transactions] == [
        ("app-1", places("orders", 3))
    ]


def test_an_abort_that_waits_is_settled_once_whichever_process_settles_it(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world, tmp_path)
    story["app-1"].initialise()
    read(world, source)
    for turn in range(3):
        story["app-1"].add("orders", 0)
        story["app-1"].end(commit=False, markers_ms=5)
        story.write()
        source = txnlog_source(world, tmp_path)
        for _ in range(8):
            read(world, source)
            world.time.pass_(1.0)
        assert counts(read(world, source)) == {"aborted": turn + 1}


def test_state_that_cannot_be_used_begins_anew_with_a_word_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    story["app-1"].initialise()
    story.commit("app-1")
    (tmp_path / "cluster-1").mkdir()
    (tmp_path / "cluster-1" / "txnlog.json").write_text('{"format":3,"partitions":{}}')
    source = txnlog_source(world, tmp_path)
    assert counts(read(world, source)) == {}
    assert f"kept as {tmp_path / 'cluster-1' / 'txnlog.unusable.json'}" in caplog.text
    source.close()
    assert (tmp_path / "cluster-1" / "txnlog.unusable.json").read_text() == '{"format":3,"partitions":{}}'
    assert (tmp_path / "cluster-1" / "txnlog.json").exists()


# --- A broker that is read and is not the leader any more ---


def test_a_partition_that_is_not_read_on_while_its_end_moves_is_a_fault_and_is_read_from_its_leader() -> None:
    world, story = two_partitions()
    world.brokers[2] = "k2:9092"
    source = txnlog_source(world)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    read(world, source)
    world.log_reads.silent = {0}
    world.topics[LOG][0].leader = 2
    story.commit("app-1")
    for _ in range(2):
        world.time.pass_(5.0)
        assert not read(world, source).faults
        story.commit("app-1")
    world.time.pass_(5.0)
    seen = read(world, source)
    assert seen.reasons == {Reason.STALE}
    assert "__transaction_state-0 is read up to offset 4 for 10 s, and its leader has records" in seen.faults[0].detail
    world.time.pass_(5.0)
    read(world, source)
    assert world.log_reads.reconnected == ["k2:9092"]
    world.log_reads.silent = set()
    world.time.pass_(5.0)
    seen = read(world, source)
    assert not seen.faults
    assert counts(seen) == {"committed": 4}
    attempts = len(world.log_reads.reconnected)
    for _ in range(4):
        world.time.pass_(10.0)
        assert not read(world, source).faults
    assert len(world.log_reads.reconnected) == attempts


# --- Brokers with clocks of their own ---


AHEAD = 90.0


def skewed_log(directory: Path | None = None) -> tuple[FakeKafka, LogScript, TxnlogSource]:
    """Partition 0 is led by broker 1; the clock of broker 2, which leads partition 1, is 90 s ahead."""
    world = log_world(2)
    world.time.boot = "one"
    world.brokers |= {2: "k2:9092", 3: "k3:9092"}
    world.topics[LOG][1].leader = 2
    story = LogScript(world, "app-1", v2=False)
    source = txnlog_source(world, directory)
    read(world, source)
    story["app-1"].initialise()
    for number in range(4):
        world.time.pass_(1.1)
        other = CoordinatorId("other-1", 2, True, round((world.time.wall + AHEAD) * 1000), iter([number]))
        other.initialise()
        world.write([producer._replace(partition=1, offset=number) for producer in merge([other], 1).records])
        story.commit("app-1")
        read(world, source)
    return world, story, source


def move(world: FakeKafka, broker: int) -> None:
    """An election: partition 0 gets this leader."""
    partition = world.topics[LOG][0]
    partition.leader, partition.epoch, partition.epoch_begins = broker, partition.epoch + 1, partition.high_watermark


def write_here(world: FakeKafka, story: LogScript) -> None:
    """Append what the id wrote since, as its records are stamped."""
    producer, end = story.ids["app-1"], world.topics[LOG][0].high_watermark
    fresh = producer.written[story._written["app-1"] :]
    story._written["app-1"] = len(producer.written)
    world.write(CoordinatorRecord(0, end + at, one.ms, one.key, one.value) for at, one in enumerate(fresh))


def open_now(world: FakeKafka, source: TxnlogSource) -> OpenTransaction:
    (transaction,) = fact(read(world, source), LoggedTransactions).opened.transactions
    return transaction


def test_the_distance_of_each_coordinators_clock_is_a_metric() -> None:
    world, _, source = skewed_log()
    skews = read(world, source).values(catalogue.COORDINATOR_CLOCK_SKEW_SECONDS)
    assert {broker: round(skew) for (broker,), skew in skews.items()} == {"1": 0, "2": -90}


def test_a_timeout_is_judged_by_the_clock_of_the_coordinator_that_leads_now_and_not_before_it_led() -> None:
    world, story, source = skewed_log()
    began = world.time.wall
    story["app-1"].add("orders", 0)
    story.write()
    opened = open_now(world, source)
    assert opened.ends == pytest.approx(began + 60.0, abs=2.0)
    move(world, 2)
    world.time.pass_(6.0)
    opened = open_now(world, source)
    assert opened.started == pytest.approx(began, abs=0.1)
    assert opened.ends == pytest.approx(world.time.wall, abs=2.0), "past its timeout by that clock when it took over"
    assert not is_overdue(opened, world.time.wall + 10.0)
    assert is_overdue(opened, world.time.wall + 20.0)


def test_a_coordinator_that_was_away_past_a_timeout_makes_nothing_overdue_before_its_scan() -> None:
    """It scans for timed-out transactions every 10 s, from its election on: the same broker as before, as at RF 1."""
    world, story, source = skewed_log()
    story["app-1"].add("orders", 0)
    story.write()
    read(world, source)
    world.topics[LOG][0].leader = None
    world.time.pass_(100.0)
    read(world, source)
    move(world, 1)
    world.time.pass_(6.0)
    opened = open_now(world, source)
    assert opened.ends == pytest.approx(world.time.wall, abs=2.0)
    assert not is_overdue(opened, world.time.wall + 10.0)
    assert is_overdue(opened, world.time.wall + 20.0)
    world.time.pass_(100.0)
    assert is_overdue(open_now(world, source), world.time.wall)


def test_a_coordinator_that_looks_for_timeouts_more_rarely_makes_nothing_overdue_before() -> None:
    world, story, source = skewed_log()
    world.settings["1"] = {SCAN_INTERVAL: "150000"}
    world.time.pass_(SCANS_INTERVAL)
    story["app-1"].add("orders", 0)
    story.write()
    opened = open_now(world, source)
    assert opened.ends is not None
    assert opened.scan_late == 140.0
    assert not is_overdue(opened, opened.ends + 150.0)
    assert is_overdue(opened, opened.ends + 160.0)


def test_a_coordinator_without_a_record_makes_nothing_overdue() -> None:
    world, story, source = skewed_log()
    story["app-1"].add("orders", 0)
    story.write()
    read(world, source)
    move(world, 3)
    world.time.pass_(600.0)
    opened = open_now(world, source)
    assert (opened.ends, is_overdue(opened, world.time.wall)) == (None, False)


@pytest.mark.parametrize("agent", ["running", "stopped", "killed"])
def test_what_ended_is_dated_by_one_clock_whoever_wrote_it(agent: str, tmp_path: Path) -> None:
    """Also what was written while the agent was away, by the clocks as they were known before."""
    world, story, source = skewed_log(tmp_path)
    move(world, 2)
    world.time.pass_(6.0)
    read(world, source)
    if agent == "stopped":
        source.close()
    if agent != "running":
        source = txnlog_source(world, tmp_path)
    began = world.time.wall
    producer = story.ids["app-1"]
    producer.now = round((began + AHEAD) * 1000)
    producer.add("orders", 0)
    producer.now += 3000
    producer.end_by_server(5)
    producer.now += 100
    producer.initialise()
    write_here(world, story)
    world.time.pass_(4.0)
    read(world, source)
    (end,) = fact(read(world, source), Recent).unclean.since(0)
    assert end.outcome == "fenced"
    assert end.started == pytest.approx(began, abs=0.5)
    assert end.ended == pytest.approx(began + 3.0, abs=0.5)
    stamped = producer.written[-2].ms / 1000
    assert end.ended + end.ahead_ms / 1000 == stamped, "it is the same end whatever the distance is estimated to be"


def test_what_a_broker_wrote_whose_clock_is_not_known_is_dated_between_what_was_before_and_now() -> None:
    world, story, source = skewed_log()
    for broker, ahead in ((3, 1000.0), (2, 0.0)):
        move(world, broker)
        world.time.pass_(6.0)
        read(world, source)
        producer = story.ids["app-1"]
        producer.now = round((world.time.wall + ahead) * 1000)
        producer.add("orders", 0)
        producer.now += 500
        producer.end_by_server(5)
        producer.now += 100
        producer.initialise()
        write_here(world, story)
        before = world.time.wall
        world.time.pass_(1.0)
        read(world, source)
        if ahead:
            *_, end = fact(read(world, source), Recent).unclean.since(0)
            assert before - 7.0 <= end.ended <= world.time.wall


@pytest.mark.parametrize(("first", "second", "seconds", "outcome"), [
    (2, 1, 4.0, "timed_out"), (2, 1, 0.3, "fenced"), (1, 2, 0.3, "fenced"), (1, 2, 4.0, "timed_out"),
])  # fmt: skip
def test_a_coordinator_that_moves_after_the_abort_does_not_make_a_fence_of_a_timeout(
    first: int, second: int, seconds: float, outcome: str
) -> None:
    """What tells them apart is how soon the next incarnation's record comes, by the clocks of two coordinators."""
    world, story, source = skewed_log()
    ahead = {1: 0.0, 2: AHEAD}
    producer = story.ids["app-1"]
    if first == 2:
        move(world, 2)
        world.time.pass_(6.0)
        read(world, source)
    producer.now = round((world.time.wall + ahead[first]) * 1000)
    producer.add("orders", 0)
    producer.now += 61_000
    world.time.pass_(61.0)
    producer.end_by_server(5)
    write_here(world, story)
    read(world, source)
    move(world, second)
    world.time.pass_(seconds)
    producer.now = round((world.time.wall + ahead[second]) * 1000)
    producer.initialise()
    write_here(world, story)
    reads = []
    for _ in range(4):
        world.time.pass_(6.0)
        reads.append(read(world, source))
    assert {name for name, count in counts(reads[-1]).items() if count} == {"committed", outcome}


@pytest.mark.parametrize("outcome", ["fenced", "timed_out"])
def test_past_its_timeout_by_the_clock_of_its_next_coordinator_the_next_record_tells_a_fence(outcome: str) -> None:
    """The scan for timeouts compares both coordinators' own clocks (TransactionStateManager.timedOutTransactions)."""
    world, story, source = skewed_log()
    story["app-1"].add("orders", 0)
    story.write()
    read(world, source)
    move(world, 2)
    world.time.pass_(6.0)
    read(world, source)
    producer = story.ids["app-1"]
    producer.now = round((world.time.wall + AHEAD) * 1000)  # past its timeout by that clock
    producer.end_by_server(5)
    producer.now += 100 if outcome == "fenced" else 5000
    producer.initialise()
    write_here(world, story)
    for _ in range(3):
        world.time.pass_(6.0)
        read(world, source)
    world.time.pass_(6.0)
    seen = read(world, source)
    assert {name for name, count in counts(seen).items() if count} == {"committed", outcome}


# --- Another cluster, and another log ---


def test_after_a_lost_connection_nothing_is_taken_until_the_cluster_is_confirmed() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 1}
    world.log_reads.disconnects += 1
    world.other = Fault(Reason.IDENTITY, "broker 1 belongs to the cluster B")
    story.commit("app-1")
    for _ in range(2):
        assert counts(read(world, source)) in ({"committed": 1}, {})
        world.time.pass_(6.0)
    seen = read(world, source)
    assert counts(seen) in ({"committed": 1}, {})
    world.time.pass_(6.0)
    assert seen.reasons == {Reason.IDENTITY}
    assert LoggedTransactions not in seen.facts, "what is open is not known"
    world.other = None
    read(world, source)
    world.time.pass_(6.0)
    assert counts(read(world, source)) == {"committed": 2}


def test_another_log_of_the_same_cluster_gets_a_state_of_its_own(tmp_path: Path) -> None:
    def process(world: FakeKafka, commits: int) -> Counter[str]:
        source = txnlog_source(world, tmp_path)
        read(world, source)
        story = LogScript(world, "app-1")
        story._offset = world.topics[LOG][0].high_watermark
        story["app-1"].initialise()
        for _ in range(commits):
            story.commit("app-1")
        seen = read(world, source)
        source.close()
        return counts(seen)

    first, formatted = log_world(), log_world()
    first.topic_ids, formatted.topic_ids = {LOG: "A"}, {LOG: "B"}
    assert process(first, 3) == {"committed": 3}
    kept = (tmp_path / "cluster-1" / "txnlog.json").read_text()
    assert process(formatted, 2) == {"committed": 2}
    assert (tmp_path / "cluster-1" / "txnlog.json").read_text() == kept
    assert process(formatted, 1) == {"committed": 3}
    assert process(first, 1) == {"committed": 4}


# --- A log that is not what it was ---


def test_end_offsets_of_a_broker_that_is_behind_are_no_truncation() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    read(world, source)
    story["app-1"].initialise()
    for _ in range(10):
        story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 10}
    end = world.topics[LOG][0].high_watermark
    for _ in range(3):
        world.topics[LOG][0].high_watermark, world.topics[LOG][0].log_end = 1, end
        world.time.pass_(5.0)
        assert counts(read(world, source)) == {"committed": 10}
        world.topics[LOG][0].high_watermark = end
        world.time.pass_(5.0)
        assert counts(read(world, source)) == {"committed": 10}
    story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 11}


def truncate(world: FakeKafka, offset: int, epoch: int) -> None:
    """An unclean election: the new leader has nothing from this offset on."""
    world.log[0] = [record for record in world.log[0] if record.offset < offset]
    partition = world.topics[LOG][0]
    partition.high_watermark, partition.epoch, partition.epoch_end = offset, epoch, (epoch - 1, offset)
    partition.epoch_begins = offset


@pytest.mark.parametrize("restart", [False, True])
def test_a_truncated_log_is_read_on_from_where_its_leader_epoch_ended_and_counts_nothing_twice(
    tmp_path: Path, restart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world, tmp_path)
    read(world, source)
    story["app-1"].initialise()
    for _ in range(3):
        story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 3}
    lost = world.log[0][-1]
    truncate(world, lost.offset, epoch=1)
    if restart:
        source = txnlog_source(world, tmp_path)
    world.time.pass_(6.0)
    read(world, source)
    world.time.pass_(6.0)
    assert counts(read(world, source)) == {"committed": 3}
    assert "was truncated at offset 9" in caplog.text
    world.topics[LOG][0].epoch_end = None
    world.write([lost])  # the new coordinator completes what was decided
    world.time.pass_(6.0)
    assert counts(read(world, source)) == {"committed": 3}
    story.commit("app-1")
    seen = read(world, source)
    assert counts(seen) == {"committed": 4}
    assert not seen.faults


def opened(seen: SourceRead) -> list[str]:
    return [transaction.transactional_id for transaction in fact(seen, LoggedTransactions).opened.transactions]


def open_transaction(world: FakeKafka, directory: Path | None = None) -> tuple[LogScript, TxnlogSource]:
    """The transaction of app-2 is open by the newest record of the log; app-1 has ended one."""
    story = LogScript(world, "app-1", "app-2")
    source = txnlog_source(world, directory)
    read(world, source)
    for name in ("app-1", "app-2"):
        story[name].initialise()
    story.commit("app-1")
    story["app-2"].add("orders", 0)
    story.write()
    assert opened(read(world, source)) == ["app-2"]
    return story, source


def test_a_transaction_whose_records_the_log_lost_is_unknown_until_its_coordinator_answers() -> None:
    world = log_world()
    _, source = open_transaction(world)
    truncate(world, world.log[0][-1].offset, epoch=1)
    coordinate(world)
    world.time.pass_(6.0)
    seen = read(world, source)
    assert seen.reasons == {Reason.LOST}
    assert (
        "lost records that were read: whether 1 of its ids have a transaction open is unknown" in seen.faults[0].detail
    )
    known = fact(seen, LoggedTransactions).opened
    assert (known.transactions, known.complete) == ((), False), "no evidence rests on a lost record"
    assert any("lost records" in missing for missing in known.missing)
    changes = fact(seen, LogChanges).of(0)
    assert len(changes.elected) == len(changes.lost) == 1
    assert changes.lost[0].until == world.time.wall
    world.time.pass_(6.0)
    seen = read(world, source)
    assert not seen.faults
    assert fact(seen, LoggedTransactions).opened.complete
    assert opened(seen) == []


def test_what_a_lost_record_had_ended_is_open_again_while_its_coordinator_says_so_and_counts_once() -> None:
    world = log_world()
    story, source = open_transaction(world)
    story["app-2"].end(commit=True, markers_ms=5)
    decided = len(world.log[0])
    story.write()
    ended = world.log[0][decided:]
    assert counts(read(world, source)) == {"committed": 2}
    truncate(world, ended[0].offset, epoch=1)
    coordinate(world)
    world.time.pass_(6.0)
    read(world, source)
    world.time.pass_(6.0)
    assert opened(read(world, source)) == ["app-2"]
    world.topics[LOG][0].epoch_end = None
    world.write(ended)
    coordinate(world)
    world.time.pass_(6.0)
    seen = read(world, source)
    assert counts(seen) == {"committed": 2}
    assert opened(seen) == []


@pytest.mark.parametrize("killed_after_it_was_seen", [False, True])
def test_a_restart_restores_nothing_that_the_log_lost(tmp_path: Path, killed_after_it_was_seen: bool) -> None:
    world = log_world()
    story, source = open_transaction(world, tmp_path)
    source.close()
    truncate(world, world.log[0][-1].offset, epoch=1)
    coordinate(world)
    if killed_after_it_was_seen:
        source = txnlog_source(world, tmp_path)
        world.time.pass_(6.0)
        read(world, source)
    world.topics[LOG][0].epoch_end = None
    story.ids.pop("app-2")
    for _ in range(5):  # the log grows beyond the offset of the lost record
        story._offset = world.topics[LOG][0].high_watermark
        story.commit("app-1")
    if not killed_after_it_was_seen:
        world.topics[LOG][0].epoch_end = (0, 5)
    again = txnlog_source(world, tmp_path)
    world.time.pass_(6.0)
    read(world, again)
    world.time.pass_(6.0)
    seen = read(world, again)
    assert opened(seen) == []
    assert len(fact(seen, LogChanges).of(0).lost) == 1


def test_two_logs_that_part_before_the_last_epoch_agree_only_up_to_there(caplog: pytest.LogCaptureFixture) -> None:
    """A log was read in the epochs 0 and 1; the next leader has more of epoch 0 instead, and went on in epoch 2."""
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    read(world, source)  # offsets 0 to 3
    world.topics[LOG][0].epoch = 1
    story.commit("app-1")
    for _ in range(2):
        world.time.pass_(6.0)
        read(world, source)  # 4 to 6, in epoch 1
    partition = world.topics[LOG][0]
    partition.epoch, partition.epoch_end, partition.high_watermark = 2, (0, 30), 40
    world.time.pass_(6.0)
    read(world, source)
    assert "was truncated at offset 4" in caplog.text


def test_records_that_were_deleted_before_they_were_read_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    read(world, source)
    world.log_reads.silent = {0}
    for _ in range(3):
        story.commit("app-1")
    world.log_reads.silent = set()
    world.topics[LOG][0].log_start = 10
    world.log[0] = [record for record in world.log[0] if record.offset >= 10]
    for _ in range(2):
        world.time.pass_(6.0)
        read(world, source)
    seen = read(world, source)
    assert counts(seen) == {"committed": 2}
    assert seen.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 6
    assert "begins at offset 10" in caplog.text


def test_a_leader_that_says_nothing_of_its_epochs_leaves_the_position_unread_and_known(tmp_path: Path) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world, tmp_path)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    read(world, source)
    world.refuse["OffsetForLeaderEpoch"] = 75
    story.commit("app-1")
    source = txnlog_source(world, tmp_path)
    for _ in range(2):
        seen = read(world, source)
        assert seen.faults
        assert not seen.values(COUNTED)
        world.time.pass_(6.0)
    world.refuse.clear()
    assert counts(read(world, source)) == {"committed": 2}


def test_a_leader_in_an_older_epoch_than_was_read_is_not_believed(tmp_path: Path) -> None:
    """A broker that was cut off before the election: its log is short and has no records of the newer epoch."""
    world = log_world()
    story = LogScript(world, "app-1")
    world.topics[LOG][0].epoch = 4
    source = txnlog_source(world, tmp_path)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 1}
    partition, records = world.topics[LOG][0], list(world.log[0])
    partition.epoch, partition.high_watermark, partition.epoch_end = 3, 1, (-1, -1)
    world.log[0] = records[:1]
    source = txnlog_source(world, tmp_path)
    for _ in range(4):
        seen = read(world, source)
        assert "epoch 3, and was read to epoch 4" in seen.faults[0].detail
        assert not seen.values(COUNTED)
        world.time.pass_(6.0)
    partition.epoch, partition.high_watermark, partition.epoch_end = 5, len(records), None
    world.log[0] = records
    story.commit("app-1")
    read(world, source)
    world.time.pass_(6.0)
    seen = read(world, source)
    assert counts(seen) == {"committed": 2}
    assert seen.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 0


# --- Log time ---


def test_an_abort_waits_while_records_wait_for_replication() -> None:
    """The new incarnation's record is in the log, and not below the high watermark: a follower is paused."""
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    story["app-1"].initialise()
    read(world, source)
    story["app-1"].add("orders", 0)
    story["app-1"].end_by_server(5)
    story.write()
    read(world, source)
    high = world.topics[LOG][0].high_watermark
    story["app-1"].now += 500
    story["app-1"].initialise()
    story.write()
    partition = world.topics[LOG][0]
    partition.high_watermark, partition.log_end = high, high + 1
    for _ in range(12):
        world.time.pass_(1.0)
        assert counts(read(world, source)) == {}
    partition.high_watermark, partition.log_end = high + 1, None
    world.time.pass_(5.0)
    assert counts(read(world, source)) == {"fenced": 1}


def test_an_abort_waits_while_the_log_end_is_not_known() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    story["app-1"].initialise()
    read(world, source)
    story["app-1"].add("orders", 0)
    story["app-1"].end(commit=False, markers_ms=5)
    story.write()
    read(world, source)
    world.refuse["ListOffsets"] = 6
    for _ in range(12):
        world.time.pass_(1.0)
        assert counts(read(world, source)) == {}
    world.refuse.clear()
    for _ in range(6):
        world.time.pass_(1.0)
        read(world, source)
    assert counts(read(world, source)) == {"aborted": 1}


def test_after_an_outage_nothing_is_said_of_what_is_open_until_the_log_was_read() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    story["app-1"].initialise()
    story["app-1"].add("orders", 0)
    story.write()
    assert len(fact(read(world, source), LoggedTransactions).opened.transactions) == 1
    world.down, world.log_reads.cut = {1}, True
    world.time.pass_(30.0)
    read(world, source)
    story["app-1"].end(commit=True, markers_ms=5)
    story.write()
    world.down = set()
    for _ in range(6):
        world.time.pass_(1.0)
        seen = read(world, source)
        assert LoggedTransactions not in seen.facts
    world.log_reads.cut = False
    world.time.pass_(1.0)
    seen = read(world, source)
    assert fact(seen, LoggedTransactions).opened.transactions == ()


def test_what_is_open_is_known_as_of_the_log_end_and_not_of_the_high_watermark() -> None:
    """The coordinator's abort is in the log and waits for replication: nothing shows that the transaction is late."""
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    story["app-1"].initialise()
    story["app-1"].add("orders", 0)
    story.write()
    for _ in range(3):
        world.time.pass_(5.0)
        read(world, source)
    known = world.time.monotonic
    assert fact(read(world, source), LoggedTransactions).opened.as_of == known
    partition = world.topics[LOG][0]
    partition.log_end = partition.high_watermark + 1
    for _ in range(4):
        world.time.pass_(5.0)
        assert fact(read(world, source), LoggedTransactions).opened.as_of == known
    partition.log_end = None
    world.time.pass_(5.0)
    assert fact(read(world, source), LoggedTransactions).opened.as_of == world.time.monotonic


def test_the_lag_is_absent_while_the_end_of_a_partition_is_not_known() -> None:
    world, _ = two_partitions()
    source = txnlog_source(world)
    assert read(world, source).value(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS) == 0
    world.topics[LOG][1].leader = None
    world.time.pass_(5.0)
    assert not read(world, source).values(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS)


# --- Weather ---


def test_where_reading_is_refused_there_are_no_counters_and_the_grant_is_named_and_they_come_after_it() -> None:
    world = log_world()
    world.log_reads.refused = True
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    for _ in range(3):
        seen = read(world, source)
        world.time.pass_(5.0)
        assert seen.samples == []
        assert LoggedTransactions not in seen.facts
        assert [fault.reason for fault in seen.faults] == [Reason.AUTHORIZATION]
        assert f"grant READ on Topic:{LOG}" in seen.faults[0].detail
    world.log_reads.refused = False
    story["app-1"].initialise()
    story.commit("app-1")
    world.time.pass_(6.0)
    seen = read(world, source)
    assert not seen.faults
    assert counts(seen) == {"committed": 1}


def test_while_the_cluster_is_down_the_counters_do_not_move_and_go_on_when_it_is_back() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    read(world, source)
    story["app-1"].initialise()
    story.commit("app-1")
    assert counts(read(world, source)) == {"committed": 1}
    world.down, world.log_reads.cut = {1}, True
    for _ in range(4):
        world.time.pass_(5.0)
        seen = read(world, source)
        assert seen.reasons == {Reason.UNREACHABLE}
        assert counts(seen) == {"committed": 1}
        assert not seen.values(catalogue.TRANSACTIONS_OPEN)
        assert not seen.values(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS)
    world.down, world.log_reads.cut = set(), False
    story.commit("app-1")
    world.time.pass_(5.0)
    seen = read(world, source)
    assert not seen.faults
    assert counts(seen) == {"committed": 2}


def test_behind_a_broken_connection_no_fence_is_settled_as_an_abort() -> None:
    """The new incarnation's record was written in time; we only see it when the network is back."""
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    story["app-1"].initialise()
    story["app-1"].add("orders", 0)
    story.write()
    read(world, source)
    world.time.pass_(1.0)
    story["app-1"].end_by_server(5)
    story.write()
    read(world, source)
    world.down, world.log_reads.cut = {1}, True
    story["app-1"].now += 500
    story["app-1"].initialise()
    story.write()
    for _ in range(30):
        world.time.pass_(1.0)
        assert counts(read(world, source)) == {}
    world.down, world.log_reads.cut = set(), False
    world.time.pass_(5.0)
    assert counts(read(world, source)) == {"fenced": 1}


def test_an_abort_is_settled_by_the_clock_where_nothing_more_is_written() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    story["app-1"].initialise()
    read(world, source)
    story["app-1"].add("orders", 0)
    story["app-1"].end(commit=False, markers_ms=5)
    story.write()
    elapsed = 0.0
    while not counts(read(world, source)):
        world.time.pass_(1.0)
        elapsed += 1.0
        assert elapsed < 20
    assert 5.0 < elapsed <= 7.0


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_wall_clock_that_jumps_a_day_neither_settles_nor_delays_anything(jump: float) -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    story["app-1"].initialise()
    read(world, source)
    story["app-1"].add("orders", 0)
    story["app-1"].end_by_server(5)
    story.write()
    read(world, source)
    world.time.wall += jump
    world.time.pass_(1.0)
    assert counts(read(world, source)) == {}
    world.time.wall -= jump
    story["app-1"].initialise()
    story.write()
    world.time.wall += jump
    assert counts(read(world, source)) == {"fenced": 1}


def test_a_missing_leader_is_a_fault_and_the_other_partitions_are_counted() -> None:
    world = log_world(2)
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    read(world, source)
    world.topics[LOG][1].leader = None
    story["app-1"].initialise()
    story.commit("app-1")
    world.time.pass_(5.0)
    seen = read(world, source)
    assert seen.reasons == {Reason.NO_LEADER}
    assert counts(seen) == {"committed": 1}
    assert not fact(seen, LoggedTransactions).opened.complete


def test_undecodable_records_are_counted_named_and_leave_the_others_alone() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    source = txnlog_source(world)
    read(world, source)
    story["app-1"].initialise()
    story.write()
    world.write(
        CoordinatorRecord(0, offset, BEGIN_MS + 1, encode_key("odd-1"), value)
        for offset, value in ((1, b"\x00\x02new"), (2, b"\x00\x01short"))
    )
    story._offset = 3
    story.commit("app-1")
    world.time.pass_(5.0)
    seen = read(world, source)
    assert seen.value(catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL) == 2
    assert seen.reasons == {Reason.UNSUPPORTED, Reason.MALFORMED}
    assert counts(seen) == {"committed": 1}
    opened = fact(seen, LoggedTransactions).opened
    assert not opened.complete
    assert "offset 2" in " ".join(opened.missing)
    world.write([CoordinatorRecord(0, story._offset, BEGIN_MS + 9, encode_key("odd-1"), None)])
    for _ in range(2):
        world.time.pass_(5.0)
        seen = read(world, source)
    assert not seen.faults
    assert fact(seen, LoggedTransactions).opened.complete


def test_a_flood_of_garbage_costs_neither_memory_nor_a_fault_each() -> None:
    world = log_world()
    source = txnlog_source(world)
    read(world, source)
    world.write(CoordinatorRecord(0, offset, BEGIN_MS, b"%d" % offset, b"garbage") for offset in range(5_000))
    seen = read(world, source)
    assert len(seen.faults) <= 10
    assert seen.value(catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL) == 5_000
    assert len(unread_of(source)) <= 1_001


# --- What it says of the present ---


def test_the_state_at_the_start_comes_from_the_coordinators() -> None:
    world = log_world()
    world.transactions["app-1"] = FakeTransaction(7, "Ongoing", [("orders", 3)], 4, 60_000, BEGIN_MS - 7_200_000)
    seen = read(world, txnlog_source(world))
    opened = fact(seen, LoggedTransactions).opened
    assert [(transaction.transactional_id, transaction.partitions) for transaction in opened.transactions] == [
        ("app-1", places("orders", 3))
    ]


def test_a_coordinator_that_is_loading_is_asked_again_and_until_then_nothing_is_complete() -> None:
    world = log_world()
    world.transactions["app-1"] = FakeTransaction(7, "Ongoing", [("orders", 3)], 4, 60_000, BEGIN_MS)
    world.refuse["ListTransactions"] = 14
    source = txnlog_source(world)
    opened = fact(read(world, source), LoggedTransactions).opened
    assert not opened.complete
    assert "COORDINATOR_LOAD_IN_PROGRESS" in " ".join(opened.missing)
    world.refuse.clear()
    for _ in range(3):
        world.time.pass_(5.0)
        opened = fact(read(world, source), LoggedTransactions).opened
    assert opened.complete
    assert len(opened.transactions) == 1


def test_without_describe_on_the_ids_the_open_transactions_are_never_complete() -> None:
    world = log_world()
    world.refuse["DescribeTransactions"] = 53
    source = txnlog_source(world)
    for _ in range(3):
        opened = fact(read(world, source), LoggedTransactions).opened
        world.time.pass_(5.0)
        assert not opened.complete
        assert "DESCRIBE on TransactionalId:*" in " ".join(opened.missing)


def test_a_tail_that_is_behind_says_nothing_of_what_is_open() -> None:
    world = log_world()
    source = txnlog_source(world)
    world.time.pass_(5.0)
    read(world, source)
    world.time.pass_(5.0)
    assert fact(read(world, source), LoggedTransactions).opened.complete
    world.topics[LOG][0].high_watermark = 40
    world.log_reads.cut = True
    world.time.pass_(5.0)
    read(world, source)
    world.time.pass_(5.0)
    seen = read(world, source)
    assert LoggedTransactions not in seen.facts
    assert seen.value(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS) == 40


def flink_job(world: FakeKafka, checkpoint: float) -> LogScript:
    """A job with a checkpoint every minute, whose seventh transaction waits for the one that begins at this instant."""
    names = [f"sums-0-{number}" for number in range(1, 8)]
    script = LogScript(world, *names)
    ids = [script.ids[name] for name in names]
    for number, producer in enumerate(ids):  # each is initialised at a checkpoint, and the one before it is committed
        producer.now = round(checkpoint * 1000)
        producer.initialise()
        producer.now += 300
        producer.add("orders", 0)
        if number:
            ids[number - 1].now = round(checkpoint * 1000) + 500
            ids[number - 1].end(commit=True, markers_ms=20)
        checkpoint += 60.0
    return script


def test_what_a_flink_job_has_decided_is_released_until_its_markers_are_late() -> None:
    world = log_world()
    script = flink_job(world, world.time.wall)
    *_, decided, last = script.ids.values()
    decided.written.pop()  # the record of its completion
    script.write()
    source = txnlog_source(world)
    read(world, source)
    world.time.pass_(1.0)
    flink = fact(read(world, source), FlinkTransactions)
    assert flink.by_producer.keys() == {last.producer_id}
    assert flink.released == {decided.producer_id}
    world.time.pass_(15.0)
    assert fact(read(world, source), FlinkTransactions).released == set()


@pytest.mark.parametrize("how", ["no answer", "behind"])
def test_what_waits_for_a_checkpoint_is_told_where_its_partition_of_the_log_is_not_read_to_its_end(how: str) -> None:
    world = log_world(2)
    script = flink_job(world, world.time.wall)
    *_, last = script.ids.values()
    script.write()
    source = txnlog_source(world)
    read(world, source)
    world.time.pass_(5.0)
    assert fact(read(world, source), FlinkTransactions).by_producer.keys() == {last.producer_id}
    if how == "behind":
        world.topics[LOG][0].high_watermark += 40
        world.log_reads.cut = True
    else:
        world.topics[LOG][0].leader = None
    for _ in range(3):
        world.time.pass_(5.0)
        seen = read(world, source)
        assert (LoggedTransactions in seen.facts) == (how == "no answer")
        if how == "no answer":
            assert fact(seen, LoggedTransactions).opened.transactions == ()
        assert fact(seen, FlinkTransactions).by_producer.keys() == {last.producer_id}
    world.time.pass_(180.0)  # it may have ended since, and is not within the rhythm of its job
    assert fact(read(world, source), FlinkTransactions).by_producer == {}


def test_release_times_are_those_of_the_last_transaction_that_wrote_to_a_partition() -> None:
    world = log_world()
    story = LogScript(world, "app-1")
    story["app-1"].initialise()
    story.commit("app-1")
    ended = fact(read(world, txnlog_source(world)), ReleaseTimes).ended
    assert dict(ended) == {("orders", 0): BEGIN_MS / 1000 + 0.005}


def test_an_application_that_appears_is_counted_among_the_ids_at_once() -> None:
    world = log_world()
    story = LogScript(world, "old-1", "new-1")
    source = txnlog_source(world)
    story["old-1"].initialise()
    story.write()
    read(world, source)
    world.time.pass_(1.0)
    story["new-1"].initialise()
    story.write()
    assert read(world, source).values(catalogue.TRANSACTIONAL_IDS) == {("old",): 1, ("new",): 1}


def test_ids_that_come_and_go_leave_nothing_behind() -> None:
    world = log_world()
    story = LogScript(world)
    source = txnlog_source(world)
    world.log[0] = []
    read(world, source)

    def sizes() -> dict[str, int]:
        machine, counted = source._log.machine(0), source._aggregates
        held = {"entries": machine.entries, "open": machine.open, "applications": counted._by_name}
        held |= {"seen": counted.applications.seen, "unread": unread_of(source)}
        held |= {
            "ends": tuple(counted.ends.unclean),
            "folded": counted.applications.folded,
            "counted ids": counted.applications.ids[0],
        }
        return {name: len(cast("Sized", kept)) for name, kept in held.items()} | {
            "unsettled": len(machine.unsettled),
            "ids": sum(sum(numbers.values()) for numbers in fact(seen, KnownIds).by_partition.values()),
        }

    flat: list[dict[str, int]] = []
    for turn in range(5):
        names = [f"crowd-{turn}-x{number}" for number in range(2_000)]
        for name in names:
            producer = CoordinatorId(name, 2, True, round(world.time.wall * 1000), iter(range(9_000)))
            producer.initialise()
            producer.add("orders", 0)
            producer.end_by_server(1)
            producer.initialise()
            producer.expire()
            records = [(record.ms, record.key, record.value) for record in producer.written]
            base = story._offset
            world.log[0] += [CoordinatorRecord(0, base + at, *record) for at, record in enumerate(records)]
            story._offset += len(records)
        world.topics[LOG][0].high_watermark = story._offset
        read(world, source)
        world.log[0].clear()
        world.time.pass_(4_000.0)
        read(world, source)
        world.time.pass_(20.0)
        seen = read(world, source)
        flat.append(sizes())
    assert flat[0] == flat[-1]
    assert max(flat[-1].values()) <= 200


def test_status_numbers_are_kafkas() -> None:
    assert [int(producer) for producer in Status] == [0, 1, 2, 3, 4, 5]


def fact(seen: SourceRead, kind: type[F]) -> F:
    found = seen.facts[kind]
    assert isinstance(found, kind)
    return found


def unread_of(source: TxnlogSource) -> Sized:
    return source._tail.records.unread


# --- The coordinators' time ---


def record(offset: int, ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(0, offset, ms, encode_key(f"app-{offset}"), None)


@pytest.mark.parametrize("skew", [80.0, -80.0])
def test_new_records_say_how_far_our_clock_is_from_the_coordinators(skew: float) -> None:
    world = log_world()
    source = txnlog_source(world)
    seen = read(world, source)
    for number in range(4):
        world.time.pass_(1.0)
        world.write([record(number, round((world.time.wall - skew - 0.25) * 1000))])
        seen = read(world, source)
    time = fact(seen, LoggedTransactions).clock.beside(world.time.wall - world.time.monotonic)
    assert time.ahead == pytest.approx(skew + 0.25)


def test_records_that_were_there_before_say_only_that_it_is_later() -> None:
    world = log_world()
    world.write([record(0, round((world.time.wall - 1800) * 1000))])
    source = txnlog_source(world)
    read(world, source)
    world.time.pass_(1.0)
    seen = read(world, source)
    time = fact(seen, LoggedTransactions).clock.beside(world.time.wall - world.time.monotonic)
    assert time.ahead is None
    assert time.at_most == pytest.approx(1800)
