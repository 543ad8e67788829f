"""``history run``: the Spark job that turns the transaction log into a table of finished transactions."""

from __future__ import annotations

import argparse
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from exporter.cluster import Cluster
from exporter.commands.clusters import one_cluster
from exporter.commands.output import say
from exporter.commands.settings import UsageError, add_cluster_flags, add_duration_flag
from exporter.commands.spark import add_format_flag, add_spark_flags, opened_lake, spark_conf
from exporter.jobs.session import check_installed, spark_session
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.kafka.requests.transactions import describe_producers
from exporter.model import Deadline, Reason, TopicPartition

if TYPE_CHECKING:
    from exporter.jobs.history.index import Index
    from exporter.jobs.history.job import HistoryTable

ASK_SECONDS = 30.0
RETRY_SECONDS = 0.5
# The JVM only hands batches from one Python process to another: it need not compile much for that.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_JOB = "kafka-eos-history"
_EXAMPLES = """\
examples:
  kafka-eos-exporter history run --bootstrap-server kafka-1:9092 --output /data/eos
  kafka-eos-exporter history run --bootstrap-server kafka-1:9092 --output /data/eos --once
  spark-submit --master yarn eos.py history run --config eos.yml --output /mnt/eos

eos.py is: import sys; from exporter.cli import main; sys.exit(main())

Needs READ on __transaction_state. Rows are in OUTPUT/transactions, one for each finished transaction, with any Parquet
reader. --once reads to the end of the log as it is now; without it the job runs until it is stopped.

exit codes: 0 done, or stopped by SIGTERM or Ctrl-C; 2 could not read or write
"""


