"""The counts that a report needs of a history, made a part of the table at a time: memory does not grow with the rows.

Of most rows four columns are counted (``NARROW``). Whole rows are needed of few, the notable ones: those that lasted,
did not end by their client's will, or were open longest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.jobs.history.table import SCHEMA
from exporter.words import Outcome

MOST = 50
"""Rows of a list in a report; the others are counted."""
MOST_LASTING = 200_000
LEAST_HOLD_MS = 1000
NARROW = ("application", "outcome", "complete", "open_seconds")
PLACE = ("log_partition", "log_offset")
UNCLEAN = (Outcome.TIMED_OUT.value, Outcome.FENCED.value)
_DENSE = 1 << 22
_MOST_PENDING = 1_000_000

Array = np.ndarray[Any, np.dtype[Any]]


class Cell(NamedTuple):
    """The key by which transactions are counted; ``step`` is the instant of completion in widths of the timeline."""

    application: str
    outcome: str
    step: int


class HistoryTally:
    """Counts of a part of the history, or of all: parts are added up by ``merge``."""

    def __init__(self, width_ms: int) -> None:
        self.width_ms = width_ms
        self.cells: Counter[Cell] = Counter()
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.fences: dict[tuple[str, str], tuple[int, int]] = {}
        """Times and last instant by transactional.id and application."""
        self.lasting_found = 0
        self.longest = self.unclean = self.lasting = SCHEMA.empty_table()
        self._open: dict[str, list[tuple[Array, Array]]] = {}
        self._pending = 0

    def add(self, table: pa.Table) -> None:
        """Count rows; at least the columns ``NARROW``."""
        if not table.num_rows:
            return
        names, application = _codes(table["application"])
        outcomes, outcome = _codes(table["outcome"])
        complete = table["complete"].cast(pa.int64()).to_numpy()
        first, last = int(complete.min()), int(complete.max())
        self._seen(first, last)
        steps = complete // self.width_ms
        least = first // self.width_ms
        kinds = len(names) * len(outcomes)
        keys = (steps - least) * kinds + application * len(outcomes) + outcome
        found = _counted(keys, (last // self.width_ms - least + 1) * kinds)
        for key, count in zip(*(column.tolist() for column in found), strict=True):
            step, kind = divmod(key, kinds)
            name, ended = divmod(kind, len(outcomes))
            self.cells[Cell(names[name], outcomes[ended], least + step)] += count
        self._add_open(table["open_seconds"].to_numpy(), names, application)

    def _add_open(self, seconds: Array, names: Sequence[str], application: Array) -> None:
        known = ~np.isnan(seconds)
        if not known.all():
            seconds, application = seconds[known], application[known]
        if not len(seconds):
            return
        # Times of the log are milliseconds: these are counted, which is exact.
        millis = np.rint(seconds * 1000).astype(np.int64)
        width = int(millis.max()) + 1
        keys, counts = _counted(application * width + millis, len(names) * width)
        self._count_open(names, keys // width, keys % width, counts)

    def _count_open(self, names: Sequence[str], owners: Array, millis: Array, counts: Array) -> None:
        for number in np.unique(owners).tolist():
            mine = owners == number
            self._open.setdefault(names[number], []).append((millis[mine], counts[mine]))
        self._pending += len(millis)
        if self._pending > _MOST_PENDING:
            self._settle()

    def add_counts(self, table: pa.Table) -> None:
        """Add rows that are counted by cell already, and by application and ``open_ms``, which cells do not have."""
        for row in table.filter(pc.is_valid(table["step"])).to_pylist():
            self.cells[Cell(row["application"], row["outcome"], row["step"])] += row["transactions"]
            self._seen(row["first"], row["last"])
        durations = table.filter(pc.is_valid(table["open_ms"]))
        names, owners = _codes(durations["application"])
        self._count_open(names, owners, durations["open_ms"].to_numpy(), durations["transactions"].to_numpy())

    def note(self, table: pa.Table) -> None:
        """Whole rows that may be notable; they were added as well."""
        if not table.num_rows:
            return
        table = table.select(SCHEMA.names).cast(SCHEMA)
        unclean = table.filter(_unclean(table))
        for row in _fences(unclean):
            self._fenced(row["transactional_id"], row["application"], row["count_all"], _ms(row["complete_max"]))
        # Nulls come last: so many rows hold no fewer of the others.
        longest = top(table, "open_seconds", MOST)
        longest = longest.filter(pc.is_valid(longest["open_seconds"]))
        self.longest = top(pa.concat_tables([self.longest, longest]), "open_seconds", MOST)
        self.unclean = top(pa.concat_tables([self.unclean, top(unclean, "complete", MOST)]), "complete", MOST)
        lasted = table.filter(pc.greater_equal(_lasted(table), LEAST_HOLD_MS))
        self.lasting_found += lasted.num_rows
        self._lasting(lasted)

    def merge(self, other: HistoryTally) -> None:
        """Add what another part counted, in steps of the same width."""
        if other.first_ms is not None and other.last_ms is not None:
            self._seen(other.first_ms, other.last_ms)
        self.cells.update(other.cells)
        for (identifier, application), (times, last_ms) in other.fences.items():
            self._fenced(identifier, application, times, last_ms)
        self.longest = top(pa.concat_tables([self.longest, other.longest]), "open_seconds", MOST)
        self.unclean = top(pa.concat_tables([self.unclean, other.unclean]), "complete", MOST)
        self.lasting_found += other.lasting_found
        self._lasting(other.lasting)
        for name, parts in other._open.items():
            self._open.setdefault(name, []).extend(parts)
            self._pending += sum(len(values) for values, _ in parts)
        if self._pending > _MOST_PENDING:
            self._settle()

    def open_seconds(self, application: str, quantiles: Sequence[float]) -> list[float | None]:
        """Quantiles of the seconds open, between two values in proportion; None where no begin is known."""
        self._settle()
        if application not in self._open:
            return [None] * len(quantiles)
        ((values, counts),) = self._open[application]
        ends = np.cumsum(counts)
        found: list[float | None] = []
        for quantile in quantiles:
            place = quantile * (int(ends[-1]) - 1)
            below = int(place)
            low, high = (
                float(values[np.searchsorted(ends, at, "right")]) / 1000 for at in (below, below + (place > below))
            )
            found.append(low + (high - low) * (place - below))
        return found

    def longest_ms(self) -> int:
        """Milliseconds that the ``MOST`` longest transactions were open at least; 0 where there are fewer."""
        self._settle()
        if not self._open:
            return 0
        values, counts = (
            np.concatenate(of_all) for of_all in zip(*(part for (part,) in self._open.values()), strict=True)
        )
        order = np.argsort(values)[::-1]
        place = int(np.searchsorted(np.cumsum(counts[order]), MOST))
        return int(values[order][place]) if place < len(order) else 0

    def most_lasting(self) -> pa.Table:
        """The transactions that lasted, the longest ``MOST_LASTING`` of them."""
        return _most(self.lasting)

    # --- Parts ---

    def _seen(self, first: int, last: int) -> None:
        self.first_ms = first if self.first_ms is None else min(first, self.first_ms)
        self.last_ms = last if self.last_ms is None else max(last, self.last_ms)

    def _fenced(self, identifier: str, application: str, times: int, last_ms: int) -> None:
        known = self.fences.get((identifier, application), (0, last_ms))
        self.fences[identifier, application] = (known[0] + times, max(known[1], last_ms))

    def _lasting(self, table: pa.Table) -> None:
        self.lasting = pa.concat_tables([self.lasting, table])
        if self.lasting.num_rows > 2 * MOST_LASTING:
            self.lasting = _most(self.lasting)

    def _settle(self) -> None:
        for name, parts in self._open.items():
            values, inverse = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
            counts = np.zeros(len(values), dtype=np.int64)
            np.add.at(counts, inverse, np.concatenate([part for _, part in parts]))
            self._open[name] = [(values, counts)]
        self._pending = 0


def notable(table: pa.Table) -> pa.Table:
    """The rows that ``note`` must have of these, and no more than a few others."""
    wanted = _wanted(table)
    _add_longest(wanted, table, ~wanted)
    return table.filter(pa.array(wanted))


def apart(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The notable rows of each application among these, and the others."""
    wanted = _wanted(table)
    others = ~wanted
    names, application = _codes(table["application"])
    for number in range(len(names)):
        _add_longest(wanted, table, others & (application == number))
    return table.filter(pa.array(wanted)), table.filter(pa.array(~wanted))


