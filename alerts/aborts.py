"""Applications with a large share of uncommitted transactions, and applications that stopped committing.

Agents of one cluster count the same transactions of one log: the largest count of each outcome is the most complete.
A share has two windows, as in the Google SRE workbook: a fast one that pages and a slow one that is a ticket, each with
a shorter one that ends it, and each with at least three transactions that were lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter import catalogue
from exporter.alerts.evidence import per_row
from exporter.alerts.lso import HABIT
from exporter.alerts.rule import BRIDGE, Alert, Board, Record, Severity, by_severity

_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_WHO = "{{ $labels.kafka_cluster }}, application {{ $labels.application }}"
_LOST = 3
"""Fewer lost transactions than this are no trend, whatever their share is."""
_MANY = 20
"""Applications of a cluster above this number are one alert."""
_COMMITTED = f'{catalogue.TRANSACTIONS_TOTAL}{{outcome="committed"}}'

BUDGET = Record(
    "kafka_cluster_application:kafka_eos_transactions_unclean:budget",
    f'max by ({_BY}) (last_over_time({catalogue.APPLICATION_THRESHOLD_RATIO}{{threshold="unclean"}}[{BRIDGE}])) < 1',
)
"""The share of an application's transactions that may be lost; absent where all may be, or it is ignored."""


def _ended(window: str, counter: str, by: str) -> str:
    """How many transactions of each application, or of each outcome of it, ended in a window.

    An increase starts at the first sample, so that what a new application had lost by then would not count. In the
    slow window, all of an application count that was not known before.
    """
    increase = f"max by ({by}) (increase({counter}[{window}]))"
    if window != "1d":
        return increase
    return f"""\
max by ({by}) ({counter}) unless on ({_BY}) last_over_time({catalogue.TRANSACTIONS_TOTAL}[1d] offset 1d)
  or
  {increase}"""


def finished(window: str) -> Record:
    """How many transactions of an application ended in a window."""
    ended = _ended(window, str(catalogue.TRANSACTIONS_TOTAL), f"{_BY}, outcome")
    return Record(
        f"kafka_cluster_application:kafka_eos_transactions:increase{window}", f"sum by ({_BY}) (\n  {ended}\n)"
    )


def unclean_ratio(window: str) -> Record:
    """The share of the transactions of an application that ended in a window without a commit."""
    return Record(
        f"kafka_cluster_application:kafka_eos_transactions_unclean:ratio_rate{window}",
        f"1 - (\n  {_ended(window, _COMMITTED, _BY)}\n) / {finished(window)}",
    )


MANY = Record(
    "kafka_cluster:kafka_eos_applications_above_budget:count",
    f"""\
count by (kafka_cluster) (
  {unclean_ratio("1h")} > {BUDGET}
  and {unclean_ratio("1h")} * {finished("1h")} >= {_LOST}
) > {_MANY}""",
)
"""How many applications lose more than they may, in the last hour, where there are too many to name each."""

GAP = Record(
    "kafka_cluster_application:kafka_eos_commit_gap_seconds:max",
    f"""\
time() - max by ({_BY}) ({catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome="committed"}})
unless on ({_BY})
  label_replace({catalogue.IGNORED_INFO}{{kind="application"}}, "application", "$1", "subject", "(.+)")""",
)
"""For how long an application has not committed; absent while no agent has seen it, and where it is ignored."""

_LIMIT = "kafka_cluster_application:kafka_eos_commit_gap_seconds:limit"
GAP_LIMIT = Record(
    _LIMIT,
    f"""\
max_over_time({_LIMIT}[1d]) < {GAP}
or
2 * quantile_over_time(0.99, {GAP}[3d:10m] offset 1d) + 600
or
4 * max_over_time({GAP}[1d:5m] offset 2h) + 3000
and on ({_BY}) max by ({_BY}) ({_COMMITTED}) >= 10""",
)
"""From when on an application is silent: twice the 99th percentile of its pauses in three days that ended a day ago,
and 10 minutes. On its first day, after ten commits: four times its longest pause until two hours ago, and 50
minutes. While the application is silent the limit stays as it is: that silence is no part of the rhythm."""

WEEK_AGO = Record(
    "kafka_cluster_application:kafka_eos_commit_gap_seconds:max_week_ago", f"max_over_time({GAP}[6h:30m] offset 165h)"
)
"""For how long an application had not committed a week ago at this time of the day, give or take three hours."""


def records() -> Iterator[Record]:
    """Recording rules with the usual interval."""
    yield BUDGET
    for window in ("15m", "1h"):
        yield finished(window)
        yield unclean_ratio(window)
    yield MANY
    yield GAP


