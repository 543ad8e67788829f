"""``transactions hanging``: the full search for transactions that no coordinator knows, in every partition.

The cross-check of Kafka's TransactionsCommand find-hanging, with a second read a little later in place of its 15
minutes: a marker that was on its way has arrived by then.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from exporter.commands.clusters import duration, read_all
from exporter.commands.output import progress, say
from exporter.commands.report import ClusterReport, ReportFormat, show
from exporter.config import ClusterConfig
from exporter.core.durations import format_age, format_duration
from exporter.kafka.requests.coordinators import ask_coordinators
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.kafka.requests.transactions import PARTITIONS_PER_REQUEST, describe_producers
from exporter.lso.next_step import next_step
from exporter.lso.rules import Coordinators, LogProducer, Suspicion, is_hanging, suspect
from exporter.model import Blocker, BlockerKind, Deadline, Fault, Stall, TopicPartition
from exporter.sources.cluster import Cluster
from exporter.web.status import stall_document

CONFIRM_AFTER = 5.0
"""Seconds between the two reads."""

_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions hanging --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions hanging --bootstrap-server kafka-1:9092 --older-than 10m --output json

Needs READ on all topics and DESCRIBE on all transactional ids: without them nothing is called hanging.

exit codes: 0 none, 1 found, 2 could not look, or could not tell
"""

Key = tuple[TopicPartition, int]


