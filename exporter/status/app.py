"""HTTP: /metrics · / · /roll · /api/v1/… · /runbooks/… · /-/healthy · /-/ready · /-/reload · /ingest/….

Answers are made from the last reads of the sources; only /roll, /api/v1/roll and /api/v1/inventory ask Kafka. The event
loop's thread looks up or refuses an answer; rendering, password checks and disk reads are done on workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from exporter.core.owners import Owners
from exporter.exposition.render import Exposition
from exporter.journal.documents import EventsDocument
from exporter.journal.query import EventQuery, QueryError
from exporter.status.filters import EVERYTHING, Filter, lists_left_out, without
from exporter.status.html import CONTENT_SECURITY_POLICY
from exporter.status.json_lines import json_pieces
from exporter.status.look_query import OF_INVENTORY, OF_ROLL, LookQuery, RefusedLookError
from exporter.status.page import page_pieces
from exporter.status.renders import BusyError, Renders
from exporter.status.runbooks import names, runbook, runbook_page, runbooks_page
from exporter.web_server.authentication import Guard
from exporter.web_server.hosts import foreign, from_browser, name_of, reload_refusal
from exporter.web_server.messages import Answer, Request, plain, refused
from exporter.web_server.negotiation import negotiate, takes_gzip, takes_html
from exporter.web_server.workers import Workers

if TYPE_CHECKING:
    from exporter.status.command_documents import InventoryOutput, RollOutput

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
RELOAD_SECONDS = 1.0
"""Least seconds between two reloads: requests in between share the next one."""
PAGE_SECONDS = 1.0
"""Seconds for which a rendered page or document is reused: many readers cost no more than one."""
DOCUMENT_LEVELS = 4
"""The document, its clusters, each of them, and its lists: each transaction is a line."""
EVENT_LEVELS = 2
"""The document and its list: each event is a line."""
LOOK_LEVELS = 6
"""The document, its clusters, each with its brokers, each with its rows."""
INVENTORY_SECONDS = 300.0
"""Seconds for which an inventory is given to further readers: it reads the transaction log."""
_PAGES = ("", "roll", "api/v1/status", "api/v1/fleet", "api/v1/events", "api/v1/roll", "api/v1/inventory")
_HEALTH = frozenset({"/-/healthy", "/-/ready"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_EMPTY = frozenset({204, 304})
_HTML = "text/html; charset=utf-8"

Handler = Callable[[Request], Awaitable[Answer]]
Taking = Callable[[bytes, int], bool]
"""Called with a body and how many bytes of it were sent; returns whether the client is still there."""


PostHandler = Callable[[Request, bytes], Answer]
"""Accepts documents posted to one path. It is called on workers."""


class Events(Protocol):
    """The events of the journals. Any thread may ask."""

    def page(self, query: EventQuery) -> EventsDocument:
        """A page of ``/api/v1/events``, from memory and from the disk."""

    def newest(self) -> Sequence[Mapping[str, Any]]:
        """The events in memory, the newest first."""


class ClusterQuestions(Protocol):
    """Answers for which a cluster is asked, within a bound of time. Any thread may ask."""

    def named(self, query: LookQuery) -> LookQuery:
        """The query with the name of the cluster where there is only one. Raises QueryError for an unknown one."""

    def roll(self, query: LookQuery) -> RollOutput:
        """Answer whether brokers may be stopped. Raises QueryError."""

    def inventory(self, query: LookQuery) -> InventoryOutput:
        """Answer which application writes where in transactions. Raises QueryError."""


class Route(NamedTuple):
    """The handler of a path and its method; HEAD is allowed with GET."""

    method: str
    handler: Handler

    @property
    def allowed(self) -> Collection[str]:
        return {"GET", "HEAD"} if self.method == "GET" else {self.method}


class App:
    """The application, in ASGI's form.

    ``status`` gives the document of ``/api/v1/status``, ``ready`` whether every source has answered or failed once,
    and ``reload`` rereads the settings and returns their problems, none when they are in force. ``prefix``
    is "" or begins with a slash and does not end with one. All three may be called on any thread. Without ``status``
    there are neither page nor document, without ``reload`` no ``/-/reload``.
    """

    def __init__(
        self,
        exposition: Exposition,
        status: Callable[[], Mapping[str, Any]] | None,
        ready: Callable[[], bool],
        reload: Callable[[], Sequence[str]] | None,
        prefix: str = "",
        post_handlers: Mapping[str, PostHandler] | None = None,
        guard: Guard | None = None,
        *,
        posts_have_tokens: bool = False,
        hosts: Collection[str] = (),
        page_seconds: float = PAGE_SECONDS,
        events: Events | None = None,
        looks: ClusterQuestions | None = None,
        owners: Callable[[], Owners] = Owners,
    ) -> None:
        """``post_handlers`` receive posted documents, by path; ``guard`` authenticates; ``hosts`` are the allowed ones;
        ``owners`` returns those of the settings, by which the page is filtered.

        Receivers with a token authenticate themselves: a request has one Authorization header, so it cannot have a
        password as well.
        """
        self._guard = guard or Guard()
        self._posts_have_tokens = posts_have_tokens
        self._exposition, self._ready, self._prefix, self._has_looks = exposition, ready, prefix, looks is not None
        self._post_handlers = {prefix + path: handler for path, handler in (post_handlers or {}).items()}
        self._hosts = frozenset(name_of(host) or host for host in hosts)
        self._owners = owners
        self._reloading: asyncio.Lock | None = None
        self._next_reload: asyncio.Future[Sequence[str]] | None = None
        self._reload_at = 0.0  # monotonic: the earliest begin of the next
        # Scrapes, pages and posts do not wait for each other.
        self._renderers, self._posts, self._reloaders = Workers("metrics", 1), Workers("posts", 2), Workers("reload", 1)
        self._pages = Renders(page_seconds)
        self._rolls, self._inventories = Renders(page_seconds), Renders(INVENTORY_SECONDS)
        self._health = frozenset(prefix + path for path in _HEALTH)
        self._routes = {
            prefix + "/metrics": Route("GET", self._metrics),
            prefix + "/-/healthy": Route("GET", self._healthy),
            prefix + "/-/ready": Route("GET", self._readiness),
        }
        if reload is not None:
            self._reload = reload
            self._routes[prefix + "/-/reload"] = Route("POST", self._reload_settings)
        if status is not None:
            self._status = status
            self._events = events
            self._routes |= {
                prefix + "/": Route("GET", self._page),
                prefix + "/api/v1/status": Route("GET", self._document),
                prefix + "/api/v1/events": Route("GET", self._what_happened),
                prefix + "/runbooks": Route("GET", self._runbooks),
            }
        if looks is not None:
            self._looks = looks
            self._routes |= {
                prefix + "/roll": Route("GET", self._roll_page),
                prefix + "/api/v1/roll": Route("GET", self._roll),
                prefix + "/api/v1/inventory": Route("GET", self._inventory),
            }
        if prefix and status is not None:
            self._routes |= dict.fromkeys(("/", prefix), Route("GET", self._to_prefix))

    def close(self) -> None:
        """End the threads once they have nothing to do; for after the server has stopped."""
        for threads in (self._renderers, self._posts, self._reloaders, self._pages, self._rolls, self._inventories):
            threads.close()

    # --- From ASGI to an answer ---------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 -- ASGI
        request = _request(scope)
        # Nothing is done before the whole request has arrived.
        body = await _body(receive) if "content-length" in request.headers else b""
        if body is None:
            return
        with contextlib.suppress(asyncio.CancelledError):  # the agent stops
            try:
                answer = await self._answer(request, body, receive)
            except Exception:
                log.exception("an answer failed", extra={"method": request.method, "path": request.path})
                answer = refused(500)
            if answer is not None:
                log.debug("%s %s %d", request.method, request.path, answer.status, extra={"client": request.client})
                await _send(answer, {**_HEADERS, **self._guard.headers}, send, scope["state"].get("taking"))

    async def _answer(self, request: Request, body: bytes, receive: Any) -> Answer | None:  # noqa: ANN401 -- ASGI
        """The answer; None where the client left before it was made."""
        if request.path not in self._health and (request.path != f"{self._prefix}/metrics" or from_browser(request)):
            refusal = foreign(request, self._hosts)
            if refusal is not None:
                return refusal
        handler = self._post_handlers.get(request.path)
        if handler is None or not self._posts_have_tokens:
            # Before the path is looked up: a refused client does not learn which paths exist.
            refusal = await self._guard.refusal(request)
            if refusal is not None:
                return refusal
        if handler is not None:
            return await self._posts.run(handler, request, body)
        routed = self._routed(request)
        return await (_while_there(routed, receive) if self._is_page(request) else routed)

    def _is_page(self, request: Request) -> bool:
        """Return whether the answer takes long enough to look whether its reader is still there."""
        return request.path in {f"{self._prefix}/{page}" for page in _PAGES}

    async def _routed(self, request: Request) -> Answer:
        path = request.path
        route = self._routes.get(path) or self._routes.get(path.removesuffix("/"))
        of_runbooks = f"{self._prefix}/runbooks/"
        if route is None and path.startswith(of_runbooks):
            route = Route("GET", self._runbook)
        if route is None:
            return refused(404)
        if request.method not in route.allowed:
            return refused(405, headers={"Allow": ", ".join(sorted(route.allowed))})
        return await route.handler(request)

    # --- The answers --------------------------------------------------------------------------------------------------

    async def _metrics(self, request: Request) -> Answer:
        fmt, content_type = negotiate(request.headers.get("accept", ""))
        gzip = takes_gzip(request.headers.get("accept-encoding", ""))
        body = self._exposition.ready(fmt, gzip)
        if body is None:
            body = await self._renderers.run(self._exposition.body, fmt, gzip)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if gzip:
            headers["Content-Encoding"] = "gzip"
        return Answer(200, body, content_type, headers)

    async def _page(self, request: Request) -> Answer:
        refresh = "refresh=off" not in request.query.split("&")
        shown = Filter.parse(request.query)
        newest = self._events.newest if self._events is not None else None
        make = lambda: page_pieces(  # noqa: E731 -- of these
            self._status(),
            self._prefix,
            refresh=refresh,
            shown=shown,
            happened=newest() if newest else None,
            owners=self._owners(),
            rolls=self._has_looks,
        )
        whole = shown == EVERYTHING
        return await _rendered(self._pages.get(("page", refresh, shown), make, request.client, whole=whole), _HTML)

    async def _document(self, request: Request) -> Answer:
        left_out = lists_left_out(request.query)
        make = lambda: json_pieces(without(self._status(), left_out), DOCUMENT_LEVELS)  # noqa: E731 -- as above
        return await _rendered(self._pages.get(("document", left_out), make, request.client, whole=not left_out))

    async def _what_happened(self, request: Request) -> Answer:
        if self._events is None:
            return refused(404)
        try:
            query = EventQuery.parse(request.query)
        except QueryError as error:
            return plain(str(error), 400)
        events = self._events
        make = lambda: json_pieces(events.page(query), EVENT_LEVELS)  # noqa: E731 -- as above
        return await _rendered(self._pages.get(("events", query), make, request.client, whole=False))

    async def _roll(self, request: Request) -> Answer:
        return await self._looked(self._rolls, OF_ROLL, self._looks.roll, request)

    async def _roll_page(self, request: Request) -> Answer:
        # Few open it: it is imported when they do.
        from exporter.status.roll_page import roll_page_pieces  # noqa: PLC0415

        try:
            query = await self._posts.run(self._looks.named, LookQuery.parse(request.query, OF_ROLL))
            make = lambda: roll_page_pieces(self._looks.roll(query), self._prefix)  # noqa: E731 -- as above
            return await _rendered(self._rolls.get(("page", query), make, request.client, whole=False), _HTML)
        except QueryError as error:
            return plain(str(error), 400)

    async def _inventory(self, request: Request) -> Answer:
        return await self._looked(self._inventories, OF_INVENTORY, self._looks.inventory, request)

    async def _looked(
        self,
        renders: Renders,
        names: frozenset[str],
        look: Callable[[LookQuery], RollOutput | InventoryOutput],
        request: Request,
    ) -> Answer:
        try:
            query = await self._posts.run(self._looks.named, LookQuery.parse(request.query, names))
            make = lambda: json_pieces(look(query), LOOK_LEVELS)  # noqa: E731 -- as above
            return await _rendered(renders.get(query, make, request.client, whole=False))
        except QueryError as error:
            return plain(str(error), 400)
        except RefusedLookError as error:  # not kept: the next request asks again
            refused = error.document
            return await _rendered(self._posts.run(lambda: b"".join(json_pieces(refused, LOOK_LEVELS))))

    async def _runbooks(self, request: Request) -> Answer:
        if takes_html(request.headers.get("accept", "")):
            return _html(await self._posts.run(runbooks_page, self._prefix))
        return plain("\n".join(f"{self._prefix}/runbooks/{name}" for name in await self._posts.run(names)))

    async def _runbook(self, request: Request) -> Answer:
        name = request.path.removeprefix(f"{self._prefix}/runbooks/")
        if not takes_html(request.headers.get("accept", "")):
            text = await self._posts.run(runbook, name)
            return refused(404) if text is None else plain(text.rstrip(), headers={"Vary": "Accept"})
        made = lambda: runbook_page(name, request.query, self._status()["clusters"], self._prefix)  # noqa: E731
        page = await self._posts.run(made)
        return refused(404) if page is None else _html(page)

    async def _healthy(self, _: Request) -> Answer:
        return plain("Healthy.")

    async def _readiness(self, _: Request) -> Answer:
        if self._ready():
            return plain("Ready.")
        return plain("Not ready: not every source has answered or failed once yet.", 503)

    async def _reload_settings(self, request: Request) -> Answer:
        refusal = reload_refusal(request)
        if refusal is not None:
            return refusal
        if self._next_reload is None:  # requests before it begins share it
            self._next_reload = asyncio.ensure_future(self._reload_once())
        problems = await asyncio.shield(self._next_reload)
        if problems:
            return plain("\n".join(("The settings were refused, the old ones stay:", *problems)), 400)
        return plain("Reloaded.")

    async def _reload_once(self) -> Sequence[str]:
        """Reread the settings when the last reload has ended and began a second ago or more."""
        if self._reloading is None:
            self._reloading = asyncio.Lock()
        async with self._reloading:
            await asyncio.sleep(self._reload_at - time.monotonic())
            self._next_reload, self._reload_at = None, time.monotonic() + RELOAD_SECONDS
            return await self._reloaders.run(self._reload)

    async def _to_prefix(self, _: Request) -> Answer:
        return plain(f"The pages are under {self._prefix}/", 302, {"Location": f"{self._prefix}/"})


async def _rendered(body: Awaitable[bytes], content_type: str = "application/json") -> Answer:
    try:
        return Answer(200, await body, content_type)
    except BusyError:
        what = "pages" if content_type == _HTML else "documents"
        return refused(503, f"too many {what} wait", {"Retry-After": "1"})


def _html(text: str) -> Answer:
    return Answer(200, text.encode(), _HTML, {"Vary": "Accept"})


def _request(scope: Any) -> Request:  # noqa: ANN401 -- ASGI
    raw: bytes = scope["raw_path"]
    # An encoded slash is part of a name, and no path here has one.
    path = "" if b"%2f" in raw.lower() else scope["path"]
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    client = scope["client"][0] if scope["client"] else ""
    query = scope["query_string"].decode("latin-1")
    return Request(scope["method"], path, query, headers, client, loopback=bool(scope["state"].get("loopback")))


async def _body(receive: Any) -> bytes | None:  # noqa: ANN401 -- ASGI
    """The whole body, whose size the connection limits; None when the client disconnects first."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message["body"]
        if not message["more_body"]:
            return bytes(body)


