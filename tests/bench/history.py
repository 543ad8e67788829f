"""``python -m tests.bench.history``: a history of many days, its size, and what a report of it costs.

The rows are made here, with the writer's own columns and options: ten applications, 100 transactions a second, most
open for a tenth of a second, one in a hundred for more than a second, one in a thousand timed out or fenced. The first
hours are written as batches of a minute by two tasks, as ``history run`` writes them, and merged by its own code. What
follows has the merged copies, which a report reads, and empty folders in place of its batches.

``--format delta iceberg`` writes tables of a lake with the same rows instead, a commit for each day, compacted at the
end by the format. Memory is that of Python then: Spark's JVM has ``spark.driver.memory`` beside it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as f

from exporter.jobs.history.index import Index, TaskResult
from exporter.jobs.history.lake_table import KEY, Commit, LakeTable
from exporter.jobs.history.merged import FOLDER, merge_batches, write_copy
from exporter.jobs.history.store import BATCH_FILE, ROWS, TABLE, opened
from exporter.jobs.history.table import BATCH, DAY, SCHEMA, write_kept
from exporter.jobs.history.task import ROW_SCHEMA, spark_type
from exporter.jobs.lakes.formats import LAKES
from exporter.jobs.session import spark_session
from testkit.jars import say
from tests.bench.machine import load
from tests.bench.report import FigureRow, as_json, table

RATE = 100
DAYS = 30
BEGIN_MS = 1_788_220_800_000  # 2026-09-01T00:00Z
MINUTE_MS = 60_000
TASKS = 2
MINUTES = 1_440
"""Of a day."""
FIRST_MINUTES = 240
COPY_MINUTES = 50
APPLICATIONS = 10
WORKERS = 2
LOCAL = "local[2]"
MOST_SECONDS = 30.0
MOST_MEGABYTES = 1_000.0


def rows_of(begin_ms: int, minutes: int, count: int) -> pa.Table:
    """Transactions that completed in these minutes; the same ones for the same begin."""
    made = np.random.default_rng(begin_ms)
    complete = np.sort(made.integers(begin_ms, begin_ms + minutes * MINUTE_MS, count))
    number = made.integers(0, 20 * APPLICATIONS, count)
    open_ms = np.minimum(made.lognormal(4.6, 0.6, count), 900).astype(np.int64)
    chance = made.random(count)
    open_ms = np.where(chance < 0.01, 1_000 + made.exponential(3_000, count).astype(np.int64), open_ms)
    open_ms = np.where(chance < 0.0005, 60_000, open_ms)
    outcome = np.where(chance < 0.0005, "timed_out", np.where(chance < 0.001, "fenced", "committed"))
    outcome = np.where(chance > 0.98, "aborted", outcome)
    topics = pa.array([f"topic-{number}" for number in range(50)])
    where = made.integers(0, 50, 2 * count)
    partitions = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * count + 1, 2, dtype=np.int32)),
        pa.StructArray.from_arrays(
            [topics.take(pa.array(where)), pa.array((where * 7 % 12).astype(np.int32))], ["topic", "partition"]
        ),
    )
    names = pa.array([f"application-{number // 20}" for number in range(20 * APPLICATIONS)])
    ids = pa.array([f"application-{number // 20}-task-{number % 20}" for number in range(20 * APPLICATIONS)])
    prepare = complete - made.integers(2, 12, count)
    columns = {
        "transactional_id": ids.take(pa.array(number)),
        "application": names.take(pa.array(number)),
        "producer_id": number + 1_000,
        "producer_epoch": (number % 7).astype(np.int16),
        "client_transaction_version": np.full(count, 2, dtype=np.int8),
        "outcome": outcome,
        "begin": prepare - open_ms,
        "prepare": prepare,
        "complete": complete,
        "open_seconds": open_ms / 1000,
        "completion_seconds": (complete - prepare) / 1000,
        "partitions": partitions,
        "timeout_ms": np.full(count, 60_000, dtype=np.int32),
        "log_partition": (number % 50).astype(np.int32),
        "log_offset": np.arange(count),
    }
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in SCHEMA]
    return pa.table(arrays, schema=SCHEMA)


def write_first_hours(folder: Path) -> None:
    """Batches of a minute, as they are written while a cluster runs, and merged as then."""
    with opened(folder, "cluster", "bench", BEGIN_MS) as store:
        for minute in range(FIRST_MINUTES):
            begin_ms = BEGIN_MS + minute * MINUTE_MS
            day = f"{DAY}={datetime.fromtimestamp(begin_ms / 1000, UTC):%Y-%m-%d}"
            whole = rows_of(begin_ms, 1, RATE * 60)
            with store.under_way() as made:
                (made / ROWS / day).mkdir()
                results = []
                for task in range(TASKS):
                    name = f"{day}/{task}.parquet"
                    share = whole.num_rows // TASKS
                    pq.write_table(whole.slice(task * share, share), made / ROWS / name, write_page_checksum=True)
                    kept = write_kept([], made)
                    results.append(TaskResult({}, (name,), kept, share, 0, 0, (), {}))
                store.commit(made, results, begin_ms + MINUTE_MS)
            merge_batches(store)


def write_copies(folder: Path, begin: int, end: int, index: Index) -> int:
    """The copies of these minutes; gives the number of minutes."""
    for minute in range(begin, end):
        (folder / TABLE / f"{BATCH}={minute}").mkdir()
    pieces = [(at, min(at + COPY_MINUTES, end)) for at in range(begin, end, COPY_MINUTES)]
    with ProcessPoolExecutor(WORKERS) as pool:
        return sum(pool.map(_copy, [folder] * len(pieces), pieces, [index] * len(pieces)))


def _copy(folder: Path, minutes: tuple[int, int], index: Index) -> int:
    begin, end = minutes
    made = folder / FOLDER / f"{begin}-{end - 1}"
    made.mkdir()
    whole = rows_of(BEGIN_MS + begin * MINUTE_MS, end - begin, RATE * 60 * (end - begin))
    tables = [whole.slice(at, 100_000) for at in range(0, whole.num_rows, 100_000)]
    written = replace(index, written_ms=BEGIN_MS + end * MINUTE_MS)
    write_copy(made, tables, {number: replace(written, batch=number) for number in range(begin, end)})
    return end - begin


def size_of(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())


def reported(folder: Path, expected: int, *flags: str) -> tuple[float, float, float]:
    """Wall-clock and CPU seconds of ``history report``, and its peak memory in megabytes."""
    script = (
        "import resource, sys; from exporter.cli import main; main(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "history", "report", "--input", str(folder), "--output", "json", *flags]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    if found["transactions"] != expected:
        raise ValueError(f"reported {found['transactions']:,} of {expected:,} transactions")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, int(done.stderr.split()[-1]) / 1024


def measure(folder: Path, days: Sequence[int]) -> Iterator[FigureRow]:
    """A report of so many days, for each."""
    say("writing the first hours, a batch for each minute")
    write_first_hours(folder)
    a_day = RATE * 86_400
    part = MINUTES / FIRST_MINUTES
    small = size_of((folder / TABLE).rglob("*")) * part / 1e6
    yield FigureRow(
        "a day on disk, in batches of a minute", small, "MB", load(), note=f"{FIRST_MINUTES} minutes written"
    )
    index = Index.from_json((folder / TABLE / f"{BATCH}=1" / BATCH_FILE).read_text(encoding="utf-8"))
    done = FIRST_MINUTES
    for count in days:
        say(f"writing the copies of {count} days")
        done += write_copies(folder, done, count * MINUTES, index)
        copies = size_of((folder / FOLDER).rglob("*")) / count / 1e6
        yield FigureRow(f"its merged copies, in {count} days", copies, "MB", load())
        say(f"a report of {count} days")
        seconds, cpu, megabytes = reported(folder, count * a_day)
        note = f"{cpu:.1f} CPU s, {count * a_day / cpu:,.0f} rows/CPU s"
        whole = count == DAYS
        yield FigureRow(f"report of {count} days", seconds, "s", load(), MOST_SECONDS if whole else None, note=note)
        yield FigureRow("the same, peak memory", megabytes, "MB", load(), MOST_MEGABYTES if whole else None)


def measure_table(folder: Path, name: str, days: int) -> Iterator[FigureRow]:
    """A table of so many days, and a report of it."""
    kind, url = LAKES[name], str(folder / name)
    say(f"writing {days} days of {name}")
    began = time.monotonic()
    with spark_session("bench", master=LOCAL, packages=kind.packages(url), conf=kind.conf(url)) as spark:
        table = LakeTable(kind(spark, url))
        table.open("cluster", "bench")
        for day in range(days):
            minutes = spark.range(MINUTES * day, MINUTES * (day + 1), 1, WORKERS)
            rows = minutes.mapInArrow(_minutes, spark_type(ROW_SCHEMA))
            rows = rows.withColumns({DAY: f.to_date("complete"), BATCH: f.lit(day).cast("bigint")})
            index = replace(Index.after(None, [], BEGIN_MS), batch=day)
            table.lake.append(rows, BATCH, day, (KEY, Commit("cluster", "bench", "", index).to_json()))
        seconds = time.monotonic() - began
        yield FigureRow(f"{days} days of {name} written", seconds, "s", load())
        began = time.monotonic()
        table.lake.compact()
        yield FigureRow("compacted", time.monotonic() - began, "s", load())
    size = size_of(folder.rglob("*.parquet")) / days / 1e6
    yield FigureRow("a day on disk, with what readers of older snapshots need", size, "MB", load())
    say(f"a report of {days} days")
    seconds, cpu, megabytes = reported(Path(url), days * RATE * 86_400, "--format", name, "--master", LOCAL)
    yield FigureRow(
        f"report of {days} days of {name}", seconds, "s", load(), note=f"{cpu:.1f} CPU s with Spark's start"
    )
    yield FigureRow("the same, peak memory of Python", megabytes, "MB", load())


def _minutes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for minute in batch.column(0).to_pylist():
            rows = rows_of(BEGIN_MS + minute * MINUTE_MS, 1, RATE * 60)
            yield from rows.cast(ROW_SCHEMA).combine_chunks().to_batches()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.history", description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=int, nargs="+", default=[1, 3, 10, DAYS], help="reports of so many days")
    parser.add_argument("--format", nargs="+", choices=list(LAKES), default=[], help="tables of these formats instead")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if options.format:
            tables = ((name, days) for name in options.format for days in options.days)
            rows = [row for name, days in tables for row in measure_table(Path(folder) / str(days), name, days)]
        else:
            rows = list(measure(Path(folder) / "history", sorted(options.days)))
    print(as_json(rows, {"rate": RATE}) if options.output == "json" else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
