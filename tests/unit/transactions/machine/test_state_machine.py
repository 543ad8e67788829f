"""The state machine: its events for a log, compared with the true outcomes of a model coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine import state_machine
from exporter.transactions.machine.entries import Entry, Event, Expired, Forgotten, Initialised
from exporter.transactions.machine.records import Status, UndecodableRecord, decode_value
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome, TransactionState
from tests.helpers.coordinator import BEGIN_MS, CoordinatorId, CoordinatorRecord, GeneratedLog, histories
from tests.helpers.recorded_log import JAVA_ON_4_3_1, RDKAFKA_ON_3_9_2, RDKAFKA_ON_4_3_1
from tests.helpers.strategies import encode_key, encode_value, kafka_tags, values


@dataclass
class MachineEvents:
    """The events of the machines of a log, in order, with the partition of the log."""

    machines: dict[int, StateMachine] = field(default_factory=dict)
    ended: list[Transaction] = field(default_factory=list)
    inits: list[tuple[int, int]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    expired: list[str] = field(default_factory=list)

    def machine(self, number: int = 0) -> StateMachine:
        return self.machines.setdefault(number, StateMachine(number, self._appeared))

    def _appeared(self, entry: Entry) -> None:
        assert entry.transactional_id not in self.known
        self.known.add(entry.transactional_id)

    def apply(self, offset: int, record_ms: int, key: bytes, value: bytes | None, number: int = 0) -> None:
        self.take(self.machine(number).apply(offset, record_ms, key, value))

    def reached(self, instant_ms: int, number: int = 0) -> None:
        self.take(self.machine(number).log_time_reached(instant_ms))

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Transaction):
                self.ended.append(event)
            elif isinstance(event, Initialised):
                self.inits.append((event.entry.log_partition, event.offset))
            elif isinstance(event, Expired):
                self.expired.append(event.transactional_id)
            else:
                assert isinstance(event, Forgotten)
                self.known.remove(event.entry.transactional_id)

    @property
    def outcomes(self) -> list[Outcome | None]:
        return [ended.outcome for ended in self.ended]


def events_of(rows: Iterable[tuple[int, bytes | None]]) -> MachineEvents:
    """Return what the records of one id give: their times and values, one offset after the other."""
    seen = MachineEvents()
    for offset, (ms, value) in enumerate(rows):
        seen.apply(offset, ms, encode_key("app-1"), value)
    return seen


def read(records: Iterable[CoordinatorRecord]) -> MachineEvents:
    seen = MachineEvents()
    for record in records:
        seen.apply(record.offset, record.ms, record.key, record.value, record.partition)
    return seen


def place(ended: Transaction) -> tuple[int, int]:
    return ended.log_partition, ended.offset


def settle(seen: MachineEvents, history: GeneratedLog) -> None:
    for number in seen.machines:
        seen.reached(history.last_ms + 6_000, number)


@settings(max_examples=300)
@given(histories())
def test_every_transaction_ends_once_with_its_true_outcome(history: GeneratedLog) -> None:
    seen = read(history.records)
    settle(seen, history)
    found = {(ended.log_partition, ended.offset): ended for ended in seen.ended}
    assert len(found) == len(seen.ended)
    assert found.keys() == {(end.partition, end.offset) for end in history.ends}
    for end in history.ends:
        ended = found[end.partition, end.offset]
        assert ended.transactional_id == end.transactional_id
        assert ended.outcome == end.outcome
        assert (ended.producer_id, ended.producer_epoch) == (end.producer_id, end.producer_epoch)
        assert (ended.begun_ms, ended.prepared_ms, ended.completed_ms) == (
            end.begun_ms,
            end.decided_ms,
            end.completed_ms,
        )
        assert ended.partitions == end.partitions
    assert seen.inits == [(record.partition, record.offset) for record in history.records if record.initialised]


@given(histories(), st.data())
def test_compaction_loses_transactions_but_never_counts_one_twice_or_invents_a_commit(
    history: GeneratedLog, data: st.DataObject
) -> None:
    last = {record.key: index for index, record in enumerate(history.records)}
    kept = [
        record
        for index, record in enumerate(history.records)
        if last[record.key] == index or data.draw(st.booleans(), label=f"keep {index}")
    ]
    seen = read(kept)
    settle(seen, history)
    truth = {(end.partition, end.offset): end for end in history.ends}
    places = [(ended.log_partition, ended.offset) for ended in seen.ended]
    assert len(set(places)) == len(places)
    for ended, place in zip(seen.ended, places, strict=True):
        if place in truth:
            assert ended.begun_ms == truth[place].begun_ms
            assert (ended.outcome is Outcome.COMMITTED) == (truth[place].outcome is Outcome.COMMITTED)
        else:  # the first of two equal Complete records was compacted away, and the second stands for it
            assert ended.begun_ms in {end.begun_ms for end in history.ends}


@settings(max_examples=200)
@given(histories(), st.data())
def test_one_log_gives_the_same_outcomes_wherever_it_is_cut_and_whenever_its_end_is_reached(
    history: GeneratedLog, data: st.DataObject
) -> None:
    """Live, the end of a partition is reached again and again, before the next record comes; replayed, only at last."""
    whole = read(history.records)
    settle(whole, history)
    live = MachineEvents()
    for record in history.records:
        machine = live.machine(record.partition)
        if machine.log_ms >= 0 and data.draw(st.integers(0, 3), label="reached, cut") == 0:
            live.reached(data.draw(st.integers(min(machine.log_ms, record.ms), record.ms)), record.partition)
            live.machines[record.partition] = restored(machine)
        live.apply(record.offset, record.ms, record.key, record.value, record.partition)
    settle(live, history)
    assert sorted(live.ended, key=place) == sorted(whole.ended, key=place)
    assert live.inits == whole.inits


@given(histories(), st.data())
def test_what_was_put_away_comes_back_as_it_was(history: GeneratedLog, data: st.DataObject) -> None:
    """Whenever ids are put away, the log gives the same: every number of an entry may decide an outcome."""
    whole = read(history.records)
    settle(whole, history)
    live = MachineEvents()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_machine, "ROOM", 1)
        patch.setattr(state_machine, "IDLE_MS", -(10**15))
        for record in history.records:
            machine = live.machine(record.partition)
            how = data.draw(st.sampled_from(("", "make room", "tidy")), label="put away")
            machine._room = 0 if how == "make room" else 10**9
            machine.make_room()
            if how == "tidy":
                machine.tidy(10**15)
            live.apply(record.offset, record.ms, record.key, record.value, record.partition)
        settle(live, history)
    assert sorted(live.ended, key=place) == sorted(whole.ended, key=place)
    assert live.inits == whole.inits
    for number, machine in whole.machines.items():
        put_away = {producer.transactional_id: _numbers(producer) for producer in live.machines[number].known()}
        assert put_away == {entry.transactional_id: _numbers(entry) for entry in machine.entries.values()}


OF_THE_PROCESS = {"pending", "due_ms", "view", "ended_start_ms"}


def _numbers(entry: Entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in Entry.__slots__ if name not in OF_THE_PROCESS}


def restored(machine: StateMachine) -> StateMachine:
    """The machine of a process that starts with what the one before it saved of every id."""
    fresh = StateMachine(machine.number)
    fresh.log_ms = machine.log_ms
    fresh.restore(list(machine.entries.values()))
    fresh._appeared = machine._appeared
    return fresh


@given(st.lists(st.tuples(values(), st.booleans()), min_size=1, max_size=12))
def test_the_fast_path_reads_what_the_decoder_reads(sequence: list[tuple[tuple[bytes, object], bool]]) -> None:
    machine = StateMachine(0)
    key = encode_key("app-1")
    previous: bytes | None = None
    decided: tuple[object, ...] = ()
    for offset, ((fresh, _), repeat) in enumerate(sequence):
        value = previous if repeat and previous is not None else fresh
        previous = value
        meant = decode_value(value)
        machine.apply(offset, BEGIN_MS, key, value)
        entry = machine.entries[key]
        assert (entry.timeout_ms, entry.status, entry.start_ms) == (meant.timeout_ms, meant.status, meant.start_ms)
        again = decided == (meant.status, meant.start_ms) and meant.status in (2, 3)
        found = (entry.producer_id, entry.epoch, entry.update_ms)
        assert again or found == (meant.producer_id, meant.producer_epoch, meant.last_update_ms)
        decided = (meant.status, meant.start_ms)
        if entry.open:
            assert entry.partitions() == frozenset(meant.partitions or ())


@given(values(), values(), st.data())
def test_a_broken_value_changes_nothing(
    first: tuple[bytes, object], second: tuple[bytes, object], data: st.DataObject
) -> None:
    machine = StateMachine(0)
    key = encode_key("app-1")
    machine.apply(0, BEGIN_MS, key, first[0])
    before = {name: getattr(machine.entries[key], name) for name in Entry.__slots__}
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
        machine.apply(1, BEGIN_MS + 60_000, key, bytes(broken))
    except UndecodableRecord:
        assert undecodable
        assert {name: getattr(machine.entries[key], name) for name in Entry.__slots__} == before
        assert machine.log_ms == BEGIN_MS
    else:
        assert not undecodable


def test_a_key_that_does_not_decode_changes_nothing() -> None:
    machine = StateMachine(0)
    for offset, record in enumerate(one_abort(v2=True)):
        machine.apply(offset, record[0], encode_key("app-1"), record[1])
    with pytest.raises(UndecodableRecord):
        machine.apply(9, machine.log_ms + 60_000, b"\x00\x07", one_abort(v2=True)[0][1])
    assert len(machine.unsettled) == 1
    assert len(machine.entries) == 1


def test_the_partitions_of_one_layout_are_never_read_with_the_other() -> None:
    """A cluster upgraded from 3.9 writes layout 1 where layout 0 was; Complete and Empty records name no partitions."""
    machine, key = StateMachine(0), encode_key("app-1")
    machine.apply(0, BEGIN_MS, key, encode_value(0, 7, 1, 60_000, 1, [("orders", [3])], BEGIN_MS, BEGIN_MS))
    machine.apply(1, BEGIN_MS, key, encode_value(1, 7, 2, 60_000, 0, None, BEGIN_MS, -1))
    assert machine.entries[key].partitions() == {TopicPartition("orders", 3)}


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
def test_what_real_brokers_wrote_is_reported_as_it_happened(
    captured: tuple[tuple[int, int, int, str, str], ...], outcomes: list[str], inits: int
) -> None:
    records = [
        CoordinatorRecord(number, offset, ms, bytes.fromhex(key), bytes.fromhex(value))
        for number, offset, ms, key, value in captured
    ]
    seen = read(records)
    for number, machine in seen.machines.items():
        seen.reached(machine.log_ms + 6_000, number)
    assert [ended.outcome_word for ended in seen.ended] == outcomes
    assert len(seen.inits) == inits
    assert all(ended.partitions and ended.partitions <= {("t", 0), ("t", 1)} for ended in seen.ended)


def test_an_abort_waits_five_seconds_of_its_own_partitions_log_time() -> None:
    seen = MachineEvents()
    for offset, record in enumerate(one_abort(v2=True)):
        seen.apply(offset, record[0], encode_key("app-1"), record[1])
    ended = seen.machine().log_ms
    seen.reached(ended + 60_000, number=1)
    seen.reached(ended + 5_500)
    assert seen.outcomes == []
    assert seen.machine().first_due_ms == ended + 5_500
    seen.reached(ended + 5_501)
    assert seen.outcomes == [Outcome.ABORTED]
    assert seen.machine().first_due_ms is None


def test_a_clock_that_was_set_back_a_day_leaves_the_fence_window_as_it_is() -> None:
    """The log's leader moves from a broker whose clock is a day ahead to one that is right."""
    seen, day = MachineEvents(), 86_400_000
    *before, complete = one_abort(v2=True)
    for offset, record in enumerate(before):
        seen.apply(offset, record[0] + day, encode_key("app-1"), record[1])
    seen.apply(8, complete[0], encode_key("app-1"), complete[1])
    seen.reached(complete[0] + 4_000)
    assert seen.outcomes == []
    fresh = encode_value(1, 7, 2, 60_000, 0, None, complete[0] + 4_000, -1, kafka_tags(7, -1, 2))
    seen.apply(9, complete[0] + 4_000, encode_key("app-1"), fresh)
    assert seen.outcomes == [Outcome.FENCED]


