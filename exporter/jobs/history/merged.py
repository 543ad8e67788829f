"""Copies of small batches, merged for reports: a month of batches of a minute is tens of thousands of files.

::

    DIR/_merged/A-B/index.json, notable.parquet, plain.parquet    batches A to B

The batches stay as they are. A copy has whole rows only of the notable transactions (``tally.py``), and of the others
the columns that a report counts. It becomes visible at once. A report takes it if all of its rows are asked for and all
of its batches are still there; otherwise it reads the batches.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.core.files import replace_file, sync
from exporter.jobs.history.index import Index
from exporter.jobs.history.store import BATCH_FILE, TABLE, HistoryStore
from exporter.jobs.history.table import BATCH, SCHEMA, gathered
from exporter.jobs.history.tally import NARROW, apart

_LOG = logging.getLogger(__name__)

FORMAT = 1
FOLDER = "_merged"
BATCHES_EACH = 60
ROWS_EACH = 300_000
COPIES_AT_ONCE = 5
"""After one batch: an old history is merged over its next batches."""
_ROWS_AT_ONCE = 100_000
INDEX, NOTABLE, PLAIN = "index.json", "notable.parquet", "plain.parquet"
_PLAIN_SCHEMA = pa.schema([SCHEMA.field(name) for name in NARROW])


@dataclass(frozen=True, slots=True)
class MergedIndex:
    """The content of a copy: its batches, and when the transactions completed. The rest is as in the indexes of
    batches.
    """

    batches: tuple[int, ...]
    rows: int
    first_ms: int
    last_ms: int
    written_ms: int
    missing: int
    undecodable: int
    truncated: int
    format: int = FORMAT

    @classmethod
    def read(cls, file: Path) -> MergedIndex | None:
        """None for another form, or where the file is gone."""
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                return None
            return cls(**{**found, "batches": tuple(found["batches"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None


def numbers_of(folder: Path) -> list[int]:
    """The batches that are visible, in order."""
    names = (path.name.partition("=") for path in (folder / TABLE).iterdir())
    return sorted(int(number) for key, _, number in names if key == BATCH and number.isdecimal())


def copies_of(folder: Path) -> dict[Path, MergedIndex]:
    """The copies of a history, in order."""
    found = {path.parent: MergedIndex.read(path) for path in (folder / FOLDER).glob(f"*/{INDEX}")}
    known = {path: index for path, index in found.items() if index is not None}
    return dict(sorted(known.items(), key=lambda item: item[1].batches))


def merge_batches(store: HistoryStore) -> None:
    """Merge the batches after the last copy, as soon as there are enough.

    The history goes on without a copy that cannot be made.
    """
    try:
        copied = max((index.batches[-1] for index in copies_of(store.folder).values()), default=-1)
        waiting = [number for number in numbers_of(store.folder) if number > copied]
        for _ in range(COPIES_AT_ONCE):
            chosen = _next(store.folder, waiting)
            if not chosen:
                return
            _merge(store, chosen)
            waiting = [number for number in waiting if number > max(chosen)]
    except (OSError, pa.ArrowException) as error:
        _LOG.warning("batches are not merged, reports take longer: %s", str(error).partition("\n")[0])


def _next(folder: Path, waiting: Sequence[int]) -> dict[int, Index]:
    """The batches of the next copy; none while there are too few."""
    found: dict[int, Index] = {}
    for number in waiting:
        file = folder / TABLE / f"{BATCH}={number}" / BATCH_FILE
        try:
            found[number] = Index.from_json(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # reports read this batch as it is
        if len(found) >= BATCHES_EACH or sum(index.rows for index in found.values()) >= ROWS_EACH:
            return found
    return {}


def _merge(store: HistoryStore, batches: Mapping[int, Index]) -> None:
    with store.draft() as made:
        tables = _tables(file for number in batches for file in files_of(store.folder, [number]))
        index = write_copy(made, tables, batches)
        target = store.folder / FOLDER / f"{index.batches[0]}-{index.batches[-1]}"
        target.parent.mkdir(exist_ok=True)
        made.rename(target)
        sync(target.parent)


def write_copy(made: Path, tables: Iterable[pa.Table], batches: Mapping[int, Index]) -> MergedIndex:
    """Write the rows of these batches, and the index, into a folder. They are on disk then."""
    first_ms, last_ms, rows = 2**62, 0, 0
    with (
        pq.ParquetWriter(made / NOTABLE, SCHEMA, write_page_checksum=True) as notable,
        # Completion grows from row to row: its differences take few bits.
        pq.ParquetWriter(
            made / PLAIN,
            _PLAIN_SCHEMA,
            write_page_checksum=True,
            use_dictionary=["application", "outcome", "open_seconds"],
            column_encoding={"complete": "DELTA_BINARY_PACKED"},
        ) as plain,
    ):
        for table in tables:
            few, others = apart(table)
            notable.write_table(few)
            plain.write_table(others.select(NARROW).sort_by("complete"))
            ends = pc.min_max(table["complete"].cast(pa.int64())).as_py()
            first_ms, last_ms = min(first_ms, ends["min"]), max(last_ms, ends["max"])
            rows += table.num_rows
    index = MergedIndex(
        tuple(sorted(batches)),
        rows,
        first_ms,
        last_ms,
        max(batch.written_ms for batch in batches.values()),
        # Records that were compacted before the history began are no gap in it.
        sum(batch.missing for number, batch in batches.items() if number),
        sum(batch.undecodable for batch in batches.values()),
        sum(len(batch.truncated) for batch in batches.values()),
    )
    replace_file(made / INDEX, json.dumps(asdict(index)) + "\n", durable=True)
    for name in (NOTABLE, PLAIN):
        sync(made / name)
    return index


def files_of(folder: Path, batches: Iterable[int]) -> list[Path]:
    """The Parquet files of these batches."""
    return [file for number in batches for file in sorted((folder / TABLE / f"{BATCH}={number}").glob("*/*.parquet"))]


def _tables(files: Iterable[Path]) -> Iterator[pa.Table]:
    """The rows of small files together, and those of large ones in pieces."""
    return map(pa.concat_tables, gathered(_pieces(files), _ROWS_AT_ONCE))


def _pieces(files: Iterable[Path]) -> Iterator[pa.Table]:
    for file in files:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=SCHEMA.names):
                yield pa.Table.from_batches([batch], SCHEMA)
