"""Outcomes by polling: what source ``transactions`` asks the coordinators beyond what is open, while it is on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from exporter.cluster import Cluster
from exporter.kafka.client import AskError
from exporter.kafka.requests.coordinators import Asked
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.kafka.requests.transactions import OPEN_STATES, Listing, describe_transactions
from exporter.model import Deadline, Facts, Sample
from exporter.transactions.counting.observed import CoordinatorLook
from exporter.transactions.counting.observed_counts import ObservedTransactions
from exporter.transactions.facts import LoggedTransactions, LogRefused

DESCRIBE_SECONDS = 2.0
PAUSE = 0.5
"""Seconds since the last poll from which on transactions near their timeout are described again."""

Where = Literal["auto", "log", "polling"]
"""Where outcomes come from, as in the settings."""


class PolledOutcomes:
    """The counts of outcomes while they are polled. A log that becomes readable ends it."""

    def __init__(self, cluster: Cluster, where: Where, applications: int) -> None:
        """``applications`` is how many have counts of their own."""
        self._cluster = cluster
        self._where = where
        self._applications = applications
        self._observed: ObservedTransactions | None = None  # while outcomes are polled
        self._polled_at = float("-inf")
        self._anywhere = False  # no topic names the coordinators: every broker is asked

    def begins(self, facts: Facts) -> bool:
        """Switch polling on or off by the facts of the log, and return whether it begins now."""
        refused = self._where == "polling" or (self._where == "auto" and facts.get(LogRefused) is not None)
        if not refused or facts.get(LoggedTransactions) is not None:
            self._observed = None
            return False
        if self._observed is not None:
            return False
        cluster = self._cluster
        self._observed = ObservedTransactions(cluster.grouping, self._applications)
        return True

    @property
    def polled(self) -> bool:
        """Return whether outcomes are polled: by the settings, or as the log is refused."""
        return self._observed is not None

    @property
    def states(self) -> Sequence[str]:
        """The states to list: all of them, as an empty filter, where outcomes are polled."""
        return OPEN_STATES if self._observed is None else ()

    def choose(self, rows: Sequence[Listing], now: float) -> Sequence[str]:
        """Return the ids to describe beside the open ones. ``now`` is monotonic."""
        return () if self._observed is None else self._observed.choose(rows, now)

    def take(self, asked: Asked, since: float) -> None:
        """Take in a poll that began at ``since``, monotonic."""
        if self._observed is None:
            return
        clock = self._cluster.clock
        complete = not asked.faults
        self._anywhere = asked.elsewhere
        self._polled_at = since
        self._observed.take(asked.described, CoordinatorLook(since, clock.monotonic()), clock.wall(), listed=complete)
        if complete:
            self._observed.forget_all_but(transactional_id for transactional_id, _ in asked.ids)
        else:
            self._observed.interrupted()

    def interrupted(self) -> None:
        """Note that a poll failed."""
        if self._observed is not None:
            self._observed.interrupted()

    def read(self, deadline: Deadline) -> Iterator[Sample]:
        """The samples, after another look at transactions that run into their timeout, unless the poll was just now."""
        if self._observed is None:
            return
        asked = self._cluster.clock.monotonic()
        if asked - self._polled_at >= PAUSE:
            self._look_at_due(self._observed, asked, deadline.within(DESCRIBE_SECONDS))
        yield from self._observed.samples(self._cluster.name)

    def _look_at_due(self, observed: ObservedTransactions, asked: float, deadline: Deadline) -> None:
        if not (due := observed.due(asked)):
            return
        try:
            metadata = self._cluster.metadata(deadline, (TRANSACTION_STATE,))
        except AskError:
            return
        client = self._cluster.client
        described = describe_transactions(client, metadata, due, deadline, anywhere=self._anywhere).values
        clock = self._cluster.clock
        observed.take(described, CoordinatorLook(asked, clock.monotonic()), clock.wall(), listed=False)
