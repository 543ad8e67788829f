"""Users of the endpoint: bcrypt as exporter-toolkit has it, without letting guesses take the time of scrapes.

A bcrypt check takes a twentieth of a second on purpose. So what was found is remembered, and one check runs at a time,
on a thread of its own. Each address has a budget of wrong guesses, and those with the fewest come first: a right
password is checked after at most one guess, however many addresses guess.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import hmac
import itertools
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum

from exporter.web_server.hosts import network_of
from exporter.web_server.workers import Workers

MOST_REMEMBERED = 100
"""Passwords that were right, and as many that were wrong: guesses push out guesses only."""

GUESSES = 8
GUESS_SECONDS = 4.0
"""Wrong passwords that one address may try at once, and after how long it may try one more."""

MOST_WAITING = 64
MOST_ADDRESSES = 4096
"""Checks that wait for their turn, and addresses whose guesses are counted: the one longest without is forgotten."""

LOWEST_COST, HIGHEST_COST = 4, 14
"""Above 14 one check takes longer than a second, and so would the first scrape."""

_LONGEST = 72  # bytes that bcrypt looks at
_HASH = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")

Users = Mapping[str, bytes]
"""Names to bcrypt hashes."""


class Login(Enum):
    """The result of checking a user and a password."""

    RIGHT = "right"
    WRONG = "wrong"
    BUSY = "too many are being checked"


def hash_problem(text: str) -> str:
    """The fault of a hash, "" without one. Never repeats it."""
    match = _HASH.fullmatch(text)
    if match is None:
        return "is no bcrypt hash: make one with `htpasswd -nBC 10 USER`"
    if not LOWEST_COST <= int(match[1]) <= HIGHEST_COST:
        return f"has a cost of {match[1]}, and {LOWEST_COST} to {HIGHEST_COST} are taken: each step doubles the time"
    return ""


def _bcrypt_matches(password: bytes, hashed: bytes) -> bool:
    # Most endpoints have no users.
    import bcrypt  # noqa: PLC0415

    return bcrypt.checkpw(password, hashed)


class Logins:
    """Checks passwords. It belongs to one event loop."""

    def __init__(
        self,
        matches: Callable[[bytes, bytes], bool] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``matches`` takes a password and a hash, by default bcrypt's; it is called on another thread."""
        self._matches = matches or _bcrypt_matches
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._guesses = _Guesses(monotonic)
        self._turns = _Turns()
        self._running: dict[bytes, asyncio.Future[bool | None]] = {}

    async def check(self, users: Users, user: str, password: bytes, client: str) -> Login:
        """Return whether the password is that of the user; ``client`` is the address that asks.

        A user that does not exist takes as long as one that does, at the cost of some user's hash.
        """
        stored = users.get(user)
        name = self._digest(user.encode("utf-8", "replace"))
        hashed = stored or sorted(users.values())[int.from_bytes(name[:8]) % len(users)]
        key = self._digest(name, hashed, password)
        if stored is not None and key in self._right:
            self._right.move_to_end(key)
            return Login.RIGHT
        if key in self._wrong:
            return Login.WRONG
        running = self._running.get(key)
        if running is None:
            guesses = self._guesses.of(client)
            if guesses >= GUESSES:
                return Login.BUSY
            self._guesses.add(client, 1)  # taken back where the password is right
            running = asyncio.ensure_future(self._turns.take(guesses, self._is_right, password, hashed))
            self._running[key] = running
            running.add_done_callback(lambda _: self._running.pop(key))
        else:  # the same password once more, as of two Prometheus that start together
            client = ""
        found = await asyncio.shield(running)
        if found is None:
            return Login.BUSY
        right = found and stored is not None
        if right and client:
            self._guesses.add(client, -1)
        self._remember(self._right if right else self._wrong, key)
        return Login.RIGHT if right else Login.WRONG

    def _is_right(self, password: bytes, hashed: bytes) -> bool:
        try:
            return self._matches(password[:_LONGEST], hashed)
        except ValueError:
            return False

    @staticmethod
    def _remember(which: OrderedDict[bytes, None], key: bytes) -> None:
        which[key] = None
        if len(which) > MOST_REMEMBERED:
            which.popitem(last=False)

    def _digest(self, *parts: bytes) -> bytes:
        """The form in which these are kept in memory: useless without the secret of this process."""
        whole = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self._secret, whole, hashlib.sha256)


class _Guesses:
    """How many passwords each address tried lately; one is forgiven every ``GUESS_SECONDS``."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._counts: OrderedDict[str, tuple[float, float]] = OrderedDict()  # guesses, and when they were counted

    def of(self, client: str) -> int:
        """The guesses that are not forgiven yet, each begun one counted whole."""
        count, at = self._counts.get(network_of(client), (0.0, 0.0))
        return max(0, math.ceil(count - (self._monotonic() - at) / GUESS_SECONDS))

    def add(self, client: str, number: int) -> None:
        network, now = network_of(client), self._monotonic()
        count, at = self._counts.pop(network, (0.0, now))
        self._counts[network] = max(0.0, count - (now - at) / GUESS_SECONDS) + number, now
        if len(self._counts) > MOST_ADDRESSES:
            self._counts.popitem(last=False)


class _Turns:
    """One check at a time, on a thread; those of who guessed least come first."""

    def __init__(self) -> None:
        self._workers = Workers("passwords", 1)
        self._waiting: list[tuple[int, int, asyncio.Future[bool]]] = []
        self._order = itertools.count()
        self._busy = False

    async def take(
        self, guesses: int, check: Callable[[bytes, bytes], bool], password: bytes, hashed: bytes
    ) -> bool | None:
        """The result of the check; None when too many wait whose addresses guessed no more than this one."""
        if self._busy:
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (guesses, next(self._order), turn))
            if len(self._waiting) > MOST_WAITING:
                last = max(self._waiting)
                self._waiting.remove(last)
                heapq.heapify(self._waiting)
                last[2].set_result(False)
            if not await turn:
                return None
        self._busy = True
        try:
            return await self._workers.run(check, password, hashed)
        finally:
            self._busy = bool(self._waiting)
            if self._waiting:
                heapq.heappop(self._waiting)[2].set_result(True)
