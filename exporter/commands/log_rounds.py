"""Both rounds of the proofs of hanging transactions, with a progress bar and the number of records read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from exporter.cluster import Cluster
from exporter.commands.output import progress, say, wait
from exporter.core.durations import format_duration
from exporter.kafka.client import AskError
from exporter.lso.proof.evidence import CONFIRM_SECONDS, Committed, HangingProof, OpenStart, Round, lacking
from exporter.lso.proof.log_scan import Cost
from exporter.lso.proof.rounds import Rounds, committed_in, held_in
from exporter.model import Deadline
from exporter.transactions.facts import OpenTransactions
from exporter.transactions.source.log_range import RangeReader

Sleep = Callable[[float], object]

MARGIN_SECONDS = 0.1
"""Seconds added to the 30 s between the rounds."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """Result of two rounds: proofs, what was committed, what is unproven and why, and what could not be read.

    A transaction that ended between the rounds, or that the log has open, is in neither. ``opened`` has the open
    transactions of the log; None where it could not be read.
    """

    proofs: Mapping[OpenStart, HangingProof]
    unproven: Mapping[OpenStart, tuple[str, ...]]
    not_asked: tuple[str, ...]
    opened: OpenTransactions | None
    committed: Mapping[OpenStart, Committed] = field(default_factory=dict)


def take_rounds(
    cluster: Cluster,
    held: Mapping[OpenStart, float],
    connect: Callable[[], RangeReader],
    patience: float,
    sleep: Sleep,
    watched_from: Mapping[int, int] = MappingProxyType({}),
) -> Proofs:
    """Prove which of these transactions hang. DescribeProducers showed each open at its instant.

    Each request, and each read of the log, may take ``patience`` seconds. ``watched_from`` is as in ``Rounds.opened``.
    """
    rounds = Rounds(cluster, connect)
    try:
        first = _round(cluster, rounds, held, patience)
        doubts = tuple(dict.fromkeys(text for begun in first for text in begun.loaded.gaps(begun.log.partitions)))
        opened = rounds.opened(watched_from)
        suspects = {begun.held: begun for begun in first if not any(begun.gaps())}
        if not suspects:
            return Proofs({}, _unproven(first, opened), doubts, opened, _committed(first, cluster))
        say(
            "A transaction is proven to hang when its partition and the whole transaction log show twice,"
            f" {format_duration(CONFIRM_SECONDS)} apart, that no coordinator has it. Reading the log took"
            f" {rounds.cost.seconds:.1f} s, and is done once more."
        )
        wait(f"{len(suspects)} may hang; looking again", CONFIRM_SECONDS + MARGIN_SECONDS, sleep)
        topics = sorted({suspect.partition.topic for suspect in suspects})
        deadline = Deadline.after(patience)
        again = held_in(
            cluster, cluster.metadata(deadline, topics), {suspect.partition for suspect in suspects}, deadline
        )
        silent = {
            suspect: (fault.detail,) for suspect in suspects if (fault := again.unanswered.get(suspect.partition))
        }
        second = _round(
            cluster, rounds, {suspect: again.described for suspect in suspects if suspect in again.held}, patience
        )
        pairs = {begun.held: (suspects[begun.held], begun) for begun in second}
        proofs = {start: HangingProof(*pair) for start, pair in pairs.items() if not any(lacking(*pair))}
        alive = {
            start: tuple(lacking(*pair))
            for start, pair in pairs.items()
            if start not in proofs and not any(pair[1].gaps())
        }
        before, opened = opened, rounds.opened(watched_from)
        unproven = _unproven(first, before) | _unproven(second, opened) | alive | silent
        committed = _committed((*first, *second), cluster)
        return Proofs(proofs, unproven, (), opened, committed)
    except AskError as error:
        return Proofs({}, dict.fromkeys(held, (error.fault.detail,)), (error.fault.detail,), None)
    finally:
        rounds.close()
        _say_cost(cluster, rounds.cost)


def _round(cluster: Cluster, rounds: Rounds, held: Mapping[OpenStart, float], patience: float) -> list[Round]:
    rounds.begin(held, Deadline.after(patience))
    total = rounds.left
    with progress(f"reading the transaction log of {cluster.target}", total) as advance:
        rounds.read_on(Deadline.after(patience), advance)
    return rounds.finish(Deadline.after(patience))


def _committed(rounds: Iterable[Round], cluster: Cluster) -> dict[OpenStart, Committed]:
    return {begun.held: found for begun in rounds if (found := committed_in(begun, cluster)) is not None}


def _unproven(rounds: list[Round], opened: OpenTransactions) -> dict[OpenStart, tuple[str, ...]]:
    """Transactions for which a gap in the answers leaves undecided whether they hang."""
    named = {
        (transaction.transactional_id, place) for transaction in opened.transactions for place in transaction.partitions
    }
    return {
        begun.held: gaps
        for begun in rounds
        if (gaps := tuple(begun.gaps()))
        and begun.again is not None
        and (begun.log.open_ids.get(begun.held.producer_id), begun.held.partition) not in named
    }


def _say_cost(cluster: Cluster, cost: Cost) -> None:
    if not cost.records:
        return
    say(
        f"read the transaction log of {cluster.target}: {cost.records:,} records, {cost.size:,} bytes,"
        f" {cost.seconds:.1f} s"
    )
