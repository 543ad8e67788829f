"""HTTP: /metrics · / · /api/v1/status · /runbooks/… · /-/healthy · /-/ready · /-/reload · /ingest/….

No request to Kafka is made here: every answer is made from the last reads of the sources. The event loop's thread looks
up or refuses an answer; rendering, password checks and disk reads are done on workers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from email.utils import formatdate
from functools import partial
from typing import Any, NamedTuple, Protocol

from exporter.exposition.text_format import Format
from exporter.web.authentication import Guard
from exporter.web.filters import Filter
from exporter.web.hosts import foreign, from_browser, name_of, reload_refusal
from exporter.web.json_lines import json_lines
from exporter.web.messages import Answer, Request, encoded, plain, refused
from exporter.web.negotiation import negotiate, takes_gzip
from exporter.web.page import CONTENT_SECURITY_POLICY, page
from exporter.web.runbooks import names, runbook
from exporter.web.workers import Workers

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
RELOAD_SECONDS = 1.0
"""Least seconds between two reloads: requests in between share the next one."""
PAGE_SECONDS = 1.0
"""Seconds for which a rendered page or document is reused: many readers cost no more than one."""
DOCUMENT_LEVELS = 4
"""The document, its clusters, each of them, and its lists: each transaction is a line."""
MOST_PAGES = 16
"""Largest number of cached pages: readers may request any filter."""

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

Handler = Callable[[Request], Awaitable[Answer]]


class Bodies(Protocol):
    """Where ``/metrics`` comes from: the exposition."""

    def ready(self, fmt: Format, gzip: bool = False) -> bytes | None:
        """Note a request; the body if it is in memory. Never waits."""

    def body(self, fmt: Format, gzip: bool = False) -> bytes:
        """The body, rendered if necessary; called where it was not ready."""


class PostHandler(Protocol):
    """Accepts documents posted to one path. It is called on workers."""

    def __call__(self, request: Request, body: bytes) -> Answer: ...


class _Route(NamedTuple):
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
        bodies: Bodies,
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
    ) -> None:
        """``post_handlers`` receive posted documents, by path; ``guard`` authenticates; ``hosts`` are the allowed ones.

        Receivers with a token authenticate themselves: a request has one Authorization header, so it cannot have a
        password as well.
        """
        self._guard = guard or Guard()
        self._posts_have_tokens = posts_have_tokens
        self._bodies, self._ready, self._prefix = bodies, ready, prefix
        self._post_handlers = {prefix + path: handler for path, handler in (post_handlers or {}).items()}
        self._hosts = frozenset(name_of(host) or host for host in hosts)
        self._reloading: asyncio.Lock | None = None
        self._next_reload: asyncio.Future[Sequence[str]] | None = None
        self._reload_at = 0.0  # monotonic: the earliest begin of the next
        # A scrape never waits for a page, nor for a document that is posted.
        self._renderers, self._makers = Workers("metrics", 1), Workers("answers", 2)
        self._reloaders = Workers("reload", 1)
        self._page_seconds = page_seconds
        self._pages: dict[object, asyncio.Future[bytes]] = {}  # being made, or cached
        self._health = frozenset(prefix + path for path in _HEALTH)
        self._routes = {
            prefix + "/metrics": _Route("GET", self._metrics),
            prefix + "/-/healthy": _Route("GET", self._healthy),
            prefix + "/-/ready": _Route("GET", self._readiness),
        }
        if reload is not None:
            self._reload = reload
            self._routes[prefix + "/-/reload"] = _Route("POST", self._reload_settings)
        if status is not None:
            self._status = status
            self._routes |= {
                prefix + "/": _Route("GET", self._page),
                prefix + "/api/v1/status": _Route("GET", self._document),
                prefix + "/runbooks": _Route("GET", self._runbooks),
            }
        if prefix and status is not None:
            self._routes |= dict.fromkeys(("/", prefix), _Route("GET", self._to_prefix))

    # --- From ASGI to an answer ---------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 -- ASGI
        request = _request(scope)
        # Nothing is done before the whole request has arrived.
        body = await _body(receive) if "content-length" in request.headers else b""
        if body is None:
            return
        try:
            answer = await self._answer(request, body)
        except Exception:
            log.exception("an answer failed", extra={"method": request.method, "path": request.path})
            answer = refused(500)
        log.debug("%s %s %d", request.method, request.path, answer.status, extra={"client": request.client})
        await _send(answer, {**_HEADERS, **self._guard.headers}, send)

    async def _answer(self, request: Request, body: bytes) -> Answer:
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
            return await self._makers.run(handler, request, body)
        return await self._routed(request)

    async def _routed(self, request: Request) -> Answer:
        path = request.path
        route = self._routes.get(path) or self._routes.get(path.removesuffix("/"))
        of_runbooks = f"{self._prefix}/runbooks/"
        if route is None and path.startswith(of_runbooks):
            route = _Route("GET", self._runbook)
        if route is None:
            return refused(404)
        if request.method not in route.allowed:
            return refused(405, headers={"Allow": ", ".join(sorted(route.allowed))})
        return await route.handler(request)

    # --- The answers --------------------------------------------------------------------------------------------------

    async def _metrics(self, request: Request) -> Answer:
        fmt, content_type = negotiate(request.headers.get("accept", ""))
        gzip = takes_gzip(request.headers.get("accept-encoding", ""))
        body = self._bodies.ready(fmt, gzip)
        if body is None:
            body = await self._renderers.run(self._bodies.body, fmt, gzip)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if gzip:
            headers["Content-Encoding"] = "gzip"
        return Answer(200, body, content_type, headers)

    async def _page(self, request: Request) -> Answer:
        refresh = "refresh=off" not in request.query.split("&")
        shown = Filter.parse(request.query)
        make = lambda: encoded(page(self._status(), self._prefix, refresh=refresh, shown=shown))  # noqa: E731 -- of these
        return Answer(200, await self._kept(("page", refresh, shown), make), "text/html; charset=utf-8")

    async def _document(self, _: Request) -> Answer:
        make = lambda: json_lines(self._status(), DOCUMENT_LEVELS)  # noqa: E731 -- as above
        return Answer(200, await self._kept("document", make), "application/json")

    async def _kept(self, key: object, make: Callable[[], bytes]) -> bytes:
        """A cached answer, or one that is made now, once for all concurrent requests."""
        kept = self._pages.get(key)
        if kept is None:
            while len(self._pages) >= MOST_PAGES:
                del self._pages[next(iter(self._pages))]
            kept = self._pages[key] = asyncio.ensure_future(self._makers.run(make))
            kept.add_done_callback(partial(self._made, key))
        return await asyncio.shield(kept)

    def _made(self, key: object, made: asyncio.Future[bytes]) -> None:
        """Drop an answer when its time is over: it may be megabytes, and the next request may be in a month."""
        failed = made.cancelled() or made.exception() is not None  # which is known then, also without a waiting request
        asyncio.get_running_loop().call_later(0.0 if failed else self._page_seconds, self._drop, key, made)

    def _drop(self, key: object, made: asyncio.Future[bytes]) -> None:
        if self._pages.get(key) is made:
            del self._pages[key]

    async def _runbooks(self, _: Request) -> Answer:
        return plain("\n".join(f"{self._prefix}/runbooks/{name}" for name in await self._makers.run(names)))

    async def _runbook(self, request: Request) -> Answer:
        text = await self._makers.run(runbook, request.path.removeprefix(f"{self._prefix}/runbooks/"))
        return refused(404) if text is None else plain(text.rstrip())

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


async def _send(answer: Answer, common: Mapping[str, str], send: Any) -> None:  # noqa: ANN401 -- ASGI
    headers = {**common, **answer.headers, "Date": formatdate(usegmt=True)}
    if answer.status not in _EMPTY:
        headers |= {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body))}
    written = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": written})
    for piece, last in _pieces(answer.body):
        await send({"type": "http.response.body", "body": piece, "more_body": not last})
        await asyncio.sleep(0)  # yields to other tasks, after which a disconnect is known


def _pieces(body: bytes) -> Iterator[tuple[bytes, bool]]:
    """The body in pieces, each with whether it is the last: no more than one waits for a slow client."""
    for at in range(0, max(1, len(body)), CHUNK_BYTES):
        yield body[at : at + CHUNK_BYTES], at + CHUNK_BYTES >= len(body)
