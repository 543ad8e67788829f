"""Parse the parameters of ``/api/v1/roll`` and ``/api/v1/inventory``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from exporter.core.durations import parse_duration
from exporter.journal.query import MOST_CHARACTERS, QueryError

if TYPE_CHECKING:
    from exporter.views.applications import InventoryOutput

MOST_DIGITS = 10
USUAL_OUTAGE = 60.0


class RefusedQueryError(Exception):
    """Kafka refused or did not answer. ``document`` is the answer, with the reason in ``not_asked``."""

    def __init__(self, document: InventoryOutput) -> None:
        super().__init__()
        self.document = document


class ClusterQuery(NamedTuple):
    """``cluster`` is None for the only one, ``broker`` for all; ``outage`` is seconds."""

    cluster: str | None = None
    broker: int | None = None
    outage: float = USUAL_OUTAGE

    @classmethod
    def parse(cls, query: str, names: frozenset[str]) -> ClusterQuery:
        """Return what a URL's query asks for, of these names. Raises QueryError."""
        if len(query) > MOST_CHARACTERS:
            raise QueryError(f"The query has more than {MOST_CHARACTERS} characters.")
        try:
            given = parse_qs(query, keep_blank_values=True, max_num_fields=len(names))
        except ValueError:
            raise QueryError("The query has too many fields.") from None
        if unknown := sorted(given.keys() - names):
            raise QueryError(f"{unknown[0]!r} is not known here; there are {', '.join(sorted(names))}.")
        one = {name: values[-1] for name, values in given.items()}
        broker, outage = one.get("broker"), one.get("outage")
        if broker is not None and not (broker.isascii() and broker.isdecimal() and len(broker) <= MOST_DIGITS):
            raise QueryError("broker is the id of a broker, a number.")
        try:
            seconds = USUAL_OUTAGE if outage is None else parse_duration(outage)
        except ValueError as error:
            raise QueryError(f"outage {error}.") from None
        return cls(one.get("cluster"), None if broker is None else int(broker), seconds)


OF_ROLL = frozenset({"cluster", "broker", "outage"})
OF_INVENTORY = frozenset({"cluster"})
