"""The model: states as tuples, and the steps from one to the next. Each step names the Kafka class that takes it.

One partition of the transaction log, two data partitions, two producers: the first has two transactions, the other one.
A state has what the cluster has, and what clients were told. What an observer can read of it is in ``observer``.

Time is the order of events; ``canonical`` numbers the instants that are left anew, so that states are finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
NOT_BEGUN, OPEN, COMMITTED, ENDED = range(4)
"""The knowledge of a transaction's client: COMMITTED where it was told so, ENDED where it gave up or was refused."""
PLACES = (0, 1)


class ModelRecord(NamedTuple):
    """One record of the transaction log."""

    offset: int
    leader_epoch: int
    producer: int
    status: int
    epoch: int
    places: frozenset[int]
    begun: int
    first: bool
    tagged: bool
    time: int


class Data(NamedTuple):
    """A record of a transaction in a partition."""

    producer: int
    epoch: int
    transaction: int


class EndMarker(NamedTuple):
    """A marker in a partition."""

    producer: int
    epoch: int
    commit: bool
    time: int
    coordinator_epoch: int


class ModelClient(NamedTuple):
    """A transaction as its client sees it: the epoch that it writes with, and the partitions that were added."""

    state: int = NOT_BEGUN
    epoch: int = -1
    added: frozenset[int] = frozenset()


class KeptJudgement(NamedTuple):
    """The judgement of an agent about open records, and how far it had read the log: ``nobody`` was promised them."""

    place: int
    producer: int
    records: tuple[Data, ...]
    read: int
    nobody: bool


class KnownEnd(NamedTuple):
    """The ends of the log and of a partition without open records, read by an agent while no transaction was open."""

    place: int
    entries: int
    next: int
    leader_epoch: int


class Bounds(NamedTuple):
    """How often each thing may happen. ``v2``: which producers speak Transactions V2. ``owners``: the producer of each
    transaction, ``places`` the partitions that a transaction may write to. ``ahead``: by how many instants the clock of
    the partitions' leaders is ahead of the coordinator's, negative behind. ``notes``: an agent reads the ends once.
    """

    v2: tuple[bool, bool]
    owners: tuple[int, ...] = (0, 0)
    places: tuple[tuple[int, ...], ...] = ((0, 1), (0, 1))
    elections: int = 1
    truncations: int = 1
    drops: int = 1
    compactions: int = 1
    late: int = 1
    timeouts: int = 1
    looks: int = 0
    ahead: int = 0
    notes: bool = False
    remakes: int = 0


class Spent(NamedTuple):
    """How often each bounded thing happened."""

    elections: int = 0
    truncations: int = 0
    drops: int = 0
    compactions: int = 0
    late: int = 0
    timeouts: int = 0
    looks: int = 0
    remakes: int = 0


class ModelState(NamedTuple):
    """The cluster and its clients. ``unsent``: for each producer, the partitions whose marker its coordinator owes.
    ``kept`` and ``noted`` are what an agent keeps, also over its restarts.
    """

    log: tuple[ModelRecord, ...] = ()
    next: int = 0
    leader_epoch: int = 0
    unsent: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    partitions: tuple[tuple[Data | EndMarker, ...], ...] = ((), ())
    clients: tuple[ModelClient, ...] = ()
    spent: Spent = Spent()
    time: int = 0
    kept: KeptJudgement | None = None
    noted: KnownEnd | None = None


def initial(bounds: Bounds) -> ModelState:
    """Each id has its first Empty record (TransactionCoordinator.handleInitProducerId)."""
    state = ModelState(clients=tuple(ModelClient() for _ in bounds.owners))
    for producer in sorted(set(bounds.owners)):
        state = _append(state, producer, EMPTY, 0)
    return canonical(state)


def steps(state: ModelState, bounds: Bounds) -> Iterator[tuple[str, ModelState]]:
    """Every step from a state: its name, and the state after it."""
    for number, client in enumerate(state.clients):
        for name, after in _client(state, number, client, bounds):
            yield f"{name} {number}", canonical(after)
    for producer in sorted(set(bounds.owners)):
        for name, after in _coordinator(state, producer, bounds):
            yield f"{name} of {producer}", canonical(after)
    for name, after in _faults(state, bounds):
        yield name, canonical(after)


# --- What a coordinator has ------------------------------------------------------------------------------------


