"""The oracle of the chaos run, by itself: it imports nothing of the product, and gives the outcomes of the log."""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.chaos import oracle
from tests.chaos.oracle.clocks import by_one_clock, states_by_one_clock
from tests.chaos.oracle.data_log import held
from tests.chaos.oracle.offset_observer import OffsetObservation, moved_at, standings
from tests.chaos.oracle.outcomes import history
from tests.chaos.oracle.segments import SegmentBatch, batches
from tests.chaos.oracle.transaction_log import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    State,
    states,
)

ORACLE = Path(oracle.__file__).parent
V1, V2 = 0, 2


def _imports(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_oracle_imports_nothing_of_the_product_and_of_the_tests_only_itself() -> None:
    sources = list(ORACLE.glob("*.py"))
    assert len(sources) > 4
    for source in sources:
        for name in _imports(source):
            assert name.split(".")[0] not in {"exporter", "demo", "testkit", "alerts", "dashboards"}, (
                f"{source} imports {name}"
            )
            assert not name.startswith("tests") or name.startswith("tests.chaos.oracle"), f"{source} imports {name}"


# --- Outcomes ---


def record(status: int, epoch: int, at: int, *, version: int = V1, started: int = 1000, updated: int = 0) -> State:
    started = -1 if status == EMPTY else started
    return State(3, at, at, "app-1", status, 7, epoch, 10_000, updated or at, started, version, frozenset())


def outcomes(*records: State) -> list[str]:
    return [transaction.outcome for transaction in history(records).transactions]


def test_a_commit_is_counted_once_though_its_complete_record_is_written_again() -> None:
    done = record(COMPLETE_COMMIT, 0, 1300, updated=1200)
    again = done._replace(offset=1400, appended=1400)
    assert outcomes(record(ONGOING, 0, 1000), record(PREPARE_COMMIT, 0, 1200), done, again) == ["committed"]


def test_a_client_before_v2_that_keeps_its_epoch_aborted_itself_however_late() -> None:
    late = (record(ONGOING, 0, 1000), record(PREPARE_ABORT, 0, 99_000), record(COMPLETE_ABORT, 0, 99_001))
    assert outcomes(*late) == ["aborted"]


def test_a_raised_epoch_before_the_timeout_is_a_fence_of_a_client_before_v2_also_when_empty_comes_late() -> None:
    fenced = (record(ONGOING, 0, 1000), record(PREPARE_ABORT, 1, 2000), record(COMPLETE_ABORT, 1, 2001))
    assert outcomes(*fenced, record(EMPTY, 2, 60_000)) == ["fenced"]


@pytest.mark.parametrize(("gap", "outcome"), [(1000, "fenced"), (1001, "timed_out")])
def test_an_abort_at_the_timeout_or_later_is_timed_out_unless_an_init_came_before_the_scan(
    gap: int, outcome: str
) -> None:
    end = (record(PREPARE_ABORT, 1, 11_000), record(COMPLETE_ABORT, 1, 11_001), record(EMPTY, 2, 11_001 + gap))
    assert outcomes(record(ONGOING, 0, 1000), *end) == [outcome]


def test_a_clients_abort_that_the_coordinator_took_is_its_own_although_the_scans_is_in_the_log_before_it() -> None:
    scan, own = record(PREPARE_ABORT, 1, 11_000), record(PREPARE_ABORT, 0, 12_000)
    end = (record(COMPLETE_ABORT, 0, 12_001), record(EMPTY, 1, 12_500))
    assert outcomes(record(ONGOING, 0, 1000), scan, own, *end) == ["aborted"]


def test_a_commit_whose_append_failed_and_that_the_scan_aborted_is_timed_out() -> None:
    failed = record(PREPARE_COMMIT, 0, 2000)
    end = (record(PREPARE_ABORT, 1, 12_000), record(COMPLETE_ABORT, 1, 12_001))
    assert outcomes(record(ONGOING, 0, 1000), failed, *end) == ["timed_out"]


def test_a_prepare_record_that_is_written_again_after_the_timeout_does_not_make_it_late() -> None:
    first, second = record(PREPARE_ABORT, 1, 9000), record(PREPARE_ABORT, 1, 12_000)
    assert outcomes(record(ONGOING, 0, 1000), first, second, record(COMPLETE_ABORT, 1, 12_001)) == ["fenced"]


@pytest.mark.parametrize(("gap", "outcome"), [(5000, "fenced"), (5001, "aborted")])
def test_an_abort_of_a_v2_client_is_a_fence_when_the_next_incarnation_follows_within_five_seconds(
    gap: int, outcome: str
) -> None:
    begin = (record(ONGOING, 0, 1000, version=V2), record(PREPARE_ABORT, 1, 2000, version=V2))
    done = record(COMPLETE_ABORT, 1, 2001, version=V2)
    assert outcomes(*begin, done, record(EMPTY, 2, 2001 + gap)) == [outcome]


def test_an_abort_of_a_v2_client_that_goes_on_is_its_own() -> None:
    begin = (record(ONGOING, 0, 1000, version=V2), record(PREPARE_ABORT, 1, 2000, version=V2))
    done = record(COMPLETE_ABORT, 1, 2001, version=V2)
    assert outcomes(*begin, done, record(ONGOING, 1, 2500, version=V2, started=2500)) == ["aborted"]


def test_an_empty_record_that_is_written_again_is_one_init() -> None:
    assert history([record(EMPTY, 1, 1000), record(EMPTY, 1, 1500), record(EMPTY, 2, 1600)]).inits == 2


def test_what_has_not_completed_is_open() -> None:
    known = history([record(ONGOING, 0, 1000), record(PREPARE_COMMIT, 0, 1100)])
    assert not known.transactions
    assert known.open is not None
    assert known.open.decided == 1100


# --- Bytes ---


def batch(producer_id: int, key: bytes, value: bytes, offset: int, *, control: bool = False) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        batch_size=4096,
    )
    builder.append(0, timestamp=1234, key=key, value=value, headers=[])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, offset)
    if control:
        data[22] |= 0x20  # the low byte of the attributes
    return bytes(data)


