"""``transactions recent``: the transactions that did not end by their own client's will in the last hour, by id."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from exporter.bounds.text import count_of, some
from exporter.catalogue import UNCLEAN_OUTCOMES
from exporter.cluster import Cluster
from exporter.commands.clock import say_clock, shown_now
from exporter.commands.clusters import read_all
from exporter.commands.log_hour import NOT_IN_TIME, read_hour
from exporter.commands.output import print_advice, print_not_asked, print_table, say
from exporter.commands.report import ClusterReport, ReportFormat, exit_code, show
from exporter.config import ClusterConfig
from exporter.core.durations import format_age
from exporter.lso.next_step import clock_time
from exporter.model import Deadline
from exporter.status.transaction_documents import unclean_end_document
from exporter.transactions.counting.aggregates import UNDECIDED
from exporter.transactions.facts import CoordinatorTime, ExpiredIds, LoggedTransactions, UncleanEnd, UncleanEnds

_MOST = 10_000
MOST_NAMES = 10
"""Expired ids that are named."""
MOST_ROWS = 50
"""Ends that are listed one by one; more of them are summed up by application, unless ``--all`` asks for each."""
_ADVICE = {
    "fenced": (
        "fenced: a producer with the same transactional.id was initialised while this transaction was open. Once is a"
        " restart; again and again is a crash loop, or two live instances that share one id: give each its own."
    ),
    "timed_out": (
        "timed_out: its producer did not end it within its transaction.timeout.ms: check for a crash or a long pause of"
        " the instance with this id, or for work that takes longer than the timeout."
    ),
    UNDECIDED: (
        "undecided: it was aborted, by its client, its timeout or a fence. Which of them shows within 6 seconds of the"
        " transaction log, which was not read to its end in that time: ask again."
    ),
}
_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions recent --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions recent --bootstrap-server kafka-1:9092 --output json

More than 50 are summed up by application; --all lists each. Reads the last hour of __transaction_state, which needs
READ on it. A fence and a client that aborts and starts again within 5 seconds look the same there.

exit codes: 0 none, 1 found, 2 could not be read, or the outcome of an abort is not known yet
"""


def add_to(looks: Any) -> argparse.ArgumentParser:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions recent``."""
    parser: argparse.ArgumentParser = looks.add_parser(
        "recent",
        help="unclean ends of the last hour, by id: fenced, timed out",
        description="List the unclean ends of the last hour, newest first: fenced, timed out.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "--all", action="store_true", help=f"list every end, also where there are more than {MOST_ROWS}"
    )
    return parser


def command(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit code."""
    looks = read_all(options, _look)
    wall = time.time()
    # Ends are by the coordinators' clock. Where that is known to be ahead of ours, ages are by it as well.
    now = max((shown_now(look.time, wall) for look in looks), default=wall)
    several = len(looks) > 1
    if options.output == "text" and not options.all and sum(len(look.found) for look in looks) > MOST_ROWS:
        return _summarise(looks, now, several=several)
    form: ReportFormat[UncleanEnd] = ReportFormat(
        "unclean_ends",
        "no unclean ends in the last hour",
        ("application", "transactional.id", "producer id", "epoch", "outcome", "age", "ended"),
        lambda end: _row(end, now),
        lambda _, end: unclean_end_document(end, now),
        lambda end: -end.ended,
        undecided=True,
        advice=_advice,
    )
    return show(options, looks, form)


def _summarise(looks: Sequence[ClusterReport[UncleanEnd]], now: float, *, several: bool) -> int:
    """Print a row for each application instead of one for each end. Returns the exit code."""
    rows: dict[tuple[str, str], list[UncleanEnd]] = {}
    for look in looks:
        for end in look.found:
            rows.setdefault((look.cluster.name, end.application), []).append(end)
    found = sorted(rows.items(), key=lambda row: (-len(row[1]), row[0]))
    columns = ("application", *UNCLEAN_OUTCOMES, "ids", "newest", "most of one id")
    print_table(
        ("cluster", *columns) if several else columns,
        (
            (
                *((cluster,) if several else ()),
                application,
                *_counted(ends),
                format_age(now - max(end.ended for end in ends)),
                _worst(ends),
            )
            for (cluster, application), ends in found
        ),
    )
    total = sum(len(ends) for ends in rows.values())
    print_advice(f"{total} unclean ends in the last hour, by application: --all lists each of them.")
    undecided = [end for look in looks for end in look.undecided]
    for text in _advice([*(end for ends in rows.values() for end in ends), *undecided]):
        print_advice(text)
    for look in looks:
        print_not_asked(look.cluster.target, look.not_asked)
    return exit_code(looks)


def _counted(ends: Sequence[UncleanEnd]) -> tuple[int, ...]:
    """Count each outcome, and the transactional ids that have any."""
    return (
        *(sum(end.outcome == outcome for end in ends) for outcome in UNCLEAN_OUTCOMES),
        len({end.transactional_id for end in ends}),
    )


def _worst(ends: Sequence[UncleanEnd]) -> str:
    [(transactional_id, number)] = Counter(end.transactional_id for end in ends).most_common(1)
    return f"{transactional_id}: {number}"


def _advice(ends: Sequence[UncleanEnd]) -> Iterator[str]:
    return (text for outcome, text in _ADVICE.items() if any(end.outcome == outcome for end in ends))


def _look(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[UncleanEnd]:
    say(f"reading the last hour of the transaction log of {cluster.target} ...")
    facts, faults, undecided = read_hour(cluster, deadline, _MOST, settle=True)
    unclean, logged = facts.get(UncleanEnds), facts.get(LoggedTransactions)
    if unclean is None and not faults:
        faults = (NOT_IN_TIME,)
    time = logged.clock if logged is not None else CoordinatorTime()
    clock = time.beside(cluster.clock.wall() - cluster.clock.monotonic())
    ends = unclean.ends if unclean is not None else ()
    if (expired := facts.get(ExpiredIds)) is not None and expired.ids:
        say(_expired(cluster.target, expired))
    if len(ends) >= _MOST:
        faults = (*faults, f"there are more unclean ends than the newest {_MOST}, which are shown")
    if ends:
        say_clock(cluster, clock, cluster.clock.wall())
    return ClusterReport(cluster, ends, faults, undecided, time=clock)


def _expired(target: str, expired: ExpiredIds) -> str:
    number = len(expired.ids) + expired.others
    named = some([found.transactional_id for found in expired.ids], MOST_NAMES)
    return (
        f"{target}: {count_of(number, 'transactional.id')} expired in the last hour, idle for"
        f" transactional.id.expiration.ms: {named}. A producer that lives on with one fails every transaction with"
        " INVALID_PRODUCER_ID_MAPPING until it is restarted."
    )


def _row(end: UncleanEnd, now: float) -> tuple[object, ...]:
    age, ended = format_age(now - end.ended), clock_time(end.ended)
    return end.application, end.transactional_id, end.producer_id, end.producer_epoch, end.outcome, age, ended
