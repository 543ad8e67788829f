"""Applications with a large share of uncommitted transactions, and applications that stopped committing.

A share and the counts that it is made of come from one agent, the one with the largest count: a pod that is a few
minutes old has counted only a few transactions. With a budget of 2% or more the alert compares the share itself; below,
the rates at which a budget of 30 days burns, as in the Google SRE workbook.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
from exporter.alerts.rule import BRIDGE, Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    APPLICATION_THRESHOLD_RATIO,
    APPLICATION_THRESHOLD_SECONDS,
    IGNORED_INFO,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    TRANSACTIONS_OBSERVED_TOTAL,
    TRANSACTIONS_TOTAL,
)

DASHBOARD = "kafka-eos-transactions"
_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_SMALL = "the share `unclean`, where it is below 2%"
_WHO = "{{ $labels.application }} on {{ $labels.kafka_cluster }}"

BUDGET = Record(
    "kafka_cluster_application:kafka_eos_transactions_unclean:budget",
    f'max by ({_BY}) (last_over_time({APPLICATION_THRESHOLD_RATIO}{{threshold="unclean"}}[{BRIDGE}])) < 1',
)
"""The share of an application's transactions that may be lost; absent where all may be, or it is ignored."""


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


GAP = Record(
    "kafka_cluster_application:kafka_eos_commit_gap_seconds:max",
    f"""\
time() - max by ({_BY}) ({LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome="committed"}})
unless on ({_BY}) label_replace({IGNORED_INFO}{{kind="application"}}, "application", "$1", "subject", "(.+)")""",
)
"""For how long an application has not committed; absent while no agent has seen it, and where it is ignored."""

_LIMIT = "kafka_cluster_application:kafka_eos_commit_gap_seconds:limit"
GAP_LIMIT = Record(
    _LIMIT,
    f"""\
max_over_time({_LIMIT}[1d]) < {GAP}
or
2 * quantile_over_time(0.99, {GAP}[3d:10m] offset 1d) + 600""",
)
"""From when on an application is silent: twice the 99th percentile of its pauses in three days that ended a day ago,
and 10 minutes. While the application is silent the limit stays as it is: that silence is no part of the rhythm."""


def records() -> Iterator[Record]:
    """Recording rules with the usual interval."""
    yield BUDGET
    for window in ("15m", "1h"):
        yield unclean_ratio(window)
        yield finished(window)
    yield GAP


def slow_records() -> Iterator[Record]:
    """Recording rules over long windows, with a longer interval."""
    for window in ("30m", "2h", "6h", "1d"):
        yield unclean_ratio(window)
    for window in ("6h", "1d"):
        yield finished(window)
    yield GAP_LIMIT


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
    yield _observed_ratio()
    limit = f'on ({_BY}) max by ({_BY}) ({APPLICATION_THRESHOLD_SECONDS}{{threshold="silent_critical"}})'
    yield _silent(
        Severity.CRITICAL,
        limit,
        "an application has not committed for longer than its threshold (application: silent_critical, never)",
    )


def slow_alerts(_: Settings) -> Iterator[Alert]:
    """A budget below 2% that burns, and an application that stopped."""
    yield _ratio(Severity.CRITICAL, "6h", "30m", f"6 * {BUDGET}", "15m", f"6 times {_SMALL}", "<")
    yield _ratio(Severity.WARNING, "1d", "2h", f"3 * {BUDGET}", "1h", f"3 times {_SMALL}", "<")
    yield _silent(
        Severity.WARNING,
        str(GAP_LIMIT),
        "an application has not committed for twice as long as usual in the days before, and 10m, until it commits, its"
        " ids expire, or it is ignored",
        "5m",
    )


