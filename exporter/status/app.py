"""HTTP: /metrics · / · /roll · /api/v1/… · /runbooks/… · /-/healthy · /-/ready · /-/reload · /ingest/….

A request is looked at in this order: its host, then login or token, then its body. Answers are made from the last reads
of the sources; only /roll, /api/v1/roll and /api/v1/inventory ask Kafka. The event loop's thread looks an answer up or
refuses it; rendering, password checks and disk reads are done on workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from email.utils import formatdate
from typing import Any, NamedTuple, Protocol

from exporter.core.thresholds import Owners
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
LARGE_ANSWERS = 4
"""Answers of a kind that are made and sent at once, of those that may be large: each keeps its body until its client
has taken it. Others wait. The kinds are scrapes, pages, and what a cluster is asked for: a scrape waits for no other.
"""
LARGE_WAIT_SECONDS = 2.0
BODIES = 8
"""Bodies that are received and read at once, each of a client with the token."""
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


class PostHandler(Protocol):
    """Accepts documents posted to one path. It is called on workers."""

    def refusal(self, request: Request) -> Answer | None:
        """Return why the head of a request is refused, None where the body may be read."""

    def __call__(self, request: Request, body: bytes) -> Answer:
        """Read the body of a request whose head is not refused."""


class Route(NamedTuple):
    """The handler of a path and its method; HEAD is allowed with GET. ``places`` limit answers that may be large."""

    method: str
    handler: Handler
    places: asyncio.Semaphore | None = None

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
        events: Callable[[], Events] | None = None,
        queries: Callable[[], ClusterQueries] | None = None,
        owners: Callable[[], Owners] = Owners,
    ) -> None:
        """``post_handlers`` receive posted documents, by path; ``guard`` authenticates; ``hosts`` are the allowed ones;
        ``owners`` returns those of the settings, by which the page is filtered. ``events``, ``queries`` and ``owners``
        are called on workers, and may wait until the clusters are there.

        Receivers with a token authenticate themselves: a request has one Authorization header, so it cannot have a
        password as well.
        """
        self._guard = guard or Guard()
        self._posts_have_tokens = posts_have_tokens
        self._exposition, self._ready, self._prefix = exposition, ready, prefix
        self._post_handlers = {prefix + path: handler for path, handler in (post_handlers or {}).items()}
        self._hosts = frozenset(name_of(host) or host for host in hosts)
        # Scrapes, pages, posts and short calls (tokens, runbooks) do not wait for each other.
        self._renderers, self._posts, self._short = Workers("metrics", 1), Workers("posts", 1), Workers("short", 1)
        self._pages: StatusPages | None = None
        self._closing: list[Callable[[], None]] = [
            self._renderers.close,
            self._posts.close,
            self._short.close,
            self._guard.close,
        ]
        self._bodies = asyncio.Semaphore(BODIES)
        scraping, reading, asking = (asyncio.Semaphore(LARGE_ANSWERS) for _ in range(3))
        self._health = frozenset(prefix + path for path in _HEALTH)
        self._routes = {
            prefix + "/metrics": Route("GET", self._metrics, scraping),
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
                prefix + "/": Route("GET", pages.page, reading),
                prefix + "/api/v1/status": Route("GET", pages.document, reading),
                prefix + "/api/v1/events": Route("GET", pages.what_happened, reading),
                prefix + "/runbooks": Route("GET", pages.runbooks),
            }
        if queries is not None:
            answers = QueryPages(queries, prefix, self._short, page_seconds)
            self._closing.append(answers.close)
            self._routes |= {
                prefix + "/roll": Route("GET", answers.roll_page, asking),
                prefix + "/api/v1/roll": Route("GET", answers.roll, asking),
                prefix + "/api/v1/inventory": Route("GET", answers.inventory, asking),
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
            try:
                await self._serve(request, receive, send)
            except Exception:
                log.exception("an answer failed", extra={"method": request.method, "path": request.path})
                await self._send(request, refused(500), send)

    async def _serve(self, request: Request, receive: Any, send: Any) -> None:  # noqa: ANN401 -- ASGI
        handler, route = self._post_handlers.get(request.path), self._route(request.path)
        answer = await self._refusal(request, handler)
        if answer is None and handler is not None:
            answer = await self._posted(request, handler, receive)
        elif answer is None and route is None:
            answer = refused(404)
        elif answer is None and route is not None and request.method not in route.allowed:
            answer = refused(405, headers={"Allow": ", ".join(sorted(route.allowed))})
        elif answer is None and route is not None and route.places is not None:
            await self._serve_large(request, route.handler, route.places, send)
        elif answer is None and route is not None:
            answer = await route.handler(request)
        if answer is not None:
            await self._send(request, answer, send)

    async def _refusal(self, request: Request, handler: PostHandler | None) -> Answer | None:
        """Why the head is refused: by its host, then by login or token, before the path is looked up: a refused client
        does not learn which paths exist.
        """
        if request.path not in self._health and (request.path != f"{self._prefix}/metrics" or from_browser(request)):
            refusal = foreign(request, self._hosts)
            if refusal is not None:
                return refusal
        if handler is None or not self._posts_have_tokens:
            refusal = await self._guard.refusal(request)
            if refusal is not None:
                return refusal
        # The token may be in a file.
        return await self._short.run(handler.refusal, request) if handler is not None else None

    async def _posted(self, request: Request, handler: PostHandler, receive: Any) -> Answer | None:  # noqa: ANN401
        """The answer to a posted document; None where the client leaves before its end."""
        async with self._bodies:
            body = bytearray()
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message["body"]  # as long as its head says, which ``handler`` has looked at
                if not message["more_body"]:
                    return await self._posts.run(handler, request, bytes(body))

    async def _serve_large(self, request: Request, handler: Handler, places: asyncio.Semaphore, send: Any) -> None:  # noqa: ANN401
        """Answer once there is a place: until then no body is made."""
        try:
            async with asyncio.timeout(LARGE_WAIT_SECONDS):
                await places.acquire()
        except TimeoutError:
            await self._send(request, refused(503, "too many answers at once", {"Retry-After": "1"}), send)
            return
        try:
            await self._send(request, await handler(request), send)
        finally:
            places.release()

    async def _send(self, request: Request, answer: Answer, send: Any) -> None:  # noqa: ANN401 -- ASGI
        log.debug("%s %s %d", request.method, request.path, answer.status, extra={"client": request.client})
        headers = {**_HEADERS, **self._guard.headers, **answer.headers, "Date": formatdate(usegmt=True)}
        if answer.status not in _EMPTY:
            headers |= {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body))}
        written = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": written})
        for at in range(0, max(1, len(answer.body)), CHUNK_BYTES):
            # No more than one piece waits for a slow client.
            piece, last = answer.body[at : at + CHUNK_BYTES], at + CHUNK_BYTES >= len(answer.body)
            await send({"type": "http.response.body", "body": piece, "more_body": not last})
            await asyncio.sleep(0)  # after which it is known that the client left

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