def slow_records() -> Iterator[Record]:
    """Recording rules over long windows, with a longer interval."""
    for window in ("2h", "1d"):
        yield finished(window)
        yield unclean_ratio(window)
    yield GAP_LIMIT
    yield WEEK_AGO
    yield HABIT


def alerts() -> Iterator[Alert]:
    """A share above its limit now, in one application or in many, and one that is silent for too long."""
    limit = f"(clamp_max(2 * ({BUDGET} >= 0.02), 0.99) or 14.4 * {BUDGET})"
    its = 'kafka_cluster=%q, application=%q, outcome!="committed"'
    lost = f"max by (outcome) (increase({catalogue.TRANSACTIONS_TOTAL}{{{its}}}"
    yield Alert(
        "KafkaEosAbortRatioHigh",
        Severity.CRITICAL,
        Board.TRANSACTIONS,
        f"""\
{unclean_ratio("1h")} > {limit}
and {unclean_ratio("15m")} > {limit}
and {finished("1h")} >= 20
and {finished("15m")} >= 3
and {unclean_ratio("1h")} * {finished("1h")} >= {_LOST}
unless on (kafka_cluster) {MANY}""",
        _WHO + ": {{ $value | humanizePercentage }} of its transactions in the last hour did not commit.",
        _OUTCOMES + per_row(f"{lost}[1h])) >= 1", "\n- {{ .Labels.outcome }}: {{ .Value | humanize }}", *_LABELS),
        hold="2m",
        reason="fast",
        when="of 20 or more transactions of an application in 1h, and of 3 or more in 15m, more than twice the share"
        " `unclean` did not commit, 3 or more, for 2m (application: unclean, 0.05); where `unclean` is below 2%, 14.4"
        " times it",
    )
    yield Alert(
        "KafkaEosAbortRatioHigh",
        Severity.CRITICAL,
        Board.TRANSACTIONS,
        str(MANY),
        "{{ $labels.kafka_cluster }}: {{ $value }} applications lose more of their transactions than they may. It is"
        " the cluster, rather than each of them.",
        "First: check the brokers, and what all these applications need: a database, a network, a deployment."
        + per_row(
            f"topk(10, {unclean_ratio('1h')}{{kafka_cluster=%q}})",
            "\n- {{ .Labels.application }}: {{ .Value | humanizePercentage }} did not commit in 1h",
            "kafka_cluster",
        ),
        hold="2m",
        reason="many",
        when=f"more than {_MANY} applications of a cluster lose more in 1h than they may, 3 or more transactions each;"
        " one alert for all of them, in place of theirs",
    )
    threshold = f'max by ({_BY}) ({catalogue.APPLICATION_THRESHOLD_SECONDS}{{threshold="silent_critical"}})'
    yield Alert(
        "KafkaEosApplicationSilent",
        None,
        Board.TRANSACTIONS,
        by_severity(f"{GAP} > {GAP_LIMIT}\nunless {GAP} <= 1.25 * {WEEK_AGO} + 600", f"{GAP} > on ({_BY}) {threshold}"),
        _WHO + " has committed no transaction for {{ $value | humanizeDuration }}.",
        "First: see whether it is stopped on purpose, or has nothing to do. Otherwise look in its log for"
        " ProducerFencedException and InvalidProducerEpochException: a producer that was fenced for good looks like"
        " this.",
        steady=True,
        when="a ticket: an application has not committed for twice as long as usual in the days before, and 10m, and"
        " not for as long a week ago, until it commits, its ids expire, or it is ignored; on its first day four times"
        " as long, and 50m; a page: for longer than its threshold (application: silent_critical, never)",
    )


def slow_alerts() -> Iterator[Alert]:
    """A budget that burns slowly or is of a small application."""
    yield Alert(
        "KafkaEosAbortRatioHigh",
        Severity.WARNING,
        Board.TRANSACTIONS,
        # Without an end in two hours there is no share of them: what was lost stays a ticket until the day is over.
        f"""\
{unclean_ratio("1d")} > {BUDGET}
unless {unclean_ratio("2h")} <= {BUDGET}
and {finished("1d")} >= 10
and {unclean_ratio("1d")} * {finished("1d")} >= {_LOST}
unless on (kafka_cluster) {MANY}""",
        _WHO + ": {{ $value | humanizePercentage }} of its transactions in the last day did not commit. That is more"
        " than it may lose (threshold unclean).",
        _OUTCOMES,
        hold="10m",
        keeps=False,
        reason="slow",
        when="of 10 or more transactions of an application in 1d more than the share `unclean` did not commit, 3 or"
        " more, and no smaller share of those in 2h, for 10m (application: unclean, 0.05); of a new application, all"
        " that it ended count",
    )


_OUTCOMES = (
    "First: see in the application's log why they ended. Aborted: its own errors; timed_out: it is too slow or died;"
    " fenced: it restarts with open transactions, or runs twice."
)