def _wanted(table: pa.Table) -> Array:
    lasted = pc.fill_null(pc.greater_equal(_lasted(table), LEAST_HOLD_MS), False)
    found: Array = pc.or_(lasted, _unclean(table)).to_numpy()
    return found


def _add_longest(wanted: Array, table: pa.Table, among: Array) -> None:
    """Mark those of these rows that were open longest."""
    there = np.flatnonzero(among & ~np.isnan(table["open_seconds"].to_numpy()))
    places = table.select(["open_seconds", *PLACE]).append_column("row", pa.array(np.arange(table.num_rows)))
    wanted[top(places.take(pa.array(there)), "open_seconds", MOST)["row"].to_numpy()] = True


def top(table: pa.Table, column: str, most: int) -> pa.Table:
    """The rows with the highest values of a column, these first; of equal ones, those earlier in the log."""
    order = [(column, "descending"), *((name, "ascending") for name in PLACE)]
    return table.take(pc.select_k_unstable(table, k=min(most, table.num_rows), sort_keys=order))


def _most(table: pa.Table) -> pa.Table:
    if table.num_rows <= MOST_LASTING:
        return table
    return top(table.append_column("lasted", _lasted(table)), "lasted", MOST_LASTING).drop_columns(["lasted"])


def _fences(table: pa.Table) -> list[dict[str, Any]]:
    mine = table.filter(pc.equal(table["outcome"], Outcome.FENCED.value))
    grouped = mine.group_by(["transactional_id", "application"]).aggregate([([], "count_all"), ("complete", "max")])
    return list(grouped.to_pylist())


def _unclean(table: pa.Table) -> Any:  # noqa: ANN401 -- pyarrow ships no types
    return pc.is_in(table["outcome"], pa.array(UNCLEAN))


def _lasted(table: pa.Table) -> Any:  # noqa: ANN401 -- as above
    return pc.subtract(table["complete"].cast(pa.int64()), table["begin"].cast(pa.int64()))


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _codes(column: pa.ChunkedArray) -> tuple[list[str], Array]:
    """The different values of a column, and which of them each row has."""
    encoded = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = encoded.combine_chunks()
    chunk = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    return chunk.dictionary.to_pylist(), chunk.indices.to_numpy().astype(np.int64)


def _counted(keys: Array, size: int) -> tuple[Array, Array]:
    """Each key that is there, and how often; all are below ``size``."""
    if size <= _DENSE:
        counts = np.bincount(keys, minlength=size)
        there = np.flatnonzero(counts)
        return there, counts[there]
    values, counts = np.unique(keys, return_counts=True)
    return values, counts
