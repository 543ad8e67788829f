"""The last hour of the transaction log in one look: what the agent's own source says once it has reached the end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from exporter.cluster import Cluster
from exporter.commands.runner import fault_texts
from exporter.model import Deadline, Fact, Facts
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.facts import LoggedTransactions
from exporter.transactions.outcome import DELIVERY_SLACK_MS, FENCE_WINDOW_MS
from exporter.transactions.source.txnlog import PACE, TxnlogSource
from exporter.transactions.transaction import Transaction

_SLICE_SECONDS = 5.0
_SETTLE_SECONDS = (FENCE_WINDOW_MS + DELIVERY_SLACK_MS) / 1000 + 3 * PACE
"""How long outcomes are waited for: the longest window by the clock, and some reads."""
NOT_IN_TIME = "the end of the transaction log was not reached in time: raise --timeout"


class LogHour(NamedTuple):
    """The last read: LoggedTransactions among the facts when the end was reached, otherwise faults or neither.

    ``undecided`` are aborts whose outcome is not settled.
    """

    facts: Facts = Facts()
    faults: tuple[str, ...] = ()
    undecided: tuple[Transaction, ...] = ()


def read_hour(
    cluster: Cluster, deadline: Deadline, unclean_ends: int | None = None, *, settle: bool = False
) -> LogHour:
    """Read the last hour, until its end, a fault or the deadline.

    With ``settle``, read on until each abort that is in the log by then has its outcome, as in an agent: by a record
    that comes later, or by the clock, where nothing more is written.
    """
    settings = TransactionsConfig()
    if unclean_ends is not None:
        settings = replace(settings, unclean_ends=unclean_ends)
    source = TxnlogSource(cluster, settings, timeout=_SLICE_SECONDS)
    hour = LogHour()
    awaited: frozenset[Transaction] | None = None
    try:
        while not deadline.over:
            found = tuple(source.read(deadline.within(_SLICE_SECONDS), Facts()))
            facts = Facts({type(fact): fact for fact in found if isinstance(fact, Fact)})
            reached = facts.get(LoggedTransactions) is not None
            if awaited is None and reached:
                awaited = frozenset(source.unsettled) if settle else frozenset()
                deadline = deadline.within(_SETTLE_SECONDS)
            waits = () if awaited is None else tuple(end for end in source.unsettled if end in awaited)
            if reached or awaited is None:
                hour = LogHour(facts, fault_texts(found), waits)
            if hour.faults or (reached and not waits):
                break
            time.sleep(0.1)
    finally:
        source.close()
    return hour
