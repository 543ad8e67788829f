"""The finished transactions of spans of the log: the agent's own outcomes, however the log is cut, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.applications.applications import Grouping
from exporter.jobs.history.columns import COLUMNS, SCHEMA, batch_of
from exporter.jobs.history.finished import LogSpan, ReadLog, Row, StoredRecord, context_start, finished
from exporter.model import TopicPartition
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.counting.application_counters import counter_samples
from exporter.transactions.machine.progress import CONTEXT_RECORDS
from exporter.transactions.machine.state_machine import StateMachine
from tests.helpers.coordinator import BEGIN_MS, CoordinatorId, CoordinatorRecord, GeneratedLog, histories, merge
from tests.helpers.recorded_log import JAVA_ON_4_3_1, RDKAFKA_ON_3_9_2, RDKAFKA_ON_4_3_1

QUIET_MS = 6_001


def group(transactional_id: str) -> str:
    return Grouping().of(transactional_id).name


def reader(records: Iterable[CoordinatorRecord], number: int = 0) -> ReadLog:
    stored = [StoredRecord(*record[1:5]) for record in records if record.partition == number]

    def read(start: int, end: int) -> Iterator[StoredRecord]:
        return (record for record in stored if start <= record.offset < end)

    return read


def rows_of_spans(
    records: Sequence[CoordinatorRecord],
    cuts: Iterable[int] = (),
    *,
    quiet: bool = True,
    settled_at: Iterable[int] = (),
) -> list[Row]:
    """All rows of a log, read in spans that are cut at these places; at some of them the log was quiet for a while."""
    rows: list[Row] = []
    edges = [0, *sorted(cuts), len(records)]
    settled_cuts = set(settled_at)
    for number in sorted({record.partition for record in records}):
        read = reader(records, number)
        settled = start = 0
        for cut in edges[1:]:
            before = [record.offset for record in records[:cut] if record.partition == number]
            end = before[-1] + 1 if before else start
            last = cut == len(records)
            still = (quiet and last) or cut in settled_cuts
            for batch in finished(LogSpan(number, start, settled, end, still), read, group):
                rows += batch
            start, settled = end, end if still else settled
    return rows


@pytest.fixture(autouse=True)
def no_more_context_than_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1,000 records of context no generated log would need more."""
    monkeypatch.setattr("exporter.jobs.history.finished.CONTEXT_RECORDS", 4)
    monkeypatch.setattr("exporter.jobs.history.finished._FURTHER", 2)


@settings(max_examples=100, deadline=None)
@given(histories(), st.data())
def test_rows_are_the_true_transactions_however_the_log_is_cut(history: GeneratedLog, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(history.records)), max_size=4))
    rows = rows_of_spans(history.records, cuts)
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
    assert sorted(rows_of_spans(history.records, cuts)) == sorted(rows_of_spans(history.records))


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
    rows = rows_of_spans(records, (3, 5))
    assert rows
    assert Counter((row.application, row.outcome) for row in rows) == counted


def one_id(name: str = "pay-1", *, v2: bool = True, now: int = BEGIN_MS) -> CoordinatorId:
    return CoordinatorId(name, 2, v2, now, iter(range(7, 10_000)))


def an_abort_and_what_follows(after_ms: int) -> list[CoordinatorRecord]:
    """A transaction that the server aborts, and its id's next incarnation so much later."""
    producer = one_id()
    producer.initialise()
    producer.now += 1_000
    producer.add("orders", 0)
    producer.now += 1_000
    producer.end_by_server(markers_ms=5)
    producer.now += after_ms
    producer.initialise()
    return list(merge([producer], 1).records)


def test_an_abort_that_could_be_a_fence_waits_for_the_new_incarnation_in_the_next_span() -> None:
    records = an_abort_and_what_follows(2_000)
    rows = rows_of_spans(records, [len(records) - 1])
    assert [row.outcome for row in rows] == ["fenced"]
    assert rows[0].partitions == (TopicPartition("orders", 0),)


def test_an_abort_is_settled_as_one_when_the_log_stays_quiet() -> None:
    records = an_abort_and_what_follows(2_000)[:-1]
    assert rows_of_spans(records, quiet=False) == []
    assert [row.outcome for row in rows_of_spans(records, [len(records)])] == ["aborted"]


def test_an_abort_that_was_emitted_in_quiet_is_not_emitted_again_whatever_the_clocks_say_later() -> None:
    records = an_abort_and_what_follows(2_000)  # by the clock of the next record, it would have been a fence
    cut = len(records) - 1
    assert [row.outcome for row in rows_of_spans(records, [cut], settled_at=[cut])] == ["aborted"]


def test_a_transaction_that_was_open_for_long_is_read_from_where_its_partitions_are_named() -> None:
    long, busy = one_id("long-1", v2=False), one_id("busy-1", v2=False)
    for producer in (long, busy):
        producer.initialise()
    long.add("orders", 0)
    for _ in range(3 * CONTEXT_RECORDS):
        busy.now += 100
        busy.add("payments", 0)
        busy.now += 10
        busy.end(commit=True, markers_ms=5)
    long.now = busy.now + 10
    long.end(commit=True, markers_ms=5)
    records = list(merge([long, busy], 1).records)
    start = records[-2].offset
    begun = next(record.offset for record in records if b"long-1" in record.key and b"orders" in (record.value or b""))
    assert context_start(start, records[-1].offset + 1, reader(records)) <= begun
    [row] = [row for row in rows_of_spans(records, [len(records) - 2]) if row.transactional_id == "long-1"]
    assert (row.partitions, row.outcome) == ((TopicPartition("orders", 0),), "committed")
    # A transaction that is over is not read from its begin.
    assert context_start(start - 1, start, reader(records)) > begun


def test_partitions_of_a_transaction_whose_records_were_compacted_are_unknown_and_not_those_of_the_one_before() -> None:
    producer = one_id()
    producer.initialise()
    for topic in ("orders", "payments"):
        producer.now += 100
        producer.add(topic, 0)
        producer.now += 100
        producer.end(commit=True, markers_ms=5)
    records = merge([producer], 1).records
    *first, _, _, last = records  # of the second, only Complete was left when it was read
    one, two = rows_of_spans([*first, last])
    assert one.partitions == (TopicPartition("orders", 0),)
    assert (two.partitions, two.outcome) == (None, "committed")
    assert sorted(rows_of_spans([*first, last], [len(first)])) == sorted([one, two])


def test_a_record_that_cannot_be_decoded_is_named_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    records = [CoordinatorRecord(3, offset, BEGIN_MS, b"\x00\x09", b"") for offset in (0, 1)]
    assert rows_of_spans(records, [1]) == []
    assert [record.getMessage() for record in caplog.records] == [
        f"partition 3 offset {offset} of the log has a value of 0 bytes" for offset in (0, 1)
    ]


def test_rows_as_arrow_have_every_column() -> None:
    noon = 1_790_000_000_000
    row = Row("pay-1", "pay", 7, 2, None, "timed_out", None, noon - 5, noon, None, 0.005, None, None, 3, 99)
    batch = batch_of([row, row._replace(partitions=(TopicPartition("orders", 1),))])
    assert batch.schema.equals(SCHEMA)
    assert tuple(COLUMNS) == Row._fields
    first, second = batch.to_pylist()
    assert first["complete"].timestamp() * 1000 == noon
    assert second["partitions"] == [{"topic": "orders", "partition": 1}]
