"""A model of coordinators and partitions, with all known causes that make live transactions look hanging, against the
source.

A transaction that the model's coordinator knows is never reported as hanging, nor are records that may be committed; a
planted orphan of a producer that committed nothing there always is, once the cluster is quiet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter import catalogue
from exporter.kafka.ask import coordinator_partition
from exporter.lso.facts import Stalls
from exporter.lso.next_step import next_step
from exporter.lso.proof.prover import Prover
from exporter.lso.source.lso import LsoSource
from exporter.model import TopicPartition
from exporter.settings.sections import LsoConfig, TopicsConfig
from exporter.transactions.facts import OpenTransaction, OpenTransactions
from exporter.transactions.machine.records import NO_TIMEOUT_MS, Status
from exporter.transactions.transaction import V2
from exporter.words import BlockerKind, TransactionState
from tests.helpers.cluster import LOG, FakeKafka, FakeTransaction, OpenWriter, SourceRead, read, world_of
from tests.helpers.coordinator import CoordinatorRecord
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

LOG_PARTITIONS = 3
TOPIC = "orders"
PLACES = 2
IDS = ("pay-1", "ship-7")
NAMES = {Status.ONGOING: "Ongoing", Status.PREPARE_COMMIT: "PrepareCommit", Status.PREPARE_ABORT: "PrepareAbort"}
STATES = {
    Status.ONGOING: TransactionState.ONGOING,
    Status.PREPARE_COMMIT: TransactionState.PREPARE_COMMIT,
    Status.PREPARE_ABORT: TransactionState.PREPARE_ABORT,
}


@dataclass
class ModelId:
    """A transactional.id at its coordinator."""

    name: str
    producer_id: int
    status: Status = Status.EMPTY
    previous_id: int = -1
    next_id: int = -1
    timeout_ms: int = 60_000
    begun_ms: int = -1
    places: set[int] = field(default_factory=set)
    unmarked: set[int] = field(default_factory=set)

    @property
    def open(self) -> bool:
        return self.status in NAMES

    @property
    def producer_ids(self) -> set[int]:
        return {self.producer_id, self.previous_id, self.next_id} - {-1}


class Model:
    """One cluster. Every change is written to the log before the partitions see it, as Kafka does."""

    def __init__(self) -> None:
        self.world = world_of(log=LOG_PARTITIONS, **{TOPIC: PLACES})
        self.ids = {name: ModelId(name, 100 + number) for number, name in enumerate(IDS)}
        self.orphans: set[tuple[int, int]] = set()  # (place, producer id)
        self.committed: set[tuple[int, int]] = set()  # (place, producer id): a late record there may be of a commit
        self.unreplicated: dict[int, int] = {}  # the start offset that an LSO waits at, though its marker is written
        self.log_start = dict.fromkeys(range(PLACES), 0)
        self.tail = True
        self._producer_ids = count(1000)
        for known_id in self.ids.values():
            self._log(known_id)

    # --- What clients and the coordinator do ---

    def begin(self, model_id: ModelId, place: int, *, two_phase: bool) -> None:
        if model_id.status not in (Status.EMPTY, Status.ONGOING, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT):
            return
        if not model_id.open:
            model_id.timeout_ms = NO_TIMEOUT_MS if two_phase else 60_000
            model_id.places, model_id.begun_ms = set(), round(self.world.time.wall * 1000)
        model_id.status = Status.ONGOING
        model_id.places.add(place)
        self._log(model_id)

    def write(self, model_id: ModelId, place: int) -> None:
        if model_id.status is Status.ONGOING and place in model_id.places:
            self._append(place, model_id.producer_id)

    def prepare(self, model_id: ModelId, *, commit: bool, rotate: bool) -> None:
        if model_id.status is not Status.ONGOING:
            return
        model_id.status = Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT
        model_id.unmarked = set(model_id.places)
        if commit:
            self.committed |= {(place, model_id.producer_id) for place in model_id.places}
        model_id.next_id = next(self._producer_ids) if rotate else -1
        self._log(model_id)

    def mark(self, model_id: ModelId, place: int, *, replicated: bool) -> None:
        if model_id.status not in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT) or place not in model_id.unmarked:
            return
        model_id.unmarked.discard(place)
        partition = self.world.topics[TOPIC][place]
        for writer in [writer for writer in partition.writers if writer.producer_id == model_id.producer_id]:
            partition.writers.remove(writer)
            self.orphans.discard((place, writer.producer_id))
            if not replicated:
                self.unreplicated[place] = writer.start_offset
        partition.high_watermark += 1
        self._settle(place)

    def complete(self, model_id: ModelId) -> None:
        if model_id.status not in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT) or model_id.unmarked:
            return
        model_id.status = Status.COMPLETE_COMMIT if model_id.status is Status.PREPARE_COMMIT else Status.COMPLETE_ABORT
        rotates = model_id.next_id >= 0
        if rotates:
            model_id.previous_id, model_id.producer_id, model_id.next_id = model_id.producer_id, model_id.next_id, -1
        self._log(
            model_id, client_version=V2 if rotates else 0
        )  # a client before V2 gets its next id by InitProducerId

    def end(self, model_id: ModelId, *, rotate: bool) -> None:
        self.prepare(model_id, commit=True, rotate=rotate)
        for place in sorted(model_id.unmarked):
            self.mark(model_id, place, replicated=True)
        self.complete(model_id)

    def orphan(self, place: int, late: ModelId | None, *, before: bool) -> None:
        """A record that no transaction has: of an id without one, or a late one of an id whose transaction ended,
        perhaps by the producer id that it had before.
        """
        if late is not None and (late.previous_id < 0 if before else late.open):
            return
        if late is None:
            number = next(self._producer_ids)
            late, before = ModelId(f"ghost-{number}", number), False
            self._log(late)
        producer_id = late.previous_id if before else late.producer_id
        if all(writer.producer_id != producer_id for writer in self.world.topics[TOPIC][place].writers):
            self.orphans.add((place, producer_id))
        self._append(place, producer_id)

    def retain(self, place: int) -> None:
        """Retention up to the high watermark: the log may start beyond an old transaction's first offset."""
        self.log_start[place] = self.world.topics[TOPIC][place].high_watermark - 1
        self._settle(place)

    def replicate(self) -> None:
        for place in list(self.unreplicated):
            del self.unreplicated[place]
            self._settle(place)

    def _append(self, place: int, producer_id: int) -> None:
        partition = self.world.topics[TOPIC][place]
        if all(writer.producer_id != producer_id for writer in partition.writers):
            partition.writers.append(OpenWriter(producer_id, partition.high_watermark))
        partition.high_watermark += 1
        self._settle(place)

    def _settle(self, place: int) -> None:
        partition = self.world.topics[TOPIC][place]
        starts = [writer.start_offset for writer in partition.writers] + [self.unreplicated.get(place, 1 << 40)]
        partition.stable = max(min([*starts, partition.high_watermark]), 0, self.log_start[place])

    def _log(self, model_id: ModelId, client_version: int = 0) -> None:
        topics = [(TOPIC, sorted(model_id.places))] if model_id.open else None
        tags = kafka_tags(model_id.previous_id, model_id.next_id, client_version)
        ms = round(self.world.time.wall * 1000)
        value = encode_value(
            1, model_id.producer_id, 0, model_id.timeout_ms, model_id.status, topics, ms, model_id.begun_ms, tags
        )
        number = coordinator_partition(model_id.name, LOG_PARTITIONS)
        offset = self.world.topics[LOG][number].high_watermark
        self.world.write([CoordinatorRecord(number, offset, ms, encode_key(model_id.name), value)])
        if model_id.open:
            places = [(TOPIC, place) for place in sorted(model_id.places)]
            self.world.transactions[model_id.name] = FakeTransaction(
                model_id.producer_id, NAMES[model_id.status], places, 0, model_id.timeout_ms, model_id.begun_ms
            )
        else:
            self.world.transactions.pop(model_id.name, None)

    # --- Observations ---

    def known(self) -> set[int]:
        """The producer ids of transactions that the coordinator has."""
        return set().union(*(known_id.producer_ids for known_id in self.ids.values() if known_id.open))

    def facts(self) -> tuple[OpenTransactions, ...]:
        if not self.tail:
            return ()
        transactions = tuple(
            OpenTransaction(
                known_id.name, known_id.name[:-2], known_id.producer_id, 0, STATES[known_id.status],
                known_id.begun_ms / 1000,
                None if known_id.timeout_ms == NO_TIMEOUT_MS else known_id.timeout_ms / 1000, None,
                frozenset(TopicPartition(TOPIC, place) for place in known_id.places),
            )
            for known_id in self.ids.values() if known_id.open
        )  # fmt: skip
        return (OpenTransactions("txnlog", transactions, complete=True),)

    def quiet(self) -> None:
        """All answers again, and every transaction that a coordinator has ends."""
        self.world.unloaded.clear()
        self.world.denied_ids.clear()
        self.world.refuse.clear()
        self.world.log_reads.refused, self.tail = False, True
        for known_id in self.ids.values():
            self.end(known_id, rotate=False)
        self.replicate()


