"""Threads for what the event loop must not do itself: bcrypt, reading files, making pages, rereading settings."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from exporter.web_server.hosts import network_of

T = TypeVar("T")

MOST_NETWORKS = 1000
"""Networks of clients whose last turn is known."""


class _Call(NamedTuple):
    """A call that waits for a thread."""

    network: str
    make: Callable[[], None]


class Workers:
    """A few threads that start when they are needed first.

    They are daemons: ``concurrent.futures`` would wait for a call that hangs before it lets the process end.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name, self._threads = name, threads
        self._started = 0
        self._changed = threading.Condition()  # guards what follows
        self._waiting: list[_Call] = []  # the oldest comes first
        self._turns: dict[str, int] = {}  # number of the last call of a network that was begun, in this order
        self._begun = self._idle = 0
        self._closed = False

    async def run(self, function: Callable[..., T], *arguments: Any, client: str = "") -> T:  # noqa: ANN401 -- as the function takes them
        """Call the function on one of the threads and return or raise what it does. Call it in the event loop.

        ``client`` is the address of who asks: each network's calls take turns with those of others. A call that is
        cancelled before it is begun is not made, and keeps no argument.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def make() -> None:
            try:
                result = function(*arguments)
            except BaseException as error:  # noqa: BLE001 -- raised where it is awaited
                _tell(loop, _fail, done, error)
            else:
                _tell(loop, _succeed, done, result)

        call = _Call(network_of(client), make)
        with self._changed:
            if len(self._waiting) >= self._idle and self._started < self._threads:
                threading.Thread(target=self._work, name=f"{self._name} {self._started + 1}", daemon=True).start()
                self._started += 1
            self._waiting.append(call)
            self._changed.notify()
        try:
            return await done
        finally:
            with self._changed:
                if call in self._waiting:
                    self._waiting.remove(call)

    def close(self) -> None:
        """End the threads once they have nothing to do."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.make()
            del call  # its arguments may be megabytes, and the next one may come in a month

    def _next(self) -> _Call | None:
        """Wait for a call, of the network whose last turn is the longest ago; None where no more comes."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._idle -= 1
            if not self._waiting:
                return None
            call = min(self._waiting, key=lambda call: self._turns.get(call.network, 0))
            self._waiting.remove(call)
            self._begun += 1
            self._turns.pop(call.network, None)
            self._turns[call.network] = self._begun
            if len(self._turns) > MOST_NETWORKS:
                del self._turns[next(iter(self._turns))]
            return call


def _tell(loop: asyncio.AbstractEventLoop, outcome: Callable[..., None], *values: Any) -> None:  # noqa: ANN401 -- any
    try:
        loop.call_soon_threadsafe(outcome, *values)
    except RuntimeError:  # the loop is closed: no request waits
        return


def _succeed(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
