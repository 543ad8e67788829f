"""Threads that read foreign data wait while an answer is made, for half of their time at most."""

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


def test_a_thread_that_waited_works_as_long_before_it_waits_again() -> None:
    instants = iter((0.0, 5.0, 9.0))
    precedence = Precedence(lambda: next(instants), most_wait=60)
    answer = precedence.making()
    answer.__enter__()
    threading.Timer(0.01, answer.__exit__, (None, None, None)).start()
    precedence.give_way()  # from 0 to 5
    with precedence.making():
        precedence.give_way()  # at 9: not before 10


def test_an_answer_that_fails_is_made_no_longer() -> None:
    precedence = Precedence(most_wait=60)
    with pytest.raises(ZeroDivisionError), precedence.making():
        _ = 1 / 0
    precedence.give_way()
