"""``transactions stalled``: the partitions whose LSO does not move, the holder of each, and the next step."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from exporter.bounds.text import some
from exporter.catalogue import TOPIC_LSO_LAG_OFFSETS
from exporter.cluster import Cluster
from exporter.commands.clock import coordinators_clock, say_clock
from exporter.commands.log_hour import NOT_IN_TIME, read_hour
from exporter.commands.log_rounds import Proofs, Sleep, take_rounds
from exporter.commands.output import say, wait
from exporter.commands.runner import MOST_NAMES, ClusterReport, ListForm, add_command, fault_texts, run
from exporter.commands.settings import add_duration_flag
from exporter.commands.waiting_groups import groups_of_holders, groups_of_offsets
from exporter.config import ClusterConfig
from exporter.flink.facts import FlinkTransactions
from exporter.groups.facts import HolderGroups
from exporter.kafka.ask import hidden_topics
from exporter.kafka.client import AskError
from exporter.kafka.requests.configs import scans_late
from exporter.lso.facts import Blocker, Stall, Stalls
from exporter.lso.holders import as_unmarked, with_checkpoints
from exporter.lso.proof.evidence import OpenInLog, OpenStart
from exporter.lso.proof.rounds import held_in, log_ends
from exporter.lso.source.lso import LsoSource
from exporter.model import Deadline, Facts, SampleBatch, TopicPartition
from exporter.settings.sections import LsoConfig, TopicsConfig
from exporter.transactions.facts import CoordinatorTime, LoggedTransactions
from exporter.transactions.source.log_range import RangeConsumer, RangeReader
from exporter.views.command_documents import WaitedForStallDocument
from exporter.views.holders import holder_document
from exporter.views.transactions import stall_document
from exporter.words import BlockerKind, TransactionState

_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions stalled --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions stalled --bootstrap-server kafka-1:9092 --stall-after 10s --output json

Where a partition is stalled, this reads the whole transaction log: only the log proves that a transaction hangs. That
takes 30 s more and needs READ on __transaction_state.

exit codes: 0 none, 1 found, 2 could not be read
"""


_FORM = ListForm(
    "stalled_partitions", "no stalled partitions", WaitedForStallDocument, lambda stall: stall["since_timestamp"]
)