def newest(state: ModelState, producer: int) -> ModelRecord | None:
    """The state of an id at its coordinator: its newest record (TransactionStateManager.loadTransactionMetadata)."""
    return next((record for record in reversed(state.log) if record.producer == producer), None)


def open_records(entries: tuple[Data | EndMarker, ...], producer: int) -> tuple[int, list[Data]]:
    """The open records of a producer and the place of the first (ProducerAppendInfo.appendDataBatch)."""
    start, found = -1, list[Data]()
    for place, entry in enumerate(entries):
        if entry.producer != producer:
            continue
        if isinstance(entry, EndMarker):
            start, found = -1, []
        else:
            start = place if start < 0 else start
            found.append(entry)
    return start, found


def _append(
    state: ModelState,
    producer: int,
    status: int,
    epoch: int,
    places: frozenset[int] = frozenset(),
    begun: int = -1,
    *,
    first: bool = False,
    tagged: bool = False,
) -> ModelState:
    time = state.time + 1
    begun = time if first else begun
    record = ModelRecord(state.next, state.leader_epoch, producer, status, epoch, places, begun, first, tagged, time)
    return state._replace(log=(*state.log, record), next=state.next + 1, time=time)


# --- Clients ---------------------------------------------------------------------------------------------------


def _client(state: ModelState, number: int, client: ModelClient, bounds: Bounds) -> Iterator[tuple[str, ModelState]]:
    producer = bounds.owners[number]
    v2 = bounds.v2[producer]
    if client.state == NOT_BEGUN:
        before = [client for place, client in enumerate(state.clients[:number]) if bounds.owners[place] == producer]
        if all(client.state in {COMMITTED, ENDED} for client in before):
            yield from _begin(state, number, producer, before)
    elif client.state == OPEN:
        for place in bounds.places[number]:
            if place not in client.added:
                yield from _add(state, number, client, place, producer, v2=v2)
            else:
                yield from _produce(state, number, client, place, producer)
        yield from _end(state, number, client, producer, commit=True, v2=v2)
        yield from _end(state, number, client, producer, commit=False, v2=v2)
    elif client.state == ENDED and state.spent.late < bounds.late:
        # A leader takes a batch after the transaction ended: brokers before 3.6, or without verification (KIP-890).
        spent = state.spent._replace(late=state.spent.late + 1)
        for place in client.added:
            for name, after in _produce(state._replace(spent=spent), number, client, place, producer):
                yield f"late {name}", after


def _begin(
    state: ModelState, number: int, producer: int, before: list[ModelClient]
) -> Iterator[tuple[str, ModelState]]:
    """The client goes on with its epoch. A producer that was refused is made again: InitProducerId raises the epoch
    (TransactionMetadata.prepareIncrementProducerEpoch).
    """
    found = newest(state, producer)
    if found is None or found.status in {PREPARE_COMMIT, PREPARE_ABORT}:
        return
    own = before[-1].epoch if before else 0
    if before and before[-1].state == COMMITTED:
        # Transactions V2: EndTxn answered with the next epoch. Older clients keep theirs.
        yield "begin", _tell(state, number, ModelClient(OPEN, own))
    elif before:
        if found.status != ONGOING:
            after = _append(state, producer, EMPTY, found.epoch + 1)
            yield "init", _tell(after, number, ModelClient(OPEN, found.epoch + 1))
            if found.epoch == own:  # it ended by its own abort, and goes on
                yield "begin", _tell(state, number, ModelClient(OPEN, own))
    else:
        yield "begin", _tell(state, number, ModelClient(OPEN, 0))


def _add(
    state: ModelState, number: int, client: ModelClient, place: int, producer: int, *, v2: bool
) -> Iterator[tuple[str, ModelState]]:
    """TransactionCoordinator.handleAddPartitionsToTransaction: the partition is in the log before it takes a record."""
    found = newest(state, producer)
    if found is None or found.epoch != client.epoch or found.status in {PREPARE_COMMIT, PREPARE_ABORT}:
        yield "refused", _tell(state, number, client._replace(state=ENDED))
        return
    client = client._replace(added=client.added | {place})
    if found.status == ONGOING:
        after = _append(state, producer, ONGOING, found.epoch, found.places | {place}, found.begun, tagged=v2)
    else:
        after = _append(state, producer, ONGOING, found.epoch, frozenset({place}), first=True, tagged=v2)
    yield f"add {place}", _tell(after, number, client)


