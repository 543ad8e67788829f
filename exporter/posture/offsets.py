"""Check that applications that write in transactions commit their input's offsets in them. Pure.

Offsets committed outside of the transaction are the most common way to lose exactly-once between two topics: after a
crash, records whose results are committed are processed again, or records whose results are not committed are skipped.

There are two kinds of evidence. The batches of ``__consumer_offsets`` prove how a group commits. Without them
there is the transaction log: a transaction that commits a group's offsets names the group's partition of
``__consumer_offsets``, which other groups share. So a partition that is named is evidence, and one that none names is
proof that these transactions commit no offsets of the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exporter.groups.facts import GroupCommits
from exporter.kafka.requests.by_coordinator import coordinator_partition
from exporter.posture.check import PostureCheck, Rule
from exporter.transactions.facts import OffsetPartitions

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


def offset_checks(
    commits: GroupCommits | None, used: Mapping[str, OffsetPartitions], partitions: int
) -> Iterator[PostureCheck]:
    """The checks of groups that commit in and out of transactions, and of groups that have the name of an application.

    ``commits`` is None where ``__consumer_offsets`` is not read. ``used`` has by application the partitions of it that
    its transactions named; ``partitions`` is how many it has.
    """
    if commits is None:
        return
    for group, times in sorted(commits.groups.items()):
        habit = _is_habit(times.plain)
        if times.transactional:
            found = "in the last hour it committed in transactions"
            if habit:
                length = f"{times.plain[-1] - times.plain[0]:.0f} s"
                found += f", and for {length} and more outside of any (proven by the batches of __consumer_offsets)"
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
