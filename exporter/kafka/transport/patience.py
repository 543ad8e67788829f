"""How long a broker is waited for that did not answer its last request in time. No I/O; the present is an argument.

All brokers of a read are waited for together: one that is late delays what is known of the others, and may do so once.
"""

from __future__ import annotations

from exporter.model import Deadline

PATIENCE = 2.0
"""Seconds for a request to a broker that did not answer the last one, or a third of the deadline if that is more."""

OWED_SECONDS = 2.0
"""Seconds from a request in which its answer is waited for, over all later requests that find it outstanding."""

STALE_REPLY_SECONDS = 0.05
"""Seconds to wait for an answer that has been outstanding for longer: a slow broker's for longer than SLOW_PATIENCE."""

SLOW_AFTER = 10.0
"""An answer that came so many seconds after its request makes the broker a slow one."""

SLOW_PATIENCE = 0.2
"""Timeout in seconds of requests to a slow broker, until one is answered in it, and for the answer that it owes."""


class Patience:
    """The patience with one broker. Not thread-safe."""

    def __init__(self) -> None:
        self._sent_at: float | None = None  # of the request whose answer is outstanding
        self._missed = ""  # the kind of the last request that was not answered in time
        self._slow = False
        self._late = False

    @property
    def late(self) -> bool:
        """Return whether the last request was not answered in time."""
        return self._late

    def missed(self, kind: str, sent_at: float, *, late: bool = True) -> None:
        """Note that the request of ``sent_at`` was not answered in time; not ``late`` where a quota is the cause.

        ``kind`` is its name. All instants are monotonic.
        """
        self._late, self._missed = late, kind
        if self._sent_at is None:
            self._sent_at = sent_at

    def failed(self) -> None:
        """Note that the last request failed in another way."""
        self._late = True

    def dropped(self) -> None:
        """Note that the connection was closed: no answer is outstanding."""
        self._sent_at = None

    def arrived(self, now: float) -> None:
        """Note that the outstanding answer was read, or is waited for no more."""
        self._slow = self._sent_at is not None and now - self._sent_at >= SLOW_AFTER
        self._sent_at = None

    def answered(self, kind: str) -> None:
        """Note that a request was answered in time. A slow broker answers some kinds from memory and is still slow."""
        if not self._slow or kind == self._missed:
            self._late = self._slow = False

    def outstanding(self, now: float) -> float:
        """Seconds for which an answer has been outstanding; 0 for none."""
        return 0.0 if self._sent_at is None else now - self._sent_at

    def for_owed(self, now: float) -> float:
        """Seconds to wait for the outstanding answer."""
        return max(STALE_REPLY_SECONDS, (SLOW_PATIENCE if self._slow else OWED_SECONDS) - self.outstanding(now))

    def for_request(self, deadline: Deadline) -> Deadline:
        """The deadline of the next request."""
        if self._slow:
            return deadline.within(SLOW_PATIENCE)
        return deadline.within(max(PATIENCE, deadline.remaining() / 3)) if self._late else deadline
