"""The last hour of the transaction log in one look: what the agent's own source says once it has reached the end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from exporter.cluster import Cluster
from exporter.commands.report import fault_texts
from exporter.model import Deadline, Fact, Facts
from exporter.settings.plain import TransactionsConfig
from exporter.transactions.facts import LoggedTransactions
from exporter.transactions.source.txnlog import TxnlogSource

_SLICE_SECONDS = 5.0
NOT_IN_TIME = "the end of the transaction log was not reached in time: raise --timeout"


class LogHour(NamedTuple):
    """The last read: LoggedTransactions among the facts when the end was reached, otherwise faults or neither."""

    facts: Facts = Facts()
    faults: tuple[str, ...] = ()


def read_hour(cluster: Cluster, deadline: Deadline, unclean_ends: int | None = None) -> LogHour:
    """Read the last hour, until its end, a fault or the deadline."""
    settings = TransactionsConfig(outcomes="log")
    if unclean_ends is not None:
        settings = replace(settings, unclean_ends=unclean_ends)
    source = TxnlogSource(cluster, settings, timeout=_SLICE_SECONDS)
    hour = LogHour()
    try:
        while not deadline.over:
            found = tuple(source.read(deadline.within(_SLICE_SECONDS), Facts()))
            hour = LogHour(Facts({type(fact): fact for fact in found if isinstance(fact, Fact)}), fault_texts(found))
            if hour.faults or hour.facts.get(LoggedTransactions) is not None:
                break
            time.sleep(0.1)
    finally:
        source.close()
    return hour
