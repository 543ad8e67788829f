"""The memory limit over all answers: which wait, and which is given up."""

from __future__ import annotations

import threading
import time

import pytest

from exporter.bounds.memory import UNCOUNTED_BYTES, MemoryBudget, MemoryShare, NoRoomError
from exporter.model import Deadline

MB = 1024 * 1024


def soon() -> Deadline:
    return Deadline.after(0.05)


def test_answers_are_held_up_to_the_bound_and_given_back() -> None:
    held = MemoryBudget(10 * MB, patience=60)
    with held.hold() as first:
        first.add(8 * MB, soon())
        with held.hold() as second, pytest.raises(NoRoomError):
            second.add(3 * MB, soon())
        assert held.size == 8 * MB - UNCOUNTED_BYTES
    assert held.size == 0
    with held.hold() as third:
        third.add(10 * MB, soon())


def test_a_small_answer_waits_for_nobody() -> None:
    held = MemoryBudget(1 * MB, patience=60)
    with held.hold() as first, held.hold() as second:
        first.add(1 * MB + UNCOUNTED_BYTES, soon())
        second.add(UNCOUNTED_BYTES, Deadline.after(0))


def test_one_beyond_the_whole_bound_is_refused_at_once() -> None:
    held = MemoryBudget(1 * MB, patience=60)
    with held.hold() as only, pytest.raises(NoRoomError):
        only.add(1 * MB + UNCOUNTED_BYTES + 1, Deadline.after(60))


def test_one_that_waits_goes_on_when_another_ends() -> None:
    held = MemoryBudget(10 * MB, patience=60)
    waiting, done = threading.Event(), threading.Event()

    def wait() -> None:
        with held.hold() as second:
            waiting.set()
            second.add(5 * MB, Deadline.after(60))
            done.set()

    thread = threading.Thread(target=wait)
    with held.hold() as first:
        first.add(8 * MB, soon())
        thread.start()
        assert waiting.wait(60)
        assert not done.is_set()
    assert done.wait(60)
    thread.join(60)


def test_the_largest_is_given_up_for_one_that_waited_and_not_the_other_way() -> None:
    held = MemoryBudget(10 * MB, patience=0)
    ended: list[MemoryShare] = []
    with held.hold() as large, held.hold() as small:
        large.give_up = lambda: ended.append(large)
        small.give_up = lambda: ended.append(small)
        large.add(8 * MB, soon())
        small.add(1 * MB, soon())
        with pytest.raises(NoRoomError):
            large.add(2 * MB, soon())
        assert ended == [], "the others are smaller"
        with pytest.raises(NoRoomError):
            small.add(2 * MB, soon())  # this large one never ends: no room comes
        assert ended == [large]
        with pytest.raises(NoRoomError):
            large.add(1, Deadline.after(60))
        assert not small.given_up


def test_what_is_parsed_is_not_given_up() -> None:
    held = MemoryBudget(10 * MB, patience=0)
    with held.hold() as parsed, held.hold() as small:
        parsed.add(9 * MB, soon())
        with pytest.raises(NoRoomError):
            small.add(2 * MB, soon())
        assert not parsed.given_up


def test_endless_answers_leave_room_for_the_others() -> None:
    """Four that grow without end and never return in time, and one of a usual size."""
    held = MemoryBudget(8 * MB, patience=0.01)
    stop = threading.Event()
    lost: list[None] = []

    def endless() -> None:
        while not stop.is_set():
            with held.hold() as hold:
                given_up = threading.Event()
                hold.give_up = given_up.set
                try:
                    while not stop.is_set():
                        hold.add(256 * 1024, Deadline.after(60))
                        given_up.wait(0.001)
                except NoRoomError:
                    lost.append(None)

    threads = [threading.Thread(target=endless) for _ in range(4)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60
    try:
        while not lost and time.monotonic() < end:
            with held.hold() as usual:
                for _ in range(8):
                    usual.add(128 * 1024, Deadline.after(60))
    finally:
        stop.set()
        with held.hold():
            pass  # wakes those that wait
        for thread in threads:
            thread.join(60)
    assert time.monotonic() < end
