"""Patterns for the settings, proposed where ids of one application look like many applications. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

MOST_PROPOSED = 20
FEWEST_ALIKE = 3
"""Applications that differ in one part only, before a pattern is proposed for them."""
LONGEST = 256
"""Characters of a name that is looked at: an id is up to 32 kB long, and clients choose it."""
MOST_PARTS = 16
"""Parts of a name that are looked at."""

_PARTS = re.compile(r"([-._:/#@])")
# In the order in which a part is tried: the first class that has all values of a part is proposed.
_CLASSES = (
    (r"\d+", re.compile(r"\d+")),
    (r"[bcdfghjklmnpqrstvwxz2456789]{5}", re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")),
    (r"[0-9a-f]+", re.compile(r"(?=.*\d)[0-9a-f]{6,}")),
    (r"[0-9A-Za-z]+", re.compile(r"(?=.*\d)[0-9A-Za-z]+")),
)


class Proposal(NamedTuple):
    """A pattern, the application that it names, and the applications of now that would be one."""

    pattern: str
    application: str
    merges: tuple[str, ...]


def propose(applications: Iterable[str]) -> list[Proposal]:
    """Patterns for applications that differ in one part which looks made up, those that merge most first.

    ``applications`` are names of applications. Those that differ in a word are not proposed: each may be one.
    """
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], set[str]] = defaultdict(set)
    for name in {application for application in applications if len(application) <= LONGEST}:
        parts = _PARTS.split(name)
        for at in range(2, min(len(parts), 2 * MOST_PARTS), 2):
            if any(form.fullmatch(parts[at]) for _, form in _CLASSES):
                alike[tuple(parts[:at]), tuple(parts[at + 1 :])].add(name)
    found: list[Proposal] = []
    taken: set[str] = set()
    for (before, after), names in sorted(alike.items(), key=lambda item: (-len(item[1]), item[0])):
        left = sorted(names - taken)
        stem = "".join(before[:-1])
        if len(left) < FEWEST_ALIKE or not stem:
            continue
        values = [_PARTS.split(name)[len(before)] for name in left]
        form = next((text for text, form in _CLASSES if all(map(form.fullmatch, values))), None)
        if form is None:
            continue
        taken.update(left)
        rest = re.escape("".join(after))
        pattern = f"^(?P<application>{re.escape(stem)}){re.escape(before[-1])}{form}{rest}(?:[-._:/#@].*)?$"
        found.append(Proposal(pattern, stem, tuple(left)))
    return found[:MOST_PROPOSED]
