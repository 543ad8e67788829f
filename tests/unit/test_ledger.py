"""The classifier: what the ledger tells of a log, against a coordinator that knows what truly happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model import OpenTransaction, Outcome, TopicPartition, TransactionState
from exporter.transactions.records import UndecodableRecord, decode_value
from exporter.transactions.state_machine import Entry, Finished, Ledger
from tests.captured_log import JAVA_ON_4_3_1, RDKAFKA_ON_3_9_2, RDKAFKA_ON_4_3_1
from tests.coordinator import BEGIN_MS, History, Id, LogRecord, histories
from tests.strategies import encode_key, encode_value, kafka_tags, values


class Told(NamedTuple):
    """A finished transaction as the sink was told of it, with the partitions that it had at that moment."""

    transaction: Finished
    partitions: frozenset[TopicPartition]


class Witness:
    """A sink that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.inits: list[tuple[int, int]] = []
        self.gone: list[str] = []

    def finished(self, entry: Entry, transaction: Finished) -> None:
        self.told.append(Told(transaction, frozenset(entry.partitions())))

    def initialised(self, entry: Entry, log_partition: int, offset: int) -> None:
        self.inits.append((log_partition, offset))

    def removed(self, entry: Entry) -> None:
        self.gone.append(entry.transactional_id)

    @property
    def outcomes(self) -> list[Outcome]:
        return [each.transaction.outcome for each in self.told]


def read(records: Iterable[LogRecord], witness: Witness | None = None) -> tuple[Ledger, Witness]:
    witness = witness or Witness()
    ledger = Ledger(witness, lambda transactional_id: transactional_id.partition("-")[0])
    for record in records:
        ledger.apply(ledger.partition(record.partition), record.offset, record.ms, record.key, record.value)
    return ledger, witness


def settle(ledger: Ledger, history: History) -> None:
    for log in ledger.partitions.values():
        ledger.advance(log, history.last_ms + 6_000)


@settings(max_examples=300)
@given(histories())
def test_every_transaction_is_told_once_with_its_true_outcome(history: History) -> None:
    ledger, witness = read(history.records)
    settle(ledger, history)
    found = {(each.transaction.log_partition, each.transaction.offset): each for each in witness.told}
    assert len(found) == len(witness.told)
    assert found.keys() == {(end.partition, end.offset) for end in history.ends}
    for end in history.ends:
        transaction, partitions = found[end.partition, end.offset]
        assert transaction.transactional_id == end.transactional_id
        assert (transaction.outcome, transaction.by_server) == (end.outcome, end.by_server)
        assert (transaction.producer_id, transaction.producer_epoch) == (end.producer_id, end.producer_epoch)
        assert (transaction.begun_ms, transaction.completed_ms) == (end.begun_ms, end.completed_ms)
        assert partitions == end.partitions
    assert witness.inits == [(each.partition, each.offset) for each in history.records if each.initialised]


@given(histories(), st.data())
def test_compaction_loses_transactions_but_never_counts_one_twice_or_invents_a_commit(
    history: History, data: st.DataObject
) -> None:
    last = {record.key: index for index, record in enumerate(history.records)}
    kept = [
        record
        for index, record in enumerate(history.records)
        if last[record.key] == index or data.draw(st.booleans(), label=f"keep {index}")
    ]
    ledger, witness = read(kept)
    settle(ledger, history)
    truth = {(end.partition, end.offset): end for end in history.ends}
    told = [(each.transaction.log_partition, each.transaction.offset) for each in witness.told]
    assert len(set(told)) == len(told)
    for (transaction, _), place in zip(witness.told, told, strict=True):
        if place in truth:
            assert transaction.begun_ms == truth[place].begun_ms
            assert (transaction.outcome is Outcome.COMMITTED) == (truth[place].outcome is Outcome.COMMITTED)
        else:  # the first of two equal Complete records was compacted away, and the second stands for it
            assert transaction.begun_ms in {end.begun_ms for end in history.ends}


@given(st.lists(st.tuples(values(), st.booleans()), min_size=1, max_size=12))
def test_the_fast_path_reads_what_the_decoder_reads(sequence: list[tuple[tuple[bytes, object], bool]]) -> None:
    ledger, _ = read([])
    log = ledger.partition(0)
    key = encode_key("app-1")
    previous: bytes | None = None
    for offset, ((fresh, _), repeat) in enumerate(sequence):
        value = previous if repeat and previous is not None else fresh
        previous = value
        meant = decode_value(value)
        ledger.apply(log, offset, BEGIN_MS, key, value)
        entry = ledger.entries[key]
        assert (entry.producer_id, entry.epoch, entry.timeout_ms, entry.status, entry.update_ms, entry.start_ms) == (
            meant.producer_id,
            meant.producer_epoch,
            meant.timeout_ms,
            meant.status,
            meant.last_update_ms,
            meant.start_ms,
        )
        if entry.open:
            assert entry.partitions() == (meant.partitions or ())


@given(values(), values(), st.data())
def test_a_broken_value_changes_nothing(
    first: tuple[bytes, object], second: tuple[bytes, object], data: st.DataObject
) -> None:
    ledger, witness = read([])
    log = ledger.partition(0)
    key = encode_key("app-1")
    ledger.apply(log, 0, BEGIN_MS, key, first[0])
    before = {name: getattr(ledger.entries[key], name) for name in Entry.__slots__}
    told = list(witness.told), list(witness.inits)
    broken = bytearray(second[0])
    if data.draw(st.booleans()):
        del broken[data.draw(st.integers(0, len(broken) - 1)) :]
    else:
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decode_value(bytes(broken))
    except UndecodableRecord:
        undecodable = True
    else:
        undecodable = False
    try:
        ledger.apply(log, 1, BEGIN_MS, key, bytes(broken))
    except UndecodableRecord:
        assert undecodable
        assert {name: getattr(ledger.entries[key], name) for name in Entry.__slots__} == before
        assert (list(witness.told), list(witness.inits)) == told
    else:
        assert not undecodable


