"""The state of the transaction log at the start, from the coordinators: what began before the part that is read."""

from __future__ import annotations

from collections.abc import Callable

from exporter.cluster import Cluster
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError
from exporter.kafka.requests.transactions import ask_coordinators
from exporter.model import Deadline
from exporter.transactions.counting.aggregates import HOUR, Aggregates
from exporter.transactions.known_log import KnownLog

FIRST_WAIT = 5.0
LONGEST_WAIT = 60.0
"""Seconds between two tries, doubled with each."""


class LogSeed:
    """Asks all coordinators once, and again those that did not answer. Not thread-safe: for the worker of ``txnlog``.

    ``missing`` are the faults of the last try.
    """

    def __init__(self, cluster: Cluster, aggregates: Aggregates) -> None:
        self._cluster = cluster
        self._aggregates = aggregates
        self._complete = True  # no partition lost records
        self.missing: tuple[str, ...] = ()
        self._unseeded: set[int] | None = None  # log partitions whose state at the start is not known yet; None: all
        self._next_at = 0.0  # monotonic
        self._wait = FIRST_WAIT
        # Applications that were kept and have no id any more are dropped after the coordinators were asked once more:
        # one that has just been elected may answer with an empty list.
        self._forget_at = cluster.clock.monotonic() + HOUR

    @property
    def tried(self) -> bool:
        """Return whether the coordinators were asked once, or need not be."""
        return self._unseeded is not None

    def again(self, number: int) -> None:
        """Ask again about this partition of the log, which lost records: not at once, as a coordinator that has just
        been elected may answer with an empty list.
        """
        self._complete = False
        if self._unseeded is not None:
            self._unseeded.add(number)
        self._next_at = self._cluster.clock.monotonic() + FIRST_WAIT
        self._wait = FIRST_WAIT

    def read(
        self, log: KnownLog, partitions: int, log_now: Callable[[], float], deadline: Deadline, *, is_new: bool
    ) -> None:
        """Ask when it is due, and pass on what the coordinators know. ``log_now`` returns log time, Unix seconds.
        ``is_new``: the topic is newer than this process, so the log itself is complete.

        Asked after the positions were set, so that there is no gap; ids with a record in the log since then are left
        unchanged.
        """
        now = self._cluster.clock.monotonic()
        if now < self._next_at or (self._unseeded == set() and now < self._forget_at):
            return
        if is_new and self._complete:
            self._unseeded = set()
            self._aggregates.applications.new.complete_since(log_now())
            return
        self._next_at = now + self._wait
        self._wait = min(LONGEST_WAIT, self._wait * 2)
        try:
            asked = ask_coordinators(self._cluster.client, deadline, lambda _: "", states=())
        except AskError as error:
            self.missing = (error.fault.detail,)
            return
        received = self._cluster.clock.monotonic()
        for known in asked.transactions:
            if known.started is not None:
                log.coordinators.stamped(None, known.started, received, live=False)
            number = coordinator_partition(known.transactional_id, partitions)
            log.machine(number).seed(known)
        for transactional_id, number in asked.ids:
            log.machine(number).seed_id(transactional_id)
        log.changed()
        self._unseeded = set(asked.silent)
        if not asked.faults:
            self._aggregates.applications.new.complete_since(log_now())
        for number in log.unknown.keys() - self._unseeded:
            log.machine(number).settle_unknown()
        if not self._unseeded and now >= self._forget_at:
            self._forget_at = float("inf")
            self._aggregates.ids_are_known()
        self.missing = tuple(fault.detail for fault in asked.faults) if asked.silent else ()
