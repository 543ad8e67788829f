"""``history``: a row of every finished transaction, kept beyond the compaction of the log, and reports of them."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.commands import history_report
from exporter.commands.clusters import one_cluster
from exporter.commands.history_report import FORMATS, add_format_flag, check_spark
from exporter.commands.output import say
from exporter.commands.settings import UsageError, add_cluster_flags, add_duration_flag
from exporter.commands.spark import add_spark_flags, spark_conf, until_stopped
from exporter.jobs.session import spark_session
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.model import Deadline

if TYPE_CHECKING:
    from exporter.cluster import Cluster

ASK_SECONDS = 30.0
OLD_INDEX = "_history.json"
"""Of a folder that version 0.2 wrote."""
_EXAMPLES = """\
examples:
  kafka-eos-exporter history --bootstrap-server kafka-1:9092 --output /data/eos
  kafka-eos-exporter history --bootstrap-server kafka-1:9092 --format delta --output s3a://lake/eos --once
  spark-submit --master yarn eos.py history --config eos.yml --format delta --output s3a://lake/eos
  kafka-eos-exporter history report --input /data/eos --from 2h

eos.py is: import sys; from exporter.cli import main; sys.exit(main())

Needs Spark 4.0 or later, and READ on __transaction_state. --once reads to the end of the log as it is now; without it
the job runs until it is stopped.

exit codes: 0 done, or stopped by SIGTERM or Ctrl-C; 2 could not read or write
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``history`` and of its reports."""
    parser = commands.add_parser(
        "history",
        help=summary,
        description="Follow __transaction_state and write a row for every finished transaction, exactly once.",
        epilog=_EXAMPLES,
    )
    add_cluster_flags(parser)
    parser.add_argument(
        "--output",
        default="",
        metavar="URL|TABLE",
        help="folder of the table, here or such as s3a://bucket/eos; of iceberg and delta also catalog.db.table",
    )
    add_format_flag(parser)
    parser.add_argument(
        "--checkpoint",
        default="",
        metavar="URL",
        help="folder of the stream's position (_checkpoint below the table's folder)",
    )
    parser.add_argument("--once", action="store_true", help="stop at the end that the log has at the start")
    add_duration_flag(parser, "--interval", 60.0, "from one batch to the next (1m)")
    add_spark_flags(parser)
    parser.set_defaults(command=_command)
    history_report.add_to(parser.add_subparsers(title="reports", metavar="report"))


def _command(options: argparse.Namespace) -> int:
    if not options.output:
        raise UsageError("history needs --output, or is `history report`")
    if (Path(options.output) / OLD_INDEX).exists():
        raise UsageError(f"--output {options.output}: is a history of version 0.2; see docs/upgrading.md")
    if not options.checkpoint and "/" not in options.output:
        if options.format != FORMATS[0]:
            raise UsageError(f"--output {options.output}: a table of a catalog needs --checkpoint URL")
        options.output = str(Path(options.output).resolve())
    check_spark()
    with one_cluster(options, "one history is of one cluster") as cluster, until_stopped() as over:
        say(f"asking {cluster.target} ...")
        # Spark reports in a hundred lines of Java that no broker answers.
        cluster.metadata(Deadline.after(ASK_SECONDS), [TRANSACTION_STATE])
        _write(options, cluster, over)
    return 0


def _write(options: argparse.Namespace, cluster: Cluster, over: threading.Event) -> None:
    """Write the table. Raises HistoryError and SessionError."""
    from exporter.jobs.history.table import CHECKPOINT, QUERY, HistoryTable  # noqa: PLC0415 -- pyspark is an extra
    from exporter.jobs.kafka_transactions import source_options  # noqa: PLC0415 -- as above
    from exporter.jobs.streams import follow, trigger  # noqa: PLC0415 -- as above

    table = HistoryTable(options.format, options.output)
    checkpoint = options.checkpoint or f"{table.folder}/{CHECKPOINT}"
    every = trigger(once=options.once, interval=options.interval)
    source = source_options(cluster.properties, cluster.grouping.patterns)
    written = 0

    def on_batch(progress: Mapping[str, Any]) -> None:
        nonlocal written
        written += progress["numInputRows"]
        say(f"batch {progress['batchId']}: {progress['numInputRows']:,} transactions")

    started = time.monotonic()
    say("starting Spark ...")
    conf = {**table.conf, **spark_conf(options)}
    with spark_session(QUERY, master=options.master, packages=table.packages, conf=conf) as spark:
        follow(lambda: table.start(spark, source, checkpoint, every), over, on_batch)
    say(f"{written:,} transactions more in {options.output}, {time.monotonic() - started:.0f} s")
