"""Room in memory for the answers of others."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from exporter.bounds.memory import LIGHT_BYTES, MOST_LARGE, SMALL_BYTES, AnswerRoom, NoRoomError, one_heavy_at_a_time
from exporter.model import Deadline


def test_few_large_answers_are_in_memory_at_once_and_small_ones_do_not_wait() -> None:
    with ExitStack() as stack:
        for _ in range(MOST_LARGE):
            room = stack.enter_context(AnswerRoom())
            for size in (SMALL_BYTES + 1, 32 * SMALL_BYTES):
                room.hold(size, Deadline.after(60))
        with AnswerRoom() as small:
            small.hold(SMALL_BYTES, Deadline.after(0))
            with pytest.raises(NoRoomError):
                small.hold(SMALL_BYTES + 1, Deadline.after(0))
    with AnswerRoom() as later:
        later.hold(SMALL_BYTES + 1, Deadline.after(0))


def test_an_answer_that_waits_has_room_when_another_one_ends() -> None:
    done = threading.Event()

    def wait() -> None:
        with AnswerRoom() as room:
            room.hold(SMALL_BYTES + 1, Deadline.after(60))
            done.set()

    with ExitStack() as stack:
        for _ in range(MOST_LARGE):
            stack.enter_context(AnswerRoom()).hold(SMALL_BYTES + 1, Deadline.after(60))
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not done.is_set()
    waiting.join(30)
    assert done.is_set()


def test_large_documents_are_parsed_one_at_a_time_and_small_ones_beside_them() -> None:
    parsed: list[str] = []

    def parse() -> None:
        with one_heavy_at_a_time(LIGHT_BYTES + 1):
            parsed.append("large")

    with one_heavy_at_a_time(LIGHT_BYTES + 1):
        other = threading.Thread(target=parse)
        other.start()
        with one_heavy_at_a_time(LIGHT_BYTES):
            parsed.append("small")
    other.join(30)
    assert parsed == ["small", "large"]
