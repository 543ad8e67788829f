"""Instants of the monotonic clock as Unix time, over wrong clocks and restarts. Pure functions.

The tracker of stalls keeps instants of the monotonic clock only. Shown and saved is Unix time: by the coordinators'
clock where its difference from ours is known and noticeable, else by our own clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from exporter.transactions.facts import CoordinatorTime

STEP_SECONDS = 1.0
"""Seconds by which a clock must have been set before a shown instant changes."""
JITTER_SECONDS = 0.05
"""Seconds by which the distance of the clocks must have changed before it is another one: its estimate moves with the
delay of each record.
"""


class Anchor(NamedTuple):
    """The relation of the monotonic clock to Unix time.

    ``zero`` is the Unix time, in seconds, at which it showed 0. ``boot`` names the start of the machine that it counts
    from, "" where that is not known. ``ahead`` is by how many seconds this time is ahead of the coordinators', None
    where that is not known.
    """

    zero: float = 0.0
    boot: str = ""
    ahead: float | None = None

    def unix(self, monotonic: float) -> float:
        return self.zero + monotonic

    def monotonic(self, theirs: float) -> float:
        """The instant at which the coordinators' clock showed this Unix time."""
        return theirs + (self.ahead or 0.0) - self.zero


class Dated(NamedTuple):
    """An instant on the monotonic clock. ``by_unix``: known as Unix time, so a better anchor moves it. ``unchecked``:
    by a wall clock of an earlier process that was never compared with another.
    """

    at: float
    by_unix: bool = False
    unchecked: bool = False

    def moved(self, before: Anchor, after: Anchor) -> Dated:
        return self._replace(at=self.at + before.zero - after.zero) if self.by_unix else self


def anchored(before: Anchor | None, boot: str, monotonic: float, wall: float, ahead: float | None) -> Anchor:
    """The anchor at this instant. ``ahead``: seconds by which ``wall`` is ahead of the coordinators' clock, if known.

    An anchor from the coordinators' clock stays until a better one is known, even when our own clock is set.
    """
    if before is not None and before.ahead is not None and ahead is None:
        return before
    zero = CoordinatorTime(ahead, None).shown(wall) - monotonic
    if before is not None and abs(zero - before.zero) < STEP_SECONDS:
        zero = before.zero
    ours = None if ahead is None else zero + monotonic - (wall - ahead)
    kept = None if before is None else before.ahead
    if ours is not None and kept is not None and abs(ours - kept) < JITTER_SECONDS:
        ours = kept
    return Anchor(zero, boot, ours)


def restored(since: float, saved: Anchor | None, now: Anchor, *, by_unix: bool = False) -> Dated:
    """The instant that a process saved as the Unix time ``since`` under its anchor ``saved``, by the present one.

    Within one boot the monotonic clock is common to both processes, and wall clocks do not matter, but for an instant
    that the other one knew as Unix time only (``by_unix``). Over a boot, or on another machine, the coordinators' time
    is common to both where both know it; otherwise the two wall clocks are used.
    """
    if saved is not None and saved.boot and saved.boot == now.boot and not by_unix:
        return Dated(since - saved.zero)
    if saved is None or saved.ahead is None:
        same_boot = saved is not None and bool(saved.boot) and saved.boot == now.boot
        return Dated(now.monotonic(since) if by_unix else since - now.zero, by_unix=True, unchecked=not same_boot)
    return Dated(now.monotonic(since - saved.ahead), by_unix=True)


def anchor_document(anchor: Anchor) -> dict[str, Any]:
    """The anchor as it is saved beside instants."""
    ahead = None if anchor.ahead is None else round(anchor.ahead)
    return {"boot": anchor.boot, "zero": round(anchor.zero, 3), "ahead": ahead}


def read_anchor(document: object) -> Anchor | None:
    """The saved anchor; None for an invalid one."""
    if not isinstance(document, Mapping):
        return None
    match document.get("boot"), document.get("zero"), document.get("ahead"):
        case str(boot), float(zero) | int(zero), (None | float() | int()) as ahead:
            return Anchor(float(zero), boot, None if ahead is None else float(ahead))
    return None