def add_to(looks: Any) -> argparse.ArgumentParser:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions hanging``."""
    parser: argparse.ArgumentParser = looks.add_parser(
        "hanging",
        help="search all partitions for transactions that no coordinator knows",
        description="Search the logs of all partitions for open transactions that no coordinator knows.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "--older-than",
        type=duration,
        default=60.0,
        metavar="DURATION",
        help="leave out those whose producer wrote more recently (1m)",
    )
    return parser


def command(options: argparse.Namespace) -> int:
    """Runs it; gives back the exit code."""

    def look(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[Stall]:
        return search(cluster, deadline, options.older_than, time.sleep)

    looks = read_all(options, look)
    now = time.time()
    form: ReportFormat[Stall] = ReportFormat(
        "hanging",
        "no hanging transactions",
        ("topic", "partition", "pid", "epoch", "offset", "kind", "last write", "lag"),
        lambda stall: _row(stall, now),
        lambda cluster, stall: stall_document(stall, cluster.properties.bootstrap_servers, now),
        lambda stall: stall.since,
        lambda cluster, stall: (str(stall.partition), next_step(stall, cluster.properties.bootstrap_servers, now)),
        undecided=True,
    )
    return show(options, looks, form)


def search(
    cluster: Cluster, deadline: Deadline, older_than: float, sleep: Callable[[float], object]
) -> ClusterReport[Stall]:
    """Search one cluster. Takes ``CONFIRM_AFTER`` seconds longer when there is a suspicion. Raises AskError.

    Every question may take as long as the deadline leaves at first: there is one for each few hundred partitions.
    """
    patience = deadline.remaining()
    metadata = cluster.metadata(deadline)
    partitions = sorted(TopicPartition(topic, number) for topic, some in metadata.topics.items() for number in some)
    step = PARTITIONS_PER_REQUEST * max(1, len(metadata.brokers))
    opened: dict[Key, LogProducer] = {}
    faults: list[Fault] = []
    with progress(f"searching {len(partitions)} partitions of {cluster.target}", len(partitions)) as advance:
        for start in range(0, len(partitions), step):
            batch = partitions[start : start + step]
            opened |= _opened(cluster, metadata, batch, Deadline.after(patience), faults)
            advance(len(batch))
    wall = cluster.clock.wall()
    old = {
        key: each
        for key, each in opened.items()
        if each.last_timestamp is None or wall - each.last_timestamp >= older_than
    }
    # Partitions first, coordinators after: one that ended in between is unknown for a moment, and gone in the second
    # read.
    suspicions, coordinators = _cross_check(cluster, old, {}, Deadline.after(patience), faults)
    if not suspicions and not coordinators.missing:
        return ClusterReport(cluster, (), _texts(faults))
    say(f"some are unknown to their coordinators; looking again in {format_duration(CONFIRM_AFTER)} ...")
    sleep(CONFIRM_AFTER)
    deadline = Deadline.after(patience)
    again = _opened(cluster, metadata, sorted({partition for partition, _ in old}), deadline, faults)
    still = {key: each for key, each in again.items() if key in old and each.start_offset == old[key].start_offset}
    confirmed, coordinators = _cross_check(cluster, still, suspicions, deadline, faults)
    now = cluster.clock.monotonic()
    hanging = {key for key in still if is_hanging(confirmed.get(key), coordinators, CONFIRM_AFTER, now)}
    unsure = {key for key in still if key not in hanging and not coordinators.knows(*key)}
    offsets = _offsets(cluster, metadata, sorted({partition for partition, _ in hanging | unsure}), deadline)
    stalls = {
        key: _stall(key[0], still[key], key in hanging, coordinators.missing, offsets, metadata, wall)
        for key in sorted(hanging | unsure)
    }
    return ClusterReport(
        cluster,
        tuple(stalls[key] for key in sorted(hanging)),
        _texts(faults),
        tuple(stalls[key] for key in sorted(unsure)),
    )


def _opened(
    cluster: Cluster, metadata: Metadata, partitions: Sequence[TopicPartition], deadline: Deadline, faults: list[Fault]
) -> dict[Key, LogProducer]:
    answers = describe_producers(cluster.client, metadata, partitions, deadline)
    faults += answers.faults
    return {
        (partition, each.producer_id): LogProducer(
            each.producer_id, each.producer_epoch, each.start_offset, each.last_timestamp
        )
        for partition, producers in answers.values.items()
        for each in producers
        if each.start_offset is not None
    }


def _cross_check(
    cluster: Cluster,
    opened: Mapping[Key, LogProducer],
    before: Mapping[Key, Suspicion],
    deadline: Deadline,
    faults: list[Fault],
) -> tuple[dict[Key, Suspicion], Coordinators]:
    if not opened:
        return {}, Coordinators({})
    asked = ask_coordinators(
        cluster.client,
        deadline,
        lambda each: cluster.grouping.of(each).name,
        producer_ids=sorted({producer_id for _, producer_id in opened}),
    )
    faults += asked.faults
    coordinators = Coordinators.of(asked.transactions, _texts(asked.faults))
    now = cluster.clock.monotonic()
    doubts = {key: suspect(before.get(key), key[0], each, coordinators, now) for key, each in opened.items()}
    return {key: doubt for key, doubt in doubts.items() if doubt is not None}, coordinators


def _offsets(
    cluster: Cluster, metadata: Metadata, partitions: Sequence[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[int, int]]:
    stable = end_offsets(cluster.client, metadata, partitions, Isolation.READ_COMMITTED, deadline)
    ends = end_offsets(cluster.client, metadata, partitions, Isolation.READ_UNCOMMITTED, deadline)
    return {
        each: (stable.values[each], ends.values[each])
        for each in partitions
        if each in stable.values and each in ends.values
    }


def _stall(
    partition: TopicPartition,
    producer: LogProducer,
    proven: bool,
    missing: tuple[str, ...],
    offsets: Mapping[TopicPartition, tuple[int, int]],
    metadata: Metadata,
    wall: float,
) -> Stall:
    stable, end = offsets.get(partition, (producer.start_offset, producer.start_offset))
    why = () if proven else missing or ("a second read that had every answer: run it again",)
    kind = BlockerKind.HANGING if proven else BlockerKind.UNKNOWN
    who = ("", "", producer.producer_id, producer.producer_epoch, producer.start_offset)
    blocker = Blocker(*who, kind, started=producer.last_timestamp, missing=why)
    since = producer.last_timestamp if producer.last_timestamp is not None else wall
    return Stall(partition, since, stable, end, metadata.leader(*partition), blocker)


def _texts(faults: Iterable[Fault]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fault.detail for fault in faults))


def _row(stall: Stall, now: float) -> tuple[object, ...]:
    blocker = stall.blocker
    return (
        *stall.partition,
        blocker.producer_id,
        blocker.producer_epoch,
        blocker.start_offset,
        blocker.kind.value,
        "?" if blocker.started is None else f"{format_age(now - blocker.started)} ago",
        stall.high_watermark - stall.last_stable_offset,
    )
