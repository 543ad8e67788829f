"""Which functions some work calls, and how often: the same on each machine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """The functions of Python that are called, by name."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found
