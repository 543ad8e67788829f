"""The observations of a state of the model that an observer hands to the function that judges."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.kafka.log.batches import Marker
from exporter.model import KnownLogEnd, TopicPartition
from exporter.transactions.decided.decisions import LogRecord, LogRun, decisions_of, passed_offset, whole_since
from exporter.transactions.decided.fate import Judgement, OpenRecords, ProducerLog, judge
from exporter.transactions.machine.records import LogValue, Status, Tags
from tests.model.kafka import ONGOING, PREPARE_ABORT, EndMarker, ModelRecord, ModelState, newest, open_records

SECONDS = 60
"""Between two instants of the model: more than the clocks of brokers differ."""
PRODUCER_IDS = (100, 200)


def place_of(number: int) -> TopicPartition:
    """The data partition of a number."""
    return TopicPartition("t", number)


def log_record(record: ModelRecord) -> LogRecord:
    """A record of the model's log as one of Kafka's."""
    begun_ms = record.begun * SECONDS * 1000 if record.begun >= 0 else -1
    time_ms = record.time * SECONDS * 1000
    places = tuple(place_of(place) for place in sorted(record.places)) if record.status else None
    tags = Tags(client_version=2 if record.tagged else 0)
    producer_id = PRODUCER_IDS[record.producer]
    status = Status(record.status)
    value = LogValue(1, producer_id, record.epoch, 60_000, status, places, time_ms, begun_ms, tags)
    return LogRecord(record.offset, record.leader_epoch, time_ms, f"id-{record.producer}", value)


def log_by_a_read(state: ModelState, producer: int, end: KnownLogEnd | None) -> ProducerLog:
    """Return what one read of the log, from its start to its end, shows of a producer, and an end known from before."""
    run = LogRun()
    for record in state.log:
        run.read(record.offset, record.leader_epoch)
    run.ended(state.next)
    records = [log_record(record) for record in state.log if record.producer == producer]
    start = run.whole_from(state.leader_epoch)
    passed = -1 if end is None else passed_offset(start, end, state.leader_epoch)
    whole = whole_since({0: start}, {0: passed}, recorded=bool(records))
    return ProducerLog(decisions_of(PRODUCER_IDS[producer], records), whole, passed if records else -1)


def suspects(state: ModelState) -> Iterator[tuple[int, int, int]]:
    """Partition, producer and start of what is open and no coordinator has."""
    for place, entries in enumerate(state.partitions):
        for producer in {entry.producer for entry in entries}:
            start, _ = open_records(entries, producer)
            found = newest(state, producer)
            if start >= 0 and (found is None or not ONGOING <= found.status <= PREPARE_ABORT):
                yield place, producer, start


def records_by_a_read(
    state: ModelState, place: int, producer: int, start: int, *, traced: bool, ahead: int = 0
) -> OpenRecords:
    """Return what DescribeProducers shows, and with ``traced`` the partition's log from its start.

    The clock of the partition's leader is ``ahead`` instants of the coordinator's, which are positive or negative.
    """
    entries = state.partitions[place]
    last = max(entry.epoch for entry in entries if entry.producer == producer)
    shown = OpenRecords(place_of(place), PRODUCER_IDS[producer], last)
    if not traced:
        return shown
    below = [
        (offset, entry)
        for offset, entry in enumerate(entries[:start])
        if isinstance(entry, EndMarker) and entry.producer == producer
    ]
    marker = None
    if below:
        offset, epoch = below[-1]
        at = (epoch.time + ahead) * SECONDS * 1000
        marker = Marker(offset, at, PRODUCER_IDS[producer], epoch.epoch, epoch.commit, epoch.coordinator_epoch)
    return shown._replace(first_epoch=entries[start].epoch, marker=marker, unmarked=marker is None)


def judgements(state: ModelState, ahead: int = 0) -> Iterator[tuple[int, int, int, Judgement]]:
    """Partition, producer, start and what the function says of it, by what may be read of the partition."""
    for place, producer, start in suspects(state):
        noted = state.noted
        known = noted is not None and noted.place == place and noted.entries <= start
        end = KnownLogEnd(noted.next, noted.leader_epoch) if noted is not None and known else None
        log = log_by_a_read(state, producer, end)
        for traced in (False, True):
            yield (
                place,
                producer,
                start,
                judge(records_by_a_read(state, place, producer, start, traced=traced, ahead=ahead), log),
            )
