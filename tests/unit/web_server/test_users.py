"""Passwords: who comes in, what it costs, and that guesses cost others nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import bcrypt
import pytest

from exporter.web_server.users import (
    GUESS_SECONDS,
    GUESSES,
    MOST_ADDRESSES,
    MOST_REMEMBERED,
    MOST_WAITING,
    Login,
    Logins,
    Users,
    hash_problem,
)

ANN = bcrypt.hashpw(b"right", b"$2b$04$......................")
BOB = bcrypt.hashpw(b"other", b"$2b$05$......................")
USERS = {"ann": ANN, "bob": BOB}
CLIENT = "192.0.2.1"
GUESSERS = [f"198.51.100.{number}" for number in range(6)]


class CountedBcrypt:
    """bcrypt, counted, and held up while ``go`` is not set."""

    def __init__(self) -> None:
        self.passwords: list[bytes] = []
        self.hashes: list[bytes] = []
        self.go = threading.Event()
        self.go.set()
        self.running = self.most_running = 0

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.passwords.append(password)
        self.hashes.append(hashed)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.go.wait(30)
        self.running -= 1
        return bcrypt.checkpw(password, hashed)


class UsersClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def check(logins: Logins, users: Users, user: str, password: bytes, client: str = CLIENT) -> Login:
    return asyncio.run(logins.check(users, user, password, client))


def test_only_the_users_own_password_is_right() -> None:
    logins = Logins()
    assert check(logins, USERS, "ann", b"right") is Login.RIGHT
    assert check(logins, USERS, "ann", b"other") is Login.WRONG
    assert check(logins, USERS, "bob", b"right") is Login.WRONG
    assert check(logins, USERS, "eve", b"right") is Login.WRONG
    assert check(logins, USERS, "", b"") is Login.WRONG


@pytest.mark.parametrize("ident", ["a", "b", "x", "y"])
def test_hashes_of_htpasswd_and_of_others_are_known(ident: str) -> None:
    hashed = ANN.decode().replace("$2b$", f"$2{ident}$")
    assert hash_problem(hashed) == ""
    assert check(Logins(), {"ann": hashed.encode()}, "ann", b"right") is Login.RIGHT


@pytest.mark.parametrize(
    "text", ["", "right", "$2b$", ANN.decode()[:-1], ANN.decode() + "\n", "$1$x$y", "$2b$03$" + "a" * 53]
)
def test_what_is_no_usable_hash_is_said(text: str) -> None:
    assert hash_problem(text)
    assert "$" not in hash_problem(text)


def test_a_password_is_checked_once_whether_right_or_wrong() -> None:
    matches = CountedBcrypt()
    logins = Logins(matches)
    for _ in range(5):
        assert check(logins, USERS, "ann", b"right") is Login.RIGHT
        assert check(logins, USERS, "ann", b"wrong") is Login.WRONG
        assert check(logins, USERS, "eve", b"right") is Login.WRONG
    assert len(matches.hashes) == 3


def test_a_user_that_does_not_exist_costs_what_some_user_costs_and_always_the_same() -> None:
    costs = {}
    for name in map(str, range(30)):
        matches = CountedBcrypt()
        check(Logins(matches), {"ann": ANN}, name, b"right")
        costs[name] = matches.hashes
    assert all(hashes == [ANN] for hashes in costs.values())
    matches = CountedBcrypt()
    logins = Logins(matches)
    for password in (b"1", b"2", b"3"):
        check(logins, USERS, "eve", password)
    assert len(set(matches.hashes)) == 1


def test_a_new_hash_of_the_user_ends_the_old_password_at_once() -> None:
    logins = Logins()
    assert check(logins, {"ann": ANN}, "ann", b"right") is Login.RIGHT
    assert check(logins, {"ann": BOB}, "ann", b"right") is Login.WRONG
    assert check(logins, {"bob": BOB}, "ann", b"right") is Login.WRONG


def test_guesses_do_not_push_out_who_is_known() -> None:
    matches = CountedBcrypt()
    logins = Logins(matches)
    check(logins, USERS, "ann", b"right")
    for number in range(MOST_REMEMBERED + 50):
        check(logins, {"ann": ANN}, "ann", b"%d" % number, f"2001:db8:{number:x}::1")
    before = len(matches.hashes)
    assert check(logins, USERS, "ann", b"right") is Login.RIGHT
    assert len(matches.hashes) == before
    assert len(logins._wrong) == MOST_REMEMBERED


def test_a_password_longer_than_bcrypt_looks_is_no_error() -> None:
    hashed = bcrypt.hashpw(b"p" * 72, bcrypt.gensalt(4))
    assert check(Logins(), {"ann": hashed}, "ann", b"p" * 500) is Login.RIGHT
    assert check(Logins(), USERS, "ann", b"\x00" * 500) is Login.WRONG


def test_one_address_has_a_budget_of_guesses_that_is_filled_again_in_time() -> None:
    watch, matches = UsersClock(), CountedBcrypt()
    logins = Logins(matches, watch)
    found = [check(logins, USERS, "ann", b"%d" % number) for number in range(GUESSES + 3)]
    assert found == [Login.WRONG] * GUESSES + [Login.BUSY] * 3
    assert check(logins, USERS, "ann", b"right") is Login.BUSY
    watch.now += GUESS_SECONDS
    assert check(logins, USERS, "ann", b"right") is Login.RIGHT
    watch.now += 1000 * GUESS_SECONDS
    found = [check(logins, USERS, "ann", b"again %d" % number) for number in range(GUESSES + 3)]
    assert found == [Login.WRONG] * GUESSES + [Login.BUSY] * 3
    assert len(matches.hashes) == 2 * GUESSES + 1


def test_right_passwords_cost_nothing_of_the_budget() -> None:
    logins = Logins(CountedBcrypt(), UsersClock())
    users = {str(number): ANN for number in range(3 * GUESSES)}
    assert {check(logins, users, name, b"right") for name in users} == {Login.RIGHT}


@pytest.mark.parametrize(
    ("addresses", "budgets"),
    [
        (["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:0:9::"], 1),
        (["2001:db8::1", "2001:db8:0:1::1"], 2),
        (["192.0.2.1", "::ffff:192.0.2.1"], 1),
        (["192.0.2.1", "192.0.2.2"], 2),
        (["fe80::1%eth0", "fe80::1%eth1"], 1),
        (["", "no address"], 2),
    ],
)
def test_addresses_that_one_sender_can_take_share_a_budget(addresses: list[str], budgets: int) -> None:
    matches = CountedBcrypt()
    logins = Logins(matches, UsersClock())
    for number in range(2 * GUESSES):
        for address in addresses:
            check(logins, {"ann": ANN}, "ann", b"%d %a" % (number, address), address)
    assert len(matches.hashes) == budgets * GUESSES


def test_the_addresses_that_are_counted_are_bounded() -> None:
    logins = Logins(lambda password, hashed: False, UsersClock())
    for number in range(MOST_ADDRESSES + 10):
        logins._guesses.add(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 1)
    assert len(logins._guesses._counts) == MOST_ADDRESSES


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 -- what is waited for is on another thread; the test's time limit ends it
        await asyncio.sleep(0.001)


async def with_guessers(logins: Logins, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work while each of the guessers tries one password after the other."""
    over = False

    async def guess(client: str) -> None:
        number = 0
        while not over:
            number += 1
            found = await logins.check(USERS, "ann", b"%d %a" % (number, client), client)
            assert found in {Login.WRONG, Login.BUSY}
            await asyncio.sleep(0)

    guessers = [asyncio.create_task(guess(client)) for client in GUESSERS]
    try:
        await work()
    finally:
        over = True
        await asyncio.gather(*guessers)


