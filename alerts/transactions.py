"""What became of transactions: rows about the transaction log.

Fences and time-outs are events. They are told by the log's own time of the last one, not by a counter's increase: the
first one of an application whose series did not exist before is not missed, and an agent that restarts, or a second
replica that catches up, does not tell of an old one again.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each, unclean_ends
from exporter.alerts.rule import Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    OLDEST_COMPLETION_START_TIMESTAMP_SECONDS,
    OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_TIMEOUT_SECONDS,
    OVERDUE_TRANSACTIONS,
    RECENT_PRODUCER_FENCES,
    TRANSACTION_COMPLETION_SECONDS,
    TRANSACTIONS_TOTAL,
)

DASHBOARD = "kafka-eos-transactions"
_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_WHO = "{{ $labels.application }} on {{ $labels.kafka_cluster }}"
_OVERDUE_WINDOW = "3m"

BURN_RATES = (
    # severity, window, short window, for, factor: the table of the Google SRE workbook, for a budget of 30 days
    (Severity.CRITICAL, "1h", "5m", "2m", 14.4),
    (Severity.CRITICAL, "6h", "30m", "15m", 6),
    (Severity.WARNING, "1d", "2h", "1h", 3),
    (Severity.WARNING, "3d", "6h", "3h", 1),
)

P99_COMPLETION = Record(
    "kafka_cluster_application:kafka_eos_transaction_completion_seconds:p99_rate10m",
    f"max by ({_BY}) (histogram_quantile(0.99, rate({TRANSACTION_COMPLETION_SECONDS}_bucket[10m])))",
)


def unclean_ratio(window: str) -> Record:
    """The share of an application's transactions that did not commit, over a window."""
    committed = f'sum without (outcome) (rate({TRANSACTIONS_TOTAL}{{outcome="committed"}}[{window}]))'
    return Record(
        f"kafka_cluster_application:kafka_eos_transactions_unclean:ratio_rate{window}",
        # A replica's counters are set against each other first: one that catches up counts its own past.
        f"max by ({_BY}) (1 - {committed}\n  / sum without (outcome) (rate({TRANSACTIONS_TOTAL}[{window}])))",
    )


def records() -> Iterator[Record]:
    """What several rules and panels share."""
    for window in dict.fromkeys(window for _, long, short, _, _ in BURN_RATES for window in (short, long)):
        yield unclean_ratio(window)
    yield P99_COMPLETION


def alerts(settings: Settings) -> Iterator[Alert]:
    """Open too long, fenced, timed out, aborted too often, slow to complete."""
    yield _long_running(settings)
    yield _event(
        settings,
        "KafkaEosProducerFenced",
        "fenced",
        "a producer was fenced in an open transaction",
        "A producer was initialised while a transaction of the same transactional.id was open, which ended it.",
        "was fenced: its transaction was ended by a new producer with the same transactional.id. After a crash that is"
        " how the successor cleans up; otherwise two live instances share one id.",
    )
    yield _storm(settings)
    yield _event(
        settings,
        "KafkaEosTransactionTimeouts",
        "timed_out",
        "a coordinator ended a transaction that ran into its timeout",
        "A transaction was left open until its coordinator ended it.",
        "let a transaction run into its transaction.timeout.ms: its producer died, hung, or works longer than that"
        " between begin and commit. What it wrote is rolled back, and the producer, if it lives, is fenced.",
    )
    yield from _abort_ratio(settings)
    yield from _completion(settings)


def _long_running(settings: Settings) -> Alert:
    age = f"time() - min by ({_BY}) ({OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS})"
    who = "transactional_id, producer_id, producer_epoch, state"
    at = "{kafka_cluster=%q, application=%q}"
    return Alert(
        "KafkaEosLongRunningTransaction",
        Severity.WARNING,
        f"""\
{age}
> on ({_BY}) (
  0 * group by ({_BY}) (min_over_time({OVERDUE_TRANSACTIONS}[{_OVERDUE_WINDOW}]) > 0)
  or
  {settings.long_transaction.seconds} * group by ({_BY}) ({OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS})
)""",
        "A transaction is open for long, or for longer than its own timeout allows.",
        "The oldest open transaction of "
        + _WHO
        + " is open for {{ $value | humanizeDuration }}."
        + each(
            f"bottomk(5, floor(min by ({who}) ({OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}{at})))",
            "\n- transactional.id {{ .Labels.transactional_id }}, producer id {{ .Labels.producer_id }}, epoch"
            " {{ .Labels.producer_epoch }}, {{ .Labels.state }}, since {{ .Value | humanizeTimestamp }}"
            "{{ range query (printf `max("
            + str(OPEN_TRANSACTION_TIMEOUT_SECONDS)
            + "{kafka_cluster=%q, producer_id=%q})` $labels.kafka_cluster .Labels.producer_id) }}, timeout"
            " {{ .Value | humanizeDuration }}{{ else }}, no timeout{{ end }}",
            *_LABELS,
        )
        + "\nLet that instance finish, or stop it. Beyond its timeout, look at the broker that coordinates the id."
        " `kafka-eos-exporter transactions` lists what is open, with the next step.",
        DASHBOARD,
        _LABELS,
        when=f"a transaction is open for more than {settings.long_transaction}, or {_OVERDUE_WINDOW} longer than its"
        " own timeout allows",
    )


