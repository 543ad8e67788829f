"""The series of the open transactions; an overdue one is confirmed with its coordinator first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from exporter.cluster import Cluster
from exporter.core.derived import Derived
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.kafka.requests.transactions import OPEN_STATES, Description, describe_transactions
from exporter.lso.facts import Stalls
from exporter.model import Deadline, SampleBatch
from exporter.transactions.counting.open_samples import blocking_producers, first_overdue, open_transaction_samples
from exporter.transactions.facts import OpenTransaction, OpenTransactions
from exporter.transactions.outcome import is_overdue

OPEN_PER_SECOND = 500
"""Open transactions that may be turned into samples in a second, which limits the CPU time."""
SLACK = 0.5
"""Seconds by which a read may be early."""
MOST_DESCRIBED = 500
"""Largest number of overdue transactions that are confirmed with their coordinators."""
DESCRIBE_SECONDS = 2.0
SAME_START = 0.01
"""Seconds by which two starts of one transaction may differ after rounding."""


class OpenSeries:
    """Makes the series after a change: at every read while few are open, once in ``interval`` for thousands. Not
    thread-safe.
    """

    def __init__(self, cluster: Cluster, most: int, interval: float) -> None:
        """``most`` is how many are shown by id, beside the blockers."""
        self._cluster = cluster
        self._most = most
        self._longest = interval - SLACK
        self._overdue = OverdueTransactions(cluster, interval)
        self._first_overdue = Derived(first_overdue)
        self._blockers = Derived(blocking_producers)
        self._samples = Derived(lambda *inputs: tuple(open_transaction_samples(*inputs)))
        self._batch = Derived(SampleBatch)
        self._last: SampleBatch = SampleBatch(())
        self._made_at = -math.inf

    def batch(
        self,
        opened: OpenTransactions,
        applications: AbstractSet[str],
        stalls: Stalls | None,
        now: float | None,
        deadline: Deadline,
    ) -> SampleBatch:
        """The series. ``now`` is Unix seconds by the coordinators' clock at the earliest; without it no transaction is
        known to be overdue.
        """
        monotonic = self._cluster.clock.monotonic()
        if monotonic - self._made_at < min(self._longest, len(opened.transactions) / OPEN_PER_SECOND):
            return self._last
        self._made_at = monotonic
        own = opened.transactions
        late = -math.inf if now is None or now < self._first_overdue(own) else now
        if late > -math.inf:
            overdue = [transaction for transaction in own if is_overdue(transaction, late)]
            ended = self._overdue.ended(overdue, deadline)
            own = tuple(transaction for transaction in own if transaction not in ended) if ended else own
        blockers = self._blockers(stalls)
        self._last = self._batch(
            self._samples(self._cluster.name, own, applications, blockers, self._most, late),
        )
        return self._last


class OverdueTransactions:
    """Asks the coordinators of one cluster about overdue transactions, every ``interval`` seconds."""

    def __init__(self, cluster: Cluster, interval: float) -> None:
        self._cluster = cluster
        self._interval = interval
        self._described: frozenset[OpenTransaction] = frozenset()  # of the last request
        self._described_at = -math.inf
        self._ended: frozenset[OpenTransaction] = frozenset()  # of these, not open at the coordinator

    def ended(self, overdue: Sequence[OpenTransaction], deadline: Deadline) -> frozenset[OpenTransaction]:
        """Those of them that the coordinator reports as not open. No answer proves nothing.

        A record whose append failed for the coordinator (NOT_ENOUGH_REPLICAS_AFTER_APPEND, a timeout) may still be
        replicated: the log then has a transaction open that the coordinator never began and does not end.
        """
        doubtful = frozenset(overdue[:MOST_DESCRIBED])
        now = self._cluster.clock.monotonic()
        if doubtful and (doubtful - self._described or now - self._described_at >= self._interval):
            self._described, self._described_at = doubtful, now
            until = deadline.within(DESCRIBE_SECONDS)
            try:
                metadata = self._cluster.metadata(until, (TRANSACTION_STATE,))
            except AskError:
                return self._ended & doubtful
            ids = [transaction.transactional_id for transaction in doubtful]
            anywhere = TRANSACTION_STATE not in metadata.topics
            answers = describe_transactions(self._cluster.client, metadata, ids, until, anywhere=anywhere).values
            asked = frozenset(transaction for transaction in doubtful if transaction.transactional_id in answers)
            ended = frozenset(
                transaction for transaction in asked if not _is_open(transaction, answers[transaction.transactional_id])
            )
            self._ended = (self._ended & doubtful - asked) | ended
        return self._ended & doubtful


def _is_open(known: OpenTransaction, answer: Description) -> bool:
    """Return whether the coordinator describes this transaction as open, and no later one of its id."""
    later = (
        known.started is not None
        and answer.started is not None
        and answer.started > known.started + known.stamp_ahead + SAME_START
    )
    return answer.state in OPEN_STATES and not later
