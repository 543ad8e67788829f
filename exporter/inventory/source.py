"""Reads the inventory: the last hour of the transaction log, groups, and samples of two kinds of partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from exporter.catalogue import INTERNAL_TOPICS
from exporter.cluster import Cluster
from exporter.groups.facts import TopicReaders
from exporter.inventory.applications_in_log import ApplicationsInLog, Inventory, WrittenOutside
from exporter.kafka.client import AskError
from exporter.kafka.log.batch_writers import BatchWriters, sample_writers
from exporter.kafka.log.offset_commits import newest_commits
from exporter.kafka.requests.groups import committed_offsets, describe_group_grant, list_groups
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, offsets_at, start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.machine.records import UndecodableRecord, decode_key, decode_value
from exporter.transactions.source.log_range import Range, RangeReader, read_ranges
from exporter.words import GroupKind

HOUR = 3600.0
LEAST_SECONDS = 60.0
"""The shortest part of the log that is read where an hour has too many records."""
_COMMAND = "`applications` reads them"
MOST_GROUPS = 2_000
MOST_PARTITIONS = 500
"""Partitions of which the newest batches are read: 32 MiB in all."""
SAMPLED_OFFSETS = 200
"""Offsets before the end of a partition from which its newest batches are read."""


def read_inventory(
    cluster: Cluster, connect: Callable[[], RangeReader], deadline: Deadline, most_records: int | None = None
) -> Inventory:
    """The inventory of one cluster: of the last hour of the log, or of a part of it that has no more than
    ``most_records``. Raises AskError where the transaction log cannot be read.
    """
    metadata = cluster.metadata(deadline)
    # An answer about all topics leaves out those without DESCRIBE: a request by name is refused.
    internal = cluster.metadata(deadline, INTERNAL_TOPICS)
    log, seconds = _read_log(cluster, internal, connect, deadline, most_records)
    missing: list[str] = []
    if log.dropped:
        missing.append(f"{log.dropped} times an application, id or topic beyond the limits")
    commits = _read_commits(cluster, internal, log, missing, deadline)
    readers = _readers(cluster, metadata, missing, deadline)
    topics = written_outside(cluster, metadata, log.topics, readers, missing, deadline)
    return Inventory(
        seconds,
        tuple(log.uses(commits)),
        topics,
        tuple(dict.fromkeys(missing)),
    )


def _read_log(
    cluster: Cluster,
    metadata: Metadata,
    connect: Callable[[], RangeReader],
    deadline: Deadline,
    most_records: int | None,
) -> tuple[ApplicationsInLog, float]:
    """Read the newest part of the log, and say how many seconds it has; a log that is younger has as many as it is old.

    Raises AskError when it is refused, or its end is not reached in time.
    """
    places = metadata.partitions(TRANSACTION_STATE)
    found = ApplicationsInLog()
    if not places:
        if metadata.denies(TRANSACTION_STATE):
            raise AskError(metadata.errors[TRANSACTION_STATE])
        return found, HOUR
    seconds = HOUR
    ranges, began_before = _ranges(cluster, metadata, places, seconds, deadline)
    while most_records is not None and seconds > LEAST_SECONDS and _records(ranges) > most_records:
        seconds = max(LEAST_SECONDS, seconds / 4)
        ranges, began_before = _ranges(cluster, metadata, places, seconds, deadline)
    if most_records is not None and _records(ranges) > most_records:
        raise AskError(Fault(Reason.TIMEOUT, f"{_records(ranges)} records of the log in {seconds:.0f} s: {_COMMAND}"))
    reader = connect()
    oldest = cluster.clock.wall()
    try:
        for messages in read_ranges(reader, ranges, max(1.0, deadline.remaining()), cluster.clock):
            if deadline.over:
                text = "the end of the transaction log was not reached in time: `applications` has --timeout"
                raise AskError(Fault(Reason.TIMEOUT, text))
            for message in messages:
                oldest = min(oldest, message.timestamp()[1] / 1000)
                if (value := message.value()) is not None:
                    transactional_id = decode_key(message.key() or b"")
                    name = cluster.grouping.of(transactional_id).name
                    found.take(name, transactional_id, decode_value(value))
    except UndecodableRecord as problem:
        raise AskError(Fault(Reason.MALFORMED, f"a record of {TRANSACTION_STATE} has {problem}")) from None
    finally:
        reader.close()
    return found, seconds if began_before else min(seconds, max(1.0, cluster.clock.wall() - oldest))


def _ranges(
    cluster: Cluster, metadata: Metadata, places: Sequence[TopicPartition], seconds: float, deadline: Deadline
) -> tuple[dict[int, Range], bool]:
    """The records of the last ``seconds``, by partition of the log; and whether the log has, or had, older ones."""
    since = round((cluster.clock.wall() - seconds) * 1000)
    ends = end_offsets(cluster.client, metadata, places, Isolation.READ_UNCOMMITTED, deadline)
    starts = offsets_at(cluster.client, metadata, dict.fromkeys(places, since), deadline)
    for answer in (ends, starts):
        if answer.unanswered:
            raise AskError(next(iter(answer.unanswered.values())))
    ranges = {
        place.partition: Range(place.partition, starts.values[place], end)
        for place, end in ends.values.items()
        if starts.values[place] >= 0
    }
    return ranges, any(starts.values[place] != 0 for place, end in ends.values.items() if end > 0)


def _records(ranges: Mapping[int, Range]) -> int:
    return sum(max(0, part.end - part.start) for part in ranges.values())


def _read_commits(
    cluster: Cluster, metadata: Metadata, log: ApplicationsInLog, missing: list[str], deadline: Deadline
) -> Mapping[str, set[str]]:
    """Groups by the application in whose transactions their newest commits are, which have its producer id."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    places = metadata.partitions(CONSUMER_OFFSETS)
    if not places and metadata.denies(CONSUMER_OFFSETS):
        missing.append(f"groups of applications: {metadata.errors[CONSUMER_OFFSETS].detail}")
    faults: list[Fault] = []
    numbers = [place.partition for place in places]
    for commit in newest_commits(cluster.client, metadata, numbers, faults, deadline):
        if commit.transactional and (name := log.application_of(commit.producer_id)) is not None:
            found[name].add(commit.group)
    missing += [f"groups of applications: {text}" for text in sorted({fault.detail for fault in faults})]
    return found


