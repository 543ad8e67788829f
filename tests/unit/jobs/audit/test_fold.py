"""The audit's fold and search over arrays: suspicious is exactly what a plain check finds, however it is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.jobs.audit import fold as audit_fold
from exporter.jobs.audit import search as audit_search
from exporter.jobs.audit.fold import (
    EMPTY,
    Fold,
    OffsetSpan,
    Plan,
    folder,
    parts_of,
    place,
    position,
    rows,
    runs_of,
    unpack,
)
from exporter.jobs.audit.search import Comparison, Search, broken, comparer, fold_sink, searcher

PARTS = (0,)
SPANS = {0: OffsetSpan(0, 0, 40)}

Row = tuple[int, int, int, bytes]


def batches(columns: dict[str, list[int | None]], size: int) -> Iterator[pa.RecordBatch]:
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return iter(table.to_batches(size))


def searched(folded: Iterable[pa.RecordBatch], search: Search) -> list[Row]:
    found = searcher(search)(iter(folded))
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def suspects(found: Iterable[Row], kind: Fold, columns: int) -> list[tuple[int, ...]]:
    return [
        tuple(int(value) for value in values)
        for number, _, _, data in found
        if number == kind
        for values in zip(*unpack(data, columns), strict=True)
    ]


@pytest.mark.parametrize("count", [1, 2, 5, 8, 100])
def test_parts_lead_to_each_task_once(count: int) -> None:
    parts = parts_of(count)
    assert sorted(audit_fold._murmur3(part) % count for part in parts) == list(range(count))


def test_murmur3_is_sparks() -> None:
    # SELECT hash(0), hash(1), hash(42), hash(-1) on Spark 4.0.0
    assert [audit_fold._murmur3(value) for value in (0, 1, 42)] == [933211791, -559580957, 29417773]


@given(st.integers(0, 2**19 - 1), st.integers(0, 2**44 - 1))
def test_a_position_is_its_partition_and_offset(partition: int, offset: int) -> None:
    assert place(position(partition, offset)) == (partition, offset)


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=40), st.integers(1, 7))
def test_suspects_are_the_records_whose_hash_is_there_twice(hashes: list[int | None], size: int) -> None:
    columns: dict[str, list[int | None]] = {"position": list(range(len(hashes))), "id_hash": hashes}
    folded = folder(Plan(PARTS, Fold.IDS, offsets=Fold.KEPT))(batches(columns, size))
    found = searched(folded, Search(SPANS))
    counts = Counter(hashes)
    expected = [(hashed, at) for at, hashed in enumerate(hashes) if hashed is not None and counts[hashed] > 1]
    assert sorted(suspects(found, Fold.SUSPECT_IDS, 2)) == sorted(expected)
    assert sum(where for kind, _, where, _ in found if kind == Fold.BLANK) == counts[None]
    assert sum(int(unpack(data, 3)[0][0]) for kind, _, _, data in found if kind == Fold.COUNT) == len(hashes)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), max_size=40), st.integers(1, 7))
def test_a_key_is_suspicious_when_its_numbers_do_not_go_up_by_one(records: list[tuple[int, int]], size: int) -> None:
    columns: dict[str, list[int | None]] = {
        "position": list(range(len(records))),
        "key_hash": [key for key, _ in records],
        "key_hash_2": [key + 7 for key, _ in records],
        "sequence": [number for _, number in records],
    }
    found = searched(folder(Plan(PARTS, keys=True))(batches(columns, size)), Search())
    expected = set()
    for key in {key for key, _ in records}:
        numbers = [number for record_key, number in records if record_key == key]
        if any(after != before + 1 for before, after in pairwise(numbers)):
            at = [offset for offset, (record, _) in enumerate(records) if record == key]
            expected.add((key, key + 7, at[0], at[-1]))
    assert set(suspects(found, Fold.SUSPECT_KEYS, 4)) == expected


def test_a_key_without_an_anomaly_is_one_run_however_often_it_is_there() -> None:
    count = 100_000
    zeros = np.zeros(count, dtype=np.int64)
    runs = runs_of(zeros, zeros, np.arange(count), np.arange(count))
    assert [column.tolist() for column in runs] == [[0], [0], [0], [count - 1], [0], [count - 1]]


def test_a_batch_tells_only_of_what_it_brings() -> None:
    columns: dict[str, list[int | None]] = {"position": [0, 1, 2, 3, 4], "id_hash": [7, 7, 8, 9, 8]}
    folded = list(folder(Plan(PARTS, Fold.IDS))(batches(columns, 9)))
    found = searched(folded, Search(fresh={0: OffsetSpan(0, 3, 5)}))
    assert sorted(suspects(found, Fold.SUSPECT_IDS, 2)) == [(8, 2), (8, 4)]


def test_the_first_and_the_last_offset_without_a_record_are_reported() -> None:
    columns: dict[str, list[int | None]] = {"position": [0, 1, 3, 5, 6]}
    found = searched(folder(Plan(PARTS, offsets=Fold.KEPT))(batches(columns, 2)), Search({0: OffsetSpan(0, 0, 7)}))
    (count,) = [unpack(data, 3) for kind, _, _, data in found if kind == Fold.COUNT]
    assert [int(column[0]) for column in count] == [5, 2, 4]


@given(
    st.lists(st.sampled_from("KHN"), min_size=1, max_size=30),  # kept, held (aborted), nothing
    st.lists(st.integers(0, 34), max_size=30),
    st.integers(0, 31),
)
def test_a_sink_is_distinguished_offset_by_offset(log: list[str], stored: list[int], due: int) -> None:
    end = len(log)
    spans = {0: OffsetSpan(0, 0, end)}
    kept, held = ([at for at, what in enumerate(log) if what in wanted] for wanted in ("K", "KH"))
    folded = [
        *folder(Plan(PARTS, offsets=Fold.KEPT))(batches({"position": list(kept)}, 3)),
        *folder(Plan(PARTS, offsets=Fold.HELD))(batches({"position": list(held)}, 3)),
        *fold_sink(PARTS)(batches({"position": list(stored)}, 4)),
    ]
    wanted = (int(Fold.KEPT), int(Fold.HELD), int(Fold.SINK))
    input_ = [rows([tuple(row.values())]) for batch in folded for row in batch.to_pylist() if row["kind"] in wanted]
    compared = comparer(Comparison(spans, sink=True, expected={0: due}))(iter(input_))
    found = [tuple(row.values()) for batch in compared for row in batch.to_pylist()]

    def offsets(kind: Fold, columns: int = 1) -> list[int]:
        return sorted(values[0] for values in suspects(found, kind, columns))

    counts = Counter(stored)
    assert offsets(Fold.ABORTED) == [at for at in held if at not in kept]
    assert offsets(Fold.SINK_REPEATED, 2) == sorted(at for at, times in counts.items() if times > 1)
    assert offsets(Fold.SINK_AHEAD) == sorted(at for at in counts if at >= end)
    assert offsets(Fold.SINK_ABORTED) == sorted(at for at in counts if at < end and log[at] == "H")
    assert offsets(Fold.SINK_STRANGE) == sorted(at for at in counts if at < end and log[at] == "N")
    assert offsets(Fold.SINK_MISSING) == [at for at in kept if at not in counts and at < due]


def test_rows_of_a_sink_without_a_position_are_counted() -> None:
    found = [row for batch in fold_sink(PARTS)(batches({"position": [3, None, None]}, 9)) for row in batch.to_pylist()]
    assert [row["place"] for row in found if row["kind"] == Fold.BLANK] == [2]


def test_numbers_that_may_leave_some_out_break_a_run_only_where_they_go_back() -> None:
    zeros = np.zeros(6, dtype=np.int64)
    numbers = np.array([3, 7, 9, 8, 8, 20])
    runs = runs_of(zeros, zeros, numbers, np.arange(6), sparse=True)
    assert [(int(first), int(last)) for first, last in zip(runs[2], runs[3], strict=True)] == [(3, 9), (8, 8), (8, 20)]
    suspects = broken(list(runs), Search(sparse=True))
    assert len(suspects[0]) == 1
    growing = runs_of(zeros, zeros, np.array([1, 5, 6, 7, 90, 91]), np.arange(6), sparse=True)
    assert not len(broken(list(growing), Search(sparse=True))[0])
    assert len(broken(list(growing), Search())[0]) == 0  # one run, which says nothing of what it leaves out


def test_records_left_out_keep_their_offsets_and_lose_their_ids() -> None:
    table = pa.RecordBatch.from_pydict(
        {
            "position": pa.array([0, 1, 2, 3 | EMPTY], pa.int64()),
            "chosen": pa.array([True, False, None, True]),
            "id_hash": pa.array([7, 8, 9, None], pa.int64()),
        }
    )
    plan = Plan(parts_of(1), Fold.IDS, offsets=Fold.KEPT)
    found = [row for batch in folder(plan)(iter([table])) for row in zip(*(c.to_pylist() for c in batch), strict=True)]
    by_kind = {Fold(kind): (where, data) for kind, _, where, data in found}
    assert by_kind[Fold.LEFT_OUT][0] == 2
    assert by_kind[Fold.IDS][0] == 1
    assert by_kind[Fold.BLANK_TOMBSTONE][0] == 1
    assert Fold.BLANK not in by_kind
    assert np.unpackbits(np.frombuffer(by_kind[Fold.KEPT][1], dtype=np.uint8)).sum() == 4


def test_records_that_the_condition_of_the_source_leaves_out_are_not_counted_as_the_topics() -> None:
    table = pa.RecordBatch.from_pydict(
        {"position": pa.array([0], pa.int64()), "chosen": pa.array([False]), "id_hash": pa.array([7], pa.int64())}
    )
    found = [
        row["kind"] for batch in folder(Plan(parts_of(1), Fold.SOURCE_IDS))(iter([table])) for row in batch.to_pylist()
    ]
    assert found == []


@pytest.mark.parametrize("module", [audit_fold, audit_search])
def test_classes_that_are_shipped_by_value_have_no_slots(module: ModuleType) -> None:
    """The cloudpickle of pyspark 3.5 ships a dataclass with slots without its values."""
    shipped = [found for found in vars(module).values() if is_dataclass(found)]
    assert shipped
    assert not [found for found in shipped if "__slots__" in vars(found)]
