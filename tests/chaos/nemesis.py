"""The faults, their times and targets: a plan drawn from a seed, and its execution.

Two lanes run side by side. In the one a broker is hurt, and gets time to come back before the next is; in the other
leaderships move and clients and the agent suffer. So one broker at a time is away, now and then two.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.modes import ORDINARY, UNCLEAN_ELECTION, Mode

BROKER_KINDS = {
    "broker killed": 4,
    "broker stopped": 4,
    "broker restarted": 2,
    "two brokers restarted in a row": 5,
    "two brokers stopped": 1,
    "cut off from the controller": 3,
    "metadata held back": 2,
    "cut off from its peers": 2,
    "two brokers cut off from each other": 2,
    "log of a follower truncated": 2,
    "broker killed, agent killed 2 s later": 2,
}
LIGHT_KINDS = {
    "leaderships moved": 6,
    "client killed": 4,
    "client stopped": 2,
    "agent killed": 2,
    "agent stopped": 1,
    "agent started with a wrong clock": 2,
}
WRONG_CLOCK = "agent started with a wrong clock"
UNCLEAN_TOPICS = ("log", "data", "all")
IN_A_ROW = "two brokers restarted in a row"
SLOWEST_GAP = 5.5
"""Seconds between two faults of the light lane at most: with the other lane, one every 6 s is certain."""


class InjectedFault(NamedTuple):
    """``at`` and ``seconds`` from the begin of the faults; ``target`` is a broker, a client, or seconds of clock."""

    at: float
    kind: str
    target: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} ({self.target}) for {self.seconds:.1f} s" if self.target else self.kind


def plan(seed: int, seconds: float, clients: list[str], mode: Mode = ORDINARY) -> list[InjectedFault]:
    """The same faults for the same arguments, in the order of their instants. None is still in force at the end."""
    lane = _unclean_lane if mode.unclean else _broker_lane
    faults = [*lane(random.Random(f"{seed}/brokers"), seconds, (1, 2, 3))]
    faults += _light_lane(random.Random(f"{seed}/light"), seconds, clients)
    # The agent's clock is judged by those of the brokers.
    return sorted(fault for fault in faults if not (mode.clocks and fault.kind == WRONG_CLOCK))


def _draw(lots: random.Random, kinds: dict[str, int]) -> str:
    return lots.choices(list(kinds), list(kinds.values()))[0]


def _broker_lane(lots: random.Random, seconds: float, brokers: tuple[int, ...]) -> Iterator[InjectedFault]:
    at = lots.uniform(2, 5)
    bag: list[str] = []
    while True:
        if not bag:  # every kind comes before the rest is drawn; first the one that loses markers
            rest = lots.sample([kind for kind in BROKER_KINDS if kind != IN_A_ROW], len(BROKER_KINDS) - 1)
            bag = [IN_A_ROW, *rest, *(_draw(lots, BROKER_KINDS) for _ in range(8))]
        kind = bag.pop(0)
        lasts = lots.uniform(3, 15) if kind.startswith(("broker killed", "broker restarted")) else lots.uniform(5, 25)
        if kind.startswith("two brokers stopped"):
            lasts = lots.uniform(5, 12)
        if kind == IN_A_ROW:
            lasts = lots.uniform(20, 30)
        one, other, _ = lots.sample(brokers, 3)
        target = f"{one} {other}" if kind.startswith("two brokers") else str(one)
        if at + lasts > seconds:
            return
        yield InjectedFault(round(at, 1), kind, target, round(lasts, 1))
        # A JVM that starts anew reads its logs first, and is in sync again some seconds after.
        starts_anew = kind.startswith(("broker", "log of", IN_A_ROW)) and not kind.startswith("broker stopped")
        at += lasts + (lots.uniform(10, 18) if starts_anew else lots.uniform(3, 10))


def _unclean_lane(lots: random.Random, seconds: float, brokers: tuple[int, ...]) -> Iterator[InjectedFault]:
    """Unclean elections only: of the log, of data partitions, and of both, each one soon."""
    at = lots.uniform(2, 5)
    bag: list[str] = []
    while True:
        bag = bag or lots.sample(UNCLEAN_TOPICS, len(UNCLEAN_TOPICS))
        lasts = lots.uniform(52, 60)
        if at + lasts > seconds:
            return
        yield InjectedFault(round(at, 1), UNCLEAN_ELECTION, f"{lots.choice(brokers)} {bag.pop()}", round(lasts, 1))
        at += lasts + lots.uniform(8, 12)


def _light_lane(lots: random.Random, seconds: float, clients: list[str]) -> Iterator[InjectedFault]:
    at = lots.uniform(3, SLOWEST_GAP)
    agent_free_at = 20.0  # the agent is let read a while between two of its own faults
    while at < seconds:
        kind = _draw(lots, LIGHT_KINDS)
        if kind.startswith("agent") and at < agent_free_at:
            kind = "leaderships moved"
        target, lasts = "", 0.0
        match kind:
            case "client killed":
                target, lasts = lots.choice(clients), lots.uniform(1, 6)
            case "client stopped":
                target, lasts = lots.choice(clients), lots.uniform(5, 20)
            case "agent killed":
                lasts = lots.uniform(0, 4)
            case "agent stopped":
                lasts = lots.uniform(5, 25)
            case "agent started with a wrong clock":
                target = f"{lots.choice([-1, 1]) * lots.randint(10, 120):+d}"
        if at + lasts > seconds:
            return
        yield InjectedFault(round(at, 1), kind, target, round(lasts, 1))
        if kind.startswith("agent"):
            agent_free_at = at + lasts + lots.uniform(15, 35)
        at += lots.uniform(2.5, SLOWEST_GAP)


class Episode(NamedTuple):
    """A fault as it was done: Unix seconds, and what went wrong with doing it."""

    began: float
    ended: float
    fault: InjectedFault
    trouble: str = ""


FaultAction = Callable[[InjectedFault], None]
"""Does one fault, waits out its time, and mends it."""


@dataclass
class Nemesis:
    """Carries out a plan. Each fault runs in a thread of its own; ``actions`` are by kind."""

    faults: list[InjectedFault]
    actions: dict[str, FaultAction]
    tell: Callable[[str], None]
    episodes: list[Episode] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stop: threading.Event) -> None:
        """Do all of them, and return once each is mended; ``stop`` ends the plan early."""
        began = time.monotonic()
        for fault in self.faults:
            if stop.wait(max(0.0, began + fault.at - time.monotonic())):
                break
            thread = threading.Thread(target=self._do, args=(fault,), name=fault.kind, daemon=True)
            thread.start()
            self._threads.append(thread)
        for thread in self._threads:
            thread.join()

    def _do(self, fault: InjectedFault) -> None:
        began = time.time()
        trouble = ""
        try:
            self.actions[fault.kind](fault)
        except Exception as error:  # noqa: BLE001 - a fault that could not be done is told, and the run goes on
            trouble = f"{type(error).__name__}: {error}"
        with self._lock:
            self.episodes.append(Episode(began, time.time(), fault, trouble))
        self.tell(f"{fault}" + (f": {trouble}" if trouble else ""))