def _produce(
    state: ModelState, number: int, client: ModelClient, place: int, producer: int
) -> Iterator[tuple[str, ModelState]]:
    """ProducerAppendInfo.checkProducerEpoch: a record with an epoch below the newest of its producer is refused."""
    entries = state.partitions[place]
    written = sum(isinstance(entry, Data) and entry.transaction == number for entry in entries)
    epochs = [entry.epoch for entry in entries if entry.producer == producer]
    if written >= (1 if client.state == OPEN else 2) or (epochs and max(epochs) > client.epoch):
        return
    yield f"produce {place}", _put(state, place, (*entries, Data(producer, client.epoch, number)))


def _end(
    state: ModelState, number: int, client: ModelClient, producer: int, *, commit: bool, v2: bool
) -> Iterator[tuple[str, ModelState]]:
    """TransactionCoordinator.endTransaction. The client commits once its records are written.

    An older client whose Ongoing record was lost is told what became of its transaction before: "CompleteCommit if
    COMMIT => Left(Errors.NONE)". In Transactions V2 the epoch tells the two apart.
    """
    found = newest(state, producer)
    held = {
        place
        for place in client.added
        if any(isinstance(partition, Data) and partition.transaction == number for partition in state.partitions[place])
    }
    if not client.added or (commit and held != client.added):
        return
    name = "commit" if commit else "abort"
    refused = _tell(state, number, client._replace(state=ENDED))
    raised = client.epoch + 1 if v2 else client.epoch
    told = client._replace(state=COMMITTED if commit else ENDED, epoch=raised)
    if not commit:
        told = told._replace(epoch=client.epoch)
    if found is None or (found.epoch != client.epoch and not (v2 and found.epoch == raised)):
        yield f"{name} refused", refused
    elif found.status == ONGOING and found.epoch == client.epoch:
        status = PREPARE_COMMIT if commit else PREPARE_ABORT
        after = _append(state, producer, status, raised, found.places, found.begun, tagged=v2)
        yield name, _tell(_owe(after, producer, found.places), number, told)
    elif found.status == (COMPLETE_COMMIT if commit else COMPLETE_ABORT) and (not v2 or found.epoch == raised):
        yield f"{name} again", _tell(state, number, told)
    elif found.status not in {PREPARE_COMMIT, PREPARE_ABORT}:
        yield f"{name} refused", refused


# --- Coordinators ----------------------------------------------------------------------------------------------


def _coordinator(state: ModelState, producer: int, bounds: Bounds) -> Iterator[tuple[str, ModelState]]:
    found = newest(state, producer)
    if found is None:
        return
    if found.status == ONGOING and state.spent.timeouts < bounds.timeouts:
        # TransactionCoordinator.abortTimedOutTransactions: with the next epoch, and the server's version.
        spent = state.spent._replace(timeouts=state.spent.timeouts + 1)
        after = _append(state, producer, PREPARE_ABORT, found.epoch + 1, found.places, found.begun, tagged=True)
        yield "timeout", _owe(after, producer, found.places)._replace(spent=spent)
    if found.status in {PREPARE_COMMIT, PREPARE_ABORT}:
        commit = found.status == PREPARE_COMMIT
        for place in state.unsent[producer]:
            owed = _owe(state, producer, state.unsent[producer] - {place})
            # TransactionMarkerChannelManager: WriteTxnMarkers, appended by the leader.
            entries = state.partitions[place]
            epochs = [entry.epoch for entry in entries if entry.producer == producer]
            if not epochs or max(epochs) <= found.epoch:
                time = owed.time + 1
                marked = (*entries, EndMarker(producer, found.epoch, commit, time, state.leader_epoch))
                yield f"mark {place}", _put(owed._replace(time=time), place, marked)
            if state.spent.drops < bounds.drops:
                # "Couldn't find leader endpoint for partitions ...": addTxnMarkersToBrokerQueue passes it over.
                yield f"drop {place}", owed._replace(spent=state.spent._replace(drops=state.spent.drops + 1))
        if not state.unsent[producer]:
            status = COMPLETE_COMMIT if commit else COMPLETE_ABORT
            yield (
                "complete",
                _append(state, producer, status, found.epoch, frozenset(), found.begun, tagged=found.tagged),
            )


