"""HTTP: /metrics · / · /roll · /api/v1/… · /runbooks/… · /-/healthy · /-/ready · /-/reload · /ingest/….

Answers are made from the last reads of the sources; only /roll, /api/v1/roll and /api/v1/inventory ask Kafka. The event
loop's thread looks an answer up or refuses it; rendering, password checks and disk reads are done on workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from email.utils import formatdate
from typing import Any, NamedTuple, Protocol

from exporter.bounds.precedence import SCRAPES
from exporter.core.owners import Owners
from exporter.exposition.render import Exposition
from exporter.status.html import CONTENT_SECURITY_POLICY
from exporter.status.query_pages import ClusterQueries, QueryPages
from exporter.status.reloads import Reloads
from exporter.status.status_pages import Events, StatusPages
from exporter.web_server.authentication import Guard
from exporter.web_server.hosts import foreign, from_browser, name_of
from exporter.web_server.messages import Answer, Request, plain, refused
from exporter.web_server.negotiation import negotiate, takes_gzip
from exporter.web_server.workers import Workers

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
PAGE_SECONDS = 1.0
"""Seconds for which a rendered page or document is reused: many readers cost no more than one."""
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
Taking = Callable[[bytes, int], bool]
"""Called with a body and how many bytes of it were sent; returns whether the client is still there."""


class PostHandler(Protocol):
    """Accepts documents posted to one path. It is called on workers."""

    def refusal(self, request: Request) -> Answer | None:
        """Return why the head of a request is refused, None where the body may be read."""

    def __call__(self, request: Request, body: bytes) -> Answer:
        """Read the body of a request whose head is not refused."""


class Route(NamedTuple):
    """The handler of a path and its method; HEAD is allowed with GET.

    ``long`` is whether the answer takes long enough to look whether its reader is still there.
    """

    method: str
    handler: Handler
    long: bool = False

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
        queries: ClusterQueries | None = None,
        owners: Callable[[], Owners] = Owners,
    ) -> None:
        """``post_handlers`` receive posted documents, by path; ``guard`` authenticates; ``hosts`` are the allowed ones;
        ``owners`` returns those of the settings, by which the page is filtered.

        Receivers with a token authenticate themselves: a request has one Authorization header, so it cannot have a
        password as well.
        """
        self._guard = guard or Guard()
        self._posts_have_tokens = posts_have_tokens
        self._exposition, self._ready, self._prefix = exposition, ready, prefix
        self._post_handlers = {prefix + path: handler for path, handler in (post_handlers or {}).items()}
        self._hosts = frozenset(name_of(host) or host for host in hosts)
        # Scrapes, pages, posts and short calls (tokens, runbooks) do not wait for each other.
        self._renderers, self._posts, self._short = Workers("metrics", 1), Workers("posts", 2), Workers("short", 1)
        self._pages: StatusPages | None = None
        self._closing: list[Callable[[], None]] = [self._renderers.close, self._posts.close, self._short.close]
        self._health = frozenset(prefix + path for path in _HEALTH)
        self._routes = {
            prefix + "/metrics": Route("GET", self._metrics),
            prefix + "/-/healthy": Route("GET", self._healthy),
            prefix + "/-/ready": Route("GET", self._readiness),
        }
        if reload is not None:
            reloads = Reloads(reload)
            self._closing.append(reloads.close)
            self._routes[prefix + "/-/reload"] = Route("POST", reloads.answer)
        if status is not None:
            pages = self._pages = StatusPages(
                status, prefix, self._short, page_seconds, events, owners, rolls=queries is not None
            )
            self._closing.append(pages.close)
            self._routes |= {
                prefix + "/": Route("GET", pages.page, long=True),
                prefix + "/api/v1/status": Route("GET", pages.document, long=True),
                prefix + "/api/v1/events": Route("GET", pages.what_happened, long=True),
                prefix + "/runbooks": Route("GET", pages.runbooks),
            }
        if queries is not None:
            answers = QueryPages(queries, prefix, self._short, page_seconds)
            self._closing.append(answers.close)
            self._routes |= {
                prefix + "/roll": Route("GET", answers.roll_page, long=True),
                prefix + "/api/v1/roll": Route("GET", answers.roll, long=True),
                prefix + "/api/v1/inventory": Route("GET", answers.inventory, long=True),
            }
        if prefix and status is not None:
            self._routes |= dict.fromkeys(("/", prefix), Route("GET", self._to_prefix))

    def close(self) -> None:
        """End the threads once they have nothing to do; for after the server has stopped."""
        for close in self._closing:
            close()

    # --- From ASGI to an answer ---------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 -- ASGI
        request = _request(scope)
        with contextlib.suppress(asyncio.CancelledError):  # the agent stops
            # Nothing is done before the whole request has arrived.
            body = await _body(receive) if "content-length" in request.headers else b""
            if body is None:
                return
            try:
                route = self._route(request.path)
                answering = self._answer(request, body, route)
                # No connection counts the bytes of a body whose client left.
                ends = bool(body) or (route is not None and route.long)
                answer = await (_while_there(answering, receive) if ends else answering)
            except Exception:
                log.exception("an answer failed", extra={"method": request.method, "path": request.path})
                answer = refused(500)
            if answer is not None:
                log.debug("%s %s %d", request.method, request.path, answer.status, extra={"client": request.client})
                await _send(answer, {**_HEADERS, **self._guard.headers}, send, scope["state"].get("taking"))

    async def _answer(self, request: Request, body: bytes, route: Route | None) -> Answer:
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
            # The token may be in a file. The body does not wait in the queue of posts before it is known.
            refusal = await self._short.run(handler.refusal, request, client=request.client)
            return await self._posts.run(handler, request, body, client=request.client) if refusal is None else refusal
        if route is None:
            return refused(404)
        if request.method not in route.allowed:
            return refused(405, headers={"Allow": ", ".join(sorted(route.allowed))})
        return await route.handler(request)

    def _route(self, path: str) -> Route | None:
        """Return the route of a path, which may end with a slash."""
        route = self._routes.get(path) or self._routes.get(path.removesuffix("/"))
        if route is None and self._pages is not None and path.startswith(f"{self._prefix}/runbooks/"):
            return Route("GET", self._pages.runbook)
        return route

    # --- The answers --------------------------------------------------------------------------------------------------

    async def _metrics(self, request: Request) -> Answer:
        fmt, content_type = negotiate(request.headers.get("accept", ""))
        gzip = takes_gzip(request.headers.get("accept-encoding", ""))
        body = self._exposition.ready(fmt, gzip)
        if body is None:
            asked = self._exposition.clock.monotonic()
            with SCRAPES.making():
                body = await self._renderers.run(self._exposition.body, fmt, gzip, asked)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if gzip:
            headers["Content-Encoding"] = "gzip"
        return Answer(200, body, content_type, headers)

    async def _healthy(self, _: Request) -> Answer:
        return plain("Healthy.")

    async def _readiness(self, _: Request) -> Answer:
        if self._ready():
            return plain("Ready.")
        return plain("Not ready: not every source has answered or failed once yet.", 503)

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