async def _while_there(answer: Coroutine[Any, Any, Answer], receive: Any) -> Answer | None:  # noqa: ANN401 -- ASGI
    """The answer, unless the client leaves before; then it is cancelled."""
    answering, leaving = asyncio.ensure_future(answer), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        answering.cancel()
        leaving.cancel()


async def _left(receive: Any) -> None:  # noqa: ANN401 -- ASGI
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(answer: Answer, common: Mapping[str, str], send: Any, taking: Taking | None) -> None:  # noqa: ANN401
    """``taking`` hears how much of a large body the client has taken, and says whether it is still there."""
    headers = {**common, **answer.headers, "Date": formatdate(usegmt=True)}
    if answer.status not in _EMPTY:
        headers |= {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body))}
    written = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": written})
    if len(answer.body) <= CHUNK_BYTES:
        taking = None
    for at in range(0, max(1, len(answer.body)), CHUNK_BYTES):
        if taking and not taking(answer.body, at):
            return
        # No more than one piece waits for a slow client.
        piece, last = answer.body[at : at + CHUNK_BYTES], at + CHUNK_BYTES >= len(answer.body)
        await send({"type": "http.response.body", "body": piece, "more_body": not last})
        await asyncio.sleep(0)  # yields to other tasks, after which a disconnect is known
    if taking:
        taking(b"", 0)
