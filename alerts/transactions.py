"""Outcomes of transactions: rows about the transaction log.

Fences and timeouts are events. The rules use the log's time of the last one, not a counter's increase: so the first one
of an application whose series did not exist before is not missed, and an agent that restarts, or a second replica that
catches up, does not report an old one again.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each, unclean_ends
from exporter.alerts.rule import EVENT_SECONDS, EVENT_WINDOW, Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    APPLICATION_THRESHOLD_SECONDS,
    CANARY,
    FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS,
    FLINK_LOSS_TIMESTAMP_SECONDS,
    LAST_TRANSACTION_OBSERVED_TIMESTAMP_SECONDS,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    OLDEST_COMPLETION_START_TIMESTAMP_SECONDS,
    OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_TIMEOUT_SECONDS,
    OVERDUE_TRANSACTIONS,
    PRODUCER_FENCES_TOTAL,
    PRODUCER_INITS_TOTAL,
    RECENT_PRODUCER_FENCES,
    STORM_FENCES,
    TRANSACTION_COMPLETION_SECONDS,
    TRANSACTIONS_OBSERVED_TOTAL,
)
from exporter.model import Metric

DASHBOARD = "kafka-eos-transactions"
_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_WHO = "{{ $labels.application }} on {{ $labels.kafka_cluster }}"
_OVERDUE_WINDOW = "3m"

P99_COMPLETION = Record(
    "kafka_cluster_application:kafka_eos_transaction_completion_seconds:p99_rate10m",
    f"max by ({_BY}) (histogram_quantile(0.99, rate({TRANSACTION_COMPLETION_SECONDS}_bucket[10m])))",
)


def records() -> Iterator[Record]:
    """Recording rules that several alerts and panels use."""
    yield P99_COMPLETION


def alerts(_: Settings) -> Iterator[Alert]:
    """Open too long, fenced, timed out, aborted too often, slow to complete."""
    yield _long_running()
    yield _event(
        "KafkaEosProducerFenced",
        "fenced",
        "a producer was fenced in an open transaction",
        "A producer was initialised while a transaction of the same transactional.id was open, which ended it.",
        "was fenced: its transaction was ended by a new producer with the same transactional.id. After a crash that is"
        " how the successor cleans up; otherwise two live instances share one id.",
        FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS,
    )
    yield _persistent()
    yield from _storms()
    yield _event(
        "KafkaEosTransactionTimeouts",
        "timed_out",
        "a coordinator ended a transaction at its timeout",
        "A transaction was left open until its coordinator ended it.",
        "let a transaction run into its transaction.timeout.ms: its producer died, hung, or works longer than that"
        " between begin and commit. What it wrote is rolled back, and the producer, if it lives, is fenced.",
        FLINK_LOSS_TIMESTAMP_SECONDS,
    )
    yield _observed_event(
        "KafkaEosProducerFenced",
        "fenced",
        "polling saw that a producer was fenced in an open transaction",
        "Polling saw a transaction that was ended by a new producer with its transactional.id.",
        "was fenced, as polling of the coordinators shows: its transaction was ended by a new producer with the same"
        " transactional.id.",
    )
    yield _observed_event(
        "KafkaEosTransactionTimeouts",
        "timed_out",
        "polling saw that a coordinator ended a transaction that ran into its timeout",
        "Polling saw a transaction that was left open until its coordinator ended it.",
        "let a transaction run into its transaction.timeout.ms, as polling of the coordinators shows: its producer"
        " died, hung, or works longer than that between begin and commit. What it wrote is rolled back.",
    )
    yield from _completion()


def _long_running() -> Alert:
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
  max by ({_BY}) ({APPLICATION_THRESHOLD_SECONDS}{{threshold="open_warning"}})
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
        when="a transaction is open for more than 15m (application: open_warning), or"
        f" {_OVERDUE_WINDOW} longer than its"
        " own timeout allows",
    )


def _event(name: str, outcome: str, when: str, summary: str, details: str, of_flink: Metric) -> Alert:
    """The last such end, without those of Flink jobs, which ``of_flink`` dates."""
    last = f'max by ({_BY}) ({LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome="{outcome}"}})'
    return Alert(
        name,
        Severity.WARNING,
        f"""\
time() - {last} < {EVENT_SECONDS}
unless {last} <= max by ({_BY}) ({of_flink})""",
        summary,
        "{{ $labels.application }} on {{ $labels.kafka_cluster }} "
        + details
        + " The last time was {{ $value | humanizeDuration }} ago."
        + unclean_ends(outcome, EVENT_SECONDS)
        + "\n`kafka-eos-exporter transactions recent` lists them.",
        DASHBOARD,
        _LABELS,
        when=f"{when}; fires until {EVENT_WINDOW} after the last one",
    )


def _observed_event(name: str, outcome: str, when: str, summary: str, details: str) -> Alert:
    """The last such end that polling showed, where the log is not read. The canary's are on purpose."""
    seen = f'{LAST_TRANSACTION_OBSERVED_TIMESTAMP_SECONDS}{{outcome="{outcome}", application!="{CANARY}"}}'
    count = f'{TRANSACTIONS_OBSERVED_TOTAL}{{kafka_cluster=%q, application=%q, outcome="{outcome}"}}'
    return Alert(
        name,
        Severity.WARNING,
        f"time() - max by ({_BY}) ({seen}) < {EVENT_SECONDS}",
        summary,
        "{{ $labels.application }} on {{ $labels.kafka_cluster }} "
        + details
        + " It was last seen {{ $value | humanizeDuration }} ago."
        + each(f"max(increase({count}[1h])) >= 1", " At least {{ .Value | humanize }} in 1h.", *_LABELS)
        + " The transaction log is not read, so that the transactional.id is not known, and others may not have been"
        " seen.",
        DASHBOARD,
        _LABELS,
        labels=(("reason", "polled"),),
        when=f"{when}, where the log is not read, until {EVENT_WINDOW} after the last time",
    )


