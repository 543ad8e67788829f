"""Both ends of every partition, requested each second during the faults: LSOs that do not move, and missing answers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

ASK_SECONDS = 3.0
EVERY_SECONDS = 1.0
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class OffsetObservation(NamedTuple):
    """Both ends of a partition at Unix seconds ``at``; None where it was not answered."""

    at: float
    stable: int | None
    high: int | None


class UnmovedOffset(NamedTuple):
    """A last stable offset below the high watermark that did not move from ``began`` until it was last seen there.

    It was seen elsewhere, or at the high watermark, at ``before`` and at ``after``: 0 and infinity when never.
    """

    offset: int
    before: float
    began: float
    ended: float
    after: float
    answered: tuple[float, ...]


class OffsetObserver:
    """``watch`` is the loop of a thread; ``looks`` are by (topic, partition), in the order of time."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = self._client()
        self._known: list[tuple[str, int]] = []
        self.looks: dict[tuple[str, int], list[OffsetObservation]] = defaultdict(list)

    def watch(self, stop: threading.Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            self.look()
            stop.wait(max(0.0, EVERY_SECONDS - (time.monotonic() - began)))

    def look(self) -> None:
        """Ask all partitions once. The stable end first: the distance is then never seen too small."""
        at = time.time()
        try:
            topics = self._admin.list_topics(timeout=ASK_SECONDS).topics
            self._known = sorted((name, number) for name, topic in topics.items() for number in topic.partitions)
        except KafkaException:
            pass
        stable = self._ends(IsolationLevel.READ_COMMITTED)
        high = self._ends(IsolationLevel.READ_UNCOMMITTED)
        for place in self._known:
            self.looks[place].append(OffsetObservation(at, stable.get(place), high.get(place)))

    def _ends(self, level: IsolationLevel) -> dict[tuple[str, int], int]:
        if not self._known:
            return {}
        asked = {TopicPartition(name, number): LATEST for name, number in self._known}
        try:
            answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=ASK_SECONDS)
        except KafkaException:
            return {}
        found: dict[tuple[str, int], int] = {}
        for place, answer in answers.items():
            try:
                found[place.topic, place.partition] = answer.result(ASK_SECONDS + 1).offset
            except Exception:  # noqa: BLE001, S112 - whatever it is, it is no answer
                continue
        return found

    def _client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0, "socket.timeout.ms": 4000})


def standings(looks: list[OffsetObservation]) -> list[UnmovedOffset]:
    """The offsets at which the LSO stayed below the high watermark, and for how long that was seen.

    It never goes back: an answer below one that came earlier is that of a broker which no longer leads, and no answer.
    """
    found: list[UnmovedOffset] = []
    top = -1
    previous = 0.0
    now: UnmovedOffset | None = None
    for look in looks:
        if look.stable is None or look.stable < top:
            continue
        top = look.stable
        if now is not None and look.stable == now.offset:
            now = now._replace(ended=look.at, answered=(*now.answered, look.at))
        else:
            if now is not None:
                found.append(now._replace(after=look.at))
            lags = look.high is not None and look.stable < look.high
            now = UnmovedOffset(look.stable, previous, look.at, look.at, float("inf"), (look.at,)) if lags else None
        previous = look.at
    if now is not None:
        found.append(now)
    return found


def moved_at(looks: list[OffsetObservation], offset: int) -> float:
    """When the last stable offset was first seen beyond this one; infinity if it never was."""
    return next((look.at for look in looks if look.stable is not None and look.stable > offset), float("inf"))


def reached_at(looks: list[OffsetObservation], offset: int) -> float:
    """The last look before the last stable offset reached this one; the first look if it was there from the begin."""
    last = 0.0
    for look in looks:
        if look.stable is None:
            continue
        if look.stable >= offset:
            return last or look.at
        last = look.at
    return last
