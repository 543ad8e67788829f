"""The rules of outcomes: what became of a transaction, and whether an open one is overdue.

Pure functions over data, with the present as an argument. A rule that cannot know says unknown, never a guess.
"""

from __future__ import annotations

from exporter.model import OpenTransaction, Outcome

FENCE_WINDOW_MS = 5000
"""How long, in log time, an abort that could be a fence waits for the new incarnation's Empty record."""

OVERDUE_SLACK_SECONDS = 15.0
"""The coordinator scans for timed-out transactions every 10 s (TransactionStateManagerConfig), so late is later than
that.
"""

_LAST_EPOCH = 32766  # TransactionMetadata.isEpochExhausted: from here on the producer id rotates


def abort_outcome(*, bumped: bool | None, v2_client: bool, open_ms: int, timeout_ms: int) -> Outcome | None:
    """The outcome of an aborted transaction, or None when it could still be a fence and has to wait.

    ``bumped`` is whether the abort raised the epoch, None when that is not known; ``open_ms`` is from the begin to the
    decision, by the coordinator's clock.

    1. A client before Transactions V2 keeps the epoch when it aborts, the server never does: however late, it is its
       own.
    2. Open for its timeout or longer: timed out. (A Transactions V2 client that aborts that late looks the same.)
    3. Otherwise an InitProducerId may have ended it, and only the Empty record that would follow can tell.
    """
    if bumped is False and not v2_client:
        return Outcome.ABORTED
    if open_ms >= timeout_ms:
        return Outcome.TIMED_OUT
    return None


def displaced(ended: tuple[int, int], initialised: tuple[int, int]) -> bool:
    """Whether an Empty record is that of the incarnation for which the transaction before it was aborted.

    Both are (producer id, epoch). InitProducerId bumps the epoch once more after it fenced (TransactionCoordinator.
    prepareInitProducerIdTransit), or rotates the producer id when the epochs are used up.
    """
    if initialised[0] == ended[0]:
        return initialised[1] == ended[1] + 1
    return initialised[1] == 0 and ended[1] >= _LAST_EPOCH


def is_overdue(transaction: OpenTransaction, now: float) -> bool:
    """Open beyond its own timeout and the coordinator's scan. ``now`` is Unix seconds."""
    return overdue_by(transaction, now) > OVERDUE_SLACK_SECONDS


def overdue_by(transaction: OpenTransaction, now: float) -> float:
    """Seconds past its timeout, negative before it; minus infinity when it has none or its start is not known."""
    if transaction.timeout is None or transaction.started is None:
        return float("-inf")
    return now - transaction.started - transaction.timeout
