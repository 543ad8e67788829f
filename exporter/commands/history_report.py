"""``history report``: reports for incidents, from the table that ``history`` writes."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from exporter.commands.incident import parse_instant
from exporter.commands.output import print_advice, print_json, print_table, say
from exporter.commands.settings import UsageError
from exporter.commands.spark import add_spark_flags, spark_conf
from exporter.jobs.session import SessionError, pyspark_version, spark_session

if TYPE_CHECKING:
    from exporter.jobs.history.report import HistoryReport

FORMATS = ("parquet", "delta", "iceberg")
OLDEST_SPARK = 4
MOST_LISTED = 10
_EXAMPLES = """\
examples:
  kafka-eos-exporter history report --input /data/eos
  kafka-eos-exporter history report --input /data/eos --from 2026-11-21T14:00 --application billing
  kafka-eos-exporter history report --input /data/eos --from 2h --output html > report.html

Needs Spark 4.0 or later and Java. Instants are UTC unless they carry a zone.

exit codes: 0 every transaction ended by its own client's will, 1 some were fenced or timed out, 2 could not
read the history
"""


def add_to(jobs: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``history report``."""
    parser = jobs.add_parser(
        "report",
        help="timelines, ratios, fences, longest transactions, who held which partition",
        description="Report how transactions of a time range ended: of all applications, or of one.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--input", required=True, metavar="URL|TABLE", help="the --output of `history`")
    add_format_flag(parser)
    parser.add_argument("--from", dest="begin", metavar="TIME", help="2026-11-21T14:00, or 2h for two hours ago")
    parser.add_argument("--to", dest="end", metavar="TIME", help="as --from; until the newest")
    parser.add_argument("--application", metavar="NAME", help="report this application only")
    parser.add_argument(
        "--output", choices=("text", "json", "html"), default="text", help="tables, JSON, or a page with plots"
    )
    add_spark_flags(parser)
    parser.set_defaults(command=_command)


def add_format_flag(parser: argparse.ArgumentParser) -> None:
    """``--format``, of a history's table."""
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help=f"of the table ({FORMATS[0]})")


def check_spark() -> None:
    """Raise SessionError without a Spark that has data sources in Python."""
    version = pyspark_version()
    if int(version.partition(".")[0]) < OLDEST_SPARK:
        raise SessionError(f"history needs Spark 4.0 or later, and this is {version}: pip install 'pyspark>=4'")


def _command(options: argparse.Namespace) -> int:
    now = time.time()
    begin, end = (
        None if text is None else round(parse_instant(text, now) * 1000) for text in (options.begin, options.end)
    )
    if begin is not None and end is not None and begin >= end:
        raise UsageError("--from must be before --to")
    check_spark()
    from exporter.jobs.history.report import ReportRange, report  # noqa: PLC0415 -- pyspark is an extra
    from exporter.jobs.history.report_document import document  # noqa: PLC0415 -- as above
    from exporter.jobs.history.table import HistoryTable  # noqa: PLC0415 -- as above

    table = HistoryTable(options.format, options.input)
    conf = {**table.conf, **spark_conf(options)}
    say("starting Spark ...")
    job = "kafka-eos-history-report"
    with spark_session(job, master=options.master, packages=table.packages, conf=conf) as spark:
        found = report(table.rows(spark), ReportRange(begin, end, options.application), options.input)
    if options.output == "json":
        print_json(document(found))
    elif options.output == "html":
        from exporter.jobs.history.report_page import page_of  # noqa: PLC0415
        from exporter.jobs.report.html_page import render  # noqa: PLC0415

        print(render(page_of(found)))
    else:
        _print(found)
    return 1 if found.unclean_found else 0


def _print(found: HistoryReport) -> None:
    from exporter.jobs.history import report_page as shown  # noqa: PLC0415 -- as above

    _, text = shown.verdict(found)
    print(f"{found.table}, {shown.second_of(found.begin_ms)} to {shown.second_of(found.end_ms)} UTC: {text}")
    if not found.counts.total and not found.unclean_found:
        return
    print()
    print_table(shown.APPLICATION_COLUMNS, map(shown.application_row, found.applications))
    if found.unclean:
        _heading("Ends that no client asked for, newest first")
        print_table(shown.TRANSACTION_COLUMNS, map(shown.transaction_row, found.unclean[:MOST_LISTED]))
    if found.fenced:
        _heading("Ids that were fenced")
        print_table(shown.FENCED_COLUMNS, map(shown.fenced_row, found.fenced[:MOST_LISTED]))
    if found.holds:
        _heading("Who held the last stable offset of a partition longest")
        print_table(shown.HOLD_COLUMNS, map(shown.hold_row, found.holds[:MOST_LISTED]))
    _heading("Longest transactions")
    print_table(shown.TRANSACTION_COLUMNS, map(shown.transaction_row, found.longest[:MOST_LISTED]))
    print_advice("--output json or html has more of each, and the timelines.")


def _heading(text: str) -> None:
    print()
    print(text)