def _ratio(severity: Severity, window: str, short: str, share: str, hold: str, words: str, budgets: str = "") -> Alert:
    floor = f"\nand {finished(short)} >= 3" if short == "15m" else ""
    judged = f"\nand {BUDGET} {budgets} 0.02" if budgets else ""
    lost = each(
        f"max by (outcome) (increase({TRANSACTIONS_TOTAL}"
        f'{{kafka_cluster=%q, application=%q, outcome!="committed"}}[{window}])) >= 1',
        " {{ .Labels.outcome }}: {{ .Value | humanize }}.",
        *_LABELS,
    )
    allowed = each(
        f'max({APPLICATION_THRESHOLD_RATIO}{{kafka_cluster=%q, application=%q, threshold="unclean"}})',
        " {{ .Value | humanizePercentage }} may.",
        *_LABELS,
    )
    return Alert(
        "KafkaEosAbortRatioHigh",
        severity,
        f"""\
{unclean_ratio(window)} > {share}
and {unclean_ratio(short)} > {share}{judged}
and {finished(window)} >= 20{floor}""",
        "Too large a share of an application's transactions does not commit.",
        f"{{{{ $value | humanizePercentage }}}} of the transactions of {_WHO} in the last {window} did not commit."
        f"{allowed}{lost}\nAborted: the application's own errors; timed_out: it is too slow or died; fenced: it"
        " restarts with open transactions, or runs twice.",
        DASHBOARD,
        _LABELS,
        hold=hold,
        keeps=window == "1h",  # the longer windows tolerate missed scrapes
        labels=(("window", window),),
        when=f"of 20 or more transactions of an application in {window}, and of those in {short}, more than {words}"
        f" (application: unclean, 0.05) did not commit, for {hold}",
    )


def _observed_ratio() -> Alert:
    """The same by polling, where the log is not read: a share of what was seen to commit or abort, one severity."""
    known = f'{TRANSACTIONS_OBSERVED_TOTAL}{{outcome!="unknown"}}'
    seen = f"max by ({_BY}) (sum without (outcome) (increase({known}[1h])))"
    committed = f'increase({TRANSACTIONS_OBSERVED_TOTAL}{{outcome="committed"}}[1h])'
    return Alert(
        "KafkaEosAbortRatioHigh",
        Severity.WARNING,
        f"""\
max by ({_BY}) (1 - sum without (outcome) ({committed}) / sum without (outcome) (increase({known}[1h]))) > {BUDGET}
and {BUDGET} >= 0.02
and {seen} >= 20""",
        "Too large a share of an application's transactions that polling sees does not commit.",
        f"{{{{ $value | humanizePercentage }}}} of the transactions of {_WHO} that were seen to end in the last 1h did"
        " not commit. They were seen by polling the coordinators, as the transaction log is not read: there were at"
        " least "
        + each(
            f"max(sum without (outcome) (increase({TRANSACTIONS_OBSERVED_TOTAL}"
            '{kafka_cluster=%q, application=%q, outcome!="committed", outcome!="unknown"}[1h])))',
            "{{ .Value | humanize }}",
            *_LABELS,
        )
        + " of them, and the share is that of a sample. Its clients' logs have the reasons.",
        DASHBOARD,
        _LABELS,
        hold="15m",
        labels=(("reason", "polled"),),
        when="the same as far as polling shows it, where the log is not read: more than what may be lost, of a budget"
        " of 2% or more, did not commit in 1h, of 20 or more that were seen, for 15m",
    )


def _silent(severity: Severity, condition: str, when: str, hold: str = "") -> Alert:
    return Alert(
        "KafkaEosApplicationSilent",
        severity,
        f"{GAP} > {condition}",
        "An application that committed regularly commits no more.",
        _WHO
        + " has committed no transaction for {{ $value | humanizeDuration }}."
        + each(
            f"(max({GAP_LIMIT}{{kafka_cluster=%q, application=%q}}) - 600) / 2",
            " Before, it seldom went longer than {{ .Value | humanizeDuration }} without one.",
            *_LABELS,
        )
        + "\nIs it stopped on purpose, has it nothing to do, or was its producer fenced for good, which looks like"
        " this? Look in its log for ProducerFencedException and InvalidProducerEpochException.",
        DASHBOARD,
        _LABELS,
        hold=hold,
        when=when,
    )
