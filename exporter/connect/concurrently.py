"""Several questions at once, so that one that hangs costs the others nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from exporter.model import Deadline

T = TypeVar("T")

GRACE_SECONDS = 0.5
"""Questions keep the deadline by themselves; only one that looks up a host name may not, and is left behind."""


def together(questions: Sequence[Callable[[], T]], deadline: Deadline) -> list[T | None]:
    """The answers in the order of the questions, None for one that is not back soon after the deadline.

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
        # Daemons: one that hangs must not keep the process from stopping.
        threading.Thread(target=run, args=(number, question), name="connect question", daemon=True)
        for number, question in enumerate(questions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline.remaining() + GRACE_SECONDS)
    if errors:
        raise errors[0]
    return list(answers)
