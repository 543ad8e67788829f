"""The latest document of each sender over HTTP, with limits on rate and number. It expires when the sender stops
posting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from exporter.bounds.json_text import JsonError, parse_json
from exporter.ingest.budget import ENTRY_BYTES, Budget
from exporter.model import Clock
from exporter.web_server.hosts import network_of

RATE = 20.0
BURST = 40.0
"""Documents per second, and burst, of one sender. librdkafka's statistics usually come every 5 s."""

TOTAL_RATE = 500.0
TOTAL_BURST = 1000.0
RESERVED = 500.0
"""Documents of the total burst that are for networks within their own rate: a single sender may take the rest."""
NETWORK_RATE = 100.0
NETWORK_BURST = 200.0
MOST_NETWORKS = 1000
"""Networks whose rate is known; those that posted last."""

LONGEST_NAME = 200

LEFT_OUT_SECONDS = 300.0
"""Seconds for which a sender that is not kept is counted, where each sender is kept for a time of its own."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RefusedError(Exception):
    """A refused document: an HTTP status and the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _TokenBucket:
    """A token bucket: a rate per second, and a burst."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, 0.0

    def take(self, now: float, reserved: float = 0.0) -> bool:
        """Take a token, unless only the reserved ones are left."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1 + reserved:
            return False
        self._left -= 1
        return True


class _LastReport(NamedTuple, Generic[V]):
    """The last document of a sender; ``seen`` is monotonic."""

    value: V
    seen: float


class LatestBySender(Generic[K, V]):
    """The latest of each sender. Any thread may call any method."""

    def __init__(
        self,
        most: int,
        expire_after: float | Callable[[V], float],
        clock: Clock,
        weigh: Callable[[K, V], int],
        *,
        senders: str = "clients",
        budget: Budget | None = None,
        replaces: bool = False,
    ) -> None:
        """``most`` senders are kept, each for ``expire_after`` seconds, or for what it returns of the last value;
        ``senders`` names them in refusals. A further one is refused, or ``replaces`` the one that was silent longest.

        ``weigh`` returns the bytes of memory that a value takes; ``budget`` limits their sum over all receivers.
        """
        self._most = most
        self._expire_after = expire_after
        self._left_out_for = expire_after if isinstance(expire_after, float | int) else LEFT_OUT_SECONDS
        self._clock = clock
        self._weigh = weigh
        self._senders = senders
        self._budget = budget or Budget()
        self._replaces = replaces
        self._lock = self._budget.lock  # guards the six below
        self._letters: dict[K, _LastReport[V]] = {}
        self._buckets: dict[K, _TokenBucket] = {}
        self._total = _TokenBucket(TOTAL_RATE, TOTAL_BURST)
        self._networks: dict[str, _TokenBucket] = {}  # the one that posted last is the last
        self._left_out: dict[K, float] = {}
        self._first_end = float("-inf")  # nothing in the three above ends before it

    def admit(self, client: str = "") -> None:
        """Count a document from this address before it is parsed. Raises RefusedError when there are too many."""
        now, network = self._clock.monotonic(), network_of(client)
        with self._lock:
            bucket = self._networks.pop(network, None) or _TokenBucket(NETWORK_RATE, NETWORK_BURST)
            self._networks[network] = bucket
            if len(self._networks) > MOST_NETWORKS:
                del self._networks[next(iter(self._networks))]
            if not self._total.take(now, 0.0 if bucket.take(now) else RESERVED):
                raise RefusedError(429, f"too much from all {self._senders} together")

    def put(self, sender: K, make: Callable[[V | None], V]) -> None:
        """Keep the result of ``make``, called with the last value of this sender or None. Raises RefusedError."""
        now = self._clock.monotonic()
        with self._lock:
            self._forget_silent(now)
            before = self._letters.get(sender)
            full = before is None and len(self._letters) >= self._most
            if full and not (self._replaces and self._letters):
                if len(self._left_out) < self._most:
                    self._left_out[sender] = now
                    self._first_end = min(self._first_end, now + self._left_out_for)
                raise RefusedError(429, f"more {self._senders} report than ingest.clients allows")
            self._left_out.pop(sender, None)
            if not self._buckets.setdefault(sender, _TokenBucket(RATE, BURST)).take(now):
                raise RefusedError(429, f"more than {RATE:.0f} reports a second from one of the {self._senders}")
            value = make(before.value if before else None)
            size = ENTRY_BYTES + self._weigh(sender, value)
            try:
                self._budget.charge((self._senders, sender), size, self._senders, lambda: self._drop(sender))
            except ValueError:
                if before is None:  # nothing else forgets a sender that is not kept
                    del self._buckets[sender]
                raise RefusedError(413, "is larger than all that ingest.memory allows") from None
            if full and len(self._letters) >= self._most:
                self._budget.drop((self._senders, min(self._letters, key=lambda kept: self._letters[kept].seen)))
            letter = self._letters[sender] = _LastReport(value, now)
            self._first_end = min(self._first_end, now + self._kept_for(letter))

    def latest(self) -> Mapping[K, V]:
        """The values of the senders that are not expired."""
        with self._lock:
            self._forget_silent(self._clock.monotonic())
            return {sender: letter.value for sender, letter in self._letters.items()}

    def left_out(self) -> int:
        """Number of senders that posted recently and are not kept."""
        with self._lock:
            self._forget_silent(self._clock.monotonic())
            return len(self._left_out)

    def _forget_silent(self, now: float) -> None:
        """One document may be of thousands of senders: those that are kept are looked at when one of them may end."""
        if now <= self._first_end:
            return
        for sender in [
            sender for sender, letter in self._letters.items() if letter.seen < now - self._kept_for(letter)
        ]:
            self._drop(sender)
            self._budget.release((self._senders, sender))
        oldest = now - self._left_out_for
        for sender in [sender for sender, seen in self._left_out.items() if seen < oldest]:
            del self._left_out[sender]
        ends = (letter.seen + self._kept_for(letter) for letter in self._letters.values())
        left_out = (seen + self._left_out_for for seen in self._left_out.values())
        self._first_end = min((*ends, *left_out), default=float("inf"))

    def _kept_for(self, letter: _LastReport[V]) -> float:
        return self._expire_after(letter.value) if callable(self._expire_after) else self._expire_after

    def _drop(self, sender: K) -> None:
        self._letters.pop(sender, None)
        self._buckets.pop(sender, None)


def json_object(body: bytes) -> Mapping[str, Any]:
    """Parse a body. Raises RefusedError."""
    try:
        document = parse_json(body)
    except JsonError as error:
        raise RefusedError(400, str(error)) from None
    if not isinstance(document, dict):
        raise RefusedError(400, "is no JSON object")
    return document


def named(document: Mapping[str, Any], key: str, *, required: bool, longest: int = LONGEST_NAME) -> str:
    """A text of the document that may become a label, "" if it is not required and missing. Raises RefusedError."""
    value = document.get(key, "")
    if not isinstance(value, str) or len(value) > longest or not value.isprintable() or (required and not value):
        raise RefusedError(400, f"{key} must be a text of 1 to {longest} printable characters")
    return value
