"""Ids that are initialised again and again, by application: a producer for each transaction, or a client that restarts.

No I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from exporter.transactions.facts import RepeatedInits
from exporter.transactions.machine.entries import Entry

WINDOW = 600.0
"""Seconds for which an InitProducerId is remembered."""
MOST_INITS = 100
"""Of one application: those of more are of a shorter time."""
MOST_APPLICATIONS = 1000
LEAST_INITS = 20
LEAST_SPAN = 60.0
"""So many inits over at least so many seconds are judged. A pod that crashes is started 7 times in 10 minutes."""
LEAST_EACH = 5.0
"""Inits of one id: at a start of many instances each has one or two."""
MOST_TRANSACTIONS = 3.0
"""Transactions for each init, above which producers are used again."""


class _Init(NamedTuple):
    at: float
    transactional_id: str
    transactions: int


class RecentInits:
    """The newest InitProducerId of each application: Unix seconds of log time. A restart of the agent begins anew."""

    def __init__(self) -> None:
        self._by_application: dict[str, deque[_Init]] = {}

    def note(self, entry: Entry, transactions: int) -> None:
        """Note an InitProducerId, with how many transactions of the application were counted before it."""
        known = self._by_application.get(entry.application)
        if known is None:
            if len(self._by_application) >= MOST_APPLICATIONS:
                return
            known = self._by_application[entry.application] = deque(maxlen=MOST_INITS)
        known.append(_Init(entry.record_ms / 1000, entry.transactional_id, transactions))

    def repeated(self, log_now: float, transactions: Mapping[str, int]) -> dict[str, RepeatedInits]:
        """The applications with so many inits for their transactions that producers are not used again.

        ``transactions`` are counted until now, by application.
        """
        found = {}
        for name, known in list(self._by_application.items()):
            while known and known[0].at < log_now - WINDOW:
                known.popleft()
            if not known:
                del self._by_application[name]
                continue
            span = log_now - known[0].at
            ended = transactions.get(name, 0) - known[0].transactions
            ids = len({init.transactional_id for init in known})
            enough = len(known) >= LEAST_INITS and span >= LEAST_SPAN and len(known) >= LEAST_EACH * ids
            if enough and ended <= MOST_TRANSACTIONS * len(known):
                found[name] = RepeatedInits(len(known), ids, ended, span)
        return found
