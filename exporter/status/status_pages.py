"""The status page, its documents, the events and the runbooks: answers from the last reads of the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from exporter.core.thresholds import Owners
from exporter.journal.documents import EventsDocument
from exporter.journal.query import EventQuery, QueryError
from exporter.status.filters import Filter, lists_left_out, without
from exporter.status.json_lines import json_pieces
from exporter.status.page import page_pieces
from exporter.status.renders import HTML, JSON, Renders
from exporter.status.runbooks import names, runbook, runbook_page, runbooks_page
from exporter.web_server.messages import Answer, Request, plain, refused
from exporter.web_server.negotiation import takes_html
from exporter.web_server.workers import Workers

DOCUMENT_LEVELS = 4
"""The document, its clusters, each of them, and its lists: each transaction is a line."""
EVENT_LEVELS = 2
"""The document and its list: each event is a line."""


class Events(Protocol):
    """The events of the journals. Any thread may ask."""

    def page(self, query: EventQuery) -> EventsDocument:
        """A page of ``/api/v1/events``, from memory and from the disk."""

    def newest(self) -> Sequence[Mapping[str, Any]]:
        """The events in memory, the newest first."""


class StatusPages:
    """The handlers of these paths."""

    def __init__(
        self,
        status: Callable[[], Mapping[str, Any]],
        prefix: str,
        workers: Workers,
        page_seconds: float,
        events: Callable[[], Events] | None,
        owners: Callable[[], Owners],
        *,
        rolls: bool,
    ) -> None:
        """``page_seconds`` is for how long a page is given to further readers; ``rolls``: the page has a link to
        ``/roll``. Runbooks are read on ``workers``.
        """
        self._status = status
        self._prefix = prefix
        self._workers = workers
        self._pages = Renders(page_seconds)
        self._events = events
        self._owners = owners
        self._rolls = rolls

    def close(self) -> None:
        """End the thread that renders, once it has nothing to do."""
        self._pages.close()

    async def page(self, request: Request) -> Answer:
        refresh = "refresh=off" not in request.query.split("&")
        shown = Filter.parse(request.query)
        make = lambda: page_pieces(
            self._status(),
            self._prefix,
            refresh=refresh,
            shown=shown,
            happened=self._events().newest() if self._events is not None else None,
            owners=self._owners(),
            rolls=self._rolls,
        )
        return Answer(200, await self._pages.get(("page", refresh, shown), make), HTML)

    async def document(self, request: Request) -> Answer:
        left_out = lists_left_out(request.query)
        make = lambda: json_pieces(without(self._status(), left_out), DOCUMENT_LEVELS)
        return Answer(200, await self._pages.get(("document", left_out), make), JSON)

    async def what_happened(self, request: Request) -> Answer:
        if self._events is None:
            return refused(404)
        try:
            query = EventQuery.parse(request.query)
        except QueryError as error:
            return plain(str(error), 400)
        events = self._events
        make = lambda: json_pieces(events().page(query), EVENT_LEVELS)
        return Answer(200, await self._pages.get(("events", query), make), JSON)

    async def runbooks(self, request: Request) -> Answer:
        if takes_html(request.headers.get("accept", "")):
            return _html(await self._workers.run(runbooks_page, self._prefix))
        found = await self._workers.run(names)
        return plain("\n".join(f"{self._prefix}/runbooks/{name}" for name in found))

    async def runbook(self, request: Request) -> Answer:
        name = request.path.removeprefix(f"{self._prefix}/runbooks/")
        if not takes_html(request.headers.get("accept", "")):
            text = await self._workers.run(runbook, name)
            return refused(404) if text is None else plain(text.rstrip(), headers={"Vary": "Accept"})
        made = lambda: runbook_page(name, request.query, self._status()["clusters"], self._prefix)
        page = await self._workers.run(made)
        return refused(404) if page is None else _html(page)


def _html(text: str) -> Answer:
    return Answer(200, text.encode(), HTML, {"Vary": "Accept"})