def test_a_right_user_who_is_not_remembered_comes_in_while_six_addresses_guess() -> None:
    matches = CountedBcrypt()
    logins = Logins(matches)

    async def come() -> None:
        await until(lambda: len(matches.passwords) > 10)
        for _ in range(41):
            before = len(matches.passwords)
            assert await logins.check(USERS, "ann", b"right", CLIENT) is Login.RIGHT
            assert matches.passwords[before : before + 2].count(b"right") <= 1
            logins._right.clear()  # as after a restart

    asyncio.run(with_guessers(logins, come))
    assert matches.passwords.count(b"right") == 41
    assert len(matches.passwords) - 41 <= len(GUESSERS) * (GUESSES + 1)
    assert matches.most_running == 1


def test_who_guessed_least_is_checked_next() -> None:
    async def run() -> None:
        matches = CountedBcrypt()
        logins = Logins(matches, UsersClock())
        for number in range(3):
            await logins.check(USERS, "ann", b"first %d" % number, "192.0.2.66")
        matches.go.clear()
        del matches.passwords[:]
        checks = [asyncio.create_task(logins.check(USERS, "ann", b"running", "192.0.2.9"))]
        await until(lambda: len(matches.passwords) == 1)
        for password, client in ((b"guess", "192.0.2.66"), (b"guess 2", "192.0.2.66"), (b"right", CLIENT)):
            checks.append(asyncio.create_task(logins.check(USERS, "ann", password, client)))
            await asyncio.sleep(0)
        matches.go.set()
        await asyncio.gather(*checks)
        assert matches.passwords == [b"running", b"right", b"guess", b"guess 2"]

    asyncio.run(run())


