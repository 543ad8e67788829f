"""Facts of the transaction log that matter before a broker is stopped. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.flink.facts import FlinkTransaction, FlinkTransactions
from exporter.model import Facts
from exporter.transactions.facts import LoggedTransactions, OpenTransaction, OpenTransactions, TransactionUse

NO_HOUR = "the topics that transactions write to, and Flink's deadlines: "
FRESH_SECONDS = 10.0
"""A transaction may begin and be decided since: an older state is not known to be that of the moment."""
_NOT_AT_END = "the end of the transaction log was not reached"


@dataclass(frozen=True, slots=True)
class LoggedEvidence:
    """Transactions by the log, or by the coordinators: ``topics`` they wrote to, those that are
    open, those of Flink jobs by producer id, and messages about what could not be read. ``now`` is Unix seconds by the
    coordinators' clock.
    """

    now: float
    topics: frozenset[str] = frozenset()
    opened: tuple[OpenTransaction, ...] = ()
    flink: Mapping[int, FlinkTransaction] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def _age(opened: OpenTransactions, monotonic: float) -> float:
    """Seconds since the transactions were open; those of a cluster that has none are of the last read."""
    if opened.as_of is None:
        return math.inf if opened.transactions else 0.0
    return monotonic - opened.as_of


def logged_evidence(facts: Facts, now: float, monotonic: float) -> LoggedEvidence:
    """The evidence in the facts of one cluster at this instant: Unix seconds by the coordinators' clock, and ours.

    Open transactions are by the coordinators where the log is refused.
    """
    logged, use = facts.get(LoggedTransactions), facts.get(TransactionUse)
    opened = logged.opened if logged is not None else facts.get(OpenTransactions)
    flink = facts.get(FlinkTransactions) or FlinkTransactions({})
    missing: list[str] = []
    if opened is None:
        missing.append("open transactions: not read yet")
    elif not opened.complete:
        missing += opened.missing
    elif _age(opened, monotonic) > FRESH_SECONDS:
        missing.append(f"open transactions: what was read is older than {FRESH_SECONDS:g} s")
    if logged is None or use is None:
        missing.append(f"{NO_HOUR}{_NOT_AT_END}")
    return LoggedEvidence(
        now,
        use.topics if use is not None else frozenset(),
        opened.transactions if opened is not None else (),
        flink.by_producer,
        tuple(dict.fromkeys(missing)),
    )
