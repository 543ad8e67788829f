"""Who is served: users, the rate limit and extra headers of the web-config file, at every request."""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from exporter.web.config import RateLimit, WebConfig
from exporter.web.users import Login, Logins


class Refusal(NamedTuple):
    """Why a request is not served, and what to tell its client."""

    status: HTTPStatus
    headers: Mapping[str, str]


_UNKNOWN = Refusal(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": 'Basic realm="kafka-eos-exporter", charset="UTF-8"'})
_BUSY = Refusal(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"})


class Guard:
    """Judges requests by what is in force now. Any thread may call it."""

    def __init__(
        self,
        config: Callable[[], WebConfig] = WebConfig,
        logins: Logins | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._logins = logins or Logins()
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards the three below
        self._limit: RateLimit | None = None
        self._tokens = 0.0
        self._filled = 0.0

    @property
    def headers(self) -> Mapping[str, str]:
        """What every answer has besides, or instead of our own."""
        return self._config().headers

    def refusal(self, environ: Mapping[str, Any]) -> Refusal | None:
        """Why this request of WSGI is refused; None lets it in. May take as long as bcrypt does."""
        config = self._config()
        if config.rate_limit is not None and not self._has_token(config.rate_limit):
            return _BUSY
        if not config.users:
            return None
        found = _credentials(str(environ.get("HTTP_AUTHORIZATION", "")))
        if found is None:
            return _UNKNOWN
        user, password = found
        match self._logins.check(config.users, user, password, str(environ.get("REMOTE_ADDR", ""))):
            case Login.RIGHT:
                return None
            case Login.WRONG:
                return _UNKNOWN
            case Login.BUSY:
                return _BUSY

    def _has_token(self, limit: RateLimit) -> bool:
        with self._lock:
            now = self._monotonic()
            if limit != self._limit:
                self._limit, self._tokens, self._filled = limit, float(limit.burst), now
            self._tokens = min(float(limit.burst), self._tokens + (now - self._filled) / limit.interval)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


def _credentials(header: str) -> tuple[str, bytes] | None:
    """User and password of an Authorization header (RFC 7617); None when it holds none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None
