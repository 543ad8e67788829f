"""The bytes held for inputs whose size others choose, and their limits."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.words import HeldBytes

MB = 1024 * 1024


LIMITS: Mapping[HeldBytes, int] = {HeldBytes.READ: 32 * MB}
"""Most bytes of each kind but ``POSTED``, whose limit is a setting."""


class Ledger:
    """The bytes of each kind. Each has one part that writes it, on its own thread; any thread may read."""

    def __init__(self, posted: int = 0) -> None:
        """``posted`` is the limit of posted data, 0 where nothing may be posted."""
        self.limits: Mapping[HeldBytes, int] = {HeldBytes.POSTED: posted, **LIMITS}
        self.held: dict[HeldBytes, int] = dict.fromkeys(HeldBytes, 0)