def test_a_wait_that_began_before_the_clock_was_set_back_ends_five_seconds_later() -> None:
    seen, day = MachineEvents(), 86_400_000
    for offset, record in enumerate(one_abort(v2=True)):
        seen.apply(offset, record[0] + day, encode_key("app-1"), record[1])
    now = seen.machine().log_ms - day
    seen.apply(8, now, encode_key("other-1"), encode_value(1, 8, 0, 60_000, 0, None, now, -1))
    assert seen.outcomes == []
    seen.reached(now + 5_501)
    assert seen.outcomes == [Outcome.ABORTED]


def test_a_raised_epoch_before_the_timeout_proves_the_fence_of_an_older_client_without_waiting() -> None:
    producer = CoordinatorId("app-1", 2, False, BEGIN_MS, iter([7]))
    producer.initialise()
    producer.add("orders", 3)
    producer.end_by_server(10)
    assert read_one(producer).outcomes == [Outcome.FENCED]


def test_an_init_after_the_timeout_and_before_the_scan_is_a_fence() -> None:
    for v2 in (False, True):
        producer = CoordinatorId("app-1", 2, v2, BEGIN_MS, iter([7]), timeout_ms=3_000)
        producer.initialise()
        producer.add("orders", 3)
        producer.now += 5_000
        producer.end_by_server(10)
        producer.now += 120
        producer.initialise()
        assert read_one(producer).outcomes == [Outcome.FENCED]


