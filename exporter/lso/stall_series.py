"""The series and the fact of the stalled partitions. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from exporter import catalogue
from exporter.core.thresholds import STALL_SLACK_SECONDS, UNOWNED, Owners
from exporter.lso.facts import Stall, Stalls
from exporter.model import Sample, SampleBatch, TopicPartition
from exporter.words import BlockerKind

MOST_PARTITIONS = 500
MOST_HOLDERS = 100
WORST = 5
"""Partitions of each holder that are series before any other."""
OTHERS = "_other"
"""The producer id of the series that sums up the holders beyond the cap."""

ENDLESS = frozenset({BlockerKind.HANGING, BlockerKind.UNMARKED})
"""Kinds that no coordinator will end: a page at once."""

Holder = tuple[str, str, str, str]
"""Application, transactional id, producer id ("" where unknown) and kind."""


def shown(stalls: Sequence[Stall], most: int = MOST_PARTITIONS) -> list[Stall]:
    """Return the stalls that are series, oldest first.

    Those of transactions that never end by themselves come before all others; then the worst of each holder, one of
    each topic, and the oldest.
    """
    if len(stalls) <= most:
        return list(stalls)
    by_holder: defaultdict[Holder, int] = defaultdict(int)
    topics: set[str] = set()
    ranked = []
    for place, stall in enumerate(sorted(stalls, key=lambda stall: stall.since)):
        who = holder_of(stall)
        by_holder[who] += 1
        first = by_holder[who] <= WORST
        ends = stall.blocker.kind not in ENDLESS
        ranked.append((ends, not first, stall.partition.topic in topics, place, stall))
        topics.add(stall.partition.topic)
    kept = sorted(ranked, key=lambda rank: rank[:4])[:most]
    return [stall for *_, stall in sorted(kept, key=lambda rank: rank[3])]


def holder_of(stall: Stall) -> Holder:
    """Return the transaction that holds a stalled partition."""
    who = stall.blocker
    number = "" if who.producer_id is None else str(who.producer_id)
    return who.application, who.transactional_id, number, who.kind.value


def due(stall: Stall, warning: float, critical: float) -> tuple[float, float]:
    """Return when a stall is a ticket and when it is a page, in Unix seconds, by the thresholds of its topic.

    Infinite for a Flink job's transaction at risk, which has alerts of its own. What never ends by itself is a page at
    once: a hanging transaction, and a committed one without its marker. A holder with a timeout is a page when its
    coordinator should have ended it, between the two thresholds.
    """
    who = stall.blocker
    if who.checkpoint is not None and who.checkpoint.at_risk:
        return float("inf"), float("inf")
    if critical == float("inf"):
        return stall.since + warning, critical
    if who.kind in ENDLESS:
        return stall.since + warning, stall.since
    if who.timeout is not None:
        critical = min(critical, max(warning, who.timeout + STALL_SLACK_SECONDS))
    return stall.since + warning, stall.since + critical


def holder_samples(
    cluster: str, stalls: Iterable[Stall], thresholds: Callable[[str], tuple[float, float]]
) -> Iterator[Sample]:
    """Yield how many partitions each holder holds, and when the first of them is a ticket and a page.

    ``thresholds`` gives the seconds of both for a topic. Beyond the cap holders are summed up, the endless last.
    """
    counts: defaultdict[Holder, int] = defaultdict(int)
    dues: dict[Holder, tuple[float, float]] = {}
    for stall in stalls:
        who = holder_of(stall)
        counts[who] += 1
        ticket, page = due(stall, *thresholds(stall.partition.topic))
        before = dues.get(who, (ticket, page))
        dues[who] = (min(ticket, before[0]), min(page, before[1]))
    for place, who in enumerate(sorted(dues, key=lambda who: (who[3] not in ENDLESS, dues[who][1]))):
        if place < MOST_HOLDERS:
            continue
        folded: Holder = ("", "", OTHERS, BlockerKind.UNKNOWN.value)
        first = dues.setdefault(folded, dues[who])
        dues[folded] = (min(first[0], dues[who][0]), min(first[1], dues[who][1]))
        counts[folded] += counts.pop(who)
        del dues[who]
    for who, count in counts.items():
        yield catalogue.LSO_HOLDER_PARTITIONS(float(count), cluster, *who)
        for severity, instant in zip(("warning", "critical"), dues[who], strict=True):
            yield catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS(instant, cluster, *who, severity)


def owner_samples(cluster: str, stalls: Iterable[Stall], owners: Owners) -> Iterator[Sample]:
    """Yield the owner of each transaction that holds stalled partitions, by producer id, up to the cap of holders.

    What belongs to the cluster as a whole is nobody's.
    """
    if not owners.teams:
        return
    yield catalogue.OWNER_INFO(1.0, cluster, "cluster", cluster, UNOWNED)
    topics: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for stall in sorted(stalls, key=lambda stall: stall.blocker.kind not in ENDLESS):
        application, _, number, _ = holder_of(stall)
        if number:
            topics[number, application][stall.partition.topic] = None
    found: dict[str, str] = {}
    for (number, application), held in topics.items():
        if len(found) < MOST_HOLDERS:
            found.setdefault(number, owners.of_holder(application, held))
    for number, owner in found.items():
        yield catalogue.OWNER_INFO(1.0, cluster, "holder", number, owner)


class ShownStalls(NamedTuple):
    """The stalls of one read: how many by topic, the series by partition, the fact for others."""

    by_topic: Counter[str]
    series: SampleBatch
    fact: Stalls

    @classmethod
    def of(
        cls,
        cluster: str,
        found: Sequence[Stall],
        unread: frozenset[TopicPartition],
    ) -> Self:
        kept = shown(found)
        samples = [sample for stall in kept for sample in stall_samples(cluster, stall)]
        dropped = float(len(found) - len(kept))
        samples.append(catalogue.SERIES_DROPPED(dropped, catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS.name))
        fact = Stalls(tuple(found), unread)
        return cls(Counter(stall.partition.topic for stall in found), SampleBatch(tuple(samples)), fact)


def stall_samples(cluster: str, stall: Stall) -> Iterator[Sample]:
    """The series of one stalled partition."""
    topic, partition = stall.partition.topic, str(stall.partition.partition)
    blocker = stall.blocker
    yield catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS(stall.since, cluster, topic, partition)
    lag = max(0, stall.high_watermark - stall.last_stable_offset)
    yield catalogue.LSO_LAG_OFFSETS(float(lag), cluster, topic, partition)
    if stall.leader is not None:
        yield catalogue.LSO_STALLED_LEADER_ID(float(stall.leader), cluster, topic, partition)
    yield catalogue.LSO_BLOCKER_INFO(
        1.0,
        cluster,
        blocker.application,
        topic,
        partition,
        blocker.transactional_id,
        "" if blocker.producer_id is None else str(blocker.producer_id),
        "" if blocker.producer_epoch is None else str(blocker.producer_epoch),
        str(blocker.start_offset),
        blocker.kind.value,
    )
