"""Who is served, by the web-config file in force."""

from __future__ import annotations

import asyncio
import base64

import bcrypt
import pytest

from exporter.web_server.authentication import Guard
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
