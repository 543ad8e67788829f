"""Runs with faults that an ordinary run has not, as its oracle would not know the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNCLEAN_ELECTION = "unclean election"


@dataclass(frozen=True)
class Mode:
    """``clocks`` are seconds by broker by which its wall clock is ahead.

    ``unclean``: one replica in sync is enough, and leaders that lack records are elected. ``cluster``: after half of
    the run the cluster is ``formatted`` again with its id, or another one answers at its addresses and leaves again
    (``flip``).
    """

    name: str
    clocks: Mapping[int, int] = field(default_factory=dict)
    unclean: bool = False
    cluster: str = ""

    @property
    def shifts(self) -> tuple[int, ...]:
        """The distances of clocks that brokers have."""
        return tuple(sorted({0, *self.clocks.values()}))


ORDINARY = Mode("ordinary")
MODES = {
    mode.name: mode
    for mode in (
        ORDINARY,
        Mode("unclean", unclean=True),
        Mode("formatted", cluster="formatted"),
        Mode("flip", cluster="flip"),
        Mode("clocks", clocks={2: 90, 3: -90}),
    )
}
