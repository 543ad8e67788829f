"""Applications with a large share of uncommitted transactions, and applications that stopped committing.

A share and the counts that it is made of come from one agent, the one with the largest count: a pod that is a few
minutes old has counted only a few transactions. Every budget is judged over four pairs of windows, as in the Google SRE
workbook: by its share, and by at least three transactions that were lost. With a budget of 2% or more the shorter
windows compare the share itself; below, the rates at which a budget of 30 days burns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import per_row
from exporter.alerts.lso import HABIT
from exporter.alerts.rule import BRIDGE, Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    APPLICATION_THRESHOLD_RATIO,
    APPLICATION_THRESHOLD_SECONDS,
    IGNORED_INFO,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    TRANSACTIONS_TOTAL,
)

DASHBOARD = "kafka-eos-transactions"
_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_WHO = "{{ $labels.kafka_cluster }}, application {{ $labels.application }}"
_LOST = 3
"""Fewer lost transactions than this are no trend, whatever their share is."""
_MANY = 20
"""Applications of a cluster above this number are one alert."""

BUDGET = Record(
    "kafka_cluster_application:kafka_eos_transactions_unclean:budget",
    f'max by ({_BY}) (last_over_time({APPLICATION_THRESHOLD_RATIO}{{threshold="unclean"}}[{BRIDGE}])) < 1',
)
"""The share of an application's transactions that may be lost; absent where all may be, or it is ignored."""


_alert = partial(Alert, dashboard=DASHBOARD, variables=_LABELS)


def unclean_ratio(window: str) -> Record:
    """The share of an application's transactions that did not commit over a window, by the agent that counted most."""
    finished = f"sum without (outcome) (rate({TRANSACTIONS_TOTAL}[{window}]))"
    return Record(
        f"kafka_cluster_application:kafka_eos_transactions_unclean:ratio_rate{window}",
        f"""\
max by ({_BY}) (
  1 - sum without (outcome) (rate({TRANSACTIONS_TOTAL}{{outcome="committed"}}[{window}])) / {finished}
  and {finished} == on ({_BY}) group_left () max by ({_BY}) ({finished})
)""",
    )


