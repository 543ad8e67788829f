"""The latest document of each sender over HTTP, with limits on rate and number. It expires when the sender stops
posting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from exporter.bounds.json_text import JsonError, parse_json
from exporter.ingest.budget import ENTRY_BYTES, Budget
from exporter.model import Clock, TokenBucket

RATE = 500.0
BURST = 1000.0
"""Documents per second, and burst, of one kind. librdkafka's statistics usually come every 5 s."""

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


class _LastReport(NamedTuple, Generic[V]):
    """The last document of a sender; ``ends`` is monotonic."""

    value: V
    ends: float


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
        self._lock = self._budget.lock  # guards the three below
        self._bucket = TokenBucket(RATE, BURST)
        self._reports: dict[K, _LastReport[V]] = {}  # the one that was silent longest comes first
        self._left_out: dict[K, float] = {}

    def admit(self) -> None:
        """Count a document before it is parsed. Raises RefusedError when there are too many."""
        with self._lock:
            if not self._bucket.take(self._clock.monotonic()):
                raise RefusedError(429, f"too much from all {self._senders} together")

    def put(self, sender: K, make: Callable[[V | None], V]) -> None:
        """Keep the result of ``make``, called with the last value of this sender or None. Raises RefusedError."""
        now = self._clock.monotonic()
        with self._lock:
            before = self._reports.get(sender)
            full = before is None and len(self._reports) >= self._most
            if full and not (self._replaces and self._reports):
                if len(self._left_out) < self._most:
                    self._left_out[sender] = now
                raise RefusedError(429, f"more {self._senders} report than ingest.clients allows")
            self._left_out.pop(sender, None)
            value = make(before.value if before and before.ends >= now else None)
            size = ENTRY_BYTES + self._weigh(sender, value)
            try:
                self._budget.charge((self._senders, sender), size, self._senders, lambda: self._drop(sender))
            except ValueError:
                raise RefusedError(413, "is larger than all that ingest.memory allows") from None
            if full and len(self._reports) >= self._most:
                self._budget.drop((self._senders, next(iter(self._reports))))
            self._drop(sender)
            kept_for = self._expire_after(value) if callable(self._expire_after) else self._expire_after
            self._reports[sender] = _LastReport(value, now + kept_for)

    def latest(self) -> Mapping[K, V]:
        """The values of the senders that are not expired."""
        with self._lock:
            self._forget_silent(self._clock.monotonic())
            return {sender: report.value for sender, report in self._reports.items()}

    def left_out(self) -> int:
        """Number of senders that posted recently and are not kept."""
        with self._lock:
            self._forget_silent(self._clock.monotonic())
            return len(self._left_out)

    def _forget_silent(self, now: float) -> None:
        for sender in [sender for sender, report in self._reports.items() if report.ends < now]:
            self._drop(sender)
            self._budget.release((self._senders, sender))
        oldest = now - self._left_out_for
        self._left_out = {sender: seen for sender, seen in self._left_out.items() if seen >= oldest}

    def _drop(self, sender: K) -> None:
        self._reports.pop(sender, None)


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