def add_to(jobs: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``history run``."""
    parser = jobs.add_parser(
        "run",
        help="write the outcome of every transaction to Parquet files",
        description="Follow __transaction_state and write a row for every finished transaction, exactly once.",
        epilog=_EXAMPLES,
    )
    add_cluster_flags(parser)
    parser.add_argument(
        "--output",
        required=True,
        metavar="DIR|URL|TABLE",
        help="folder of the history; of iceberg and delta also a URL such as s3a://bucket/eos, or catalog.db.table",
    )
    add_format_flag(parser)
    parser.add_argument("--once", action="store_true", help="stop at the end that the log has at the start")
    add_duration_flag(parser, "--interval", 60.0, "from one batch to the next (1m)")
    parser.add_argument(
        "--max-records-per-batch", type=_count, default=1_000_000, metavar="N", help="at most in one batch (1000000)"
    )
    add_spark_flags(parser)
    parser.set_defaults(command=_command)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


def _command(options: argparse.Namespace) -> int:
    if options.format == "parquet" and re.match(r"[a-z0-9]+:/", options.output):
        raise UsageError(
            f"{options.output}: must be a folder on a file system that this machine and all workers mount: a batch"
            " becomes visible by renaming a folder, which object stores cannot do at once; give"
            " --format iceberg or delta"
        )
    with one_cluster(options, "one history is of one cluster") as cluster, until_stopped() as over:
        return _run(options, cluster, over)


def _run(options: argparse.Namespace, cluster: Cluster, over: threading.Event) -> int:
    """Check the settings before Spark starts: Spark reports them in a hundred lines of Java."""
    say(f"asking {cluster.target} ...")
    ends = _ends(cluster)
    if ends is None and options.once:
        say("the cluster has no transaction log yet: no transaction was ever run")
        return 0
    check_installed()
    started = time.monotonic()
    write = _parquet if options.format == "parquet" else _lake
    try:
        last = write(options, cluster, ends or {}, over)
    except OSError as error:
        raise UsageError(f"--output {options.output}: {error.filename or ''}: {error.strerror}") from None
    _conclude(last, options.output, time.monotonic() - started)
    return 0


def _parquet(
    options: argparse.Namespace, cluster: Cluster, ends: Mapping[int, int], over: threading.Event
) -> Index | None:
    """Write files of Parquet. Raises HistoryError and OSError."""
    from exporter.jobs.history.parquet_table import ParquetTable  # noqa: PLC0415 -- as above
    from exporter.jobs.history.store import opened as opened_store  # noqa: PLC0415 -- as above

    output = Path(options.output).resolve()
    with opened_store(output, cluster.cluster_id, cluster.name, int(time.time() * 1000)) as store:
        say("starting Spark ...")
        session = spark_session(_JOB, master=options.master, conf=spark_conf(options), java_options=_JAVA_OPTIONS)
        with session as spark:
            _follow(options, cluster, ParquetTable(spark, store), ends, over)
        return store.last


def _lake(
    options: argparse.Namespace, cluster: Cluster, ends: Mapping[int, int], over: threading.Event
) -> Index | None:
    """Write a table of a lake. Raises HistoryError and SessionError."""
    with opened_lake(_JOB, options, options.output, _JAVA_OPTIONS) as lake:
        from exporter.jobs.history.lake_table import LakeTable  # noqa: PLC0415 -- pyspark is an extra

        table = LakeTable(lake)
        table.open(cluster.cluster_id, cluster.name)
        _follow(options, cluster, table, ends, over)
        return table.last


def _follow(
    options: argparse.Namespace,
    cluster: Cluster,
    table: HistoryTable,
    ends: Mapping[int, int],
    over: threading.Event,
) -> None:
    """Write batches into a table. Raises HistoryError."""
    from exporter.jobs.history.job import HistoryJob  # noqa: PLC0415 -- pyspark is an extra
    from exporter.jobs.history.transaction_source import LogAccess  # noqa: PLC0415 -- as above

    on_batch = _printer(table.last, ends)
    tasks = table.spark.sparkContext.defaultParallelism
    access = LogAccess(cluster.properties, cluster.cluster_id, tasks, options.max_records_per_batch)
    job = HistoryJob(access, table, cluster.grouping.patterns, on_batch)
    if options.once:
        job.run_once(ends, over)
    else:
        job.run(options.interval, over)


def _ends(cluster: Cluster) -> dict[int, int] | None:
    """The high watermarks of the log; None without a log. Raises AskError, also for a grant that is missing."""
    deadline = Deadline.after(ASK_SECONDS)
    while True:
        metadata = cluster.metadata(deadline, [TRANSACTION_STATE])
        fault = metadata.errors.get(TRANSACTION_STATE)
        if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
            raise AskError(fault)
        numbers = metadata.topics.get(TRANSACTION_STATE, {})
        if not numbers:
            return None
        partitions = [TopicPartition(TRANSACTION_STATE, number) for number in numbers]
        # DescribeProducers needs the same READ as reading does, and reads no record.
        reading = describe_producers(cluster.client, metadata, partitions, deadline)
        refused = [fault for fault in reading.faults if fault.reason is Reason.AUTHORIZATION]
        ends = end_offsets(cluster.client, metadata, partitions, Isolation.READ_UNCOMMITTED, deadline)
        if not refused and not ends.faults:
            return {partition.partition: end for partition, end in ends.values.items()}
        # Leaders move, most of all while the topic is young.
        if refused or deadline.remaining() < RETRY_SECONDS:
            raise AskError((*refused, *ends.faults)[0])
        time.sleep(RETRY_SECONDS)


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set; a second one ends the process."""
    over = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        over.set()
        signal.signal(number, signal.SIG_DFL)
        say("stopping ...")

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _printer(last: Index | None, ends: Mapping[int, int]) -> Callable[[Index], None]:
    """Print a line for each batch: how far it read, what it wrote, and what it could not read."""

    def tell(index: Index) -> None:
        reached = {number: standing.next for number, standing in index.standings.items()}
        behind = sum(max(0, end - reached.get(number, 0)) for number, end in ends.items())
        left = f", {behind:,} offsets to go" if behind else ""
        say(f"batch {index.batch}: {index.rows:,} transactions{left}")
        if index.missing:
            say(f"  {index.missing:,} offsets were compacted away before they were read")
        for number in index.truncated:
            say(f"  partition {number} of the log was truncated: its records are lost, reading continues")
        for detail in index.details:
            say(f"  not decoded: {detail}")

    if last is not None:
        say(f"going on after batch {last.batch}, with {last.total_rows:,} transactions")
    return tell


def _conclude(last: Index | None, output: str, seconds: float) -> None:
    if last is None:
        say("nothing was written")
        return
    say(f"{last.total_rows:,} transactions in {output}, {seconds:.0f} s")
    if last.pending:
        say("the last aborts may still prove to be fences: they come with the next batch")
