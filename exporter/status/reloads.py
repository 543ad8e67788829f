"""``/-/reload``: the settings are reread once for all who ask before that begins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from exporter.web_server.hosts import reload_refusal
from exporter.web_server.messages import Answer, Request, plain
from exporter.web_server.workers import Workers

RELOAD_SECONDS = 1.0
"""Least seconds between two reloads: requests in between share the next one."""


class Reloads:
    """The handler of this path. For the event loop's thread; ``reload`` is called on another one."""

    def __init__(self, reload: Callable[[], Sequence[str]]) -> None:
        """``reload`` rereads the settings and returns their problems, none when they are in force."""
        self._reload = reload
        self._worker = Workers("reload", 1)
        self._reloading: asyncio.Lock | None = None
        self._next: asyncio.Future[Sequence[str]] | None = None
        self._next_at = 0.0  # monotonic: the earliest begin of the next

    def close(self) -> None:
        """End the thread once it has nothing to do."""
        self._worker.close()

    async def answer(self, request: Request) -> Answer:
        refusal = reload_refusal(request)
        if refusal is not None:
            return refusal
        if self._next is None:  # requests before it begins share it
            self._next = asyncio.ensure_future(self._reload_once())
        problems = await asyncio.shield(self._next)
        if problems:
            return plain("\n".join(("The settings were refused, the old ones stay:", *problems)), 400)
        return plain("Reloaded.")

    async def _reload_once(self) -> Sequence[str]:
        """Reread the settings when the last reload has ended and began a second ago or more."""
        if self._reloading is None:
            self._reloading = asyncio.Lock()
        async with self._reloading:
            await asyncio.sleep(self._next_at - time.monotonic())
            self._next, self._next_at = None, time.monotonic() + RELOAD_SECONDS
            return await self._worker.run(self._reload)
