"""Passwords guessed over real connections from six addresses: a right user comes in, and guesses cost little."""

from __future__ import annotations

import base64
import re
import socket
import threading
import time
from collections import Counter

import bcrypt

from exporter.exposition.render import Exposition
from exporter.status.app import App
from exporter.web_server.authentication import Guard
from exporter.web_server.config import WebConfig
from exporter.web_server.server import Server
from exporter.web_server.users import GUESS_SECONDS, GUESSES, Logins

HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(6))
USERS = {f"user{number}": HASH for number in range(41)}
GUESSERS = [f"127.0.0.{number}" for number in range(66, 72)]


class Checks:
    """bcrypt, counted."""

    def __init__(self) -> None:
        self.passwords: list[bytes] = []

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.passwords.append(password)
        return bcrypt.checkpw(password, hashed)


def status(port: int, source: str, user: str, password: str) -> int:
    credentials = base64.b64encode(f"{user}:{password}".encode())
    with socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0)) as connection:
        connection.sendall(
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic "
            + credentials
            + b"\r\n\r\n"
        )
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    match = re.match(rb"HTTP/1\.1 (\d+) ", reply)
    assert match
    return int(match[1])


def test_41_users_who_are_not_remembered_come_in_while_six_addresses_guess() -> None:
    checks = Checks()
    guard = Guard(lambda: WebConfig(users=USERS), Logins(checks))
    server = Server([("127.0.0.1", 0)], App(Exposition(), dict, lambda: True, list, guard=guard))
    server.open()
    over = threading.Event()
    guessed: Counter[int] = Counter()

    def guess(source: str) -> None:
        number = 0
        while not over.is_set():
            number += 1
            guessed[status(server.ports[0], source, "user1", f"{source} {number}")] += 1

    began = time.monotonic()
    guessers = [threading.Thread(target=guess, args=(source,)) for source in GUESSERS]
    for thread in guessers:
        thread.start()
    try:
        while guessed[429] < 100:  # the test's own time limit ends this
            time.sleep(0.01)
        found = [status(server.ports[0], "127.0.0.1", user, "right") for user in USERS]
    finally:
        over.set()
        for thread in guessers:
            thread.join(30)
        server.close()
    assert found == [200] * 41
    assert set(guessed) == {401, 429}
    budget = GUESSES + (time.monotonic() - began) / GUESS_SECONDS + 1
    assert len(checks.passwords) - 41 <= len(GUESSERS) * budget
