"""Passwords: who comes in, what it costs, and that guesses cost others nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import bcrypt
import pytest

from exporter.web.users import CHECKS_PER_CLIENT, MOST_CHECKS, MOST_REMEMBERED, Login, Logins, hash_problem

ANN = bcrypt.hashpw(b"right", b"$2b$04$......................")
BOB = bcrypt.hashpw(b"other", b"$2b$05$......................")
USERS = {"ann": ANN, "bob": BOB}
CLIENT = "192.0.2.1"


class Counted:
    """bcrypt, counted, and held up while ``go`` is not set."""

    def __init__(self) -> None:
        self.hashes: list[bytes] = []
        self.go = threading.Event()
        self.go.set()
        self.running = self.most_running = 0
        self.begun = threading.Semaphore(0)

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.hashes.append(hashed)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.begun.release()
        self.go.wait(30)
        self.running -= 1
        return bcrypt.checkpw(password, hashed)


def test_only_the_users_own_password_is_right() -> None:
    logins = Logins()
    assert logins.check(USERS, "ann", b"right", CLIENT) is Login.RIGHT
    assert logins.check(USERS, "ann", b"other", CLIENT) is Login.WRONG
    assert logins.check(USERS, "bob", b"right", CLIENT) is Login.WRONG
    assert logins.check(USERS, "eve", b"right", CLIENT) is Login.WRONG
    assert logins.check(USERS, "", b"", CLIENT) is Login.WRONG


@pytest.mark.parametrize("ident", ["a", "b", "x", "y"])
def test_hashes_of_htpasswd_and_of_others_are_known(ident: str) -> None:
    hashed = ANN.decode().replace("$2b$", f"$2{ident}$")
    assert hash_problem(hashed) == ""
    assert Logins().check({"ann": hashed.encode()}, "ann", b"right", CLIENT) is Login.RIGHT


@pytest.mark.parametrize(
    "text", ["", "right", "$2b$", ANN.decode()[:-1], ANN.decode() + "\n", "$1$x$y", "$2b$03$" + "a" * 53]
)
def test_what_is_no_usable_hash_is_said(text: str) -> None:
    assert hash_problem(text)
    assert "$" not in hash_problem(text)


def test_a_password_is_checked_once_whether_right_or_wrong() -> None:
    matches = Counted()
    logins = Logins(matches)
    for _ in range(5):
        assert logins.check(USERS, "ann", b"right", CLIENT) is Login.RIGHT
        assert logins.check(USERS, "ann", b"wrong", CLIENT) is Login.WRONG
        assert logins.check(USERS, "eve", b"right", CLIENT) is Login.WRONG
    assert len(matches.hashes) == 3


def test_a_user_that_does_not_exist_costs_what_some_user_costs_and_always_the_same() -> None:
    costs = {}
    for name in map(str, range(30)):
        matches = Counted()
        Logins(matches).check({"ann": ANN}, name, b"right", CLIENT)
        costs[name] = matches.hashes
    assert all(hashes == [ANN] for hashes in costs.values())
    matches = Counted()
    logins = Logins(matches)
    for password in (b"1", b"2", b"3"):
        logins.check(USERS, "eve", password, CLIENT)
    assert len(set(matches.hashes)) == 1


def test_a_new_hash_of_the_user_ends_the_old_password_at_once() -> None:
    logins = Logins()
    assert logins.check({"ann": ANN}, "ann", b"right", CLIENT) is Login.RIGHT
    assert logins.check({"ann": BOB}, "ann", b"right", CLIENT) is Login.WRONG
    assert logins.check({"bob": BOB}, "ann", b"right", CLIENT) is Login.WRONG


def test_guesses_do_not_push_out_who_is_known() -> None:
    matches = Counted()
    logins = Logins(matches)
    logins.check(USERS, "ann", b"right", CLIENT)
    for number in range(MOST_REMEMBERED + 50):
        logins.check({"ann": ANN}, "ann", b"%d" % number, CLIENT)
    before = len(matches.hashes)
    assert logins.check(USERS, "ann", b"right", CLIENT) is Login.RIGHT
    assert len(matches.hashes) == before
    assert len(logins._wrong) == MOST_REMEMBERED


def test_a_password_longer_than_bcrypt_looks_is_no_error() -> None:
    hashed = bcrypt.hashpw(b"p" * 72, bcrypt.gensalt(4))
    assert Logins().check({"ann": hashed}, "ann", b"p" * 500, CLIENT) is Login.RIGHT
    assert Logins().check(USERS, "ann", b"\x00" * 500, CLIENT) is Login.WRONG


def in_background(matches: Counted, calls: list[Callable[[], Login]]) -> tuple[list[threading.Thread], list[Login]]:
    found: list[Login] = []
    threads = [threading.Thread(target=lambda call=call: found.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    assert matches.begun.acquire(timeout=30)
    return threads, found


def test_who_is_known_comes_in_while_guesses_are_being_checked() -> None:
    matches = Counted()
    logins = Logins(matches)
    logins.check(USERS, "ann", b"right", CLIENT)
    matches.begun.acquire()
    matches.go.clear()
    threads, _ = in_background(matches, [lambda: logins.check(USERS, "ann", b"guess", "192.0.2.66")])
    assert logins.check(USERS, "ann", b"right", CLIENT) is Login.RIGHT
    matches.go.set()
    for thread in threads:
        thread.join(30)


def test_few_checks_wait_and_fewer_of_one_address_and_one_runs() -> None:
    matches = Counted()
    logins = Logins(matches)
    matches.go.clear()

    def guess(number: int, client: str) -> Callable[[], Login]:
        return lambda: logins.check(USERS, "ann", b"%d" % number, client)

    threads, found = in_background(matches, [guess(number, "192.0.2.66") for number in range(20)])
    while len(found) < 20 - CHECKS_PER_CLIENT:  # the test's own time limit ends this
        threading.Event().wait(0.01)
    assert set(found) == {Login.BUSY}
    more, found = in_background_after(logins, guess)
    matches.go.set()
    for thread in (*threads, *more):
        thread.join(30)
    assert found.count(Login.BUSY) == 20 - (MOST_CHECKS - CHECKS_PER_CLIENT)
    assert matches.most_running == 1
    assert logins.check(USERS, "ann", b"right", "192.0.2.66") is Login.RIGHT


def in_background_after(
    logins: Logins, guess: Callable[[int, str], Callable[[], Login]]
) -> tuple[list[threading.Thread], list[Login]]:
    """Guesses from twenty other addresses, while one is being checked; returns when all who must wait do."""
    found: list[Login] = []
    calls = [guess(100 + number, f"198.51.100.{number}") for number in range(20)]
    threads = [threading.Thread(target=lambda call=call: found.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    while len(found) < 20 - (MOST_CHECKS - CHECKS_PER_CLIENT) or logins._clients.total() < MOST_CHECKS:
        threading.Event().wait(0.01)
    return threads, found
