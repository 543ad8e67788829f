"""Who is served, by the web-config file in force."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence

import bcrypt
import pytest

from exporter.web_server.authentication import MOST_WAITING, Guard
from exporter.web_server.config import RateLimit, WebConfig
from exporter.web_server.messages import Answer, Request

USERS = {"ann": bcrypt.hashpw("päss:word".encode(), bcrypt.gensalt(4))}


def basic(credentials: str, scheme: str = "Basic") -> dict[str, str]:
    return {"authorization": f"{scheme} {base64.b64encode(credentials.encode()).decode()}"}


def refusal(guard: Guard, headers: dict[str, str]) -> Answer | None:
    return asyncio.run(guard.refusal(Request("GET", "/", headers=headers, client="::1")))


def status(guard: Guard, headers: dict[str, str]) -> int:
    found = refusal(guard, headers)
    return 200 if found is None else found.status


def test_without_users_everybody_is_served() -> None:
    assert refusal(Guard(), {}) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (basic("ann:päss:word"), 200),
        (basic("ann:päss:word", "bASIC"), 200),
        (basic("ann:wrong"), 401),
        (basic("eve:päss:word"), 401),
        (basic("ann"), 401),
        (basic("ann:päss:word", "Bearer"), 401),
        ({"authorization": "Basic"}, 401),
        ({"authorization": "Basic !!!"}, 401),
        ({"authorization": "Basic /w=="}, 401),
        ({"authorization": "Basic /zo="}, 401),
        ({}, 401),
    ],
)
def test_users_show_their_password_by_basic_authentication(headers: dict[str, str], expected: int) -> None:
    assert status(Guard(lambda: WebConfig(users=USERS)), headers) == expected


def test_who_is_not_known_is_reported_how_to_log_in() -> None:
    found = refusal(Guard(lambda: WebConfig(users=USERS)), {})
    assert found
    assert found.status == 401
    assert found.headers["WWW-Authenticate"].startswith("Basic realm=")


def test_what_is_in_force_changes_without_a_new_guard() -> None:
    config = WebConfig()
    guard = Guard(lambda: config)
    assert status(guard, {}) == 200
    config = WebConfig(users=USERS, headers={"X-Frame-Options": "deny"})
    assert status(guard, {}) == 401
    assert guard.headers == {"X-Frame-Options": "deny"}


def test_the_rate_limit_lets_in_a_burst_and_then_one_each_interval() -> None:
    now = 100.0
    guard = Guard(lambda: WebConfig(rate_limit=RateLimit(2.0, 3)), monotonic=lambda: now)
    assert [status(guard, {}) for _ in range(5)] == [200, 200, 200, 429, 429]
    now += 2.0
    assert [status(guard, {}) for _ in range(2)] == [200, 429]
    now += 1000.0
    assert [status(guard, {}) for _ in range(5)] == [200, 200, 200, 429, 429]


def test_who_comes_too_often_is_reported_so_before_any_password_is_looked_at() -> None:
    config = WebConfig(users=USERS, rate_limit=RateLimit(60.0, 1))
    guard = Guard(lambda: config, monotonic=lambda: 0.0)
    assert [status(guard, {}), status(guard, basic("ann:päss:word"))] == [401, 429]


class CountedBcrypt:
    """bcrypt, counted, and held up while ``go`` is not set."""

    def __init__(self) -> None:
        self.passwords: list[bytes] = []
        self.hashes: list[bytes] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.passwords.append(password)
        self.hashes.append(hashed)
        self.go.wait(30)
        return bcrypt.checkpw(password, hashed)


def many(guard: Guard, logins: Sequence[str]) -> list[int]:
    """The statuses of logins that come at once."""

    async def ask() -> list[int]:
        requests = [Request("GET", "/", headers=basic(login), client="::1") for login in logins]
        refusals = await asyncio.gather(*map(guard.refusal, requests))
        return [200 if refusal is None else refusal.status for refusal in refusals]

    return asyncio.run(ask())


def test_a_right_password_is_checked_once_also_by_many_who_come_at_once() -> None:
    matches = CountedBcrypt()
    guard = Guard(lambda: WebConfig(users=USERS), matches=matches)
    assert many(guard, ["ann:päss:word"] * 30) == [200] * 30
    assert status(guard, basic("ann:päss:word")) == 200
    assert len(matches.hashes) == 1


def test_a_user_that_does_not_exist_costs_what_some_user_costs_and_always_the_same() -> None:
    matches = CountedBcrypt()
    users = USERS | {"bob": bcrypt.hashpw(b"other", b"$2b$05$......................")}
    guard = Guard(lambda: WebConfig(users=users), matches=matches)
    assert many(guard, ["eve:1", "eve:2", "eve:päss:word"]) == [401] * 3
    assert len(set(matches.hashes)) == 1


def test_a_new_hash_of_the_user_ends_the_old_password_at_once() -> None:
    users = dict(USERS)
    guard = Guard(lambda: WebConfig(users=users))
    assert status(guard, basic("ann:päss:word")) == 200
    users["ann"] = bcrypt.hashpw(b"other", b"$2b$04$......................")
    assert status(guard, basic("ann:päss:word")) == 401


def test_guesses_push_out_nobody_who_is_known_and_do_not_keep_them_waiting() -> None:
    matches = CountedBcrypt()
    guard = Guard(lambda: WebConfig(users=USERS), matches=matches)

    async def ask() -> None:
        async def login(password: str) -> Answer | None:
            return await guard.refusal(Request("GET", "/", headers=basic(f"ann:{password}"), client="::1"))

        assert await login("päss:word") is None
        matches.go.clear()
        guesses = [asyncio.create_task(login(f"{number}")) for number in range(MOST_WAITING + 10)]
        await asyncio.sleep(0)
        assert await login("päss:word") is None
        matches.go.set()
        refusals = [refusal.status for refusal in await asyncio.gather(*guesses) if refusal]
        assert refusals == [401] * MOST_WAITING + [429] * 10

    asyncio.run(ask())


def test_a_password_longer_than_bcrypt_looks_is_no_error() -> None:
    guard = Guard(lambda: WebConfig(users={"ann": bcrypt.hashpw(b"p" * 72, bcrypt.gensalt(4))}))
    assert status(guard, basic("ann:" + "p" * 500)) == 200
    assert status(guard, basic("ann:" + "\x00" * 500)) == 401


def test_no_password_is_kept() -> None:
    guard = Guard(lambda: WebConfig(users=USERS))
    assert status(guard, basic("ann:päss:word")) == 200
    assert all("päss".encode() not in key for key in guard._right)
    assert "päss" not in repr(vars(guard))