def test_a_timeout_after_which_the_client_comes_back_stays_a_timeout() -> None:
    producer = CoordinatorId("app-1", 2, True, BEGIN_MS, iter([7]), timeout_ms=3_000)
    producer.initialise()
    producer.add("orders", 3)
    producer.now += 5_000
    producer.end_by_server(10)
    producer.now += 1_001
    producer.initialise()
    assert read_one(producer).outcomes == [Outcome.TIMED_OUT]


def test_an_older_clients_abort_whose_records_were_compacted_is_no_fence_when_it_restarts_soon() -> None:
    producer = CoordinatorId("app-1", 2, False, BEGIN_MS, iter([7]))
    producer.initialise()
    producer.add("orders", 3)
    producer.end(commit=False, markers_ms=10)
    producer.now += 1_000
    producer.initialise()
    *_, complete, empty = producer.written
    seen = MachineEvents()
    for offset, record in ((8, complete), (9, empty)):
        seen.apply(offset, record.ms, record.key, record.value)
    assert seen.outcomes == [Outcome.ABORTED]


def test_an_init_whose_append_timed_out_five_times_is_one_init() -> None:
    producer = CoordinatorId("app-1", 2, True, BEGIN_MS, iter([7]))
    producer.initialise(again=5)
    assert len(producer.written) == 6
    assert len(read_one(producer).inits) == 1
    producer.now += 10
    producer.initialise()
    assert len(read_one(producer).inits) == 2


