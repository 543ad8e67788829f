"""``transactions hanging``: search partitions for hanging transactions, with a proof for each.

As Kafka's TransactionsCommand find-hanging, but compared with the transaction log in place of the coordinators' caches,
and with a second read after 30 s in place of a minimum age of 15 minutes. ``lso.proof.evidence`` has the rule.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from exporter.cluster import Cluster
from exporter.commands.log_rounds import Sleep, take_rounds
from exporter.commands.output import progress
from exporter.commands.runner import ClusterReport, ListForm, add_command, fault_texts, run
from exporter.commands.settings import add_duration_flag
from exporter.config import ClusterConfig
from exporter.kafka.ask import hidden_topics
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Ends, both_ends
from exporter.kafka.requests.transactions import PARTITIONS_PER_REQUEST
from exporter.lso.facts import Blocker, Stall
from exporter.lso.holders import as_unmarked
from exporter.lso.proof.evidence import Committed, HangingProof, OpenStart, WriterState
from exporter.lso.proof.rounds import Open, held_in
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.source.log_range import RangeConsumer, RangeReader
from exporter.views.documents import StallDocument
from exporter.views.transactions import stall_document
from exporter.words import BlockerKind

_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions hanging --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions hanging --bootstrap-server kafka-1:9092 --older-than 10m --output json

Reads the whole transaction log, twice, 30 s apart, where a transaction is open in a partition that may hang. Needs READ
on all topics, __transaction_state among them, and DESCRIBE on all transactional ids: without them nothing is called
hanging.

exit codes: 0 none, 1 found, 2 could not be determined
"""


_FORM = ListForm(
    "hanging", "no hanging transactions", StallDocument, lambda stall: stall["since_timestamp"] or 0.0, undecided=True
)


def add_to(lists: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions hanging``."""
    parser = add_command(
        lists,
        "hanging",
        _command,
        summary="search all partitions for hanging transactions, with proof",
        description="Search the logs of all partitions for open transactions that no transactional.id has open.",
        examples=_EXAMPLES,
    )
    add_duration_flag(parser, "--older-than", 60.0, "leave out transactions whose producer wrote more recently (1m)")
    parser.add_argument("--topic", help="search this topic only")
    parser.add_argument("--partition", type=int, metavar="N", help="search the partitions of this number only")


def _command(options: argparse.Namespace) -> int:
    def read(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[StallDocument]:
        where = Where(options.topic, options.partition)
        found = search(cluster, deadline, options.older_than, time.sleep, where=where)
        servers, now = cluster.properties.bootstrap_servers, cluster.clock.wall()

        def view(stall: Stall) -> StallDocument:
            shown = stall_document(stall, servers, now)
            if stall.blocker.started is not None:
                return shown
            return {**shown, "since": None, "since_timestamp": None, "seconds": None}

        return found.of_views(view)

    return run(options, read, _FORM)


class Where(NamedTuple):
    """The range of the search: one partition, one topic, or all."""

    topic: str | None = None
    partition: int | None = None

    def has(self, place: TopicPartition) -> bool:
        """Return whether it is searched."""
        return self.topic in {None, place.topic} and self.partition in {None, place.partition}

    def __str__(self) -> str:
        topic = f"topic {self.topic}"
        return topic if self.partition is None else f"partition {self.partition} of {topic}"


EVERYWHERE = Where()


def search(
    cluster: Cluster,
    deadline: Deadline,
    older_than: float,
    sleep: Sleep,
    connect: Callable[[], RangeReader] | None = None,
    where: Where = EVERYWHERE,
) -> ClusterReport[Stall]:
    """Search one cluster. Where a transaction may hang, this reads the log and takes 30 s more. Raises AskError.

    Each request may take as long as the deadline allows at the start: there is one for each few hundred partitions.
    """
    patience = deadline.remaining()
    metadata = cluster.metadata(deadline)
    found = (TopicPartition(topic, number) for topic, some in metadata.topics.items() for number in some)
    partitions = sorted(filter(where.has, found))
    if not partitions and where.topic is not None:  # an answer about all topics leaves out those without DESCRIBE
        raise AskError(Fault(Reason.UNKNOWN_TOPIC, f"{where}: is not there, or a grant is missing: DESCRIBE on Topic"))
    hidden = hidden_topics(cluster.client, deadline) if where.topic is None else None
    faults = [] if hidden is None else [hidden]
    opened, described = _opened(cluster, metadata, partitions, patience, faults)
    wall = cluster.clock.wall()
    old = {
        held: producer
        for held, producer in opened.items()
        # By its producer's clock: a time that is far ahead of ours says nothing.
        if producer.last_write is None or abs(wall - producer.last_write) >= older_than
    }
    if not old:
        return ClusterReport(cluster, (), tuple(dict.fromkeys(fault_texts(faults))))
    connect = connect or (lambda: RangeConsumer(cluster.properties))
    rounds = take_rounds(cluster, dict.fromkeys(old, described), connect, patience, sleep)
    hanging = {held: proof for held, proof in rounds.proofs.items() if held in old}
    committed = {held: found for held, found in rounds.committed.items() if held in old}
    unsure = {held: why for held, why in rounds.unproven.items() if held in old and held not in committed}
    places = sorted({held.partition for held in (*hanging, *committed, *unsure)})
    ends = both_ends(cluster.client, metadata, places, Deadline.after(patience))
    stalls = {
        held: _stall(
            held, old[held], hanging.get(held) or committed.get(held), unsure.get(held, ()), ends, metadata, wall
        )
        for held in sorted((*hanging, *committed, *unsure))
    }
    return ClusterReport(
        cluster,
        tuple(stalls[held] for held in sorted((*hanging, *committed))),
        tuple(dict.fromkeys((*fault_texts(faults), *rounds.not_asked))),
        tuple(stalls[held] for held in sorted(unsure)),
    )


def _opened(
    cluster: Cluster, metadata: Metadata, partitions: Sequence[TopicPartition], patience: float, faults: list[Fault]
) -> tuple[dict[OpenStart, WriterState], float]:
    """The open transactions, and the monotonic instant after the last answer."""
    step = PARTITIONS_PER_REQUEST * max(1, len(metadata.brokers))
    opened: dict[OpenStart, WriterState] = {}
    described = cluster.clock.monotonic()
    with progress(f"searching {len(partitions)} partitions of {cluster.target}", len(partitions)) as advance:
        for start in range(0, len(partitions), step):
            batch = partitions[start : start + step]
            answers: Open = held_in(cluster, metadata, batch, Deadline.after(patience))
            opened |= answers.held
            faults += answers.faults
            described = answers.described
            advance(len(batch))
    return opened, described


def _stall(
    held: OpenStart,
    writer: WriterState,
    found: HangingProof | Committed | None,
    missing: tuple[str, ...],
    ends: Ends,
    metadata: Metadata,
    wall: float,
) -> Stall:
    high = ends.high.get(held.partition, held.start_offset)
    stable = ends.stable[held.partition] if held.partition in ends.high else held.start_offset
    who = ("", "", held.producer_id, writer.epoch, held.start_offset)
    kind = BlockerKind.UNKNOWN if found is None else BlockerKind.HANGING
    written = None if writer.last_write is None or writer.last_write > wall else writer.last_write
    blocker = Blocker(*who, kind, started=written, missing=missing, evidence=found)
    if isinstance(found, Committed):
        blocker = as_unmarked(blocker, found)
    return Stall(
        held.partition, wall if written is None else written, stable, high, metadata.leader(*held.partition), blocker
    )