def _event(settings: Settings, name: str, outcome: str, when: str, summary: str, told: str) -> Alert:
    window = settings.event_window.seconds
    return Alert(
        name,
        Severity.WARNING,
        f'time() - max by ({_BY}) ({LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome="{outcome}"}}) < {window}',
        summary,
        "{{ $labels.application }} on {{ $labels.kafka_cluster }} "
        + told
        + " The last time was {{ $value | humanizeDuration }} ago."
        + unclean_ends(outcome, window)
        + "\n`kafka-eos-exporter transactions recent` lists them.",
        DASHBOARD,
        _LABELS,
        when=f"{when}, until {settings.event_window} after the last time",
    )


def _storm(settings: Settings) -> Alert:
    return Alert(
        "KafkaEosProducerFenceStorm",
        Severity.CRITICAL,
        f"max by ({_BY}, transactional_id) ({RECENT_PRODUCER_FENCES}) >= {settings.storm_fences}",
        "One transactional.id is fenced again and again: two live instances share it, or one crashes in a loop.",
        "transactional.id {{ $labels.transactional_id }} of "
        + _WHO
        + " was fenced {{ $value }} times in 10 minutes. Each fence rolls back a transaction, so little or nothing"
        " gets committed. Find every process that runs with this id - a second deployment, a replica count above the"
        " number of ids, an old version that did not stop, a crash loop - and leave one."
        + unclean_ends("fenced", 600)
        + "\nThe addresses of the clients are in the brokers' request log, by this transactional.id.",
        DASHBOARD,
        (*_LABELS, "transactional_id"),
        when=f"{settings.storm_fences} fences or more of one transactional.id in 10m",
    )


def _abort_ratio(settings: Settings) -> Iterator[Alert]:
    for severity, window, short, hold, factor in BURN_RATES:
        share = min(1.0, round(factor * settings.abort_budget, 6))
        finished = f"max by ({_BY}) (sum without (outcome) (increase({TRANSACTIONS_TOTAL}[{window}])))"
        lost = each(
            f"max by (outcome) (increase({TRANSACTIONS_TOTAL}"
            f'{{kafka_cluster=%q, application=%q, outcome!="committed"}}[{window}])) >= 1',
            " {{ .Labels.outcome }}: {{ .Value | humanize }}.",
            *_LABELS,
        )
        yield Alert(
            "KafkaEosAbortRatioHigh",
            severity,
            f"""\
{unclean_ratio(window)} > {share:g}
and {unclean_ratio(short)} > {share:g}
and {finished} >= {settings.abort_minimum}""",
            "Too large a share of an application's transactions does not commit.",
            f"{{{{ $value | humanizePercentage }}}} of the transactions of {_WHO} in the last {window} did not commit,"
            f" and more than {share:.0%} in the last {short}: the budget is {settings.abort_budget:.0%}.{lost}"
            "\nAborted: the application's own errors; timed_out: it is too slow or died; fenced: it restarts with open"
            " transactions, or runs twice.",
            DASHBOARD,
            _LABELS,
            hold=hold,
            keeps=short == "5m",  # the longer windows outlive what scrapes may miss
            labels=(("window", window),),
            when=f"more than {share:.0%} of {settings.abort_minimum} or more transactions did not commit in"
            f" {window}, nor in the last {short}, for {hold}",
        )


def _completion(settings: Settings) -> Iterator[Alert]:
    stuck = settings.completion_stuck.seconds
    summary = "Transactions that are decided wait for their markers."
    wait = (
        " Until its markers are written in every partition, the transaction holds the last stable offset there, and its"
        " producer gets CONCURRENT_TRANSACTIONS. Look for partitions without leader, for brokers that the coordinator"
        " does not reach, and for slow disks."
    )
    yield Alert(
        "KafkaEosCompletionSlow",
        Severity.WARNING,
        f"""\
{P99_COMPLETION} > {settings.completion_slow:g}
and max by ({_BY}) (increase({TRANSACTION_COMPLETION_SECONDS}_count[10m])) \
>= {settings.completion_minimum}""",
        summary,
        "One in a hundred transactions of "
        + _WHO
        + " takes {{ $value | humanizeDuration }} or longer from the decision to the last marker."
        + wait,
        DASHBOARD,
        _LABELS,
        hold="30m",
        when=f"one in a hundred takes more than {settings.completion_slow:g} s to complete, of"
        f" {settings.completion_minimum} or more in 10m, for 30m",
    )
    yield Alert(
        "KafkaEosCompletionSlow",
        Severity.CRITICAL,
        f"time() - min by ({_BY}) ({OLDEST_COMPLETION_START_TIMESTAMP_SECONDS}) > {stuck}",
        summary,
        "A transaction of "
        + _WHO
        + " was decided {{ $value | humanizeDuration }} ago and is not complete."
        + wait
        + each(
            f"topk(5, max by (transactional_id, producer_id, state) ({OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}"
            '{kafka_cluster=%q, application=%q, state=~"prepare_.+"}))',
            "\n- transactional.id {{ .Labels.transactional_id }}, producer id {{ .Labels.producer_id }},"
            " {{ .Labels.state }}",
            *_LABELS,
        )
        + "\nLeave the transaction alone: ending it by hand would tear it. It completes by itself.",
        DASHBOARD,
        _LABELS,
        when=f"a transaction was decided more than {settings.completion_stuck} ago and is not complete",
    )