def test_the_partitions_of_one_layout_are_never_read_with_the_other() -> None:
    """A cluster upgraded from 3.9 writes layout 1 where layout 0 was; Complete and Empty records name no partitions."""
    ledger, _ = read([])
    log, key = ledger.partition(0), encode_key("app-1")
    ledger.apply(log, 0, BEGIN_MS, key, encode_value(0, 7, 1, 60_000, 1, [("orders", [3])], BEGIN_MS, BEGIN_MS))
    ledger.apply(log, 1, BEGIN_MS, key, encode_value(1, 7, 2, 60_000, 0, None, BEGIN_MS, -1))
    assert ledger.entries[key].partitions() == (TopicPartition("orders", 3),)


@pytest.mark.parametrize(
    ("captured", "outcomes", "inits"),
    [
        (JAVA_ON_4_3_1, ["committed", "aborted", "fenced", "committed", "timed_out"], 3),
        # librdkafka's aborted transaction had reached no partition: it left no record.
        (RDKAFKA_ON_4_3_1, ["committed", "fenced", "committed", "timed_out"], 3),
        (RDKAFKA_ON_3_9_2, ["committed", "fenced", "committed", "timed_out"], 3),
    ],
    ids=["java on 4.3.1", "librdkafka on 4.3.1", "librdkafka on 3.9.2"],
)
def test_what_real_brokers_wrote_is_told_as_it_happened(
    captured: tuple[tuple[int, int, int, str, str], ...], outcomes: list[str], inits: int
) -> None:
    records = [
        LogRecord(number, offset, ms, bytes.fromhex(key), bytes.fromhex(value))
        for number, offset, ms, key, value in captured
    ]
    _, witness = read(records)
    assert [each.value for each in witness.outcomes] == outcomes
    assert len(witness.inits) == inits
    assert all(each.partitions <= {("t", 0), ("t", 1)} and each.partitions for each in witness.told)


def test_an_abort_waits_five_seconds_of_its_own_partitions_log_time() -> None:
    ledger, witness = read([])
    log, other = ledger.partition(0), ledger.partition(1)
    for offset, record in enumerate(one_abort(v2=True)):
        ledger.apply(log, offset, record[0], encode_key("app-1"), record[1])
    ended = log.log_ms
    ledger.advance(other, ended + 60_000)
    ledger.advance(log, ended + 5_000)
    assert witness.outcomes == []
    ledger.advance(log, ended + 5_001)
    assert witness.outcomes == [Outcome.ABORTED]


def test_a_clock_that_was_set_back_a_day_leaves_the_fence_window_as_it_is() -> None:
    """The log's leader moves from a broker whose clock is a day ahead to one that is right."""
    ledger, witness = read([])
    log, day = ledger.partition(0), 86_400_000
    *before, complete = one_abort(v2=True)
    for offset, record in enumerate(before):
        ledger.apply(log, offset, record[0] + day, encode_key("app-1"), record[1])
    ledger.apply(log, 8, complete[0], encode_key("app-1"), complete[1])
    ledger.advance(log, complete[0] + 4_000)
    assert witness.outcomes == []
    fresh = encode_value(1, 7, 2, 60_000, 0, None, complete[0] + 4_000, -1, kafka_tags(7, -1, 2))
    ledger.apply(log, 9, complete[0] + 4_000, encode_key("app-1"), fresh)
    assert witness.outcomes == [Outcome.FENCED]


def test_a_wait_that_began_before_the_clock_was_set_back_ends_five_seconds_later() -> None:
    ledger, witness = read([])
    log, day = ledger.partition(0), 86_400_000
    for offset, record in enumerate(one_abort(v2=True)):
        ledger.apply(log, offset, record[0] + day, encode_key("app-1"), record[1])
    now = log.log_ms - day
    ledger.apply(log, 8, now, encode_key("other-1"), encode_value(1, 8, 0, 60_000, 0, None, now, -1))
    assert witness.outcomes == []
    ledger.advance(log, now + 5_001)
    assert witness.outcomes == [Outcome.ABORTED]


def test_what_the_coordinator_said_at_the_start_yields_to_what_the_log_says() -> None:
    ledger, witness = read([])
    log = ledger.partition(0)
    said = OpenTransaction(
        "app-1",
        "",
        7,
        0,
        TransactionState.ONGOING,
        BEGIN_MS / 1000,
        60.0,
        None,
        frozenset({TopicPartition("orders", 3)}),
    )
    ledger.seed(0, said)
    assert [entry.transaction() for entry in ledger.open.values()] == [said._replace(application="app")]
    for offset, record in enumerate(one_abort(v2=False)[1:]):
        ledger.apply(log, offset, record[0], encode_key("app-1"), record[1])
    assert [(each.outcome, each.producer_epoch) for each, _ in witness.told] == [(Outcome.ABORTED, 0)]
    ledger.seed(0, said)
    assert not ledger.open


def one_abort(*, v2: bool) -> list[tuple[int, bytes]]:
    """Ongoing, PrepareAbort and CompleteAbort of one transaction: times and values."""
    each = Id("app-1", 2, v2, BEGIN_MS, iter([7]))
    each.initialise()
    each.add("orders", 3)
    each.now += 100
    each.end(commit=False, markers_ms=10)
    return [(record.ms, record.value or b"") for record in each.written[1:]]
