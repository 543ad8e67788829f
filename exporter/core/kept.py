"""A value that is made again only when what it is made of has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeptValue(Generic[T]):
    """The last value. Not thread-safe.

    What it is made of is a tuple: an item that is the same object as before is not compared further.
    """

    def __init__(self, value: T) -> None:
        """``value`` is what the first one is made from, see ``of``."""
        self._value = value
        self._made_of: tuple[object, ...] | None = None

    def of(self, made_of: tuple[object, ...], make: Callable[[T], T]) -> T:
        """The value of ``made_of``. ``make`` gets the last value; what it raises leaves that in place."""
        if made_of != self._made_of:
            self._value = make(self._value)
            self._made_of = made_of
        return self._value

    def forget(self) -> None:
        """Make the next value again in any case."""
        self._made_of = None
