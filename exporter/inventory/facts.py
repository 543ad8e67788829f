"""The inventory of one cluster, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ApplicationUse(NamedTuple):
    """An application in the part of the transaction log that was read.

    ``committed`` and ``aborted`` are lower bounds: compaction takes records. ``timeouts`` are seconds. ``clients``
    counts ids by the transaction version of their client, 0 and 1 for one of before Transactions V2. ``groups`` are
    those whose offsets its producers committed in transactions, as far as these were sampled.
    """

    application: str
    ids: int
    committed: int
    aborted: int
    topics: frozenset[str]
    timeouts: tuple[float, ...]
    clients: Mapping[int, int]
    commits_offsets: bool
    groups: frozenset[str] = frozenset()


class WrittenOutside(NamedTuple):
    """The newest batches of a topic that transactions write to and groups read.

    ``outside`` of ``batches`` were written without a transaction, by ``producer_ids`` (idempotent ones); ``newest`` is
    the largest timestamp of these, Unix seconds by their producers' clocks. Of ``partitions``, ``sampled`` were read.
    """

    topic: str
    groups: tuple[str, ...]
    partitions: int
    sampled: int
    batches: int
    outside: int
    producer_ids: tuple[int, ...]
    newest: float | None


class Inventory(NamedTuple):
    """``seconds`` is how much of the log was read. ``missing`` says what could not be."""

    seconds: float
    applications: tuple[ApplicationUse, ...]
    topics: tuple[WrittenOutside, ...]
    missing: tuple[str, ...]