def test_an_abort_that_is_written_twice_is_dated_by_the_first() -> None:
    """The coordinator moved: the second PrepareAbort is past the timeout, the first was not."""
    begun, decided = BEGIN_MS, BEGIN_MS + 4_750
    topics = [("orders", [3])]
    rows = [
        (begun, encode_value(0, 7, 1, 5_000, 1, topics, begun, begun)),
        (decided, encode_value(0, 7, 2, 5_000, 3, topics, decided, begun)),
        (decided + 1_300, encode_value(0, 7, 2, 5_000, 3, topics, decided + 1_300, begun)),
        (decided + 1_400, encode_value(0, 7, 2, 5_000, 5, [], decided + 1_300, begun)),
    ]
    seen = events_of(rows)
    assert [(transaction.outcome, transaction.prepared_ms) for transaction in seen.ended] == [(Outcome.FENCED, decided)]


def test_a_clients_abort_that_the_coordinator_took_is_its_own_although_the_scans_is_in_the_log_before_it() -> None:
    """Seen on three brokers: the scan's PrepareAbort was replicated, its append had failed for the coordinator."""
    begun = BEGIN_MS
    topics = [("orders", [3])]
    rows = [
        (begun, encode_value(0, 7, 10, 6_000, 1, topics, begun, begun)),
        (begun + 6_108, encode_value(0, 7, 11, 6_000, 3, topics, begun + 6_108, begun)),
        (begun + 12_630, encode_value(0, 7, 10, 6_000, 3, topics, begun + 12_630, begun)),
        (begun + 17_847, encode_value(0, 7, 10, 6_000, 5, [], begun + 13_639, begun)),
        (begun + 18_318, encode_value(0, 7, 11, 6_000, 0, None, begun + 18_318, -1)),
    ]
    seen = events_of(rows)
    assert [(transaction.outcome, transaction.producer_epoch) for transaction in seen.ended] == [(Outcome.ABORTED, 10)]


