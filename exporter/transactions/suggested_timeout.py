"""The transaction timeout that an application's own durations suggest. Pure."""

from __future__ import annotations

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
