"""Authentication, the rate limit and extra headers of the web-config file, for every request."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping

from exporter.web_server.config import RateLimit, WebConfig
from exporter.web_server.messages import Answer, Request, refused
from exporter.web_server.users import Login, Logins

_UNKNOWN = refused(401, headers={"WWW-Authenticate": 'Basic realm="kafka-eos-exporter", charset="UTF-8"'})
_BUSY = refused(429, headers={"Retry-After": "1"})


class Guard:
    """Checks requests by the current web-config. For one event loop."""

    def __init__(
        self,
        config: Callable[[], WebConfig] = WebConfig,
        logins: Logins | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._logins = logins or Logins()
        self._monotonic = monotonic
        self._limit: RateLimit | None = None
        self._tokens = 0.0
        self._filled = 0.0

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that are added to every answer, or replace its own."""
        return self._config().headers

    async def refusal(self, request: Request) -> Answer | None:
        """Why this request is refused; None when it is allowed. May take as long as bcrypt does."""
        config = self._config()
        if config.rate_limit is not None and not self._has_token(config.rate_limit):
            return _BUSY
        if not config.users:
            return None
        found = _credentials(request.headers.get("authorization", ""))
        if found is None:
            return _UNKNOWN
        user, password = found
        match await self._logins.check(config.users, user, password, request.client):
            case Login.RIGHT:
                return None
            case Login.WRONG:
                return _UNKNOWN
            case Login.BUSY:
                return _BUSY

    def _has_token(self, limit: RateLimit) -> bool:
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