def _storms() -> Iterator[Alert]:
    yield Alert(
        "KafkaEosProducerFenceStorm",
        Severity.CRITICAL,
        # Fences in at least two samples: those of one sample are one clean-up. Fences of 11 minutes ago have left the
        # window, so these are others.
        f"""\
max by ({_BY}, transactional_id) (
  {RECENT_PRODUCER_FENCES} > min_over_time({RECENT_PRODUCER_FENCES}[10m])
  or
  {RECENT_PRODUCER_FENCES} and {RECENT_PRODUCER_FENCES} offset 11m
) >= {STORM_FENCES}""",
        "One transactional.id is fenced again and again: two live instances share it, or one crashes in a loop.",
        "transactional.id {{ $labels.transactional_id }} of "
        + _WHO
        + " was fenced {{ $value }} times in 10 minutes. Each fence rolls back a transaction, so little or nothing"
        " gets committed. Find every process that runs with this id - a second deployment, a replica count above the"
        " number of ids, an old version that did not stop, a crash loop - and leave one."
        + unclean_ends("fenced", 600)
        + "\nThe addresses of the clients are in the brokers' request log, by this transactional.id.",
        DASHBOARD,
        _LABELS,
        when="3 fences or more of one transactional.id in 10m, not all at once",
    )
    yield Alert(
        "KafkaEosProducerFenceStorm",
        Severity.CRITICAL,
        # Of one agent. A crash of all instances that is cleaned up in 5 minutes is in one of the two windows only;
        # clean starts are inits without a fence.
        f"""\
group by ({_BY}) (
  increase({PRODUCER_FENCES_TOTAL}[5m]) >= 10
  and
  increase({PRODUCER_FENCES_TOTAL}[5m] offset 10m) >= 10
  and
  2 * increase({PRODUCER_FENCES_TOTAL}[15m]) > increase({PRODUCER_INITS_TOTAL}[15m])
)""",
        "Producers of an application are fenced all the time: most that start find a transaction of another one open.",
        "Most of the producers of "
        + _WHO
        + " that were initialised in the last 15 minutes fenced a transaction of another one."
        + each(
            f"max(increase({PRODUCER_FENCES_TOTAL}{{kafka_cluster=%q, application=%q}}[15m]))",
            " {{ .Value | humanize }} transactions were ended so.",
            *_LABELS,
        )
        + " Clean restarts fence none, and one crash of all instances is over by now: the application runs twice on"
        " the same ids, or crashes in a loop."
        + unclean_ends("fenced", 600)
        + "\nFind a second deployment with the same"
        " transactional ids, or the first exception of the instances that crash.",
        DASHBOARD,
        _LABELS,
        labels=(("reason", "application"),),
        when="10 fences or more of an application in 5m, and 10 or more in the 5m that ended 10m ago; more than half of"
        " its inits in 15m are fences",
    )


def _persistent() -> Alert:
    """Two instances that fence each other slowly, which no window of minutes shows."""
    fences = [
        f"max by ({_BY}) (increase({PRODUCER_FENCES_TOTAL}[1h]{back})) > 0" for back in ("", " offset 1h", " offset 2h")
    ]
    return Alert(
        "KafkaEosProducerFenced",
        Severity.WARNING,
        "\nand ".join(fences),
        "Producers of an application are fenced again and again, for hours.",
        _WHO
        + " had transactions ended by a fence in each of the last three hours, {{ $value | humanize }} of them in the"
        " last one. One crash does not look like this: two live instances share a transactional.id, or an instance"
        " crashes regularly." + unclean_ends("fenced", 3600) + "\n`kafka-eos-exporter transactions recent` lists them.",
        DASHBOARD,
        _LABELS,
        labels=(("reason", "persistent"),),
        when="producers of an application were fenced in each of the last 3 hours",
    )


def _completion() -> Iterator[Alert]:
    summary = "Transactions that are decided wait for their markers."
    wait = (
        " Until its markers are written and replicated in every partition, the transaction holds the last stable offset"
        " there, and its producer gets CONCURRENT_TRANSACTIONS. Look for partitions without leader or with replicas"
        " that are not in sync, for brokers that the coordinator does not reach, and for slow disks."
    )
    yield Alert(
        "KafkaEosCompletionSlow",
        Severity.WARNING,
        f"""\
{P99_COMPLETION} > 10
and max by ({_BY}) (increase({TRANSACTION_COMPLETION_SECONDS}_count[10m])) >= 10""",
        summary,
        "One in a hundred transactions of "
        + _WHO
        + " takes {{ $value | humanizeDuration }} or longer from the decision to the last marker."
        + wait,
        DASHBOARD,
        _LABELS,
        hold="30m",
        when="one in a hundred transactions takes more than 10 s to complete, of 10 or more in 10m, for 30m",
    )
    yield Alert(
        "KafkaEosCompletionSlow",
        Severity.CRITICAL,
        f"""\
time() - min by ({_BY}) ({OLDEST_COMPLETION_START_TIMESTAMP_SECONDS})
> on ({_BY}) max by ({_BY}) ({APPLICATION_THRESHOLD_SECONDS}{{threshold="completion_critical"}})""",
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
        when="a transaction was decided more than 5m ago (application: completion_critical) and is not complete",
    )
