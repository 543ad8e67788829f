"""Expected counts of one transactional.id, from its clients."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass
class OutcomeCounts:
    """Counts of outcomes, kept by the clients themselves. One thread at a time.

    Only transactions that wrote something count: an empty one never reaches the coordinator. Rivals that share a
    transactional.id share these counts, since a fence is seen by the one and done by the other.
    """

    transactional_id: str
    inits: int = 0
    begun: int = 0
    committed: int = 0
    aborted: int = 0
    fenced: int = 0
    timed_out: int = 0
    is_open: bool = False

    def initialised(self) -> int:
        """An InitProducerId succeeded; it ended what was open. Returns the number of this incarnation."""
        if self.is_open:
            self.fenced += 1
            self.is_open = False
        self.inits += 1
        return self.inits

    def wrote(self) -> None:
        """A transaction has begun at the coordinator."""
        if not self.is_open:
            self.begun += 1
            self.is_open = True

    def ended(self, *, committed: bool) -> None:
        """The client's own commit or abort succeeded."""
        if self.is_open:
            self.is_open = False
            if committed:
                self.committed += 1
            else:
                self.aborted += 1

    def refused(self, incarnation: int) -> None:
        """A commit, abort or write was refused as fenced: without a newer incarnation it was the timeout."""
        if self.is_open and incarnation == self.inits:
            self.timed_out += 1
            self.is_open = False

    def outcomes(self) -> dict[str, int]:
        """Finished transactions by the names of ``kafka_eos_transactions_total{outcome}``."""
        return {
            "committed": self.committed,
            "aborted": self.aborted,
            "timed_out": self.timed_out,
            "fenced": self.fenced,
        }

    def line(self) -> str:
        """All of it as one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)
