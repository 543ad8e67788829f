"""Places in a topic: ranges of offsets, and a partition with an offset as one integer that Spark sorts and shuffles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column

OFFSET_BITS = 44
"""A position is one integer: the partition above, the offset below. 17 trillion offsets, half a million partitions."""
_OFFSETS = (1 << OFFSET_BITS) - 1


class OffsetSpan(NamedTuple):
    """Half-open range of offsets of one partition."""

    partition: int
    start: int
    end: int


def place(packed: int) -> tuple[int, int]:
    """Partition and offset of a position."""
    return packed >> OFFSET_BITS, packed & _OFFSETS


def position_column() -> Column:
    """The position of a record with the columns ``partition`` and ``offset``."""
    return f.shiftleft(f.col("partition").cast("bigint"), OFFSET_BITS).bitwiseOR(f.col("offset")).alias("position")


def partition_of(position: str) -> Column:
    """The partition of a position in this column."""
    return f.shiftright(position, OFFSET_BITS).cast("int")


def offset_of(position: str) -> Column:
    """The offset of a position in this column."""
    return f.col(position).bitwiseAND(_OFFSETS)


def up_to(newest: Mapping[int, int]) -> str:
    """A condition on ``partition`` and ``offset``: not after the newest of its partition."""
    return before({number: offset + 1 for number, offset in newest.items()})


def before(ends: Mapping[int, int]) -> str:
    """A condition on ``partition`` and ``offset``: before the end of its partition."""
    tests = [f"(partition = {number} AND offset < {end})" for number, end in ends.items()]
    return " OR ".join(tests) or "false"
