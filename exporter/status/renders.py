"""Pages and documents: rendered one at a time, once for all who ask for the same, and not for those who left."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable

from exporter.bounds.precedence import SCRAPES
from exporter.web_server.messages import Answer, refused
from exporter.web_server.workers import Workers

MOST_WAITING = 16
"""Largest number of filtered pages that wait to be rendered: readers may request any filter."""
MOST_KEPT = 16
"""Largest number of rendered pages that are kept for their next readers."""
HTML = "text/html; charset=utf-8"


class BusyError(Exception):
    """Too many pages wait to be rendered, most of them for the client that asks."""


class _Render:
    """One page or document. ``readers`` is changed by the event loop's thread, and read by the one that renders."""

    def __init__(self, make: Callable[[], Iterable[bytes]], client: str) -> None:
        self.make, self.client = make, client
        self.readers = 0
        self.body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def rendered(self) -> bytes | None:
        """The body; None when the last reader left meanwhile."""
        found = io.BytesIO()
        for piece in self.make():
            SCRAPES.give_way()
            if not self.readers:
                return None
            found.write(piece)
        return found.getvalue()


class Renders:
    """All pages and documents of one endpoint. For the event loop's thread; ``make`` is called on another one."""

    def __init__(self, seconds: float) -> None:
        """``seconds`` is for how long a rendered page is given to further readers."""
        self._seconds = seconds
        self._worker = Workers("pages", 1)
        self._known: dict[Hashable, _Render] = {}  # rendered, being rendered, or waiting
        self._whole: list[_Render] = []  # waiting; they take turns with the filtered ones
        self._filtered: list[_Render] = []
        self._running: asyncio.Task[None] | None = None

    async def get(self, key: Hashable, make: Callable[[], Iterable[bytes]], client: str, *, whole: bool) -> bytes:
        """The page of this key; ``whole`` is whether it has no filter. Raises BusyError for one that has.

        Cancel it when the reader leaves: a page without readers is not rendered, or not to its end.
        """
        render = self._known.get(key)
        if render is None or render.body.cancelled():
            if not whole and len(self._filtered) >= MOST_WAITING:
                self._make_room(client)
            render = self._known[key] = _Render(make, client)
            (self._whole if whole else self._filtered).append(render)
            render.body.add_done_callback(lambda _: self._done(key, render))
        render.readers += 1
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        try:
            return await asyncio.shield(render.body)
        finally:
            render.readers -= 1
            if not render.readers and not render.body.done():
                render.body.cancel()
                waiting = self._whole if whole else self._filtered
                if render in waiting:  # its place is for others
                    waiting.remove(render)

    def close(self) -> None:
        """End the thread once it has nothing to do."""
        self._worker.close()

    def _make_room(self, client: str) -> None:
        """Give up the page that waits for the shortest time, of the client with the most. Raises BusyError."""
        counts = Counter(render.client for render in self._filtered)
        most = max(counts, key=counts.__getitem__)
        if counts[client] + 1 >= counts[most]:
            raise BusyError
        given_up = next(render for render in reversed(self._filtered) if render.client == most)
        self._filtered.remove(given_up)
        given_up.body.set_exception(BusyError())

    async def _run(self) -> None:
        first, second = self._whole, self._filtered
        while waiting := first or second:
            first, second = (self._filtered, self._whole) if waiting is self._whole else (self._whole, self._filtered)
            counts = Counter(render.client for render in waiting)
            render = min(waiting, key=lambda render: counts[render.client])  # the oldest of those who wait for least
            waiting.remove(render)
            try:
                body = await self._worker.run(render.rendered)
            except Exception as error:  # noqa: BLE001 -- raised where it is awaited
                if not render.body.done():
                    render.body.set_exception(error)
            else:
                if body is not None and not render.body.done():
                    render.body.set_result(body)
        self._running = None

    def _done(self, key: Hashable, render: _Render) -> None:
        """Forget a page when its time is over: it may be megabytes, and the next request may be in a month."""
        failed = render.body.cancelled() or render.body.exception() is not None
        if failed:
            self._forget(key, render)
            return
        asyncio.get_running_loop().call_later(self._seconds, self._forget, key, render)
        kept = [key for key, render in self._known.items() if render.body.done()]
        for old in kept[: max(0, len(kept) - MOST_KEPT)]:
            del self._known[old]

    def _forget(self, key: Hashable, render: _Render) -> None:
        if self._known.get(key) is render:
            del self._known[key]


async def rendered(body: Awaitable[bytes], content_type: str = "application/json") -> Answer:
    """The answer with a rendered body; 503 where too many wait."""
    try:
        return Answer(200, await body, content_type)
    except BusyError:
        what = "pages" if content_type == HTML else "documents"
        return refused(503, f"too many {what} wait", {"Retry-After": "1"})
