"""Counts of rows that another program counted before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from exporter.jobs.history.tally import MOST, HistoryTally
from tests.bench.history import BEGIN_MS, rows_of

WIDTH_MS = 3_600_000


def counts_of(rows: pa.Table) -> pa.Table:
    """As a query with grouping sets gives them."""
    complete = rows["complete"].cast(pa.int64())
    columns = {
        "application": rows["application"],
        "outcome": rows["outcome"],
        "step": pa.array(complete.to_numpy() // WIDTH_MS),
        "open_ms": pa.array(np.rint(rows["open_seconds"].to_numpy() * 1000).astype(np.int64)),
        "complete": complete,
    }
    table = pa.table(columns)
    cells = table.group_by(["application", "outcome", "step"]).aggregate(
        [([], "count_all"), ("complete", "min"), ("complete", "max")]
    )
    durations = table.group_by(["application", "open_ms"]).aggregate([([], "count_all")])
    names = {"count_all": "transactions", "complete_min": "first", "complete_max": "last"}
    found = pa.concat_tables([cells, durations], promote_options="default")
    return found.rename_columns([names.get(name, name) for name in found.column_names])


@pytest.mark.parametrize("count", [5, 5_000])
def test_rows_that_are_counted_before_give_the_same_counts(count: int) -> None:
    rows = rows_of(BEGIN_MS, 180, count)
    added, counted = HistoryTally(WIDTH_MS), HistoryTally(WIDTH_MS)
    added.add(rows)
    for batch in counts_of(rows).to_batches(max_chunksize=1_000):
        counted.add_counts(pa.Table.from_batches([batch]))
    assert (counted.cells, counted.first_ms, counted.last_ms) == (added.cells, added.first_ms, added.last_ms)
    for name in {cell.application for cell in added.cells}:
        assert counted.open_seconds(name, (0.5, 0.99, 1.0)) == added.open_seconds(name, (0.5, 0.99, 1.0))
    longest = np.sort(rows["open_seconds"].to_numpy())[::-1]
    assert counted.longest_ms() == (round(longest[MOST - 1] * 1000) if count >= MOST else 0)


def test_nothing_was_open_longest_of_nothing() -> None:
    assert HistoryTally(WIDTH_MS).longest_ms() == 0