def finished(window: str) -> Record:
    """How many transactions of an application finished in a window, by the agent that counted most."""
    return Record(
        f"kafka_cluster_application:kafka_eos_transactions:increase{window}",
        f"max by ({_BY}) (sum without (outcome) (increase({TRANSACTIONS_TOTAL}[{window}])))",
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
time() - max by ({_BY}) ({LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome="committed"}})
unless on ({_BY}) label_replace({IGNORED_INFO}{{kind="application"}}, "application", "$1", "subject", "(.+)")""",
)
"""For how long an application has not committed; absent while no agent has seen it, and where it is ignored."""

_LIMIT = "kafka_cluster_application:kafka_eos_commit_gap_seconds:limit"
_COMMITTED = f'{TRANSACTIONS_TOTAL}{{outcome="committed"}}'
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
    "kafka_cluster_application:kafka_eos_commit_gap_seconds:max_week_ago",
    f"max_over_time({GAP}[6h:30m] offset 165h)",
)
"""For how long an application had not committed a week ago at this time of the day, give or take three hours."""


def records() -> Iterator[Record]:
    """Recording rules with the usual interval."""
    yield BUDGET
    for window in ("15m", "1h"):
        yield unclean_ratio(window)
        yield finished(window)
    yield MANY
    yield GAP


def slow_records() -> Iterator[Record]:
    """Recording rules over long windows, with a longer interval."""
    for window in ("30m", "2h", "6h", "1d", "3d"):
        yield unclean_ratio(window)
    for window in ("6h", "1d", "3d"):
        yield finished(window)
    yield GAP_LIMIT
    yield WEEK_AGO
    yield HABIT


def alerts(_: Settings) -> Iterator[Alert]:
    """A share above its limit now, and an application that is silent for longer than its threshold."""
    yield _ratio(
        Severity.CRITICAL,
        "1h",
        "15m",
        f"(clamp_max(2 * ({BUDGET} >= 0.02), 0.99) or 14.4 * {BUDGET})",
        "2m",
        "twice the share `unclean`, or 14.4 times it where it is below 2%",
    )
    yield _ratio(
        Severity.WARNING,
        "1h",
        "15m",
        str(BUDGET),
        "15m",
        "the share `unclean`, where it is 2% or more",
        ">=",
    )
    yield _many()
    limit = f'on ({_BY}) max by ({_BY}) ({APPLICATION_THRESHOLD_SECONDS}{{threshold="silent_critical"}})'
    yield _silent(
        Severity.CRITICAL,
        limit,
        "an application has not committed for longer than its threshold (application: silent_critical, never)",
    )


def slow_alerts(_: Settings) -> Iterator[Alert]:
    """A budget that burns slowly or is of a small application, and an application that stopped or never committed."""
    small, half = "below 2%", "2% or more"
    yield _ratio(
        Severity.CRITICAL, "6h", "30m", f"6 * {BUDGET}", "15m", f"6 times the share `unclean`, where it is {small}", "<"
    )
    yield _ratio(
        Severity.WARNING,
        "6h",
        "30m",
        f"clamp_max(2 * {BUDGET}, 0.99)",
        "15m",
        f"twice the share `unclean`, where it is {half}",
        ">=",
    )
    yield _ratio(
        Severity.WARNING,
        "1d",
        "2h",
        f"(clamp_max(2 * ({BUDGET} >= 0.02), 0.99) or 3 * {BUDGET})",
        "1h",
        f"twice the share `unclean`, or 3 times it where it is {small}",
    )
    yield _ratio(Severity.WARNING, "3d", "6h", str(BUDGET), "1h", "the share `unclean`")
    yield _never()
    yield _silent(
        Severity.WARNING,
        f"{GAP_LIMIT}\nunless {GAP} <= 1.25 * {WEEK_AGO} + 600",
        "an application has not committed for twice as long as usual in the days before, and 10m, and not for as long a"
        " week ago, until it commits, its ids expire, or it is ignored; on its first day four times as long, and 50m",
        "5m",
    )


def _ratio(severity: Severity, window: str, short: str, share: str, hold: str, words: str, budgets: str = "") -> Alert:
    fast = short == "15m"
    floor = f"\nand {finished(short)} >= 3" if fast else ""
    judged = f"\nand {BUDGET} {budgets} 0.02" if budgets else ""
    named = f"\nunless on (kafka_cluster) {MANY}"
    least = 10 if window == "3d" else 20
    lost = per_row(
        f"max by (outcome) (increase({TRANSACTIONS_TOTAL}"
        f'{{kafka_cluster=%q, application=%q, outcome!="committed"}}[{window}])) >= 1',
        "\n- {{ .Labels.outcome }}: {{ .Value | humanize }}",
        *_LABELS,
    )
    allowed = per_row(
        f'max({APPLICATION_THRESHOLD_RATIO}{{kafka_cluster=%q, application=%q, threshold="unclean"}})',
        " At most {{ .Value | humanizePercentage }} may be lost.",
        *_LABELS,
    )
    return _alert(
        "KafkaEosAbortRatioHigh",
        severity,
        f"""\
{unclean_ratio(window)} > {share}
and {unclean_ratio(short)} > {share}{judged}
and {finished(window)} >= {least}{floor}
and {unclean_ratio(window)} * {finished(window)} >= {_LOST}{named}""",
        _WHO + f": {{{{ $value | humanizePercentage }}}} of its transactions in {window} did not commit.{allowed}",
        _OUTCOMES + lost,
        hold=hold,
        keeps=window == "1h",  # the longer windows tolerate missed scrapes
        labels=(("window", window),),
        when=f"of {least} or more transactions of an application in {window}, and of those in {short}, more than"
        f" {words} (application: unclean, 0.05) did not commit, 3 or more, for {hold}",
    )


_OUTCOMES = (
    "First: see in the application's log why they ended. Aborted: its own errors; timed_out: it is too slow or died;"
    " fenced: it restarts with open transactions, or runs twice."
)


def _many() -> Alert:
    return Alert(
        "KafkaEosAbortRatioHigh",
        Severity.CRITICAL,
        str(MANY),
        "{{ $labels.kafka_cluster }}: {{ $value }} applications lose more of their transactions than they may. It is"
        " the cluster, rather than each of them.",
        "First: check the brokers, and what all these applications need: a database, a network, a deployment."
        + per_row(
            f"topk(10, {unclean_ratio('1h')}{{kafka_cluster=%q}})",
            "\n- {{ .Labels.application }}: {{ .Value | humanizePercentage }} did not commit in 1h",
            "kafka_cluster",
        ),
        DASHBOARD,
        hold="2m",
        labels=(("reason", "many"),),
        when=f"more than {_MANY} applications of a cluster lose more in 1h than they may, 3 or more transactions each;"
        " one alert for all of them, in place of theirs",
    )


def _never() -> Alert:
    """Counts as such, not their increase: the first sample of a new application has its first transactions."""
    lost = f'sum without (outcome) ({TRANSACTIONS_TOTAL}{{outcome!="committed"}})'
    return _alert(
        "KafkaEosAbortRatioHigh",
        Severity.WARNING,
        f"""\
max by ({_BY}) ({lost}) >= 10
unless on ({_BY}) {_COMMITTED} > 0
and on ({_BY}) {BUDGET}
and on ({_BY})
  time() - max by ({_BY}) ({LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome!="committed"}}) < 86400""",
        _WHO + " has lost all of its {{ $value | humanize }} transactions so far. None committed.",
        _OUTCOMES,
        labels=(("reason", "never"),),
        when="an application has finished 10 transactions or more, the last within a day, and none of them committed",
    )


def _silent(severity: Severity, condition: str, when: str, hold: str = "") -> Alert:
    return _alert(
        "KafkaEosApplicationSilent",
        severity,
        f"{GAP} > {condition}",
        _WHO
        + " has committed no transaction for {{ $value | humanizeDuration }}."
        + per_row(
            f"max({GAP_LIMIT}{{kafka_cluster=%q, application=%q}})",
            " By its habit there would have been one within {{ .Value | humanizeDuration }}.",
            *_LABELS,
        ),
        "First: see whether it is stopped on purpose, or has nothing to do. Otherwise look in its log for"
        " ProducerFencedException and InvalidProducerEpochException: a producer that was fenced for good looks like"
        " this.",
        hold=hold,
        steady=True,
        when=when,
    )