def written_outside(
    cluster: Cluster,
    metadata: Metadata,
    topics: Iterable[str],
    readers: Mapping[str, Collection[str]],
    missing: list[str],
    deadline: Deadline,
    most: int = MOST_PARTITIONS,
    begin: int | None = None,
) -> tuple[WrittenOutside, ...]:
    """Samples of the topics that transactions write to and of which groups have committed offsets, see ``readers``: of
    ``most`` partitions of them, from the one with the number ``begin`` on where the others come in other reads.
    """
    written = sorted(topics)
    if unseen := [topic for topic in written if topic not in metadata.topics][:MOST_PARTITIONS]:  # deleted, or denied
        named = cluster.metadata(deadline, unseen)
        missing += [f"who writes: {named.errors[topic].detail}" for topic in unseen if named.denies(topic)]
    places = [partition for topic in written if topic in readers for partition in metadata.partitions(topic)]
    if len(places) > most:
        if begin is None:
            missing.append(f"who writes to {len(places) - most} partitions: too many to sample")
        first = (begin or 0) % len(places)
        places = (places + places)[first : first + most]
    ends = end_offsets(cluster.client, metadata, places, Isolation.READ_UNCOMMITTED, deadline)
    starts = start_offsets(cluster.client, metadata, ends.values, deadline)
    asked = {place: max(start, ends.values[place] - SAMPLED_OFFSETS) for place, start in starts.values.items()}
    empty = {place: BatchWriters() for place, start in asked.items() if start >= ends.values[place]}
    asked = {place: start for place, start in asked.items() if place not in empty}
    found, faults = sample_writers(cluster.client, metadata, asked, deadline)
    missing += [f"who writes: {fault.detail}" for fault in dict.fromkeys((*ends.faults, *starts.faults, *faults))]
    by_topic: defaultdict[str, list[BatchWriters]] = defaultdict(list)
    for place, writers in (*found.items(), *empty.items()):  # of an empty partition all is known
        by_topic[place.topic].append(writers)
    return tuple(
        _summed(topic, tuple(sorted(readers[topic])), len(metadata.topics[topic]), by_topic[topic])
        for topic in sorted({place.topic for place in places})
    )


def _readers(
    cluster: Cluster, metadata: Metadata, missing: list[str], deadline: Deadline
) -> Mapping[str, Collection[str]]:
    """The groups with committed offsets, by topic: of all but share groups."""
    listed = list_groups(cluster.client, metadata, deadline)
    refused = describe_group_grant(cluster.client, metadata, deadline)
    groups = sorted(name for rows in listed.values.values() for name, kind in rows if kind is not GroupKind.SHARE)
    if len(groups) > MOST_GROUPS:
        missing.append(f"what {len(groups) - MOST_GROUPS} groups read")
    committed = committed_offsets(cluster.client, metadata, groups[:MOST_GROUPS], deadline)
    faults = [*listed.faults, *([refused] if refused else ()), *committed.faults]
    missing += [f"who reads: {fault.detail}" for fault in dict.fromkeys(faults)]
    return TopicReaders.of(committed.values).by_topic


def _summed(topic: str, groups: tuple[str, ...], partitions: int, read: list[BatchWriters]) -> WrittenOutside:
    newest = max((writers.newest_ms for writers in read), default=-1)
    return WrittenOutside(
        topic,
        groups,
        partitions,
        len(read),
        sum(writers.batches for writers in read),
        sum(writers.outside for writers in read),
        tuple(sorted({producer_id for writers in read for producer_id in writers.producer_ids})),
        newest / 1000 if newest >= 0 else None,
    )