def add_to(lists: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions stalled``."""
    parser = add_command(
        lists,
        "stalled",
        _command,
        summary="partitions whose last stable offset does not move, and the transaction that holds it",
        description="Read every partition twice, and list those whose last stable offset did not move in between.",
        examples=_EXAMPLES,
    )
    text = "time between the two looks (30s, or lso.stall_after of the settings)"
    add_duration_flag(parser, "--stall-after", None, text)


def _command(options: argparse.Namespace) -> int:
    def read(cluster: Cluster, settings: ClusterConfig, deadline: Deadline) -> ClusterReport[WaitedForStallDocument]:
        stall_after = options.stall_after or settings.lso.stall_after
        patience = deadline.remaining()
        seen = look_twice(cluster, settings, stall_after, deadline, time.sleep)
        holders = groups_of_holders(cluster, seen.found, Deadline.after(patience))
        return ClusterReport(
            cluster,
            tuple(_documents(cluster, seen, holders)),
            seen.not_asked,
            advice=(*_advice(seen), *_holders(seen, holders)),
        )

    return run(options, read, _FORM)


class SeenStalls(NamedTuple):
    """The stalls of one cluster, what could not be read, the bounds of its coordinators' clock, and the groups whose
    offsets wait in a stalled partition.
    """

    found: tuple[Stall, ...]
    not_asked: tuple[str, ...]
    time: CoordinatorTime = CoordinatorTime()
    groups: Mapping[TopicPartition, tuple[str, ...]] = MappingProxyType({})


def _documents(cluster: Cluster, seen: SeenStalls, holders: HolderGroups | None) -> Iterator[WaitedForStallDocument]:
    servers, now = cluster.properties.bootstrap_servers, cluster.clock.wall()
    for stall in seen.found:
        yield {
            **stall_document(stall, servers, now, seen.time),
            "waiting_groups": list(seen.groups.get(stall.partition, ())),
            "holder": holder_document(stall.blocker, holders),
        }


def _advice(seen: SeenStalls) -> Iterator[str]:
    for place, names in sorted(seen.groups.items()):
        yield (
            f"{place}: groups whose offsets wait: {some(names, MOST_NAMES)}. Their offsets are committed in the"
            " transaction that holds it: until it ends, their consumers get no position (UNSTABLE_OFFSET_COMMIT)."
        )


def _holders(seen: SeenStalls, holders: HolderGroups | None) -> Iterator[str]:
    """Each holder once."""
    blockers = {stall.blocker.producer_id: stall.blocker for stall in seen.found}
    for producer_id, blocker in blockers.items():
        if producer_id is not None:
            who = blocker.transactional_id or f"producer id {producer_id}"
            yield f"{who}: {holder_document(blocker, holders)['text']}."


class _Watch(NamedTuple):
    """The monotonic instant from which partitions are watched, and the ends of the transaction log just before, none
    where they are not known.
    """

    began: float
    log_ends: Mapping[int, int]

    @classmethod
    def begin(cls, cluster: Cluster, deadline: Deadline) -> Self:
        ends: Mapping[int, int] = {}
        with suppress(AskError):  # the read of the log says why
            ends = log_ends(cluster, deadline)
        return cls(cluster.clock.monotonic(), ends)


def look_twice(
    cluster: Cluster,
    settings: ClusterConfig,
    stall_after: float,
    deadline: Deadline,
    sleep: Sleep,
    connect: Callable[[], RangeReader] | None = None,
    rhythm: Callable[[Cluster, float], tuple[FlinkTransactions, tuple[str, ...]]] | None = None,
) -> SeenStalls:
    """Two reads of one cluster, ``stall_after`` seconds apart; the second only when an LSO is below its high watermark.

    Then the transaction log is read for the stalled partitions: 30 s more where a holder may hang. Where a holder may
    be a Flink job's, ``rhythm`` reads the jobs of the last hour. Each read may take as long as the deadline allows at
    the start.
    """
    patience = deadline.remaining()
    connect = connect or (lambda: RangeConsumer(cluster.properties))
    source = LsoSource(
        cluster,
        LsoConfig(
            interval=stall_after,
            # The second read is only of partitions whose LSO was below the high watermark in the first.
            sweep_interval=stall_after * 1000,
            stall_after=stall_after,
        ),
        settings.topics,
        timeout=patience,
    )
    say(f"looking at the last stable offsets of {cluster.target} ...")
    first = list(source.read(deadline, Facts()))
    if settings.topics.include == TopicsConfig().include and (hidden := hidden_topics(cluster.client, deadline)):
        first.append(hidden)
    if not _behind(first):
        return SeenStalls((), fault_texts(first))
    watch = _Watch.begin(cluster, Deadline.after(patience))
    wait(
        f"{_behind(first)} topics have open transactions, stalled where the last stable offset does not move; looking"
        " again",
        stall_after,
        sleep,
    )
    second = list(source.read(Deadline.after(patience), Facts()))
    stalls = next((fact.stalls for fact in second if isinstance(fact, Stalls)), ())
    faults = (*fault_texts(first), *fault_texts(second))
    if not stalls:
        return SeenStalls((), tuple(dict.fromkeys(faults)))
    stalls, more = _by_the_log(cluster, stalls, watch, connect, patience, sleep)
    faults += more
    if any(stall.blocker.flink for stall in stalls):
        flink, more = (rhythm or read_rhythm)(cluster, patience)
        stalls, faults = tuple(with_checkpoints(stalls, flink)), (*faults, *more)
    stalls, more = _still_held(stalls, list(source.read(Deadline.after(patience), Facts())))
    faults += more
    clock = coordinators_clock(cluster, (stall.blocker.started for stall in stalls), Deadline.after(patience))
    say_clock(cluster, clock, cluster.clock.wall())
    own = groups_of_offsets(cluster, {stall.partition for stall in stalls}, Deadline.after(patience))
    faults += own.missing
    return SeenStalls(stalls, tuple(dict.fromkeys(faults)), clock, own.groups)


def _still_held(stalls: Sequence[Stall], last: Sequence[object]) -> tuple[tuple[Stall, ...], tuple[str, ...]]:
    """The stalls whose partition has the same holder in a last look: reading the log takes time, and many end in it.

    All of them where the last look failed, with its faults.
    """
    found = next((fact.stalls for fact in last if isinstance(fact, Stalls)), None)
    if found is None:
        return tuple(stalls), fault_texts(last)
    held = {place for stall in found for place in _places(stall)}
    return tuple(stall for stall in stalls if not held.isdisjoint(_places(stall))), fault_texts(last)


def _places(stall: Stall) -> tuple[tuple[object, ...], ...]:
    """The partition with its LSO, and with its holder: deleted records move the LSO of one and the same holder."""
    blocker = stall.blocker
    by_offset = (stall.partition, "offset", stall.last_stable_offset)
    if blocker.producer_id is None:
        return (by_offset,)
    return by_offset, (stall.partition, "holder", blocker.producer_id, blocker.start_offset)


def read_rhythm(cluster: Cluster, patience: float) -> tuple[FlinkTransactions, tuple[str, ...]]:
    """The Flink jobs in the last hour of the transaction log, and what could not be read."""
    say(f"reading the last hour of the transaction log of {cluster.target}, for the rhythm of Flink jobs ...")
    facts, faults, _ = read_hour(cluster, Deadline.after(patience))
    if facts.get(LoggedTransactions) is None:
        return FlinkTransactions({}), faults or (NOT_IN_TIME,)
    return facts.get(FlinkTransactions) or FlinkTransactions({}), faults


def _by_the_log(
    cluster: Cluster,
    stalls: Sequence[Stall],
    watch: _Watch,
    connect: Callable[[], RangeReader],
    patience: float,
    sleep: Sleep,
) -> tuple[tuple[Stall, ...], tuple[str, ...]]:
    """The stalls with their holders as the transaction log has them, and what could not be read."""
    unknown = {
        OpenStart(stall.partition, stall.blocker.producer_id, stall.blocker.start_offset)
        for stall in stalls
        if stall.blocker.kind is BlockerKind.UNKNOWN and stall.blocker.producer_id is not None
    }
    deadline = Deadline.after(patience)
    places = {held.partition for held in unknown}
    metadata = cluster.metadata(deadline, sorted({place.topic for place in places}))
    again = held_in(cluster, metadata, places, deadline)
    suspects = {held: again.described for held in unknown if held in again.held}
    rounds = take_rounds(cluster, suspects, connect, patience, sleep, watch.log_ends)
    watched = cluster.clock.monotonic() - watch.began
    # The broker that looks rarest for those that timed out stands for all.
    late = max(scans_late(cluster.client, metadata.brokers, Deadline.after(patience)).values(), default=0.0)
    return tuple(_named(cluster, stall, rounds, watched, late) for stall in stalls), rounds.not_asked


def _named(cluster: Cluster, stall: Stall, rounds: Proofs, watched: float, scan_late: float) -> Stall:
    """The stall with its holder as the log shows it, and the evidence for a step that ends it.

    ``watched`` is for how many seconds the partition was seen to be held; ``scan_late`` as in ``OpenTransaction``.
    """
    blocker = stall.blocker
    if blocker.producer_id is None:
        return stall
    held = OpenStart(stall.partition, blocker.producer_id, blocker.start_offset)
    if (proof := rounds.proofs.get(held)) is not None:
        return stall._replace(blocker=blocker._replace(kind=BlockerKind.HANGING, evidence=proof, missing=()))
    if (committed := rounds.committed.get(held)) is not None:
        return stall._replace(blocker=as_unmarked(blocker, committed))
    opened = rounds.opened
    known = (
        next((transaction for transaction in opened.transactions if transaction.producer_id == held.producer_id), None)
        if opened
        else None
    )
    if opened is not None and known is not None and held.partition in known.partitions:
        known = known._replace(scan_late=scan_late)
        flink = cluster.grouping.may_be_flink(known.transactional_id)
        kind = BlockerKind.OPEN if known.state is TransactionState.ONGOING else BlockerKind.COMPLETING
        evidence = OpenInLog.of(opened, known, watched=watched, flink=flink)
        if (blocker.kind, blocker.transactional_id) != (kind, known.transactional_id):
            who = (known.transactional_id, known.application, known.producer_id, known.producer_epoch)
            blocker = Blocker(*who, held.start_offset, kind, known.state, known.started, known.timeout)
        blocker = blocker._replace(evidence=evidence, flink=flink)
        return stall._replace(blocker=blocker._replace(scan_behind=known.scan_behind, scan_late=known.scan_late))
    if blocker.kind is BlockerKind.UNKNOWN:
        missing = (*blocker.missing, *rounds.unproven.get(held, ()))
        return stall._replace(blocker=blocker._replace(missing=tuple(dict.fromkeys(missing))))
    flink = cluster.grouping.may_be_flink(blocker.transactional_id)
    return stall._replace(blocker=blocker._replace(flink=flink))


def _behind(read: Sequence[object]) -> int:
    """Number of topics with a partition whose LSO is below its high watermark."""
    batches = (item for item in read if isinstance(item, SampleBatch))
    return sum(sample.value != 0 for batch in batches for sample in batch.of_families((TOPIC_LSO_LAG_OFFSETS,)))
