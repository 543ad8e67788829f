"""The order in which the event loop serves sockets that are ready at one time."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from exporter.web_server.turns import HALF_SECONDS, MOST_AT_ONCE, Turns


class NamedClient(NamedTuple):
    network: str


Arrive = Callable[[str, int], list[int]]


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def turns(clock: list[float]) -> Iterator[Turns]:
    turns = Turns(lambda: clock[0])
    yield turns
    turns.close()


@pytest.fixture
def arrive(turns: Turns, crowd: list[socket.socket]) -> Arrive:
    """Makes so many connections of a client with a byte to read; returns their descriptors."""

    def make(client: str, number: int) -> list[int]:
        made = []
        for _ in range(number):
            ours, theirs = socket.socketpair()
            crowd.extend((ours, theirs))
            theirs.send(b"x")
            turns.register(ours, 1, ours)
            if client:
                turns.clients[ours.fileno()] = NamedClient(client)
            made.append(ours.fileno())
        return made

    return make


def served(turns: Turns) -> list[int]:
    """The descriptors of one round, whose bytes are read."""
    found = turns.select(0)
    for key, _ in found:
        key.data.recv(1)
    return [key.fd for key, _ in found]


def test_a_client_with_one_connection_is_served_before_the_others_of_one_with_two_hundred(
    turns: Turns, arrive: Arrive
) -> None:
    arrive("attacker", 200)
    served(turns)
    (honest,) = arrive("honest", 1)
    found = served(turns)
    assert honest in found
    assert len(found) == MOST_AT_ONCE


def test_clients_with_many_connections_have_the_same_share_of_the_rounds(turns: Turns, arrive: Arrive) -> None:
    clients = [f"c{number}" for number in range(7)]
    for number, client in enumerate(clients):
        arrive(client, 20 + 20 * number)
    rounds = 14
    counts = Counter(turns.clients[fd].network for _ in range(rounds) for fd in served(turns))
    assert counts == dict.fromkeys(clients, rounds * MOST_AT_ONCE // len(clients))


def test_every_socket_is_served_in_the_end_and_once(turns: Turns, arrive: Arrive) -> None:
    waiting = arrive("a", 50) + arrive("b", 9)
    found = [fd for _ in range(-(-len(waiting) // MOST_AT_ONCE)) for fd in served(turns)]
    assert sorted(found) == sorted(waiting)
    assert turns.select(0) == []


def test_a_listener_is_served_whenever_it_is_ready(turns: Turns, arrive: Arrive) -> None:
    arrive("attacker", 200)
    listeners = arrive("", 2)
    found = served(turns)
    assert set(listeners) <= set(found)
    assert len(found) == len(listeners) + MOST_AT_ONCE


def test_what_a_client_was_served_long_ago_does_not_count(turns: Turns, clock: list[float], arrive: Arrive) -> None:
    arrive("before", MOST_AT_ONCE)
    served(turns)
    for _ in range(4):
        clock[0] += HALF_SECONDS
        turns.select(0)
    waiting = arrive("before", MOST_AT_ONCE)
    arrive("now", 50)
    served(turns)
    assert len(set(waiting) & set(served(turns))) == MOST_AT_ONCE // 2
