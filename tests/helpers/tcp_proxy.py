"""A TCP proxy on loopback that can reset, hold and restore connections, all of them or those of one Kafka client.

A broker whose listener is advertised as the proxy's address is reached through it by clients and by other brokers; a
broker whose ``controller.quorum.voters`` names the proxy reaches its controller through it. The first Kafka request of
a connection has the client's id, so one kind of traffic can be held back while another one passes: a broker asks the
controller for metadata as ``raft-client-<node.id>`` and sends its heartbeats with its bare node id as the client id.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from enum import Enum
from typing import Self

Matches = Callable[[str], bool]
"""Whether a rule is for connections with this client id; "" is a connection that is not (yet) known to be Kafka's."""

_CHUNK = 65536
_REQUEST_HEAD = struct.Struct(">ihhih")  # size, API key, API version, correlation id, length of the client id
_LARGEST_REQUEST = 1 << 27
_CONNECT_SECONDS = 5.0


class _Fate(Enum):
    PASS = 0
    HOLD = 1
    CUT = 2


def everything(_: str) -> bool:
    return True


def client_id_of(data: bytes) -> str | None:
    """The client id in the first bytes of a connection; "" where they are no Kafka request, None when more must come.

    Every version of a request header but version 0, which no client sends any more, begins like this.
    """
    if len(data) < _REQUEST_HEAD.size:
        return None
    size, api_key, _, _, length = _REQUEST_HEAD.unpack_from(data)
    if not (0 < size < _LARGEST_REQUEST and 0 <= api_key < 1000 and 0 <= length < 1000):
        return ""
    if len(data) < _REQUEST_HEAD.size + length:
        return None
    return data[_REQUEST_HEAD.size : _REQUEST_HEAD.size + length].decode(errors="replace")


class _Connection:
    """One accepted connection: two pumps, and the client id once its first request passed."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.client_id: str | None = None
        self.writers = [writer]
        self.task = asyncio.current_task()

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        if self.task is not None:
            self.task.cancel()


class TcpProxy:
    """Listens on ``port`` (0: a free one) and connects to ``127.0.0.1:target_port``; a context manager.

    ``cut`` resets connections and refuses new ones; ``hold`` keeps them open and lets nothing through in either
    direction, which is what a partitioned network looks like; ``heal`` ends both, and what was held then passes. The
    methods may be called from any thread and return once the rule is in force. The last rule that matches decides.
    """

    def __init__(self, target_port: int, port: int = 0) -> None:
        self.port = port
        self._target_port = target_port
        self._rules: list[tuple[_Fate, Matches]] = []
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy to {target_port}", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_CONNECT_SECONDS)
        return self

    def close(self) -> None:
        """Reset all connections and stop listening."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(_CONNECT_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def cut(self, matches: Matches = everything) -> None:
        """Reset the connections of these clients, and new ones once they have sent their client id."""
        self._rule(_Fate.CUT, matches)

    def hold(self, matches: Matches = everything) -> None:
        """Let nothing through for these clients; connections are accepted and stay open."""
        self._rule(_Fate.HOLD, matches)

    def heal(self, matches: Matches | None = None) -> None:
        """Remove all rules, or those that were added with this one."""
        self._in_loop(lambda: self._heal(matches))

    def client_ids(self) -> list[str]:
        """The client ids of the connections that are open now, sorted."""
        found: list[str] = []
        self._in_loop(lambda: found.extend(connection.client_id or "" for connection in self._connections))
        return sorted(found)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- In the loop's thread ---

    def _in_loop(self, action: Callable[[], object]) -> None:
        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(_CONNECT_SECONDS)

    def _rule(self, fate: _Fate, matches: Matches) -> None:
        self._in_loop(lambda: self._apply(fate, matches))

    def _apply(self, fate: _Fate, matches: Matches) -> None:
        self._rules.append((fate, matches))
        self._wake()
        for connection in list(self._connections):
            if self._fate(connection) is _Fate.CUT:
                connection.abort()

    def _heal(self, matches: Matches | None) -> None:
        self._rules = [] if matches is None else [rule for rule in self._rules if rule[1] is not matches]
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _fate(self, connection: _Connection) -> _Fate:
        client_id = connection.client_id or ""
        return next((fate for fate, matches in reversed(self._rules) if matches(client_id)), _Fate.PASS)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        self._server.close()
        tasks = [connection.task for connection in self._connections if connection.task is not None]
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._connections.add(connection)
        pumps: list[asyncio.Task[None]] = []
        try:
            first = await self._first_bytes(connection, reader)
            if not first or not await self._may_pass(connection):
                return
            opening = asyncio.open_connection("127.0.0.1", self._target_port)
            back, forth = await asyncio.wait_for(opening, _CONNECT_SECONDS)
            connection.writers.append(forth)
            forth.write(first)
            pumps += [
                asyncio.create_task(self._pump(connection, reader, forth)),
                asyncio.create_task(self._pump(connection, back, writer)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, TimeoutError):
            return  # the target is away: its client sees a connection that closes, as it would without a proxy
        except asyncio.CancelledError:
            return  # cut
        finally:
            for pump in pumps:
                pump.cancel()
            self._connections.discard(connection)
            for stream in connection.writers:
                stream.transport.abort()

    async def _first_bytes(self, connection: _Connection, reader: asyncio.StreamReader) -> bytes:
        data = b""
        while chunk := await reader.read(_CHUNK):
            data += chunk
            connection.client_id = client_id_of(data)
            if connection.client_id is not None:
                return data
        return data

    async def _may_pass(self, connection: _Connection) -> bool:
        """Wait while the connection is held; False when it is cut."""
        while (fate := self._fate(connection)) is _Fate.HOLD:
            await self._changed.wait()
        return fate is _Fate.PASS

    async def _pump(self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(_CHUNK):
                if not await self._may_pass(connection):
                    return
                writer.write(chunk)
                await writer.drain()
        except OSError:
            return  # either side went away: the other one is closed as well