def test_when_too_many_wait_those_who_guessed_most_are_reported_to_come_back() -> None:
    async def run() -> None:
        matches = CountedBcrypt()
        logins = Logins(matches, UsersClock())
        matches.go.clear()
        clients = [f"203.0.113.{number}" for number in range(MOST_WAITING // 2 + 1)]
        checks = [
            asyncio.create_task(logins.check(USERS, "ann", b"%d %a" % (number, client), client))
            for number in range(2)
            for client in clients
        ]
        await until(lambda: len(logins._turns._waiting) == MOST_WAITING)
        right = asyncio.create_task(logins.check(USERS, "ann", b"right", CLIENT))
        await until(lambda: sum(check.done() for check in checks) == 2)
        matches.go.set()
        found = await asyncio.gather(*checks)
        assert await right is Login.RIGHT
        assert found.count(Login.BUSY) == 2
        assert found[: len(clients)].count(Login.BUSY) == 0

    asyncio.run(run())


def test_the_same_password_is_checked_once_for_all_who_show_it_at_once() -> None:
    async def run() -> None:
        matches = CountedBcrypt()
        logins = Logins(matches)
        shown = [logins.check(USERS, "ann", b"right", f"192.0.2.{number}") for number in range(30)]
        assert set(await asyncio.gather(*shown)) == {Login.RIGHT}
        assert len(matches.hashes) == 1
        shown = [logins.check(USERS, "ann", b"wrong", CLIENT) for _ in range(30)]
        assert set(await asyncio.gather(*shown)) == {Login.WRONG}
        assert len(matches.hashes) == 2

    asyncio.run(run())


def test_who_is_known_comes_in_while_guesses_are_being_checked() -> None:
    async def run() -> None:
        matches = CountedBcrypt()
        logins = Logins(matches)
        await logins.check(USERS, "ann", b"right", CLIENT)
        matches.go.clear()
        guess = asyncio.create_task(logins.check(USERS, "ann", b"guess", "192.0.2.66"))
        await until(lambda: matches.running == 1)
        assert await logins.check(USERS, "ann", b"right", CLIENT) is Login.RIGHT
        matches.go.set()
        assert await guess is Login.WRONG

    asyncio.run(run())
