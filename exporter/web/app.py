"""HTTP: /metrics · / · /api/v1/status · /runbooks/… · /-/healthy · /-/ready · /-/reload · /ingest/….

Nothing here asks Kafka anything: every answer is made from what the sources said last.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from exporter.exposition.text_format import CONTENT_TYPES, Format
from exporter.web.authentication import Guard, Refusal
from exporter.web.page import CONTENT_SECURITY_POLICY, page
from exporter.web.runbooks import names, runbook
from exporter.web.server import Listener, ListenError, WSGIApplication
from exporter.web.tls import Tls

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Bodies(Protocol):
    """Where ``/metrics`` comes from: the exposition."""

    def body(self, fmt: Format, gzip: bool = False) -> bytes: ...


class App:
    """The WSGI application.

    ``status`` gives the document of ``/api/v1/status``, ``ready`` whether every source has answered or failed once,
    and ``reload`` rereads the settings and returns what is wrong with them, nothing when they are in force. ``prefix``
    is "" or begins with a slash and does not end with one.
    """

    def __init__(
        self,
        bodies: Bodies,
        status: Callable[[], Mapping[str, Any]],
        ready: Callable[[], bool],
        reload: Callable[[], Sequence[str]],
        prefix: str = "",
        doors: Mapping[str, WSGIApplication] | None = None,
        guard: Guard | None = None,
        *,
        doors_have_keys: bool = False,
    ) -> None:
        """``doors`` are applications of their own by their path; ``guard`` decides who is served.

        Doors with keys of their own are left to them: a request has one Authorization header, so nobody could show a
        password as well.
        """
        self._guard = guard or Guard()
        self._doors_have_keys = doors_have_keys
        self._bodies, self._status, self._ready, self._reload, self._prefix = bodies, status, ready, reload, prefix
        self._doors = {prefix + path: door for path, door in (doors or {}).items()}
        self._reloading = threading.Lock()
        rules = [
            Rule(prefix + "/", endpoint=self._page, methods=["GET"]),
            Rule(prefix + "/metrics", endpoint=self._metrics, methods=["GET"]),
            Rule(prefix + "/api/v1/status", endpoint=self._document, methods=["GET"]),
            Rule(prefix + "/runbooks", endpoint=self._runbooks, methods=["GET"]),
            Rule(prefix + "/runbooks/<name>", endpoint=self._runbook, methods=["GET"]),
            Rule(prefix + "/-/healthy", endpoint=self._healthy, methods=["GET"]),
            Rule(prefix + "/-/ready", endpoint=self._readiness, methods=["GET"]),
            Rule(prefix + "/-/reload", endpoint=self._reload_settings, methods=["POST"]),
        ]
        if prefix:
            rules += [Rule(path, endpoint=self._to_prefix, methods=["GET"]) for path in ("/", prefix)]
        self._routes = Map(rules, strict_slashes=False, merge_slashes=False)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:  # noqa: ANN401 -- WSGI
        request = Request(environ)
        door = self._doors.get(request.path)
        if door is not None and self._doors_have_keys:
            return door(environ, start_response)
        # Before anything is looked up: who is not let in learns not even what there is.
        refusal = self._guard.refusal(environ)
        if door is not None and refusal is None:
            return door(environ, start_response)
        response = self._answer(request, environ) if refusal is None else _turned_away(refusal)
        for name, value in {**_HEADERS, **self._guard.headers}.items():
            response.headers.setdefault(name, value)
        log.debug("%s %s %d", request.method, request.path, response.status_code, extra={"client": request.remote_addr})
        return response(environ, start_response)

    def _answer(self, request: Request, environ: dict[str, Any]) -> Response:
        try:
            endpoint, arguments = self._routes.bind_to_environ(environ).match()
            response: Response = endpoint(request, **arguments)
        except HTTPException as error:
            return _refusal(error)
        return response

    def _metrics(self, request: Request) -> Response:
        fmt, content_type = negotiate(request)
        gzip = request.accept_encodings.quality("gzip") > 0
        body = self._bodies.body(fmt, gzip)
        response = Response(_chunks(body), content_type=content_type, direct_passthrough=True)
        response.content_length = len(body)
        response.headers["Vary"] = "Accept, Accept-Encoding"
        if gzip:
            response.headers["Content-Encoding"] = "gzip"
        return response

    def _page(self, request: Request) -> Response:
        refresh = request.args.get("refresh") != "off"
        return Response(page(self._status(), self._prefix, refresh=refresh), content_type="text/html; charset=utf-8")

    def _document(self, _: Request) -> Response:
        return Response(json.dumps(self._status(), indent=1), content_type="application/json")

    def _runbooks(self, _: Request) -> Response:
        return _plain("\n".join(f"{self._prefix}/runbooks/{name}" for name in names()))

    def _runbook(self, _: Request, name: str) -> Response:
        text = runbook(name)
        if text is None:
            raise NotFound
        return _plain(text.rstrip())

    def _healthy(self, _: Request) -> Response:
        return _plain("Healthy.")

    def _readiness(self, _: Request) -> Response:
        if self._ready():
            return _plain("Ready.")
        return _plain("Not ready: not every source has answered or failed once yet.", 503)

    def _reload_settings(self, _: Request) -> Response:
        with self._reloading:
            problems = self._reload()
        if problems:
            return _plain("\n".join(("The settings were refused, the old ones stay:", *problems)), 400)
        return _plain("Reloaded.")

    def _to_prefix(self, _: Request) -> Response:
        return _plain(f"The pages are under {self._prefix}/", 302, {"Location": f"{self._prefix}/"})


_KINDS = {
    "application/openmetrics-text": Format.OPENMETRICS,
    "text/plain": Format.TEXT,
    "text/*": Format.TEXT,
    "*/*": Format.TEXT,
}


def negotiate(request: Request) -> tuple[Format, str]:
    """The format that the Accept header likes best, and the content type that says so; the text format if none.

    Prometheus 3 asks for a way of escaping names with UTF-8 too. Ours need none, so of the four ways only those are
    granted that leave names as they are.
    """
    for accepted, quality in sorted(request.accept_mimetypes, key=lambda each: -each[1]):
        kind, *parameters = (part.strip() for part in accepted.lower().split(";"))
        options = {name: value for name, _, value in (parameter.partition("=") for parameter in parameters)}
        fmt, version = _KINDS.get(kind), options.get("version", "")
        draft = fmt is Format.OPENMETRICS and version.startswith("0.")
        if fmt is None or quality <= 0 or draft:
            continue
        content_type = CONTENT_TYPES[fmt]
        if version == "1.0.0":
            content_type = content_type.replace("0.0.4", version)
            if "escaping" in options:
                asked = options["escaping"]
                content_type += f"; escaping={asked if asked == 'allow-utf-8' else 'underscores'}"
        return fmt, content_type
    return Format.TEXT, CONTENT_TYPES[Format.TEXT]


def _chunks(body: bytes) -> Iterator[bytes]:
    """The body in pieces: cheroot copies what it is given once for every piece that the network takes."""
    return (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))


def _plain(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(f"{text}\n", status, headers, content_type="text/plain; charset=utf-8")


def _refusal(error: HTTPException) -> Response:
    """404, 405 and the like as one plain line that repeats nothing of the request."""
    allowed = getattr(error, "valid_methods", None)
    headers = {"Allow": ", ".join(sorted(allowed))} if allowed else {}
    return _plain(f"{error.code} {error.name}", error.code or 500, headers)


def _turned_away(refusal: Refusal) -> Response:
    return _plain(f"{refusal.status.value} {refusal.status.phrase}", refusal.status.value, refusal.headers)


class Servers:
    """The application on one or several addresses."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], app: App, tls: Callable[[], Tls | None] = lambda: None
    ) -> None:
        """``addresses`` are pairs of host and port; host "" is every address of the machine.

        ``tls`` is asked at each new connection: None is plain HTTP.
        """
        self._listeners = [Listener(host, port, app, tls) for host, port in addresses]

    def open(self) -> None:
        """Listen on all of them or on none. Raises ListenError."""
        opened: list[Listener] = []
        for listener in self._listeners:
            try:
                listener.open()
            except ListenError:
                _close(opened)
                raise
            opened.append(listener)
            log.info("listening on %s", listener.address)

    @property
    def ports(self) -> list[int]:
        """Where they listen, once open."""
        return [listener.port for listener in self._listeners]

    def close(self) -> None:
        """Stop; what is being served may finish for a second. Returns within about two."""
        _close(self._listeners)


def _close(listeners: Sequence[Listener]) -> None:
    threads = [threading.Thread(target=listener.close, daemon=True) for listener in listeners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3.0)
