"""Pages and documents: rendered one at a time, and once for all who ask for the same at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable

from exporter.web_server.workers import Workers

MOST_KEPT = 16
"""Largest number of rendered pages that are kept for their next readers."""
HTML = "text/html; charset=utf-8"
JSON = "application/json"


class Renders:
    """Pages and documents of one endpoint. For the event loop's thread; ``make`` is called on another one."""

    def __init__(self, seconds: float) -> None:
        """``seconds`` is for how long a rendered page is given to further readers."""
        self._seconds = seconds
        self._worker = Workers("pages", 1)
        self._known: dict[Hashable, asyncio.Task[bytes]] = {}  # rendered, or being rendered; the oldest comes first

    async def get(self, key: Hashable, make: Callable[[], Iterable[bytes]]) -> bytes:
        """The page of this key, as one of its readers asks for it. Raises what ``make`` raises."""
        task = self._known.get(key)
        if task is None:
            task = self._known[key] = asyncio.create_task(self._worker.run(lambda: b"".join(make())))
            task.add_done_callback(lambda task: self._done(key, task))
        return await asyncio.shield(task)

    def close(self) -> None:
        """End the thread once it has nothing to do."""
        self._worker.close()

    def _done(self, key: Hashable, task: asyncio.Task[bytes]) -> None:
        """Forget a page when its time is over: it may be megabytes, and the next request may be in a month."""
        if task.cancelled() or task.exception() is not None:
            self._forget(key, task)
            return
        asyncio.get_running_loop().call_later(self._seconds, self._forget, key, task)
        kept = [key for key, known in self._known.items() if known.done()]
        for old in kept[: max(0, len(kept) - MOST_KEPT)]:
            del self._known[old]

    def _forget(self, key: Hashable, task: asyncio.Task[bytes]) -> None:
        if self._known.get(key) is task:
            del self._known[key]
