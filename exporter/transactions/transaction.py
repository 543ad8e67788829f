"""A transaction that its coordinator decided: what counters, fate, journal, history and audits know of it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from exporter.core.durations import seconds_of
from exporter.model import TopicPartition
from exporter.words import Outcome

V2 = 2
"""ClientTransactionVersion of a Transactions V2 client."""
UNDECIDED = "undecided"


class Transaction(NamedTuple):
    """One transaction, by the records of the transaction log.

    ``client_epochs`` are the producer epochs of its records, ``marker_epochs`` those of its markers: in Transactions V2
    a marker has the next epoch, or that of an older client where the server aborted it. ``producer_epoch`` is the one
    that the client wrote with where the log showed it, else the coordinator's. ``client_version`` is 2 for a client of
    Transactions V2, 0 for an older one, -1 where it is not known.

    ``outcome`` is None where only the decision is known, and while log time has yet to settle it. Times are Unix
    milliseconds by the coordinators' common clock, -1 where the log has none; ``completed_ms`` is None without a
    Complete record. ``ahead_ms`` is by how much the clock that stamped that record is ahead of the common one.
    ``timeout_ms`` is that of its client. ``partitions`` is None where compaction took the records that name them.

    ``offset`` in ``log_partition`` is that of its Complete record where the state machine ended it, which identifies
    it, else that of the first record of the decision; ``leader_epoch`` is that of its Prepare record. ``sure``: the
    first record of the transaction was written in the same leader epoch, so that no other decision was lost between
    them. ``again``: it ended before the counters of this process began, so that the process before may have read it.
    """

    transactional_id: str
    producer_id: int
    client_epochs: frozenset[int]
    marker_epochs: frozenset[int]
    commit: bool
    application: str = ""
    producer_epoch: int = -1
    client_version: int = 0
    outcome: Outcome | None = None
    begun_ms: int = -1
    prepared_ms: int = -1
    completed_ms: int | None = None
    timeout_ms: int = -1
    partitions: frozenset[TopicPartition] | None = None
    log_partition: int = -1
    offset: int = -1
    ahead_ms: int = 0
    leader_epoch: int = -1
    sure: bool = False
    again: bool = False

    @property
    def v2(self) -> bool:
        """Return whether its client speaks Transactions V2, in which an epoch is one transaction's."""
        return self.client_version >= V2

    @property
    def outcome_word(self) -> str:
        """The outcome as documents have it, also while log time has yet to settle it."""
        return UNDECIDED if self.outcome is None else self.outcome.value

    @property
    def started(self) -> float | None:
        """When it began, in Unix seconds; None where the log does not say."""
        return seconds_of(self.begun_ms)

    @property
    def decided_at(self) -> float:
        """When it was decided, in Unix seconds."""
        return self.prepared_ms / 1000

    @property
    def ended(self) -> float:
        """When it completed, in Unix seconds; infinite while it has not."""
        return math.inf if self.completed_ms is None else self.completed_ms / 1000


@lru_cache(maxsize=65_536)
def one_epoch(epoch: int) -> frozenset[int]:
    """A set of one epoch, shared by all transactions that have it: a set of its own takes 216 bytes of each."""
    return frozenset({epoch})


@lru_cache(maxsize=65_536)
def marker_epochs(decided: int, completed: int) -> frozenset[int]:
    """The epochs that markers may have, by those of the Prepare and of the Complete record. Shared, as above."""
    return frozenset({decided, completed})


@lru_cache(maxsize=65_536)
def client_epochs(decided: int, *, tagged: bool, commit: bool) -> frozenset[int]:
    """The epochs that records may have, by that of the markers: Transactions V2 (``tagged``) raises it, and a server
    does when it aborts. Shared, as above.
    """
    if commit:
        return frozenset({decided - 1 if tagged else decided})
    return frozenset({decided - 1, decided})
