"""What became of a transaction: the values of a judgement about one that a partition shows open and no coordinator has.

A transaction is decided by its Prepare record in the transaction log. From then on its coordinator sends a marker to
every partition that the record names, and answers the client's EndTxn with success at once
(TransactionCoordinator.endTransaction). A marker can be lost: a partition without a leader is passed over
(TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue), and an unclean election takes the last records of a
partition. The partition then shows a transaction open that nobody has open any more.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.model import TopicPartition, Word


class Fate(Word):
    """What the transaction log says of a transaction."""

    COMMITTED = "committed"
    """Decided COMMIT: its records were promised to readers."""
    ABORTED = "aborted"
    """Decided ABORT: its records were promised to nobody."""
    NEVER = "never"
    """Proven to be decided by nobody, and to be open nowhere: nobody can be told that it is committed."""
    UNKNOWN = "unknown"


class DecidedTransaction(NamedTuple):
    """A transaction that its coordinator decided.

    ``client_epochs`` are the producer epochs of its records, ``marker_epochs`` those of its markers: in Transactions V2
    (``v2``) a marker has the next epoch, or that of an older client where the server aborted it. Times are Unix seconds
    by the coordinator's clock; ``begun`` and ``completed`` are None where the log does not say. ``partitions`` is None
    where compaction took the records that name them.
    """

    transactional_id: str
    producer_id: int
    client_epochs: frozenset[int]
    marker_epochs: frozenset[int]
    commit: bool
    v2: bool
    begun: float | None
    decided: float
    completed: float | None
    partitions: frozenset[TopicPartition] | None


class Judgement(NamedTuple):
    """The fate of a transaction in one partition.

    ``decision`` is the decision that its records belong to, for committed and aborted. ``missing`` are messages about
    what would have to be known, and how to find out, for unknown; none for any other fate.
    """

    fate: Fate
    decision: DecidedTransaction | None = None
    missing: tuple[str, ...] = ()
