"""Answers for which a cluster is asked: whether brokers may be stopped, and which application writes where."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qs

from exporter.core.durations import parse_duration
from exporter.journal.query import MOST_CHARACTERS, QueryError
from exporter.status.json_lines import json_pieces
from exporter.status.renders import HTML, JSON, Renders
from exporter.web_server.messages import Answer, Request, plain
from exporter.web_server.workers import Workers

if TYPE_CHECKING:
    from exporter.views.applications import InventoryOutput
    from exporter.views.rolls import RollOutput

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


DOCUMENT_LEVELS = 6
"""The document, its clusters, each with its brokers, each with its rows."""
INVENTORY_SECONDS = 300.0
"""Seconds for which an inventory is given to further readers: it reads the transaction log."""


class ClusterQueries(Protocol):
    """Answers for which a cluster is asked, within a bound of time. Any thread may ask."""

    def named(self, query: ClusterQuery) -> ClusterQuery:
        """The query with the name of the cluster where there is only one. Raises QueryError for an unknown one."""

    def roll(self, query: ClusterQuery) -> RollOutput:
        """Answer whether brokers may be stopped. Raises QueryError."""

    def inventory(self, query: ClusterQuery) -> InventoryOutput:
        """Answer which application writes where in transactions. Raises QueryError."""


class QueryPages:
    """The handlers of these paths."""

    def __init__(
        self, queries: Callable[[], ClusterQueries], prefix: str, workers: Workers, page_seconds: float
    ) -> None:
        """``page_seconds`` is for how long a page is given to further readers; queries are read on ``workers``."""
        self._queries = queries
        self._prefix = prefix
        self._workers = workers
        self._rolls, self._inventories = Renders(page_seconds), Renders(INVENTORY_SECONDS)

    def close(self) -> None:
        """End the threads that render, once they have nothing to do."""
        self._rolls.close()
        self._inventories.close()

    async def roll(self, request: Request) -> Answer:
        return await self._answered(self._rolls, OF_ROLL, lambda query: self._queries().roll(query), request)

    async def roll_page(self, request: Request) -> Answer:
        # Few open it: it is imported when they do.
        from exporter.status.roll_page import roll_page_pieces  # noqa: PLC0415

        try:
            query = await self._workers.run(self._named, ClusterQuery.parse(request.query, OF_ROLL))
            pieces = lambda: roll_page_pieces(self._queries().roll(query), self._prefix)
            return Answer(200, await self._rolls.get(("page", query), pieces), HTML)
        except QueryError as error:
            return plain(str(error), 400)

    async def inventory(self, request: Request) -> Answer:
        return await self._answered(
            self._inventories, OF_INVENTORY, lambda query: self._queries().inventory(query), request
        )

    def _named(self, query: ClusterQuery) -> ClusterQuery:
        return self._queries().named(query)

    async def _answered(
        self,
        renders: Renders,
        names: frozenset[str],
        answer: Callable[[ClusterQuery], RollOutput | InventoryOutput],
        request: Request,
    ) -> Answer:
        try:
            query = await self._workers.run(self._named, ClusterQuery.parse(request.query, names))
            pieces = lambda: json_pieces(answer(query), DOCUMENT_LEVELS)
            return Answer(200, await renders.get(query, pieces), JSON)
        except QueryError as error:
            return plain(str(error), 400)
        except RefusedQueryError as error:  # not kept: the next request asks again
            refused = error.document
            return Answer(200, await self._workers.run(lambda: b"".join(json_pieces(refused, DOCUMENT_LEVELS))), JSON)
