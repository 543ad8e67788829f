"""A model of the transaction coordinator: it writes the log that Kafka writes, and has the true outcomes.

Follows TransactionMetadata.java and TransactionCoordinator.scala of Kafka 4.3.1 for ``transaction.version`` 0, 1 and 2
and for clients of both generations, and knows what is counted by the contract: each finished transaction once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from hypothesis import strategies as st

from exporter.kafka.ask import coordinator_partition
from exporter.model import TopicPartition
from exporter.transactions.machine.records import Status
from exporter.words import Outcome
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

BEGIN_MS = 1_790_000_000_000
LAST_EPOCH = 32766
WINDOW_MS = 5000
LATE_WINDOW_MS = 1000
"""For a transaction that was past its timeout."""


@dataclass
class End:
    """A finished transaction with its true outcome."""

    transactional_id: str
    outcome: Outcome
    producer_id: int
    producer_epoch: int
    begun_ms: int
    decided_ms: int
    completed_ms: int
    partitions: frozenset[TopicPartition]
    partition: int = -1
    offset: int = -1


class Written(NamedTuple):
    """One record, before it has an offset."""

    ms: int
    key: bytes
    value: bytes | None
    end: End | None
    initialised: bool


class CoordinatorRecord(NamedTuple):
    """One record of the log."""

    partition: int
    offset: int
    ms: int
    key: bytes
    value: bytes | None
    initialised: bool = False


@dataclass
class CoordinatorId:
    """One transactional.id at its coordinator. ``level`` is the cluster's transaction.version, ``v2`` the client's."""

    name: str
    level: int
    v2: bool
    now: int
    producer_ids: Iterator[int]
    epoch: int = -1
    timeout_ms: int = 60_000
    written: list[Written] = field(default_factory=list)
    producer_id: int = -1
    previous_id: int = -1
    next_id: int = -1
    client_version: int = 0
    status: int = Status.EMPTY
    start_ms: int = -1
    topics: dict[str, set[int]] = field(default_factory=dict)
    begun_epoch: int = -1
    decided_ms: int = -1
    expired: bool = True
    pending: End | None = None
    window_ms: int = WINDOW_MS

    # --- Events ---

    def initialise(self, timeout_ms: int | None = None, again: int = 0) -> None:
        """InitProducerId while nothing is open; its record is written ``again`` as often."""
        self._end_of_wait(initialised=True)
        if self.expired:
            self.expired = False
            self.producer_id = self.previous_id = next(self.producer_ids)
            self.epoch += 1
        elif self.epoch >= LAST_EPOCH:
            self.previous_id, self.producer_id, self.epoch = self.producer_id, next(self.producer_ids), 0
        else:
            self.previous_id = self.producer_id
            self.epoch += 1
        self.timeout_ms = timeout_ms or self.timeout_ms
        self.status, self.start_ms, self.topics = Status.EMPTY, -1, {}
        self._write(None, self.now, initialised=True)
        for _ in range(again):  # the append timed out, and so did the client's request
            self.now += 30
            self._write(None, self.now)

    def add(self, topic: str, partition: int) -> None:
        """The first record to a partition; the first of all begins the transaction."""
        self._end_of_wait()
        if self.status != Status.ONGOING:
            self.start_ms, self.topics = self.now, {}
            self.begun_epoch = self.epoch
        self.topics.setdefault(topic, set()).add(partition)
        self.status, self.client_version = Status.ONGOING, 2 if self.v2 else 0
        self._write(self.topics, self.now)

    def end(self, *, commit: bool, markers_ms: int, twice: tuple[bool, bool] = (False, False)) -> None:
        """EndTxn by the client."""
        if self.v2:
            self._bump(TransactionVersion=2)
        else:
            self.client_version = 0
        self._decide(Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT, twice=twice[0])
        self._complete(markers_ms, by_client=True, twice=twice[1])

    def abort_nothing(self, markers_ms: int) -> None:
        """EndTxn(abort) of a V2 client that wrote nothing: the broker makes a transaction of it."""
        self._end_of_wait()
        self.start_ms, self.topics, self.begun_epoch = self.now, {}, -1
        self._bump(TransactionVersion=2)
        self._decide(Status.PREPARE_ABORT, twice=False)
        self.begun_epoch = self.epoch
        self._complete(markers_ms, by_client=True, twice=False)

    def end_by_server(self, markers_ms: int, twice: tuple[bool, bool] = (False, False)) -> None:
        """A timeout, or an InitProducerId that came while the transaction was open."""
        if self.level >= 2:
            self._bump(TransactionVersion=2)
        else:
            self.epoch += 1
            self.client_version = 0
        self._decide(Status.PREPARE_ABORT, twice=twice[0])
        self._complete(markers_ms, by_client=False, twice=twice[1])

    def expire(self) -> None:
        """Idle for transactional.id.expiration.ms: a tombstone."""
        self._end_of_wait()
        self.written.append(Written(self.now, encode_key(self.name), None, None, False))
        self.expired, self.epoch, self.client_version = True, -1, 0

    # --- Records ---

    def _bump(self, TransactionVersion: int) -> None:  # noqa: N803 Kafka's name
        if self.epoch >= LAST_EPOCH:
            self.next_id = next(self.producer_ids)
        self.epoch = min(self.epoch + 1, LAST_EPOCH + 1)
        self.client_version = TransactionVersion

    def _decide(self, status: int, *, twice: bool) -> None:
        self.status, self.decided_ms, self.previous_id = status, self.now, self.producer_id
        self._write(self.topics, self.now)
        if twice:  # the append timed out and was tried again, with a new time
            self.now += 7
            self._write(self.topics, self.now)

    def _complete(self, markers_ms: int, *, by_client: bool, twice: bool) -> None:
        update_ms = self.now
        self.now += markers_ms
        owner, open_ms = self.producer_id, self.decided_ms - self.start_ms
        late = open_ms >= self.timeout_ms
        committed = self.status == Status.PREPARE_COMMIT
        self.status = Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT
        if self.next_id >= 0:
            self.previous_id, self.producer_id, self.epoch, self.next_id = self.producer_id, self.next_id, 0, -1
        clients_own = by_client and not self.v2
        if committed:
            outcome = Outcome.COMMITTED
        elif clients_own:
            outcome = Outcome.ABORTED
        elif late:
            outcome = Outcome.TIMED_OUT
        else:
            outcome = Outcome.ABORTED if self.v2 else Outcome.FENCED
        waits = not committed and not clients_own and (late or self.v2)
        end = End(
            self.name,
            outcome,
            owner,
            self.begun_epoch,
            self.start_ms,
            self.decided_ms,
            self.now,
            frozenset(TopicPartition(topic, number) for topic, numbers in self.topics.items() for number in numbers),
        )
        self._write({}, update_ms, end)
        if twice:
            self.now += 3
            self._write({}, update_ms)
        self.pending = end if waits else None
        self.window_ms = LATE_WINDOW_MS if late else WINDOW_MS

    def _end_of_wait(self, *, initialised: bool = False) -> None:
        if self.pending is not None and initialised and self.now - self.pending.completed_ms <= self.window_ms:
            self.pending.outcome = Outcome.FENCED
        self.pending = None

    def _write(
        self, topics: dict[str, set[int]] | None, update_ms: int, end: End | None = None, *, initialised: bool = False
    ) -> None:
        layout = 1 if self.level else 0
        encoded = None if topics is None else [(name, sorted(numbers)) for name, numbers in topics.items()]
        tags = kafka_tags(self.previous_id, self.next_id, self.client_version) if layout else None
        fields = (layout, self.producer_id, self.epoch, self.timeout_ms, self.status, encoded, update_ms, self.start_ms)
        value = encode_value(*fields, tags)
        self.written.append(Written(self.now, encode_key(self.name), value, end, initialised))


@dataclass(frozen=True)
class GeneratedLog:
    """A log, ordered by time, and the true outcomes of the transactions in it."""

    records: tuple[CoordinatorRecord, ...]
    ends: tuple[End, ...]
    log_partitions: int

    @property
    def last_ms(self) -> int:
        return max((record.ms for record in self.records), default=BEGIN_MS)


def merge(ids: Sequence[CoordinatorId], log_partitions: int) -> GeneratedLog:
    """Interleave what the ids wrote by time; every record gets its offset."""
    written = [(record, known_id.name) for known_id in ids for record in known_id.written]
    written.sort(key=lambda row: row[0].ms)
    offsets = [count() for _ in range(log_partitions)]
    records, ends = [], []
    for record, name in written:
        partition = coordinator_partition(name, log_partitions)
        offset = next(offsets[partition])
        records.append(CoordinatorRecord(partition, offset, record.ms, record.key, record.value, record.initialised))
        if record.end is not None:
            record.end.partition, record.end.offset = partition, offset
            ends.append(record.end)
    return GeneratedLog(tuple(records), tuple(ends), log_partitions)


# --- Generated histories ---

_GAPS = st.sampled_from(
    [0, 1, 40, 900, 999, 1_000, 1_001, 4_992, 4_993, 4_999, 5_000, 5_001, 5_010, 20_000, 600_000, 5_000_000]
)
_MARKERS = st.sampled_from([0, 1, 15, 900, 7_000])
_TWICE = st.tuples(st.booleans(), st.booleans()) | st.just((False, False))
_STEPS = st.sampled_from(
    [
        *(
            "commit",
            "commit",
            "abort",
            "late abort",
            "timeout",
            "fence",
            "fence",
            "slow fence",
            "terminate",
            "late fence",
        ),
        *("server abort", "restart", "abort nothing", "expire", "upgrade", "open", "prepared"),
    ]
)


@st.composite
def histories(draw: st.DrawFn, *, levels: Sequence[int] = (0, 1, 2), most_ids: int = 4) -> GeneratedLog:
    """Several transactional ids, of both generations, whose records interleave over few log partitions."""
    log_partitions = draw(st.integers(1, 3))
    producer_ids = count(1000)
    ids = []
    for number in range(draw(st.integers(1, most_ids))):
        level = draw(st.sampled_from(levels))
        producer = CoordinatorId(f"app-{number}", level, level == 2 and draw(st.booleans()), BEGIN_MS, producer_ids)
        producer.epoch = draw(st.sampled_from([-1, -1, 3, 32761, 32764, 32765]))
        producer.timeout_ms = draw(st.sampled_from([3_000, 60_000, 2**31 - 1]))
        producer.now += draw(st.integers(0, 10_000))
        _live(draw, producer)
        ids.append(producer)
    return merge(ids, log_partitions)


def _live(draw: st.DrawFn, producer: CoordinatorId) -> None:
    producer.initialise()
    for step in draw(st.lists(_STEPS, min_size=1, max_size=8)):
        producer.now += draw(_GAPS)
        if producer.expired:
            producer.initialise()
            producer.now += draw(_GAPS)
        if step == "restart":
            producer.initialise(again=draw(st.sampled_from([0, 0, 0, 1, 5])))
        elif step == "expire":
            producer.expire()
        elif step == "upgrade":
            producer.level, producer.v2 = 2, draw(st.booleans())
            producer.initialise()
        elif step == "abort nothing":
            if producer.v2:
                producer.abort_nothing(draw(_MARKERS))
        elif not _transact(draw, producer, step):
            return


def _transact(draw: st.DrawFn, producer: CoordinatorId, step: str) -> bool:
    """One transaction; False when it is left open, and the story ends."""
    for partition in range(draw(st.integers(1, 3))):
        producer.add(draw(st.sampled_from(["orders", "payments"])), partition)
        producer.now += 5
    never_times_out = producer.timeout_ms == 2**31 - 1
    if step in ("timeout", "late abort", "late fence"):
        if never_times_out:
            step = "commit"
        else:
            producer.now = producer.start_ms + producer.timeout_ms + draw(st.integers(0, 10_000))
    else:
        producer.now += draw(st.sampled_from([0, 10, 2_000, 2_985]))
    markers, twice = draw(_MARKERS), draw(_TWICE)
    if step == "open":
        return False
    if step == "prepared":
        producer._decide(Status.PREPARE_COMMIT, twice=False)
        return False
    if step in ("commit", "abort", "late abort"):
        producer.end(commit=step == "commit", markers_ms=markers, twice=twice)
        return True
    producer.end_by_server(markers, twice)
    if step in ("fence", "late fence"):
        producer.now += draw(st.sampled_from([0, 3, 500, 4_990]))
        producer.initialise(again=draw(st.sampled_from([0, 0, 1])))
    elif step == "terminate":
        producer.now += draw(st.sampled_from([0, 100]))
        producer.initialise(30_000)
        producer.now += draw(_GAPS)
        producer.initialise()
    elif step == "slow fence":
        producer.now += draw(st.sampled_from([5_004, 60_000]))
        producer.initialise()
    else:  # the client finds out some day
        producer.now += draw(_GAPS)
        producer.initialise()
    return True
