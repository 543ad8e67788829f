"""``transactions recent``: the transactions that did not end by their own client's will in the last hour, by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from exporter.bounds.text import count_of, some
from exporter.catalogue import UNCLEAN_OUTCOMES
from exporter.cluster import Cluster
from exporter.commands.clock import say_clock, shown_now
from exporter.commands.log_hour import NOT_IN_TIME, read_hour
from exporter.commands.output import print_advice, print_table, say
from exporter.commands.runner import ClusterReport, ListForm, add_command, run
from exporter.config import ClusterConfig
from exporter.core.durations import format_age
from exporter.model import Deadline
from exporter.transactions.facts import CoordinatorTime, ExpiredIds, LoggedTransactions, UncleanEnds
from exporter.transactions.transaction import UNDECIDED
from exporter.views.columns import View
from exporter.views.documents import UncleanEndDocument
from exporter.views.transactions import unclean_end_document

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


def add_to(lists: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions recent``."""
    parser = add_command(
        lists,
        "recent",
        lambda options: run(options, _views, replace(_FORM, every=options.all)),
        summary="unclean ends of the last hour, by id: fenced, timed out",
        description="List the unclean ends of the last hour, newest first: fenced, timed out.",
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--all", action="store_true", help=f"list every end, also where there are more than {MOST_ROWS}"
    )


@dataclass(frozen=True, slots=True)
class EndForm(ListForm):
    """The list of ends while it is short; a row for each application where it is long, unless each is asked for."""

    every: bool = False

    def print(self, reports: Sequence[ClusterReport[View]]) -> None:
        """Print each end, or each application."""
        total = sum(len(report.found) for report in reports)
        if self.every or total <= MOST_ROWS:
            ListForm.print(self, reports)
            return
        ends: dict[tuple[str, str], list[View]] = {}
        for report in reports:
            for end in report.found:
                ends.setdefault((report.cluster.name, end["application"]), []).append(end)
        found = sorted(ends.items(), key=lambda row: (-len(row[1]), row[0]))
        columns = ("cluster", "application", *UNCLEAN_OUTCOMES, "ids", "newest", "most of one id")
        first = 0 if len(reports) > 1 else 1
        print_table(columns[first:], [(*who, *_summary(its))[first:] for who, its in found])
        print_advice(f"{total} unclean ends in the last hour, by application: --all lists each of them.")
        for text in self.advice([end for report in reports for end in (*report.found, *report.undecided)]):
            print_advice(text)


def _summary(ends: Sequence[View]) -> tuple[object, ...]:
    """Each outcome counted, the ids that have any, the age of the newest end, and the id with most of them."""
    outcomes, ids = (Counter(end[key] for end in ends) for key in ("outcome", "transactional_id"))
    [(worst, times)] = ids.most_common(1)
    newest = format_age(min(end["seconds_ago"] for end in ends))
    return *(outcomes[word] for word in UNCLEAN_OUTCOMES), len(ids), newest, f"{worst}: {times}"


def _advice(ends: Sequence[View]) -> Iterator[str]:
    return (text for outcome, text in _ADVICE.items() if any(end["outcome"] == outcome for end in ends))


_FORM = EndForm(
    "unclean_ends",
    "no unclean ends in the last hour",
    UncleanEndDocument,
    lambda end: -end["ended_timestamp"],
    undecided=True,
    advice=_advice,
)


def _views(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[UncleanEndDocument]:
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
    # Ends are by the coordinators' clock. Where that is known to be ahead of ours, ages are by it as well.
    now = shown_now(clock, cluster.clock.wall())
    return ClusterReport(cluster, ends, faults, undecided).of_views(lambda end: unclean_end_document(end, now))


def _expired(target: str, expired: ExpiredIds) -> str:
    number = len(expired.ids) + expired.others
    named = some([found.transactional_id for found in expired.ids], MOST_NAMES)
    return (
        f"{target}: {count_of(number, 'transactional.id')} expired in the last hour, idle for"
        f" transactional.id.expiration.ms: {named}. A producer that lives on with one fails every transaction with"
        " INVALID_PRODUCER_ID_MAPPING until it is restarted."
    )