# --- Faults ----------------------------------------------------------------------------------------------------


def _faults(state: ModelState, bounds: Bounds) -> Iterator[tuple[str, ModelState]]:
    spent = state.spent
    if spent.elections < bounds.elections:
        more = spent._replace(elections=spent.elections + 1)
        for kept in range(len(state.log) + 1):
            # Partition.makeLeader; an unclean one begins where the new leader's log ends (UnifiedLog.truncateTo).
            log = state.log[:kept]
            ends = state.next if kept == len(state.log) else state.log[kept].offset
            after = state._replace(log=log, next=ends, leader_epoch=state.leader_epoch + 1, spent=more)
            yield f"election of the log, keeps {kept}", _load(after)
    if spent.remakes < bounds.remakes:
        # Somebody deletes the topic, which is made again when it is asked for (KafkaApis.handleFindCoordinatorRequest).
        # Coordinators forget what they had; an agent drops what it knew of the log before, by its topic id.
        more = spent._replace(remakes=spent.remakes + 1)
        anew = state._replace(log=(), next=0, leader_epoch=0, spent=more, kept=None, noted=None)
        yield "log made anew", _owe(_owe(anew, 0, frozenset()), 1, frozenset())
    if spent.truncations < bounds.truncations:
        more = spent._replace(truncations=spent.truncations + 1)
        for place, entries in enumerate(state.partitions):
            for kept in range(len(entries)):
                yield f"partition {place} keeps {kept}", _put(state._replace(spent=more), place, entries[:kept])
    if spent.compactions < bounds.compactions:
        more = spent._replace(compactions=spent.compactions + 1)
        for producer in PLACES:
            # Cleaner.cleanInto: any record that a later one of its key replaces; all of them at once is the worst.
            own = [record for record in state.log if record.producer == producer]
            for gone in {tuple(own[:-1]), tuple(own[:1]), tuple(own[1:-1])} - {()}:
                yield (
                    f"compaction of {len(gone)} of {producer}",
                    state._replace(log=tuple(record for record in state.log if record not in gone), spent=more),
                )
            if own and own[-1].status in {EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}:
                # TransactionStateManager.removeExpiredTransactionalIds, and the cleaner after the tombstone.
                left = tuple(record for record in state.log if record.producer != producer)
                yield f"expiry of {producer}", state._replace(log=left, next=state.next + 1, spent=more)


def _load(state: ModelState) -> ModelState:
    """A new coordinator sends all markers of a decided transaction (TransactionCoordinator.onElection)."""
    for producer in PLACES:
        found = newest(state, producer)
        decided = found is not None and found.status in {PREPARE_COMMIT, PREPARE_ABORT}
        state = _owe(state, producer, found.places if found is not None and decided else frozenset())
    return state


# --- Changes ---------------------------------------------------------------------------------------------------


def _tell(state: ModelState, number: int, client: ModelClient) -> ModelState:
    clients = state.clients
    return state._replace(clients=(*clients[:number], client, *clients[number + 1 :]))


def _owe(state: ModelState, producer: int, places: frozenset[int]) -> ModelState:
    first, second = state.unsent
    return state._replace(unsent=(places, second) if producer == 0 else (first, places))


def _put(state: ModelState, place: int, entries: tuple[Data | EndMarker, ...]) -> ModelState:
    partitions = state.partitions
    return state._replace(partitions=(*partitions[:place], entries, *partitions[place + 1 :]))


def canonical(state: ModelState) -> ModelState:
    """The state with its instants numbered from 1 on: only their order counts."""
    times = {record.time for record in state.log} | {record.begun for record in state.log}
    times |= {entry.time for entries in state.partitions for entry in entries if isinstance(entry, EndMarker)}
    order = {time: number for number, time in enumerate(sorted(times - {-1}), 1)}
    order[-1] = -1
    if all(time == number for time, number in order.items()) and state.time == len(order) - 1:
        return state
    log = tuple(record._replace(time=order[record.time], begun=order[record.begun]) for record in state.log)
    partitions = tuple(
        tuple(entry._replace(time=order[entry.time]) if isinstance(entry, EndMarker) else entry for entry in entries)
        for entries in state.partitions
    )
    return state._replace(log=log, partitions=partitions, time=len(order) - 1)