ids, places, flags = st.sampled_from(IDS), st.integers(0, PLACES - 1), st.booleans()
steps = st.one_of(
    st.tuples(st.just("begin"), ids, places, flags),
    st.tuples(st.just("begin"), ids, places, flags),
    st.tuples(st.just("prepare"), ids, flags, flags),
    st.tuples(st.just("end"), ids, flags),
    st.tuples(st.just("mark"), ids, places, flags),
    st.tuples(st.just("complete"), ids),
    st.tuples(st.just("orphan"), places, st.none() | ids, flags),
    st.tuples(st.just("retain"), places),
    st.tuples(st.just("replicate")),
    st.tuples(st.just("unload"), st.integers(0, LOG_PARTITIONS - 1), st.sampled_from([14, 15, 16])),
    st.tuples(st.just("load")),
    st.tuples(st.just("deny"), ids),
    st.tuples(st.just("allow")),
    st.tuples(st.just("tail"), flags),
    st.tuples(st.just("refuse"), flags),
)


def apply(model: Model, step: tuple[Any, ...]) -> None:
    world = model.world
    match step:
        case ("begin", name, place, two_phase):
            model.begin(model.ids[name], place, two_phase=two_phase)
            model.write(model.ids[name], place)
        case ("end", name, rotate):
            model.end(model.ids[name], rotate=rotate)
        case ("prepare", name, commit, rotate):
            model.prepare(model.ids[name], commit=commit, rotate=rotate)
        case ("mark", name, place, replicated):
            model.mark(model.ids[name], place, replicated=replicated)
        case ("complete", name):
            model.complete(model.ids[name])
        case ("orphan", place, name, before):
            model.orphan(place, None if name is None else model.ids[name], before=before)
        case ("retain", place):
            model.retain(place)
        case ("replicate",):
            model.replicate()
        case ("unload", number, code):
            world.unloaded[number] = code
        case ("load",):
            world.unloaded.clear()
        case ("deny", name):
            world.denied_ids.add(name)
        case ("allow",):
            world.denied_ids.clear()
        case ("tail", on):
            model.tail = on
        case ("refuse", on):
            world.log_reads.refused = on


