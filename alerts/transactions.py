"""Outcomes of transactions: rows about the transaction log.

Fences and timeouts are events. The rules use the log's time of the last one, not a counter's increase: so the first one
of an application whose series did not exist before is not missed, and an agent that restarts, or a second replica that
catches up, does not report an old one again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import per_row, unclean_ends
from exporter.alerts.rule import EVENT_SECONDS, EVENT_WINDOW, Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    APPLICATION_THRESHOLD_SECONDS,
    FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS,
    FLINK_LOSS_TIMESTAMP_SECONDS,
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
    TRANSACTIONS_TOTAL,
)
from exporter.model import Metric

DASHBOARD = "kafka-eos-transactions"
_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_WHO = "{{ $labels.kafka_cluster }}, application {{ $labels.application }}"
_OVERDUE_WINDOW = "3m"

P99_COMPLETION = Record(
    "kafka_cluster_application:kafka_eos_transaction_completion_seconds:p99_rate10m",
    f"max by ({_BY}) (histogram_quantile(0.99, rate({TRANSACTION_COMPLETION_SECONDS}_bucket[10m])))",
)


_alert = partial(Alert, dashboard=DASHBOARD, variables=_LABELS)


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
        "a producer was fenced",
        "A new producer with its transactional.id rolled back its open transaction.",
        "First: see whether an instance crashed then: its successor cleans up so. If not, or if it recurs for hours,"
        " two live instances share one transactional.id: find both, and stop one.",
        FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS,
        _recurring(str(PRODUCER_FENCES_TOTAL), 1),
    )
    yield from _storms()
    yield _event(
        "KafkaEosTransactionTimeouts",
        "timed_out",
        "a coordinator ended a transaction at its timeout",
        "a transaction ran into its timeout",
        "Kafka rolled back what it wrote.",
        "First: see in the application's log whether the producer died, hung, or works longer than its"
        " transaction.timeout.ms between begin and commit. If it lives, it is fenced now, and must be started again.",
        FLINK_LOSS_TIMESTAMP_SECONDS,
        _recurring(f'{TRANSACTIONS_TOTAL}{{outcome="timed_out"}}', 2),
    )
    yield from _completion()


def _long_running() -> Alert:
    age = f"time() - min by ({_BY}) ({OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS})"
    who = "transactional_id, producer_id, producer_epoch, state"
    at = "{kafka_cluster=%q, application=%q}"
    return _alert(
        "KafkaEosLongRunningTransaction",
        Severity.WARNING,
        f"""\
{age}
> on ({_BY}) (
  0 * group by ({_BY}) (min_over_time({OVERDUE_TRANSACTIONS}[{_OVERDUE_WINDOW}]) > 0)
  or
  max by ({_BY}) ({APPLICATION_THRESHOLD_SECONDS}{{threshold="open_warning"}})
)""",
        _WHO
        + ": the oldest transaction is open for {{ $value | humanizeDuration }}. It withholds what it wrote, and all"
        " that follows it in its partitions, from read_committed readers.",
        "First: let that instance finish, or stop it. Open for longer than its own timeout, look at the broker that"
        " coordinates the id."
        + per_row(
            f"bottomk(5, floor(min by ({who}) ({OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}{at})))",
            "\n- transactional.id {{ .Labels.transactional_id }}, producer id {{ .Labels.producer_id }}, epoch"
            " {{ .Labels.producer_epoch }}, {{ .Labels.state }}, since {{ .Value | humanizeTimestamp }}"
            "{{ range query (printf `max("
            + str(OPEN_TRANSACTION_TIMEOUT_SECONDS)
            + "{kafka_cluster=%q, producer_id=%q})` $labels.kafka_cluster .Labels.producer_id) }}, timeout"
            " {{ .Value | humanizeDuration }}{{ else }}, no timeout{{ end }}",
            *_LABELS,
        )
        + "\n`kafka-eos-exporter transactions` lists what is open, with the next step.",
        steady=True,
        when="a transaction is open for more than 15m (application: open_warning), or"
        f" {_OVERDUE_WINDOW} longer than its"
        " own timeout allows",
    )


def _event(
    name: str, outcome: str, when: str, what: str, impact: str, details: str, of_flink: Metric, recurring: str
) -> Alert:
    """The last such end, without those of Flink jobs, which ``of_flink`` dates; and ends that recur for hours, more
    slowly than the ticket about one lasts.
    """
    last = f'max by ({_BY}) ({LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome="{outcome}"}})'
    at = f'{{kafka_cluster=%q, application=%q, outcome="{outcome}"}}'
    return _alert(
        name,
        Severity.WARNING,
        f"""\
