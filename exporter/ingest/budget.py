"""Memory limit of all posted documents together, with what they become in /metrics: the oldest is dropped first."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

DEFAULT_BYTES = 64 * 1024 * 1024
"""An eighth of the memory limit of the chart."""

ENTRY_BYTES = 1000
"""Bytes of a kept value beside the value itself: its key, its place in the order, its rate limit."""


_SERIES_BYTES = 600
"""Bytes of a series beside its text: sample, label set, places in the tables of its family."""
_NAME_CHARACTERS = 150
"""Characters of a line besides the values of its labels: names of metric and labels, value."""
_COPIES = 6
"""Copies of a line: cached text, family, body in two formats; while one is replaced, text and family once more."""


class _Charge(NamedTuple):
    size: int
    senders: str
    drop: Callable[[], None]


class Budget:
    """Counts the bytes of kept values. Hold its lock around every method."""

    def __init__(self, most: int = DEFAULT_BYTES) -> None:
        self.most = most
        self.lock = threading.RLock()
        self._kept = 0
        self._charges: OrderedDict[Hashable, _Charge] = OrderedDict()  # the oldest comes first
        self._dropped: Counter[str] = Counter()

    @property
    def kept(self) -> int:
        """Bytes that are kept now."""
        return self._kept

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many values were dropped, by the kind of sender; 0 for a kind that has posted and lost none."""
        return self._dropped

    def charge(self, key: Hashable, size: int, senders: str, drop: Callable[[], None]) -> None:
        """Count a value that replaces the one before; ``drop`` is called when it is dropped.

        Raises ValueError, and leaves everything as it was, for one that is larger than the whole budget.
        """
        if size > self.most:
            raise ValueError("larger than all that may be kept")
        self.release(key)
        self._dropped[senders] += 0
        while self._kept + size > self.most:
            self.drop(next(iter(self._charges)))
        self._charges[key] = _Charge(size, senders, drop)
        self._kept += size

    def drop(self, key: Hashable) -> None:
        """Drop a kept value, and count that."""
        charge = self._charges[key]
        self.release(key)
        self._dropped[charge.senders] += 1
        charge.drop()

    def release(self, key: Hashable) -> None:
        """Remove a value that is no longer kept."""
        charge = self._charges.pop(key, None)
        if charge is not None:
            self._kept -= charge.size


def text_bytes(*texts: str) -> int:
    """Most that these texts take."""
    return sum(80 + 4 * len(text) for text in texts)


def series_bytes(*labels: str) -> int:
    """Most that a series with these labels takes in /metrics."""
    characters = _NAME_CHARACTERS + sum(map(_escaped_length, labels))
    return _SERIES_BYTES + _COPIES * characters * (1 if all(map(str.isascii, labels)) else 4)


def _escaped_length(label: str) -> int:
    r"""Most characters of a label in /metrics, without escaping it: of a quote ``\"``, of a backslash ``\\x5c``, and of
    what does not print ``\\x01`` in ASCII and ``\\U000e0001`` beyond.
    """
    if label.isprintable():
        return len(label) + label.count('"') + 4 * label.count("\\")
    return len(label) * (5 if label.isascii() else 11)
