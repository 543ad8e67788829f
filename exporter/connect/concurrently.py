"""Run several requests at once, so that one that hangs does not delay the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from exporter.model import Deadline

T = TypeVar("T")

GRACE_SECONDS = 0.5
"""Requests keep the deadline themselves, except the lookup of a host name, which has no timeout; it is abandoned."""


def run_concurrently(questions: Sequence[Callable[[], T]], deadline: Deadline) -> list[T | None]:
    """Return the results in the order of ``questions``, None for one that has not returned soon after the deadline.

    Raises what a question raised, which is a bug in it.
    """
    answers: list[T | None] = [None] * len(questions)
    errors: list[BaseException] = []

    def run(number: int, question: Callable[[], T]) -> None:
        try:
            answers[number] = question()
        except Exception as error:  # noqa: BLE001 -- raised again below, on the thread that asked
            errors.append(error)

    threads = [
        # Daemon threads: one that hangs must not keep the process from stopping.
        threading.Thread(target=run, args=(number, question), name="connect question", daemon=True)
        for number, question in enumerate(questions)
    ]
    for thread in threads:
        thread.start()
    late = Deadline(deadline.at + GRACE_SECONDS, deadline.monotonic)
    for thread in threads:
        thread.join(late.remaining())
    if errors:
        raise errors[0]
    return list(answers)
