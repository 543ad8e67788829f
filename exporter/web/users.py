"""Users of the endpoint: bcrypt as exporter-toolkit has it, without letting guesses take the time of scrapes.

A bcrypt check takes a twentieth of a second on purpose. So what was found is remembered, one check runs at a time, few
wait for it, fewer of one address, and everybody else is told to come back.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum

import bcrypt

MOST_REMEMBERED = 100
"""Passwords that were right, and as many that were wrong: guesses push out guesses only."""

MOST_CHECKS = 4
CHECKS_PER_CLIENT = 2
"""One check runs, the others wait for it on their threads."""

LOWEST_COST, HIGHEST_COST = 4, 14
"""Above 14 one check takes longer than a second, and so would the first scrape."""

_LONGEST = 72  # bytes that bcrypt looks at
_HASH = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")

Users = Mapping[str, bytes]
"""Names to bcrypt hashes."""


class Login(Enum):
    """What became of a user and a password."""

    RIGHT = "right"
    WRONG = "wrong"
    BUSY = "too many are being checked"


def hash_problem(text: str) -> str:
    """What is wrong with a hash, "" when nothing is. Never repeats it."""
    match = _HASH.fullmatch(text)
    if match is None:
        return "is no bcrypt hash: make one with `htpasswd -nBC 10 USER`"
    if not LOWEST_COST <= int(match[1]) <= HIGHEST_COST:
        return f"has a cost of {match[1]}, and {LOWEST_COST} to {HIGHEST_COST} are taken: each step doubles the time"
    return ""


class Logins:
    """Checks passwords. Any thread may call it."""

    def __init__(self, matches: Callable[[bytes, bytes], bool] = bcrypt.checkpw) -> None:
        """``matches`` takes a password and a hash."""
        self._matches = matches
        self._secret = secrets.token_bytes(32)
        self._checking = threading.Lock()
        self._lock = threading.Lock()  # guards the three below
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._clients: Counter[str] = Counter()

    def check(self, users: Users, user: str, password: bytes, client: str) -> Login:
        """Whether the password is that of the user; ``client`` is the address that asks.

        A user that does not exist takes as long as one that does, at the cost of some user's hash.
        """
        stored = users.get(user)
        name = self._digest(user.encode("utf-8", "replace"))
        hashed = stored or sorted(users.values())[int.from_bytes(name[:8]) % len(users)]
        key = self._digest(name, hashed, password)
        with self._lock:
            if stored is not None and key in self._right:
                self._right.move_to_end(key)
                return Login.RIGHT
            if key in self._wrong:
                return Login.WRONG
            if self._clients.total() >= MOST_CHECKS or self._clients[client] >= CHECKS_PER_CLIENT:
                return Login.BUSY
            self._clients[client] += 1
        try:
            with self._checking:
                right = self._is_right(password, hashed) and stored is not None
        finally:
            with self._lock:
                self._clients[client] -= 1
                self._clients += Counter()  # without those at zero
        self._remember(self._right if right else self._wrong, key)
        return Login.RIGHT if right else Login.WRONG

    def _is_right(self, password: bytes, hashed: bytes) -> bool:
        try:
            return self._matches(password[:_LONGEST], hashed)
        except ValueError:
            return False

    def _remember(self, which: OrderedDict[bytes, None], key: bytes) -> None:
        with self._lock:
            which[key] = None
            if len(which) > MOST_REMEMBERED:
                which.popitem(last=False)

    def _digest(self, *parts: bytes) -> bytes:
        """What stands for these in memory: it says nothing without the secret of this process."""
        whole = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self._secret, whole, hashlib.sha256)
