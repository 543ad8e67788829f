"""Which part of a very large cluster this agent exposes: ``--shard 0/3`` is the first of three.

Topics, applications and groups are divided by name, each to exactly one shard; series of the cluster as a whole are
exposed by the first. The shard of a name is its SHA-256: the first eight bytes, as a big-endian number, modulo the
number of shards. It does not depend on restarts, versions or machines, and any tool can compute it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from exporter.catalogue import OVERFLOW

_FORM = re.compile(r"(\d{1,4})/(\d{1,4})")
MOST = 1000


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard ``index``, from 0, of ``count``; one of one is the whole."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``INDEX/COUNT``. Raises ValueError, whose text is what to write instead."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError("is no shard; write INDEX/COUNT, such as 0/3 for the first of three")
        shard = cls(int(match[1]), int(match[2]))
        if problem := shard.problem:
            raise ValueError(problem)
        return shard

    @property
    def problem(self) -> str:
        """The problem with it, as the end of a sentence; "" if there is none."""
        if not 1 <= self.count <= MOST:
            return f"is no shard: there must be from 1 to {MOST} of them"
        if not 0 <= self.index < self.count:
            return f"is no shard: they are counted from 0, so the last of {self.count} is {self.count - 1}/{self.count}"
        return ""

    @property
    def whole(self) -> bool:
        """Return whether there is only one shard."""
        return self.count == 1

    @property
    def first(self) -> bool:
        """Return whether this shard exposes the series of the cluster as a whole."""
        return self.index == 0

    @property
    def overflow(self) -> str:
        """The application that sums up what this shard's cap leaves out: one for each shard, so that sums over shards
        are correct.
        """
        return OVERFLOW if self.whole else f"{OVERFLOW}_{self.index}"

    def exposes(self, application: str) -> bool:
        """Return whether this shard exposes the series of this application: one of its names, or its overflow."""
        return self.holds(application) or application == self.overflow

    def holds(self, name: str) -> bool:
        """Return whether the topic, application or group of this name is this shard's."""
        if self.whole:
            return True
        # A name may hold lone surrogates, which UTF-8 cannot encode.
        digest = sha256(name.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


WHOLE = Shard()
