"""The rules of outcomes: what became of a transaction, and whether an open one is overdue.

Pure functions over data, with the present as an argument. A rule that cannot know says unknown, never a guess.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.transactions.facts import OpenTransaction
from exporter.words import Outcome, TransactionState

FENCE_WINDOW_MS = 5000
"""An abort was a fence when the next incarnation's Empty record follows the Complete record within this log time."""

LATE_FENCE_WINDOW_MS = 1000
"""The same, for a transaction past its timeout. The incarnation whose InitProducerId ended it tries again every 100 ms
(Java, retry.backoff.ms) or 500 ms (librdkafka, rdkafka_idempotence.c); one that starts because the scan for timed-out
transactions ended it comes later. The log has no field that distinguishes the two.
"""

DELIVERY_SLACK_MS = 500
"""How far log time must be past the end of a window: the order of appends and that of timestamps differ a little."""

OVERDUE_SLACK_SECONDS = 15.0
"""The coordinator scans for timed-out transactions every 10 s by default (TransactionStateManagerConfig), so late is
later than that.
"""

LAST_EPOCH = 32766
"""From this epoch on the producer id rotates with the next decision (TransactionMetadata.isEpochExhausted)."""


class Verdict(NamedTuple):
    """The outcome of an aborted transaction; ``fence_window_ms`` is None where ``outcome`` is final.

    Else it is final when so much log time has passed, and is ``fenced`` when the next incarnation's Empty record comes
    before that.
    """

    outcome: Outcome
    fence_window_ms: int | None = None


def abort_verdict(*, bumped: bool | None, v2_client: bool, open_ms: int, timeout_ms: int) -> Verdict:
    """The outcome of an aborted transaction, from the records up to its Complete record.

    ``bumped`` is whether the abort raised the epoch, None when that is not known; ``open_ms`` is from the begin to the
    first Prepare record, by the coordinator's clock.

    1. A client before Transactions V2 keeps the epoch when it aborts, the server never does: an unchanged epoch is the
       client's own abort, however late it is.
    2. The server aborts for two reasons only, a timeout and InitProducerId (TransactionCoordinator): a raised epoch of
       such a client before the timeout is a fence.
    3. Its epoch is not known, as compaction took the records: before the timeout nothing shows a fence.
    4. A Transactions V2 client raises the epoch, too: only the next incarnation's Empty record shows a fence.
    5. Open for its timeout or longer: the scan, unless InitProducerId came before the scan. (A Transactions V2 client
       that aborts that late looks the same.)
    """
    late = open_ms >= timeout_ms
    if bumped is False and not v2_client:
        return Verdict(Outcome.ABORTED)
    if late:
        return Verdict(Outcome.TIMED_OUT, LATE_FENCE_WINDOW_MS if bumped else None)
    if v2_client:
        return Verdict(Outcome.ABORTED, FENCE_WINDOW_MS)
    return Verdict(Outcome.FENCED if bumped else Outcome.ABORTED)


def displaced(ended: tuple[int, int], initialised: tuple[int, int]) -> bool:
    """Return whether an Empty record is that of the incarnation for which the transaction before it was aborted.

    Both are (producer id, epoch). InitProducerId bumps the epoch once more after it fenced (TransactionCoordinator.
    prepareInitProducerIdTransit), or rotates the producer id when the epochs are used up.
    """
    if initialised[0] == ended[0]:
        return initialised[1] == ended[1] + 1
    return initialised[1] == 0 and ended[1] >= LAST_EPOCH


def is_overdue(transaction: OpenTransaction, now: float) -> bool:
    """Undecided beyond its own timeout and the coordinator's scan. ``now`` is Unix seconds.

    One whose end is decided waits for its markers, which the timeout does not bound.
    """
    ends, ongoing = transaction.ends, transaction.state is TransactionState.ONGOING
    return ongoing and ends is not None and now - ends > OVERDUE_SLACK_SECONDS + transaction.scan_late


FACTOR = 3.0
"""A transaction that lasts three times as long as the longest in a thousand is not expected to end by itself."""
LEAST_SECONDS = 10.0
"""Kafka Streams' own timeout: less leaves no time for an election of the coordinator."""
LEAST_TRANSACTIONS = 1000
"""Committed transactions from which on one in a thousand is known."""
QUANTILE = 0.999


def suggested_timeout(seconds: float) -> float:
    """Return seconds of transaction.timeout.ms for transactions of which one in a thousand lasts at least this long."""
    return max(LEAST_SECONDS, FACTOR * seconds)
