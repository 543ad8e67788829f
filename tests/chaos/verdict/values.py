"""Values of the rules: a disagreement, and questions to one scrape."""

from __future__ import annotations

from typing import NamedTuple

from tests.chaos.agent import AgentScrape, Series
from tests.chaos.oracle.outcomes import OracleTransaction

STALE_SECONDS = 15.0
"""How old a statement may be: a read of the agent waits up to 10 s for a broker that hangs, and 5 s pass between."""
LOOK_SECONDS = 3.0
"""How far a look of the oracle and one of the agent are apart at most when both are well."""
WELL_SECONDS = 20.0


class Disagreement(NamedTuple):
    """``rule`` is what was to hold; ``text`` says what was seen instead, with its evidence.

    What has the same ``about`` is the same falsehood, seen again.
    """

    rule: str
    text: str
    about: object = None


def label(series: Series, name: str) -> str:
    return dict(series[1]).get(name, "")


def counted(scrape: AgentScrape, name: str, **labels: str) -> float | None:
    """The sum over the series of this name that have these labels; None when there is none."""
    found = [
        value
        for series, value in scrape.samples.items()
        if series[0] == name and all(label(series, key) == wanted for key, wanted in labels.items())
    ]
    return sum(found) if found else None


def place_of(transaction: OracleTransaction) -> str:
    """Where the log has the record that finished it."""
    return f"{transaction.transactional_id} at {transaction.log_partition}:{transaction.offset}"