group by ({_BY}) (
  time() - {last} < {EVENT_SECONDS}
  unless {last} <= max by ({_BY}) ({of_flink})
  or
  {recurring}
)""",
        f"{_WHO}: {what}"
        + per_row(
            f"floor(time() - max({LAST_TRANSACTION_TIMESTAMP_SECONDS}{at}))",
            " {{ .Value | humanizeDuration }} ago",
            *_LABELS,
        )
        + per_row(
            f"max(increase({TRANSACTIONS_TOTAL}{at}[6h])) >= 2", ", {{ .Value | humanize }} times in 6h", *_LABELS
        )
        + f". {impact}",
        details + unclean_ends(outcome, 7200) + "\n`kafka-eos-exporter transactions recent` lists them.",
        when=f"{when}; fires until {EVENT_WINDOW} after the last one, and while there are some in each of three periods"
        f" of {'1h' if outcome == 'fenced' else '2h'}",
    )


def _recurring(counter: str, hours: int) -> str:
    """Some in each of the last three periods of so many hours."""
    return "\n  and ".join(
        f"group by ({_BY}) (increase({counter}[{hours}h]{back}) > 0)"
        for back in ("", f" offset {hours}h", f" offset {2 * hours}h")
    )


def _storms() -> Iterator[Alert]:
    yield _alert(
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
        _WHO
        + ": transactional.id {{ $labels.transactional_id }} was fenced {{ $value }} times in 10 minutes. Little or"
        " nothing of it gets committed.",
        "First: find every process that runs with this id - a second deployment, a replica count above the number of"
        " ids, an old version that did not stop, a crash loop - and leave one."
        + unclean_ends("fenced", 600)
        + "\nThe addresses of the clients are in the brokers' request log, by this transactional.id.",
        when="3 fences or more of one transactional.id in 10m, not all at once",
    )
    yield _alert(
        "KafkaEosProducerFenceStorm",
        Severity.CRITICAL,
        # Of one agent. A crash of all instances that is cleaned up in 5 minutes is in one of the two windows only;
        # clean starts are inits without a fence. A rollout fences an id once.
        f"""\
group by ({_BY}) (
  increase({PRODUCER_FENCES_TOTAL}[5m]) >= 10
  and
  increase({PRODUCER_FENCES_TOTAL}[5m] offset 10m) >= 10
  and
  2 * increase({PRODUCER_FENCES_TOTAL}[15m]) > increase({PRODUCER_INITS_TOTAL}[15m])
)
and on ({_BY}) (
  {RECENT_PRODUCER_FENCES} >= 2
  or
  {RECENT_PRODUCER_FENCES} and {RECENT_PRODUCER_FENCES} offset 11m
)""",
        _WHO + ": producers are fenced all the time. Most that started in the last 15 minutes rolled back a transaction"
        " of another one.",
        "First: find a second deployment with the same transactional ids, or the first exception of the instances that"
        " crash."
        + per_row(
            f"max(increase({PRODUCER_FENCES_TOTAL}{{kafka_cluster=%q, application=%q}}[15m]))",
            " {{ .Value | humanize }} transactions were ended so.",
            *_LABELS,
        )
        + unclean_ends("fenced", 600),
        labels=(("reason", "application"),),
        when="10 fences or more of an application in 5m, and 10 or more in the 5m that ended 10m ago; more than half of"
        " its inits in 15m are fences, and one of its ids was fenced twice",
    )


def _completion() -> Iterator[Alert]:
    first = (
        "First: look for partitions without a leader or with replicas that are not in sync, for brokers that the"
        " coordinator does not reach, and for slow disks. Its markers wait to be written, or to be replicated."
    )
    yield _alert(
        "KafkaEosCompletionSlow",
        Severity.WARNING,
        f"""\
{P99_COMPLETION} > 10
and max by ({_BY}) (increase({TRANSACTION_COMPLETION_SECONDS}_count[10m])) >= 10""",
        _WHO
        + ": one in a hundred transactions takes {{ $value | humanizeDuration }} or longer from the decision to the"
        " last marker. Until then its readers wait, and its producer gets CONCURRENT_TRANSACTIONS.",
        first,
        hold="30m",
        when="one in a hundred transactions takes more than 10 s to complete, of 10 or more in 10m, for 30m",
    )
    yield _alert(
        "KafkaEosCompletionSlow",
        Severity.CRITICAL,
        f"""\
time() - min by ({_BY}) ({OLDEST_COMPLETION_START_TIMESTAMP_SECONDS})
> on ({_BY}) max by ({_BY}) ({APPLICATION_THRESHOLD_SECONDS}{{threshold="completion_critical"}})""",
        _WHO
        + ": a transaction was decided {{ $value | humanizeDuration }} ago and is not complete. Its readers wait, and"
        " its producer can begin no other one.",
        first
        + " Leave the transaction alone: ending it by hand would tear it, and it completes by itself."
        + per_row(
            f"topk(5, max by (transactional_id, producer_id, state) ({OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}"
            '{kafka_cluster=%q, application=%q, state=~"prepare_.+"}))',
            "\n- transactional.id {{ .Labels.transactional_id }}, producer id {{ .Labels.producer_id }},"
            " {{ .Labels.state }}",
            *_LABELS,
        ),
        steady=True,
        when="a transaction was decided more than 5m ago (application: completion_critical) and is not complete",
    )
