"""Check that applications that write in transactions commit their input's offsets in them. Pure.

Offsets committed outside of the transaction are the most common way to lose exactly-once between two topics: after a
crash, records whose results are committed are processed again, or records whose results are not committed are skipped.

The newest batches of ``__consumer_offsets`` prove how a group commits. Where a group has none in a transaction there is
the transaction log: a transaction that commits a group's offsets names the group's partition of ``__consumer_offsets``,
which other groups share. So a partition that is named is evidence, and one that none names is proof that these
transactions commit no offsets of the group. No broker knows that a group and a transactional.id are of one program:
that is taken from their names, and never of a group that reads what the application writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.bounds.text import some
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.log.offset_commits import OffsetCommits
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS
from exporter.model import Fault
from exporter.posture.check import PostureCheck, Rule
from exporter.transactions.facts import OffsetPartitions

MOST_GROUPS = 20_000
"""Groups whose instants are kept, for each way to commit: a client may commit for any names."""
MOST_TOPICS = 100
"""Topics that are kept of a group."""
MOST_NAMED = 3
SPACING = 10.0
LEAST_TIMES = 3
LEAST_SPAN = 50.0
"""Commits outside of transactions count at so many instants over at least so many seconds: fewer may be a single reset
of the group's offsets.
"""
LEAST_TRANSACTIONS = 10
"""Number of transactions of an application after which a partition that none of them named is evidence."""
_WORD = re.compile(r"[^\W\d_]+")
_GENERIC = frozenset(
    {"app", "application", "cg", "client", "consumer", "consumers", "group", "grp", "id", "input", "producer"}
    | {"producers", "service", "svc", "transaction", "transactional", "tx", "txn", "worker"}
)
OFFSETS = Rule(
    "offsets_in_transaction",
    "Offsets are committed outside of the transaction with the results: after a crash, input is processed twice or "
    "skipped.",
    "producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata()) before commitTransaction, and "
    "enable.auto.commit=false without commitSync (docs/exactly-once.md)",
)


class CommitTimes(NamedTuple):
    """Instants of a group's newest commits, in transactions and outside of any: Unix seconds, ``SPACING`` apart; and
    the topics of the latter.
    """

    transactional: tuple[float, ...] = ()
    plain: tuple[float, ...] = ()
    topics: frozenset[str] = frozenset()


class CommitHistory:
    """How groups committed in the last hour, as far as samples of their newest commits have it: of ``MOST_GROUPS``."""

    def __init__(self) -> None:
        self._instants: dict[tuple[str, bool], list[float]] = {}
        self._topics: dict[str, set[str]] = {}

    def take(self, commits: Iterable[OffsetCommits], since: float) -> None:
        """Add commits that came in the order of each group, and forget those before ``since``, Unix seconds."""
        for commit in commits:
            at, who = commit.timestamp_ms / 1000, (commit.group, commit.transactional)
            if at < since or (who not in self._instants and len(self._instants) >= MOST_GROUPS):
                continue
            instants = self._instants.setdefault(who, [])
            if not instants or at >= instants[-1] + SPACING:
                instants.append(at)
            if not commit.transactional and len(topics := self._topics.setdefault(commit.group, set())) < MOST_TOPICS:
                topics.add(commit.topic)
        kept = {who: [at for at in instants if at >= since] for who, instants in self._instants.items()}
        self._instants = {who: instants for who, instants in kept.items() if instants}
        self._topics = {group: topics for group, topics in self._topics.items() if (group, False) in self._instants}

    def times(self) -> dict[str, CommitTimes]:
        """By group."""
        return {
            group: CommitTimes(
                tuple(self._instants.get((group, True), ())),
                tuple(self._instants.get((group, False), ())),
                frozenset(self._topics.get(group, ())),
            )
            for group, _ in self._instants
        }


def offset_checks(
    commits: Mapping[str, CommitTimes] | Fault, used: Mapping[str, OffsetPartitions], partitions: int, cluster: str
) -> Iterator[PostureCheck]:
    """The checks of groups that commit in and out of transactions, and of groups that have the name of an application.

    ``commits`` is the fault where ``__consumer_offsets`` cannot be read. ``used`` has by application the partitions of
    it that its transactions named; ``partitions`` is how many it has. Of applications and groups without a common name
    the check is unknown, once for the cluster.
    """
    if isinstance(commits, Fault):
        yield OFFSETS.cannot(CONSUMER_OFFSETS, commits.detail)
        return
    unlike: dict[str, set[str]] = {}
    known: set[str] = set()
    for group, times in sorted(commits.items()):
        habit = _is_habit(times.plain)
        if times.transactional:
            found = "of its newest commits some are in transactions"
            if habit:
                length = f"{times.plain[-1] - times.plain[0]:.0f} s"
                found += f", and others over {length} and more outside of any (proven by its batches)"
            yield OFFSETS.says(group, passed=not habit, found=found)
        elif habit and partitions:
            # A group that reads what an application writes is not the one that reads its input.
            place = coordinator_partition(group, partitions)
            apart = [
                name
                for name, own in used.items()
                if own.transactions >= LEAST_TRANSACTIONS
                and place not in own.partitions
                and not own.topics & times.topics
            ]
            alike = sorted(name for name in apart if name == group or (_words(name) and _words(name) == _words(group)))
            for name in alike[:1]:
                found = (
                    f"none of {used[name].transactions} transactions of application {name} named partition {place} of "
                    f"__consumer_offsets, and group {group} commits outside of any (proven); that the two belong "
                    "together is taken from their names"
                )
                yield OFFSETS.says(group, passed=False, found=found)
                known.add(name)
            for name in [] if alike else apart:
                if not used[name].partitions:
                    unlike.setdefault(name, set()).add(group)
    unlike = {name: groups for name, groups in unlike.items() if name not in known}
    if unlike:
        groups = sorted(set[str]().union(*unlike.values()))
        error = (
            f"transactions of {some(sorted(unlike), MOST_NAMED)} commit no offsets, and {some(groups, MOST_NAMED)} "
            "commit outside of any: whether such a group reads the input of such an application is not known, as no "
            "name shows it"
        )
        yield OFFSETS.cannot(cluster, error)


def _words(name: str) -> frozenset[str]:
    """The words of a name that tell one program from another."""
    return frozenset(_WORD.findall(name.lower())) - _GENERIC


def _is_habit(plain: Sequence[float]) -> bool:
    return len(plain) >= LEAST_TIMES and plain[-1] - plain[0] >= LEAST_SPAN
