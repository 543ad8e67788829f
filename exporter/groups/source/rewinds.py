"""Committed offsets of transactional groups that move back: what was processed since is processed again, or skipped."""

from __future__ import annotations

from collections import defaultdict

from exporter.kafka.log.offset_commits import EndedCommits, OffsetCommits

MOST_PARTITIONS = 50_000
"""Partitions whose offsets are kept. Those that came later are not watched."""
MOST_SERIES = 5000
"""Pairs of group and topic that are counted."""
MOST_OPEN = 10_000
"""Commits of open transactions that are kept. Those of a transaction that is not kept show nothing."""


class OffsetRewinds:
    """Follows the offsets of groups that commit in transactions. ``counts`` are by group and topic.

    A commit in a transaction counts at its marker, and not at all where it is aborted. One by another instance, or
    outside of any transaction, counts as well: the last one is where the group goes on.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self._known: dict[tuple[str, str], dict[int, int]] = {}
        self._open: defaultdict[int, list[OffsetCommits]] = defaultdict(list)
        self._partitions = self._waiting = 0

    def take(self, commits: OffsetCommits, since: float) -> None:
        """Take the commits of a batch, in the order of the log; those from before ``since`` do not count."""
        if not commits.transactional:
            if (commits.group, commits.topic) in self._known:
                self._apply(commits, since)
        elif self._waiting < MOST_OPEN:
            self._waiting += 1
            self._open[commits.producer_id].append(commits)

    def end(self, ended: EndedCommits, since: float) -> None:
        """Apply what a transaction committed, or drop it."""
        waiting = self._open.pop(ended.producer_id, [])
        self._waiting -= len(waiting)
        for commits in waiting if ended.commit else ():
            self._apply(commits, since)

    def _apply(self, commits: OffsetCommits, since: float) -> None:
        key = (commits.group, commits.topic)
        known = self._known.setdefault(key, {})
        back = False
        for partition, offset in commits.offsets:
            before = known.get(partition)
            if offset is None:
                self._partitions -= known.pop(partition, None) is not None
            elif before is not None or self._partitions < MOST_PARTITIONS:
                self._partitions += before is None
                back = back or (before is not None and offset < before)
                known[partition] = offset
        if not known:
            del self._known[key]
        elif commits.timestamp_ms / 1000 >= since and (key in self.counts or len(self.counts) < MOST_SERIES):
            self.counts[key] = self.counts.get(key, 0) + back
