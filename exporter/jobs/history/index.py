"""The state that a batch of a history leaves for the next one, in any format. No I/O, no clock."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from exporter.jobs.history.fold import FoldState
from exporter.model import CommandError

FORMAT = 1
MOST_DETAILS = 10


class HistoryError(CommandError):
    """The history cannot be written or read. The text is what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task for its log partitions. Of files of its own, which only a folder of Parquet has: ``files``
    are relative to ``rows``, ``ids`` is relative to the batch's folder.
    """

    standings: dict[int, FoldState]
    files: tuple[str, ...]
    ids: str
    rows: int
    missing: int
    undecodable: int
    truncated: tuple[int, ...]
    pending: dict[int, int]
    details: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskResult:
        return cls(**_values(json.loads(text)))


@dataclass(frozen=True, slots=True)
class Index:
    """A committed batch.

    ``pending`` has, by partition of the log, the lowest offset of an abort that may still become a fence; ``missing``
    counts offsets that compaction took before they were read; ``total_`` is since the beginning.
    """

    batch: int
    written_ms: int
    standings: dict[int, FoldState]
    ids: tuple[str, ...]
    pending: dict[int, int]
    rows: int
    missing: int
    undecodable: int
    truncated: tuple[int, ...]
    details: tuple[str, ...]
    total_rows: int
    total_missing: int
    total_undecodable: int
    total_truncated: int = 0
    format: int = field(default=FORMAT)

    @classmethod
    def after(cls, before: Index | None, results: Sequence[TaskResult], written_ms: int) -> Index:
        """The index of the batch of these results."""
        standings = dict(before.standings) if before else {}
        for result in results:
            standings |= result.standings
        rows, missing, undecodable = (
            sum(getattr(result, name) for result in results) for name in ("rows", "missing", "undecodable")
        )
        truncated = tuple(number for result in results for number in result.truncated)
        return cls(
            next_batch(before),
            written_ms,
            dict(sorted(standings.items())),
            tuple(result.ids for result in results if result.ids),
            {number: offset for result in results for number, offset in result.pending.items()},
            rows,
            missing,
            undecodable,
            truncated,
            tuple(detail for result in results for detail in result.details)[:MOST_DETAILS],
            rows + (before.total_rows if before else 0),
            # Records that were compacted before the history began are no gap in it.
            missing + before.total_missing if before else 0,
            undecodable + (before.total_undecodable if before else 0),
            len(truncated) + (before.total_truncated if before else 0),
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Index:
        """Raises ValueError for another form."""
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise ValueError(f"has format {found['format']}, and this version reads {FORMAT}")
            return cls(**_values(found))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"is no index of a batch: {error!r}") from None


def _values(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return values from JSON as the types that were written: tuples, and numbers as keys."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    values["standings"] = {int(number): FoldState(*standing) for number, standing in found["standings"].items()}
    values["pending"] = {int(number): offset for number, offset in found["pending"].items()}
    return values


def next_batch(last: Index | None) -> int:
    """The number of the batch after this one."""
    return 0 if last is None else last.batch + 1


def gaps(missing: int, undecodable: int, truncated: int) -> tuple[str, ...]:
    """Sentences on what a history may lack."""
    found = []
    if missing:
        found.append(f"{missing:,} records were compacted away before they were read: some transactions may be missing")
    if undecodable:
        found.append(f"{undecodable:,} records could not be decoded: some transactions may be missing")
    if truncated:
        found.append(f"the log was truncated {truncated} times: what was written there is missing")
    return tuple(found)
