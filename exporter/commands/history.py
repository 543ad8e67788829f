"""``history``: the outcome of every transaction, kept beyond the compaction of the log, and reports of it."""

from __future__ import annotations

from typing import Any

from exporter.commands import history_report, history_run

_EXAMPLES = """\
examples:
  kafka-eos-exporter history run --bootstrap-server kafka-1:9092 --output /data/eos
  kafka-eos-exporter history report --input /data/eos --from 2h
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``history`` and its subcommands."""
    parser = commands.add_parser(
        "history",
        help=summary,
        description="Keep the history of all transactions as Parquet, by a Spark job, and report on it.",
        epilog=_EXAMPLES,
    )
    parser.set_defaults(help_of=parser)
    jobs = parser.add_subparsers(title="jobs", metavar="JOB")
    history_run.add_to(jobs)
    history_report.add_to(jobs)