def test_a_clients_abort_whose_append_timed_out_stays_its_own_when_the_server_aborts_later() -> None:
    """The coordinator's cache did not have the client's abort, so the scan found the transaction open."""
    begun = BEGIN_MS
    topics = [("orders", [3])]
    rows = [
        (begun, encode_value(0, 7, 1, 6_000, 1, topics, begun, begun)),
        (begun + 290, encode_value(0, 7, 1, 6_000, 3, topics, begun + 290, begun)),
        (begun + 15_600, encode_value(0, 7, 2, 6_000, 3, topics, begun + 15_600, begun)),
        (begun + 15_700, encode_value(0, 7, 2, 6_000, 5, [], begun + 15_600, begun)),
        (begun + 15_900, encode_value(0, 7, 3, 6_000, 0, None, begun + 15_900, -1)),
    ]
    seen = events_of(rows)
    assert [(transaction.outcome, transaction.producer_epoch) for transaction in seen.ended] == [(Outcome.ABORTED, 1)]


def test_a_commit_whose_append_failed_and_that_the_scan_aborted_is_timed_out() -> None:
    """The coordinator's cache did not have the commit: the transaction was open until its timeout, and not fenced."""
    begun = BEGIN_MS
    topics = [("orders", [3])]
    rows = [
        (begun, encode_value(0, 7, 1, 6_000, 1, topics, begun, begun)),
        (begun + 1_000, encode_value(0, 7, 1, 6_000, 2, topics, begun + 1_000, begun)),
        (begun + 11_000, encode_value(0, 7, 2, 6_000, 3, topics, begun + 11_000, begun)),
        (begun + 11_001, encode_value(0, 7, 2, 6_000, 5, [], begun + 11_000, begun)),
        (begun + 30_000, encode_value(0, 7, 3, 6_000, 0, None, begun + 30_000, -1)),
    ]
    seen = events_of(rows)
    assert [(transaction.outcome, transaction.prepared_ms) for transaction in seen.ended] == [
        (Outcome.TIMED_OUT, begun + 11_000)
    ]


def test_a_completion_that_a_new_coordinator_writes_again_is_one_transaction() -> None:
    """The log lost the first Complete record: the new coordinator completes it anew, with an update of its own."""
    topics = [("orders", [3])]
    rows = [
        encode_value(0, 7, 1, 5_000, 1, topics, BEGIN_MS, BEGIN_MS),
        encode_value(0, 7, 1, 5_000, 2, topics, BEGIN_MS + 5, BEGIN_MS),
        encode_value(0, 7, 1, 5_000, 4, [], BEGIN_MS + 5, BEGIN_MS),
        encode_value(0, 7, 1, 5_000, 4, [], BEGIN_MS + 9_000, BEGIN_MS),
    ]
    seen = MachineEvents()
    for offset, value in enumerate(rows):
        seen.apply(offset, BEGIN_MS + offset, encode_key("app-1"), value)
    assert seen.outcomes == [Outcome.COMMITTED]


