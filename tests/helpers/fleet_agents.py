"""Stand-in agents: status documents of the published form, and servers that answer with them or misbehave."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

Json = dict[str, Any]
Reply = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]
"""The body of an answer, or what is done with a connection."""


def stall(topic: str = "pay", partition: int = 0, **given: Any) -> Json:
    """A stalled partition. Of ``given``, what a blocker has goes there."""
    blocker = {
        "transactional_id": "pay-1",
        "application": "pay",
        "producer_id": 7,
        "producer_epoch": 0,
        "start_offset": 10,
        "kind": "open",
        "state": "ongoing",
        "started": "2026-01-01T00:00:00.000Z",
        "started_timestamp": 1767225600.0,
        "timeout_seconds": 900.0,
        "missing": [],
        "proof": None,
        "committed": None,
        "completion": None,
        "unmarked_partitions": None,
    }
    outer = {
        "topic": topic,
        "partition": partition,
        "since": "2026-01-01T00:00:00.000Z",
        "since_timestamp": 1767225600.0,
        "seconds": 300.0,
        "last_stable_offset": 10,
        "high_watermark": 20,
        "lag_offsets": 10,
        "leader": 1,
        "blocker": blocker,
        "next_step": {
            "text": "The transaction is open. Its producer commits or aborts it, or it times out. " * 2,
            "command": None,
            "warning": None,
            "check": None,
            "expect": None,
        },
        "ignored": None,
        "waiting_groups": [],
        "blocked_groups": None,
        "blocked_group_count": None,
        "owner": "",
        "owner_channel": "",
        "producers": [],
        "links": {"page": "/", "runbook": "/runbooks/KafkaEosLsoStalled", "dashboard": None, "silence": None},
    }
    blocker |= {key: value for key, value in given.items() if key in blocker}
    return outer | {key: value for key, value in given.items() if key not in blocker}


def source(name: str = "lso", **given: Any) -> Json:
    return {
        "source": name,
        "target": "prod",
        "up": True,
        "last_success": None,
        "last_success_timestamp": None,
        "duration_seconds": 0.1,
        "faults": [],
        "notes": [],
        "ignored": None,
        **given,
    }


def cluster(name: str = "prod", stalls: Sequence[Json] = (), **given: Any) -> Json:
    return {
        "name": name,
        "cluster_id": f"id-of-{name}",
        "bootstrap_servers": "kafka-1:9092",
        "transaction_version": 2,
        "brokers": 3,
        "known": {
            "stalled_partitions": True,
            "open_transactions": True,
            "unclean_ends": True,
            "stalls_watched_seconds": 86400.0,
            "stall_after_seconds": 30.0,
        },
        "missing": [],
        "clock_distance_seconds": 0.0,
        "sources": [source()],
        "stalled_partitions": list(stalls),
        "open_transactions": [],
        "unclean_ends": [],
        "unclean_ids": [],
        "unclean_ends_of_other_ids": 0,
        "torn_markers": [],
        "connect": [],
        "spark": [],
        "audits": [],
        "last_hour": None,
        "posture": None,
        "ignored": [],
        **given,
    }


def status(*clusters: Json, version: str = "0.2.0", **given: Any) -> Json:
    return {
        "version": version,
        "generated_at": "2026-01-01T00:00:00.000Z",
        "generated_at_timestamp": 1767225600.0,
        "ready": True,
        "shard": None,
        "clusters": list(clusters),
        **given,
    }


def body(document: object) -> bytes:
    return json.dumps(document).encode()


class StandInAgents:
    """A server on a port of its own for each reply; replies may be replaced. ``requests`` are the heads received."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)
        self.requests: list[str] = []
        self.urls: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._open_connections: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def stop(self, place: int) -> None:
        """Close the listener of one agent."""
        self._loop.call_soon_threadsafe(self._servers[place].close)

    async def _open(self) -> None:
        for place in range(len(self.replies)):
            server = await asyncio.start_server(self._answering(place), "127.0.0.1", 0)
            self._servers.append(server)
            self.urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._open_connections:
            writer.transport.abort()
        for _ in range(3):  # transports are closed by callbacks
            await asyncio.sleep(0)

    def _answering(self, place: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open_connections.add(writer)
            try:
                self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
                reply = self.replies[place]
                if isinstance(reply, bytes):
                    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
                    writer.write(head.encode() + reply)
                    await writer.drain()
                else:
                    await reply(reader, writer)
                writer.close()
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                writer.transport.abort()
            finally:
                self._open_connections.discard(writer)

        return answer


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer nothing until the client leaves."""
    await reader.read()


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body without an end."""
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"version": "')
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte at a time, so that no read times out."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


def redirects(location: str) -> Reply:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()

    return answer
