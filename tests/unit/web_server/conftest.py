"""Connections to a server that a test opens and leaves."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def crowd() -> Iterator[list[socket.socket]]:
    """Sockets to be closed in the end."""
    sockets: list[socket.socket] = []
    yield sockets
    for client in sockets:
        client.close()
