"""Patterns of the settings on names of others: the syntax of Python's ``re``, the time for each name bounded.

Backtracking takes exponential time on some names with some patterns, such as ``(a+)+$``. An engine without it has no
look-ahead, which patterns of topics use (``^(?!__)``). So the engine is ``regex``: the same syntax, a limit of time,
and other threads run while it matches.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator

import regex

from exporter.bounds.text import cut, without_surrogates
from exporter.model import Fault, Reason

log = logging.getLogger(__name__)

MOST_SECONDS = 0.05
"""Processor time of the whole process while one name is tried. A usual pattern takes 0.000001 s on a usual name."""

MOST_CHARACTERS = 10_000
"""Of a pattern. The time of compiling grows with the square of the groups: 1 MB of ``()`` took minutes."""

KEPT_NAMES = 20_000
KEPT_CHARACTERS = 249
"""Names whose answers are kept, and their longest: that of a topic."""


class PatternError(ValueError):
    """The text is no regular expression. The text of the error is the end of a sentence."""


class BoundedPattern:
    """A pattern of the settings. A name that takes it longer than ``MOST_SECONDS`` is not matched.

    From then on the pattern is tried only on names that are shorter by a quarter: so all names together take it at most
    two seconds, as the 32,767 characters that a name may have become none after 35 such names. ``given_up`` returns
    what was not tried. Any thread may call any method.
    """

    __slots__ = ("_compiled", "_known", "_longest", "_setting", "_skipped", "_whole", "pattern")

    def __init__(self, pattern: str, setting: str, *, whole: bool = False) -> None:
        """``whole`` patterns match a name as a whole, others anywhere in it. Raises PatternError."""
        if len(pattern) > MOST_CHARACTERS:
            raise PatternError(f"has more than {MOST_CHARACTERS} characters")
        try:
            re.compile(pattern)  # regex knows more than re; what re does not know is no promise
            self._compiled = regex.compile(pattern, regex.VERSION0)
        except re.error as error:
            raise PatternError(f"is no regular expression: {error.msg} at position {error.pos}") from None
        except regex.error as error:
            raise PatternError(f"is no regular expression: {error}") from None
        except RecursionError:
            raise PatternError("is nested too deeply") from None
        except OverflowError:
            raise PatternError("is no regular expression: a number in it is too large") from None
        self.pattern = pattern
        self._setting = setting
        self._whole = whole
        self._longest: float = math.inf
        self._skipped = ""
        self._known: dict[str, bool] = {}

    @property
    def groups(self) -> frozenset[str]:
        """The names of its groups."""
        return frozenset(self._compiled.groupindex)

    def match(self, name: str) -> regex.Match[str] | None:
        """Return the match; None where there is none, or it takes too long."""
        if len(name) <= self._longest:
            try:
                # A limit of time costs a look at the process' clock, much longer than the match itself.
                found = self._compiled.fullmatch if self._whole else self._compiled.search
                return found(name, timeout=MOST_SECONDS)
            except TimeoutError:
                self._shorten(name)
        self._skipped = name
        return None

    def matches(self, name: str) -> bool:
        """Return whether it matches; the answers for names of usual length are kept."""
        if (known := self._known.get(name)) is not None:
            return known
        found = self.match(name) is not None
        if len(name) <= KEPT_CHARACTERS and len(name) <= self._longest:
            if len(self._known) >= KEPT_NAMES:
                self._known.clear()
            self._known[name] = found
        return found

    def given_up(self) -> Fault | None:
        """Return that names were not tried since the last call; None if all were."""
        name, self._skipped = self._skipped, ""
        if not name:
            return None
        shown = f"{cut(without_surrogates(name), 40)!r} ({len(name)} characters)"
        return Fault(
            Reason.TIMEOUT,
            f"{self._setting}: {cut(self.pattern, 60)!r} takes too long on {shown} and does not match it; it is tried "
            f"on names of up to {self._longest:.0f} characters: write it without a repetition in a repetition",
        )

    def _shorten(self, name: str) -> None:
        self._longest = min(self._longest, len(name) * 3 // 4)
        log.warning(
            "%s: a pattern takes too long on a name of %d characters; it is tried on names of up to %.0f: %s",
            self._setting,
            len(name),
            self._longest,
            cut(self.pattern, 60),
        )


def given_up(patterns: Iterable[BoundedPattern]) -> Iterator[Fault]:
    """Return a fault for each pattern that was not tried on every name since the last call."""
    return (fault for pattern in patterns if (fault := pattern.given_up()) is not None)