def claims(seen: SourceRead, world: FakeKafka) -> list[tuple[TopicPartition, int | None]]:
    """The transactions called hanging; no other has a line that ends it."""
    found = seen.facts[Stalls]
    assert isinstance(found, Stalls)
    for stall in found.stalls:
        command = next_step(stall, "k1:9092", world.time.wall).command or ""
        assert (" abort " in command) == (stall.blocker.kind is BlockerKind.HANGING)
    return [
        (stall.partition, stall.blocker.producer_id)
        for stall in found.stalls
        if stall.blocker.kind is BlockerKind.HANGING
    ]


COMMITTED_WITHOUT_MARKER: list[tuple[tuple[Any, ...], int]] = [
    *[(("begin", "pay-1", 0, False), 0)] * 6,
    (("replicate",), 0),
    (("end", "pay-1", False), 0),
    (("orphan", 0, "pay-1", False), 0),
]
"""Nothing hangs, and that is known."""


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(steps, st.sampled_from([0, 0, 9])), min_size=6, max_size=20),
    st.sets(ids),
    st.booleans(),
)
@example(COMMITTED_WITHOUT_MARKER, set(), False)
def test_no_transaction_that_its_coordinator_has_is_hanging_and_every_orphan_is_once_it_is_quiet(
    story: list[tuple[tuple[Any, ...], int]], denied: set[str], tail: bool
) -> None:
    model = Model()
    world = model.world
    world.denied_ids |= denied
    model.tail = tail
    cluster = world.cluster()
    source = LsoSource(
        cluster, LsoConfig(sweep_interval=5.0, stall_after=5.0), TopicsConfig(), Prover(cluster, world.reader)
    )

    def look() -> SourceRead:
        world.time.pass_(source.interval)
        seen = read(world, source, *model.facts())
        for place, producer_id in claims(seen, world):
            assert producer_id not in model.known()
            assert (place.partition, producer_id) in model.orphans - model.committed
        return seen

    for step, reads in story:
        apply(model, step)
        for _ in range(reads):
            look()
    model.quiet()
    seen = look()
    for _ in range(15):
        seen = look()
    standing = {
        orphan
        for orphan in model.orphans
        if (partition := world.topics[TOPIC][orphan[0]]).stable is not None
        and partition.stable < partition.high_watermark
    }
    told = seen.value(catalogue.HANGING_TRANSACTIONS, TOPIC)
    # Whether records that may be of a commit hang is known, or not known: absent.
    assert told == len(standing - model.committed) or (told is None and standing & model.committed)