def test_a_decision_that_the_log_lost_and_its_coordinator_makes_again_is_one_transaction() -> None:
    """An unclean election took the abort: the new coordinator has the transaction open, and its scan ends it again."""
    topics = [("orders", [3])]
    abort = [
        encode_value(0, 7, 2, 5_000, 3, topics, BEGIN_MS + 6_000, BEGIN_MS),
        encode_value(0, 7, 2, 5_000, 5, [], BEGIN_MS + 6_000, BEGIN_MS),
    ]
    seen = MachineEvents()
    seen.apply(0, BEGIN_MS, encode_key("app-1"), encode_value(0, 7, 1, 5_000, 1, topics, BEGIN_MS, BEGIN_MS))
    for life in range(2):
        for offset, value in enumerate(abort, 1):
            seen.apply(offset, BEGIN_MS + 7_000 + 20_000 * life, encode_key("app-1"), value)
        if not life:
            assert seen.machine().lose(1) == 1
    seen.take(seen.machine().log_time_reached(BEGIN_MS + 90_000))
    assert len(seen.outcomes) == 1


@pytest.mark.parametrize("lost", [2, 5])
def test_a_transaction_that_ended_before_ones_that_the_log_lost_is_counted_once(lost: int) -> None:
    """The log lost the end of the first of three, or of the second: the new coordinator's scan ends it again."""
    topics = [("orders", [3])]

    def record(status: int, begin_ms: int) -> bytes:
        return encode_value(0, 7, 2, 5_000, status, topics if status < 4 else [], begin_ms + 10, begin_ms)

    begins = [BEGIN_MS, BEGIN_MS + 100, BEGIN_MS + 200]
    rows = [(status, begin_ms) for begin_ms in begins for status in (1, 2, 4)][:-1]
    seen = MachineEvents()
    for offset, (status, begin_ms) in enumerate(rows):
        seen.apply(offset, begin_ms + 10, encode_key("app-1"), record(status, begin_ms))
    assert seen.machine().lose(lost) == 1
    begin_ms = begins[lost // 3]
    for offset, status in enumerate((3, 5), lost):
        seen.apply(offset, BEGIN_MS + 20_000, encode_key("app-1"), record(status, begin_ms))
    for offset, status in enumerate((1, 2, 4), lost + 2):
        seen.apply(offset, BEGIN_MS + 90_000, encode_key("app-1"), record(status, BEGIN_MS + 30_000))
    assert seen.outcomes == [Outcome.COMMITTED] * 3


def test_what_the_coordinator_said_at_the_start_yields_to_what_the_log_says() -> None:
    seen = MachineEvents()
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
    seen.machine().seed(said)
    assert [entry.transaction() for entry in seen.machine().open.values()] == [said]
    for offset, record in enumerate(one_abort(v2=False)[1:]):
        seen.apply(offset, record[0], encode_key("app-1"), record[1])
    assert [(transaction.outcome, transaction.producer_epoch) for transaction in seen.ended] == [(Outcome.ABORTED, 0)]
    seen.machine().seed(said)
    assert not seen.machine().open


def read_one(producer: CoordinatorId) -> MachineEvents:
    seen = MachineEvents()
    for offset, record in enumerate(producer.written):
        seen.apply(offset, record.ms, record.key, record.value)
    return seen


def one_abort(*, v2: bool) -> list[tuple[int, bytes]]:
    """Ongoing, PrepareAbort and CompleteAbort of one transaction: times and values."""
    producer = CoordinatorId("app-1", 2, v2, BEGIN_MS, iter([7]))
    producer.initialise()
    producer.add("orders", 3)
    producer.now += 100
    producer.end(commit=False, markers_ms=10)
    return [(record.ms, record.value or b"") for record in producer.written[1:]]


def test_a_tombstone_says_that_an_id_expired_whether_it_was_known_or_not() -> None:
    seen = MachineEvents()
    seen.apply(0, BEGIN_MS, encode_key("new-1"), None)
    seen.apply(1, BEGIN_MS, encode_key("app-1"), encode_value(1, 7, 3, 60_000, Status.EMPTY, None, 5000, -1))
    seen.apply(2, BEGIN_MS + 9, encode_key("app-1"), None)
    assert seen.expired == ["new-1", "app-1"]
    assert seen.known == set()


def test_a_tombstone_without_a_readable_key_changes_nothing() -> None:
    machine = StateMachine(0)
    with pytest.raises(UndecodableRecord):
        machine.apply(0, BEGIN_MS, b"\x00", None)
    assert machine.log_ms == -1
