"""The fold of the log into rows: the agent's own outcomes, however the log is cut into batches."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.applications.applications import Grouping
from exporter.jobs.history.fold import KEEP_MS, FoldState, PartitionFold, Row, day_of
from exporter.jobs.history.table import COLUMNS, KEPT_FIELDS, SCHEMA, RowFiles, read_kept, table_of, write_kept
from exporter.model import TopicPartition
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.counting.application_counters import counter_samples
from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.state_machine import StateMachine
from tests.helpers.coordinator import BEGIN_MS, CoordinatorId, CoordinatorRecord, GeneratedLog, histories, merge
from tests.helpers.recorded_log import JAVA_ON_4_3_1, RDKAFKA_ON_3_9_2, RDKAFKA_ON_4_3_1

QUIET_MS = 6_001


def group(transactional_id: str) -> str:
    return Grouping().of(transactional_id).name


def fold_in_batches(
    records: Sequence[CoordinatorRecord], cuts: Iterable[int], *, quiet_ms: int = QUIET_MS, through_files: bool = True
) -> list[Row]:
    """All rows of a log of one or more partitions, cut at these places; what is kept goes through files between."""
    edges = [0, *sorted(cuts), len(records)]
    rows: list[Row] = []
    standings: dict[int, FoldState] = {}
    kept: dict[int, list[Entry]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for batch, (first, last) in enumerate(pairwise(edges)):
            numbers = sorted({record.partition for record in records})
            for number in numbers:
                fold = PartitionFold(number, standings.get(number, FoldState()), kept.get(number, ()), group)
                mine = [record for record in records[first:last] if record.partition == number]
                for record in mine:
                    fold.record(record.offset, record.ms, record.key, record.value)
                end = mine[-1].offset + 1 if mine else fold.standing.next
                fold.end(end, quiet_ms if batch == len(edges) - 2 else -1)
                rows += fold.rows
                standings[number] = fold.standing
                kept[number] = fold.kept()
                if through_files:
                    name = write_kept(kept[number], Path(folder))
                    kept[number] = read_kept([Path(folder, name)], [number], group)
    return rows


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_rows_are_the_true_transactions_however_the_log_is_cut(history: GeneratedLog, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(history.records)), max_size=4))
    rows = fold_in_batches(history.records, cuts)
    found = {(row.log_partition, row.log_offset): row for row in rows}
    assert len(found) == len(rows)
    assert found.keys() == {(end.partition, end.offset) for end in history.ends}
    for end in history.ends:
        row = found[end.partition, end.offset]
        assert (row.transactional_id, row.outcome) == (end.transactional_id, end.outcome)
        assert (row.producer_id, row.producer_epoch) == (end.producer_id, end.producer_epoch)
        assert (row.begin, row.complete) == (end.begun_ms, end.completed_ms)
        assert frozenset(row.partitions or ()) == end.partitions


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_rows_do_not_depend_on_the_cuts(history: GeneratedLog, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(history.records)), max_size=8))
    assert sorted(fold_in_batches(history.records, cuts, through_files=False)) == sorted(
        fold_in_batches(history.records, (), through_files=False)
    )


@pytest.mark.parametrize(
    "captured", [JAVA_ON_4_3_1, RDKAFKA_ON_3_9_2, RDKAFKA_ON_4_3_1], ids=["java", "3.9", "rdkafka"]
)
def test_rows_of_real_logs_agree_with_the_agents_counters(captured: Sequence[tuple[int, int, int, str, str]]) -> None:
    records = [
        CoordinatorRecord(0, at, ms, bytes.fromhex(key), bytes.fromhex(value))
        for at, (_, _, ms, key, value) in enumerate(captured)
    ]
    aggregates = Aggregates(Grouping(), TransactionsConfig())
    machine = StateMachine(0, aggregates.appeared)
    events = [
        event for record in records for event in machine.apply(record.offset, record.ms, record.key, record.value)
    ]
    for event in (*events, *machine.log_time_reached(machine.log_ms + QUIET_MS)):
        aggregates.take(event, new=True)
    counted = {
        (sample.labels[1], sample.labels[2]): sample.value
        for sample in counter_samples("prod", aggregates.counted())
        if sample.metric.name == "kafka_eos_transactions_total" and sample.value
    }
    rows = fold_in_batches(records, (3, 5))
    assert rows
    assert Counter((row.application, row.outcome) for row in rows) == counted


def one_id(*, v2: bool = True) -> CoordinatorId:
    return CoordinatorId("pay-1", 2, v2, BEGIN_MS, iter(range(7, 100)))


def test_an_abort_that_could_be_a_fence_waits_over_a_batch_for_the_new_incarnation() -> None:
    new_id = one_id()
    new_id.initialise()
    new_id.now += 1_000
    new_id.add("orders", 0)
    new_id.now += 1_000
    new_id.end_by_server(markers_ms=5)
    new_id.now += 2_000
    new_id.initialise()
    records = merge([new_id], 1).records
    rows = fold_in_batches(records, [len(records) - 1])
    assert [row.outcome for row in rows] == ["fenced"]


def test_an_abort_is_settled_as_one_when_the_log_stays_quiet() -> None:
    new_id = one_id()
    new_id.initialise()
    new_id.add("orders", 0)
    new_id.now += 1_000
    new_id.end(commit=False, markers_ms=5)
    records = merge([new_id], 1).records
    assert fold_in_batches(records, (), quiet_ms=-1) == []
    assert fold_in_batches(records, (), quiet_ms=5_500) == []
    assert [row.outcome for row in fold_in_batches(records, ())] == ["aborted"]


def test_partitions_of_a_transaction_whose_records_were_compacted_are_unknown_and_not_those_of_the_one_before() -> None:
    new_id = one_id()
    new_id.initialise()
    for topic in ("orders", "payments"):
        new_id.now += 100
        new_id.add(topic, 0)
        new_id.now += 100
        new_id.end(commit=True, markers_ms=5)
    records = merge([new_id], 1).records
    *first, _, _, last = records  # of the second, only Complete was left when it was read
    one, two = fold_in_batches([*first, last], ())
    assert one.partitions == (TopicPartition("orders", 0),)
    assert (two.partitions, two.outcome) == (None, "committed")


def test_offsets_that_compaction_took_are_counted() -> None:
    new_id = one_id()
    new_id.initialise()
    new_id.add("orders", 0)
    record = merge([new_id], 1).records[0]
    fold = PartitionFold(0, FoldState(10), (), group)
    fold.record(13, record.ms, record.key, record.value)
    fold.end(20, -1)
    assert (fold.missing, fold.standing.next) == (3 + 6, 20)


def test_a_truncated_log_is_read_on_from_its_end() -> None:
    fold = PartitionFold(0, FoldState(100, BEGIN_MS), (), group)
    fold.end(40, -1)
    assert (fold.standing, fold.missing) == (FoldState(40, BEGIN_MS), 0)


def test_an_undecodable_record_is_counted_named_and_passed_over() -> None:
    fold = PartitionFold(3, FoldState(), (), group)
    fold.record(0, BEGIN_MS, b"\x00\x09", b"")
    fold.end(1, -1)
    assert fold.undecodable == 1
    assert "partition 3 offset 0" in fold.details[0]


def test_an_id_that_is_idle_for_an_hour_is_forgotten_and_an_open_one_never() -> None:
    idle, busy = one_id(), CoordinatorId("pay-2", 2, True, BEGIN_MS, iter(range(50, 99)))
    for folded in (idle, busy):
        folded.initialise()
        folded.add("orders", 0)
    idle.end(commit=True, markers_ms=1)
    other = CoordinatorId("pay-3", 2, True, BEGIN_MS + KEEP_MS + 60_000, iter(range(200, 300)))
    other.initialise()
    fold = PartitionFold(0, FoldState(), (), group)
    for record in merge([idle, busy, other], 1).records:
        fold.record(record.offset, record.ms, record.key, record.value)
    assert {kept_id.transactional_id for kept_id in fold.kept()} == {"pay-2", "pay-3"}


def test_every_field_of_an_entry_is_kept_or_made_anew() -> None:
    made_anew = {"application", "begun_ahead_ms", "ended_start_ms", "view"}
    assert {*KEPT_FIELDS, *made_anew, "pending", "due_ms"} == set(Entry.__slots__)


def test_rows_are_files_by_day_with_every_column(tmp_path: Path) -> None:
    noon = 1_790_000_000_000
    row = Row(
        "pay-1", "pay", 7, 2, None, "timed_out", None, noon - 5, noon, None, 0.005, None, None, 3, 99
    )  # fmt: skip
    files = RowFiles(tmp_path)
    files.add([row, row._replace(complete=noon + 86_400_000, log_offset=100)])
    names = files.close()
    assert [name.split("/")[0] for name in names] == ["day=2026-09-21", "day=2026-09-22"]
    assert day_of(row) == "2026-09-21"
    written = pq.ParquetFile(tmp_path / names[0]).read()
    assert written.schema.equals(SCHEMA)
    assert tuple(written.schema.names) == tuple(COLUMNS)
    assert set(COLUMNS) == set(Row._fields)
    assert written.equals(table_of([row]))
