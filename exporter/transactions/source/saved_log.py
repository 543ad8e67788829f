"""The state of the source ``txnlog`` over a restart: positions, open ids and counters of one log."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.cluster import Cluster
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.keeper import Keeper
from exporter.transactions.machine.progress import PartitionProgress
from exporter.transactions.saved import Saved, SavedClocks, SavedPartition
from exporter.transactions.tail import LogTail


class SavedLog:
    """The saved state of one log. Not thread-safe: for the worker of ``txnlog``.

    ``log_partitions`` is how many partitions the log had at the first start.
    """

    def __init__(self, cluster: Cluster, aggregates: Aggregates, name: str) -> None:
        self._cluster = cluster
        self._aggregates = aggregates
        self._keeper = Keeper(cluster.state, name)
        self._saved: Saved | None = None  # the state of the last process
        self.undecodable = 0
        """Undecodable records that the last process counted."""
        self.log_partitions = 0
        self._targets: dict[int, int] = {}  # ends at the start, which are read before restored counters are exposed
        self._caught_up = False
        self._losses = 0  # those of the tail that are saved

    @property
    def loaded(self) -> bool:
        """Return whether the state was loaded: after the first metadata of the log."""
        return self._saved is not None

    @property
    def trouble(self) -> str:
        """Why the state cannot be written now, "" while it is."""
        return self._keeper.trouble

    def load(self, topic_id: str, partitions: int) -> bool:
        """Load the state of the log with this topic id, "" while it has none, and so many partitions; once. Returns
        whether this was the first call.
        """
        first = self._saved is None
        if self._saved is None:
            self._saved, self.undecodable = self._keeper.load(self._cluster.cluster_id, topic_id, self._aggregates)
            known = self._saved.log_partitions
            self.log_partitions = partitions if known is None else known
        self._keeper.identify(topic_id)
        return first

    @property
    def waiting(self) -> dict[int, SavedPartition]:
        """The saved state of partitions that were not begun yet. Whoever begins one removes it."""
        return self._saved.partitions if self._saved is not None else {}

    @property
    def clocks(self) -> SavedClocks | None:
        """What the last process knew of the brokers' clocks."""
        return None if self._saved is None else self._saved.clocks

    def began_at(self, number: int, end: int) -> None:
        """Note that a partition goes on from its saved position, and its end now."""
        self._targets[number] = end

    def caught_up(self, progress: Mapping[int, PartitionProgress]) -> bool:
        """Return whether restored counters have reached the log's end at the start.

        From then on they are exposed; a partition that answers later is added.
        """
        if self._caught_up:
            return True
        for number, target in list(self._targets.items()):
            known = progress.get(number)
            if known is not None and (known.next >= target or known.end.high_watermark is None):
                del self._targets[number]
        self._caught_up = not self._targets
        return self._caught_up

    def save(self, tail: LogTail, *, whole: bool) -> None:
        """Save what changed; ``whole`` asks for a snapshot."""
        # A snapshot has ids as lost records showed them.
        whole |= tail.known.losses != self._losses
        self._losses = tail.known.losses
        now = self._cluster.clock.monotonic()
        self._keeper.save(tail, self._aggregates, self.log_partitions, self.waiting, now, whole=whole)
