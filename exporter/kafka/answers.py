"""Partial answers: values, keys without an answer, and one fault for each cause."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from exporter.bounds.text import some
from exporter.kafka.faults import refusal
from exporter.model import Fault

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Answers(Generic[K, V]):
    """Result of a request about many keys.

    A key is in ``values``, or in ``unanswered`` with its own fault, or in neither when the cluster answered that it
    does not know it. ``faults`` has one fault for each broker and cause, with the count and a few examples. ``brokers``
    has the node id of the broker that gave each value, for requests to the leaders of the keys; ``asked_again`` has the
    keys whose leader was another one, or newly elected.
    """

    values: dict[K, V]
    unanswered: dict[K, Fault]
    faults: tuple[Fault, ...]
    brokers: dict[K, int] = field(default_factory=dict)
    asked_again: frozenset[K] = frozenset()


class Tally(Generic[K, V]):
    """Collects answers until ``result``. ``request`` and ``noun`` are for the texts of faults: "ListOffsets",
    "partitions".
    """

    def __init__(self, request: str, noun: str) -> None:
        self.values: dict[K, V] = {}
        self._request = request
        self._noun = noun
        self._brokers: dict[K, int] = {}
        self._lost: dict[K, Fault] = {}
        self._refused: dict[K, tuple[str, int, str, str]] = {}

    def answer(self, key: K, value: V, node: int) -> None:
        self.values[key] = value
        self._brokers[key] = node
        self.forget(key)

    def answer_all(self, values: dict[K, V], node: int) -> None:
        """As ``answer``, of many keys."""
        self.values.update(values)
        self._brokers.update(dict.fromkeys(values, node))
        if self._lost or self._refused:
            for key in values:
                self.forget(key)

    def refuse(self, key: K, where: str, code: int, grant: str = "", remedy: str = "") -> None:
        """Record an error code for this key. ``where`` names the broker, "" when none was asked. An earlier answer is
        kept.
        """
        if key in self.values:
            return
        self._refused[key] = (where, code, grant, remedy)
        self._lost.pop(key, None)

    def lose(self, key: K, fault: Fault) -> None:
        """Record that this key has no answer, for a reason that it shares with others. An earlier answer is kept."""
        if key in self.values:
            return
        self._lost[key] = fault
        self._refused.pop(key, None)

    def forget(self, key: K) -> None:
        """Drop this key: the cluster does not know it, or a better answer came."""
        self._lost.pop(key, None)
        self._refused.pop(key, None)

    def result(self, asked_again: Iterable[K] = ()) -> Answers[K, V]:
        unanswered = dict(self._lost)
        groups: dict[tuple[str, int], list[K]] = {}
        for key, (where, code, grant, remedy) in self._refused.items():
            unanswered[key] = refusal(self._what(where, str(key)), code, grant, remedy)
            groups.setdefault((where, code), []).append(key)
        faults = list(dict.fromkeys(self._lost.values()))
        for (where, code), keys in sorted(groups.items()):
            names = [str(key) for key in keys]
            subject = names[0] if len(names) == 1 else f"{len(names)} {self._noun} ({some(sorted(names), 3)})"
            grants = {self._refused[key][2] for key in keys} - {""}
            remedies = {self._refused[key][3] for key in keys} - {""}
            faults.append(refusal(self._what(where, subject), code, some(sorted(grants), 3), some(sorted(remedies), 3)))
        return Answers(self.values, unanswered, tuple(faults), self._brokers, frozenset(asked_again))

    def _what(self, where: str, subject: str) -> str:
        return f"{self._request} of {subject} at {where}" if where else f"{self._request} of {subject}"
