"""Check that applications that write in transactions commit their input's offsets in them. Pure.

Offsets committed outside of the transaction are the most common way to lose exactly-once between two topics: after a
crash, records whose results are committed are processed again, or records whose results are not committed are skipped.

There are two kinds of evidence. The newest batches of ``__consumer_offsets`` prove how a group commits. Where a group
has none in a transaction there is the transaction log: a transaction that commits a group's offsets names the group's
partition of ``__consumer_offsets``, which other groups share. So a partition that is named is evidence, and one that
none names is proof that these transactions commit no offsets of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.kafka.log.offset_commits import OffsetCommits
from exporter.kafka.requests.by_coordinator import coordinator_partition
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS
from exporter.model import Fault
from exporter.posture.check import PostureCheck, Rule
from exporter.transactions.facts import OffsetPartitions

MOST_GROUPS = 20_000
"""Groups whose instants are kept, for each way to commit: a client may commit for any names."""
SPACING = 10.0
LEAST_TIMES = 3
LEAST_SPAN = 50.0
"""Commits outside of transactions count at so many instants over at least so many seconds: fewer may be a single reset
of the group's offsets.
"""
LEAST_TRANSACTIONS = 10
"""Number of transactions of an application after which a partition that none of them named is evidence."""
OFFSETS = Rule(
    "offsets_in_transaction",
    "Offsets are committed outside of the transaction with the results: after a crash, input is processed twice or "
    "skipped.",
    "producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata()) before commitTransaction, and "
    "enable.auto.commit=false without commitSync (docs/exactly-once.md)",
)


class CommitTimes(NamedTuple):
    """Instants of a group's newest commits, in transactions and outside of any: Unix seconds, ``SPACING`` apart."""

    transactional: tuple[float, ...] = ()
    plain: tuple[float, ...] = ()


def commit_times(commits: Iterable[OffsetCommits], since: float) -> Mapping[str, CommitTimes]:
    """By group, of the commits from ``since`` on (Unix seconds), of ``MOST_GROUPS`` groups at most."""
    found: dict[tuple[str, bool], list[float]] = {}
    for commit in commits:
        at, who = commit.timestamp_ms / 1000, (commit.group, commit.transactional)
        if at < since or (who not in found and len(found) >= MOST_GROUPS):
            continue
        instants = found.setdefault(who, [])
        if not instants or at >= instants[-1] + SPACING:
            instants.append(at)
    return {
        group: CommitTimes(tuple(found.get((group, True), ())), tuple(found.get((group, False), ())))
        for group, _ in found
    }


def partitions_to_sample(used: Mapping[str, OffsetPartitions] | None, partitions: int) -> frozenset[int]:
    """Partitions of ``__consumer_offsets`` with groups that a check may be of: those that transactions named, and those
    of groups named as an application; all of them where the transaction log is not read.
    """
    if used is None:
        return frozenset(range(partitions))
    named = (number for use in used.values() for number in use.partitions if number < partitions)
    own = (coordinator_partition(application, partitions) for application in used if partitions)
    return frozenset((*named, *own))


def offset_checks(
    commits: Mapping[str, CommitTimes] | Fault, used: Mapping[str, OffsetPartitions], partitions: int
) -> Iterator[PostureCheck]:
    """The checks of groups that commit in and out of transactions, and of groups that have the name of an application.

    ``commits`` is the fault where ``__consumer_offsets`` cannot be read. ``used`` has by application the partitions of
    it that its transactions named; ``partitions`` is how many it has.
    """
    if isinstance(commits, Fault):
        yield OFFSETS.cannot(CONSUMER_OFFSETS, commits.detail)
        return
    for group, times in sorted(commits.items()):
        habit = _is_habit(times.plain)
        if times.transactional:
            found = "of its newest commits some are in transactions"
            if habit:
                length = f"{times.plain[-1] - times.plain[0]:.0f} s"
                found += f", and others over {length} and more outside of any (proven by its batches)"
            yield OFFSETS.says(group, passed=not habit, found=found)
        elif habit and group in used and partitions:
            place = coordinator_partition(group, partitions)
            seen = used[group]
            if place in seen.partitions or seen.transactions < LEAST_TRANSACTIONS:
                continue  # transactions of the application named the partition: of this group or of another one
            found = (
                f"none of {seen.transactions} transactions of application {group} named partition {place} of "
                f"__consumer_offsets, and group {group} commits outside of any (proven); that the two belong together "
                "is taken from their name"
            )
            yield OFFSETS.says(group, passed=False, found=found)


def _is_habit(plain: Sequence[float]) -> bool:
    return len(plain) >= LEAST_TIMES and plain[-1] - plain[0] >= LEAST_SPAN
