"""Threads that read foreign data wait while an answer is made, for a quarter of all time at most."""

from __future__ import annotations

import threading

import pytest

from exporter.bounds.precedence import Precedence


def test_a_thread_waits_until_the_last_answer_is_made() -> None:
    precedence = Precedence(most_wait=60)
    waited = threading.Event()

    def read() -> None:
        precedence.give_way()
        waited.set()

    with precedence.making():
        with precedence.making():
            reader = threading.Thread(target=read)
            reader.start()
        assert not waited.wait(0.05)
    assert waited.wait(10)
    reader.join()


def test_nobody_waits_while_no_answer_is_made() -> None:
    precedence = Precedence(most_wait=60)
    precedence.give_way()
    with precedence.making():
        pass
    precedence.give_way()


def test_an_answer_that_takes_long_delays_a_thread_for_a_limited_time() -> None:
    precedence = Precedence(most_wait=0.01)
    with precedence.making():
        precedence.give_way()


def test_all_threads_wait_at_the_same_time_and_then_none_for_three_times_as_long() -> None:
    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return False

    waited: list[float] = []
    instants = iter((10.0, 12.0, 14.0, 25.99, 26.0))
    precedence = Precedence(lambda: next(instants), most_wait=4)
    precedence._none_is_made = Waits()
    with precedence.making():
        for _ in range(5):
            precedence.give_way()
    assert waited == [4.0, 2.0, 4.0]


def test_an_answer_that_fails_is_made_no_longer() -> None:
    precedence = Precedence(most_wait=60)
    with pytest.raises(ZeroDivisionError), precedence.making():
        _ = 1 / 0
    precedence.give_way()