def test_a_transaction_of_a_data_partition_ends_with_its_marker_and_one_without_stays_open(tmp_path: Path) -> None:
    commit, abort = struct.pack(">hh", 0, 1), struct.pack(">hh", 0, 0)
    log = [
        batch(1, b"k", b"a", 0),
        batch(2, b"k", b"b", 1),
        batch(1, commit, b"", 2, control=True),
        batch(3, b"k", b"c", 3),
        batch(2, abort, b"", 4, control=True),
    ]
    (tmp_path / "00000000000000000000.log").write_bytes(b"".join(log) + log[0][:40])  # the last one is torn
    found = held(batches(tmp_path), tokens=True)
    assert [
        (transaction.producer_id, transaction.start, transaction.end, transaction.committed) for transaction in found
    ] == [
        (1, 0, 2, True),
        (2, 1, 4, False),
        (3, 3, None, False),
    ]
    assert [transaction.tokens for transaction in found] == [{"a": 1.234}, {"b": 1.234}, {"c": 1.234}]
    assert {transaction.appended for transaction in found} == {1.234}


def test_both_layouts_of_the_transaction_log_are_decoded(tmp_path: Path) -> None:
    key = struct.pack(">hh", 0, 5) + b"app-1"
    old = struct.pack(">hqhib", 0, 7, 2, 60_000, ONGOING) + struct.pack(">i", 1) + struct.pack(">h", 1) + b"t"
    old += struct.pack(">ii", 1, 4) + struct.pack(">qq", 20, 10)
    new = struct.pack(">hqhib", 1, 7, 3, 60_000, ONGOING) + b"\x02\x02t" + b"\x02" + struct.pack(">i", 4) + b"\x00"
    new += struct.pack(">qq", 20, 10) + b"\x01\x02\x02\x00\x02"
    (tmp_path / "0.log").write_bytes(batch(-1, key, old, 0) + batch(-1, key, new, 1))
    first, second = states(9, batches(tmp_path))
    assert (first.epoch, first.client_version, first.partitions) == (2, 0, frozenset({("t", 4)}))
    assert (second.epoch, second.client_version, second.partitions) == (3, 2, frozenset({("t", 4)}))
    assert (second.started, second.updated, second.appended, second.log_partition) == (10, 20, 1234, 9)


# --- What the observer saw ---


def test_an_lso_stands_from_when_it_lagged_until_it_moved_and_a_deposed_leader_is_not_believed() -> None:
    looks = [
        OffsetObservation(1, 5, 5),
        OffsetObservation(2, 5, 8),
        OffsetObservation(3, None, None),
        OffsetObservation(4, 4, 8),
        OffsetObservation(5, 5, 9),
        OffsetObservation(6, 9, 9),
    ]
    (found,) = standings(looks)
    assert (found.offset, found.before, found.began, found.ended, found.after) == (5, 1, 2, 5, 6)
    assert list(found.answered) == [2, 5]
    assert moved_at(looks, 5) == 6


# --- Brokers with clocks of their own ---


def stamped(offset: int, at: float, leader_epoch: int) -> SegmentBatch:
    milliseconds = round(at * 1000)
    return SegmentBatch(offset, offset, 0, 0, milliseconds, milliseconds, 7, 0, 1, b"", leader_epoch)


def test_the_batches_of_a_leader_epoch_have_the_time_of_the_clock_that_fits_best() -> None:
    looks = [OffsetObservation(100.0 + at, None, at) for at in range(20)]
    # Epoch 0 is of a clock that is right, epoch 1 of one 90 s ahead; what waited for a replica was seen late.
    copy = [stamped(at, 101.0 + at if at < 5 else 191.0 + at, int(at >= 5)) for at in range(19)]
    copy[7] = stamped(7, 195.0 - 50, 1)
    corrected = by_one_clock(copy, looks, (-90, 0, 90))
    assert [batch.shift_ms for batch in corrected] == [0] * 5 + [90_000] * 14
    assert [batch.max_timestamp for batch in corrected[:7]] == [101_000 + 1000 * at for at in range(7)]


def test_a_coordinator_ahead_times_out_what_another_one_began_by_its_own_clock() -> None:
    begun = record(ONGOING, 5, 1000)
    ended = [
        state._replace(shift=90_000) for state in (record(PREPARE_ABORT, 6, 93_000), record(COMPLETE_ABORT, 6, 93_010))
    ]
    found = list(states_by_one_clock([begun, *ended]))
    assert [state.updated for state in found] == [1000, 3000, 3010]
    assert {(state.started, state.started_shift) for state in found} == {(1000, 0)}
    assert outcomes(*found) == ["timed_out"]
    again = record(EMPTY, 7, 93_100)._replace(shift=90_000)
    seen = (state._replace(appended=state.updated) for state in states_by_one_clock([begun, *ended, again]))
    assert outcomes(*seen) == ["fenced"]
