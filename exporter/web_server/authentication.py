"""Authentication, the rate limit and extra headers of the web-config file, for every request.

A bcrypt check takes a twentieth of a second on purpose. So passwords that were right are remembered, as digests under a
secret of this process, and one check runs at a time, on a thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from exporter.model import TokenBucket
from exporter.web_server.config import RateLimit, Users, WebConfig
from exporter.web_server.messages import Answer, Request, refused
from exporter.web_server.workers import Workers

MOST_REMEMBERED = 100
MOST_WAITING = 64
"""Password checks that wait for their turn."""

_LONGEST = 72  # bytes that bcrypt looks at
_UNKNOWN = refused(401, headers={"WWW-Authenticate": 'Basic realm="kafka-eos-exporter", charset="UTF-8"'})
_BUSY = refused(429, headers={"Retry-After": "1"})


def _bcrypt_matches(password: bytes, hashed: bytes) -> bool:
    # Most endpoints have no users.
    import bcrypt  # noqa: PLC0415

    return bcrypt.checkpw(password, hashed)


class Guard:
    """Checks requests by the current web-config. For one event loop."""

    def __init__(
        self,
        config: Callable[[], WebConfig] = WebConfig,
        monotonic: Callable[[], float] = time.monotonic,
        matches: Callable[[bytes, bytes], bool] = _bcrypt_matches,
    ) -> None:
        """``matches`` takes a password and a hash; it is called on another thread."""
        self._config, self._monotonic, self._matches = config, monotonic, matches
        self._limit: RateLimit | None = None
        self._bucket = TokenBucket(0.0, 0.0)
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._worker = Workers("passwords", 1)
        self._turn = asyncio.Lock()
        self._waiting = 0

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that are added to every answer, or replace its own."""
        return self._config().headers

    def close(self) -> None:
        """End the thread once it has nothing to do."""
        self._worker.close()

    async def refusal(self, request: Request) -> Answer | None:
        """Why this request is refused; None when it is allowed. May take as long as bcrypt does."""
        config = self._config()
        if config.rate_limit is not None and not self._has_token(config.rate_limit):
            return _BUSY
        if not config.users:
            return None
        credentials = _credentials(request.headers.get("authorization", ""))
        return await self._login(config.users, *credentials) if credentials else _UNKNOWN

    def _has_token(self, limit: RateLimit) -> bool:
        if limit != self._limit:
            self._limit, self._bucket = limit, TokenBucket(1 / limit.interval, limit.burst)
        return self._bucket.take(self._monotonic())

    async def _login(self, users: Users, user: str, password: bytes) -> Answer | None:
        """Why this password is refused. A user that does not exist takes as long as one that does, at the cost of some
        user's hash.
        """
        stored = users.get(user)
        name = self._digest(user.encode("utf-8", "replace"))
        hashed = stored or sorted(users.values())[int.from_bytes(name[:8]) % len(users)]
        key = self._digest(name, hashed, password)
        if key not in self._right:
            if self._waiting >= MOST_WAITING:
                return _BUSY
            self._waiting += 1
            try:
                async with self._turn:
                    if key not in self._right and not await self._is_right(password, hashed, stored is not None):
                        return _UNKNOWN
            finally:
                self._waiting -= 1
        self._right[key] = None
        self._right.move_to_end(key)
        if len(self._right) > MOST_REMEMBERED:
            self._right.popitem(last=False)
        return None

    async def _is_right(self, password: bytes, hashed: bytes, known: bool) -> bool:
        try:
            return await self._worker.run(self._matches, password[:_LONGEST], hashed) and known
        except ValueError:
            return False

    def _digest(self, *parts: bytes) -> bytes:
        """The form in which these are kept in memory: useless without the secret of this process."""
        whole = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self._secret, whole, hashlib.sha256)


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
