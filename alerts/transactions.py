"""Outcomes of transactions: rows about the transaction log, those of Flink jobs among them.

Fences and timeouts are events. The rules use the log's time of the last one, not a counter's increase: so the first one
of an application whose series did not exist before is not missed, and an agent that restarts, or a second replica that
catches up, does not report an old one again. Whether a Flink job's transaction is at risk is decided by the agent, by
the job's rhythm.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter import catalogue
from exporter.alerts.evidence import per_row, unclean_ends
from exporter.alerts.rule import EVENT_SECONDS, EVENT_WINDOW, Alert, Board, Record, Severity, by_severity
from exporter.core.thresholds import DEFAULTS
from exporter.model import Metric

_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_WHO = "{{ $labels.kafka_cluster }}, application {{ $labels.application }}"
_JOB = "{{ $labels.kafka_cluster }}: Flink job {{ $labels.application }}"
_DEADLINE = catalogue.FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS
_OPEN_WARNING = DEFAULTS["application"]["open_warning"]

P99_COMPLETION = Record(
    "kafka_cluster_application:kafka_eos_transaction_completion_seconds:p99_rate10m",
    f"max by ({_BY}) (histogram_quantile(0.99, rate({catalogue.TRANSACTION_COMPLETION_SECONDS}_bucket[10m])))",
)


def records() -> Iterator[Record]:
    """Recording rules that several alerts and panels use."""
    yield P99_COMPLETION


def alerts() -> Iterator[Alert]:
    """Open too long, fenced, timed out, slow to complete."""
    yield _long_running()
    yield _event(
        "KafkaEosProducerFenced",
        "fenced",
        1,
        catalogue.FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS,
        str(catalogue.PRODUCER_FENCES_TOTAL),
        _WHO + ": a producer was fenced. A new producer with its transactional.id rolled back its open transaction.",
        "First: see whether an instance crashed then: its successor cleans up so. If not, or if it recurs for hours,"
        " two live instances share one transactional.id: find both, and stop one.",
        "a producer was fenced in an open transaction",
    )
    yield _storm()
    yield _event(
        "KafkaEosTransactionTimeouts",
        "timed_out",
        2,
        catalogue.FLINK_LOSS_TIMESTAMP_SECONDS,
        f'{catalogue.TRANSACTIONS_TOTAL}{{outcome="timed_out"}}',
        _WHO + ": a transaction ran into its timeout. Kafka rolled back what it wrote.",
        "First: see in the application's log whether the producer died, hung, or works longer than its"
        " transaction.timeout.ms between begin and commit. If it lives, it is fenced now, and must be started again.",
        "a coordinator ended a transaction at its timeout",
    )
    yield _completion()


def _long_running() -> Alert:
    overdue = f"group by ({_BY}) (min_over_time({catalogue.OVERDUE_TRANSACTIONS}[3m]) > 0)"
    own = f'max by ({_BY}) ({catalogue.APPLICATION_THRESHOLD_SECONDS}{{threshold="open_warning"}})'
    return Alert(
        "KafkaEosLongRunningTransaction",
        Severity.WARNING,
        Board.TRANSACTIONS,
        # A topic with a longer threshold is judged by that where the application has no threshold of its own.
        f"""\
time() - min by ({_BY}) ({catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS})
> on ({_BY}) (
  0 * {overdue}
  or
  {own}
  unless on ({_BY}) (
    max by ({_BY}) ({catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="warning"}}) > time()
    and on ({_BY}) {own} == {_OPEN_WARNING:.0f}
  )
)""",
        _WHO
        + ": the oldest transaction is open for {{ $value | humanizeDuration }}. It withholds what it wrote, and all"
        " that follows it in its partitions, from read_committed readers.",
        "First: let that instance finish, or stop it; the page names it. Open for longer than its own timeout, look at"
        " the broker that coordinates the id.",
        steady=True,
        when="a transaction is open for more than 15m (application: open_warning), or 3m longer than its own timeout"
        " allows; without a threshold of its own, not before the topics that it holds are due (topic: stall_warning)",
    )


def _event(
    name: str, outcome: str, hours: int, of_flink: Metric, counter: str, summary: str, description: str, when: str
) -> Alert:
    """The last such end, without those of Flink jobs, which ``of_flink`` dates; and ends that recur for hours, more
    slowly than the ticket about one lasts.
    """
    last = f'max by ({_BY}) ({catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS}{{outcome="{outcome}"}})'
    recurring = "\n  and ".join(
        f"group by ({_BY}) (increase({counter}[{hours}h]{back}) > 0)"
        for back in ("", f" offset {hours}h", f" offset {2 * hours}h")
    )
    return Alert(
        name,
        Severity.WARNING,
        Board.TRANSACTIONS,
        f"""\
group by ({_BY}) (
  time() - {last} < {EVENT_SECONDS}
  unless {last} <= max by ({_BY}) ({of_flink})
  or
  {recurring}
)""",
        summary,
        f"{description} `kafka-eos-exporter transactions recent` lists them.",
        when=f"{when}; fires until {EVENT_WINDOW} after the last one, and while there are some in each of three periods"
        f" of {hours}h",
    )


def _storm() -> Alert:
    fenced_again = f"{catalogue.RECENT_PRODUCER_FENCES} and {catalogue.RECENT_PRODUCER_FENCES} offset 11m"
    return Alert(
        "KafkaEosProducerFenceStorm",
        Severity.CRITICAL,
        Board.TRANSACTIONS,
        # Of one id, fences in at least two samples: those of one sample are one clean-up, and those of 11 minutes ago
        # have left the window. Of an application, as one agent sees it: a crash of all instances that is cleaned up in
        # 5 minutes is in one of the two windows only; clean starts are inits without a fence; a rollout fences an id
        # once.
        f"""\
group by ({_BY}) (
  (
    {catalogue.RECENT_PRODUCER_FENCES} > min_over_time({catalogue.RECENT_PRODUCER_FENCES}[10m])
    or
    {fenced_again}
  ) >= {catalogue.STORM_FENCES}
  or
  increase({catalogue.PRODUCER_FENCES_TOTAL}[5m]) >= 10
  and
  increase({catalogue.PRODUCER_FENCES_TOTAL}[5m] offset 10m) >= 10
  and
  2 * increase({catalogue.PRODUCER_FENCES_TOTAL}[15m]) > increase({catalogue.PRODUCER_INITS_TOTAL}[15m])
  and on ({_BY}) (
    {catalogue.RECENT_PRODUCER_FENCES} >= 2
    or
    {fenced_again}
  )
)""",
        _WHO + ": its producers fence each other again and again. Little or nothing of what they write gets committed.",
        "First: find every process that runs with these ids - a second deployment, a replica count above the number of"
        " ids, an old version that did not stop, a crash loop - and leave one for each."
        + per_row(
            f"topk(5, max by (transactional_id) ({catalogue.RECENT_PRODUCER_FENCES}"
            "{kafka_cluster=%q, application=%q}))",
            "\n- transactional.id {{ .Labels.transactional_id }}: {{ .Value }} times in 10 minutes",
            *_LABELS,
        )
        + unclean_ends("fenced", 600)
        + "\nThe addresses of the clients are in the brokers' request log, by transactional.id.",
        when="3 fences or more of one transactional.id in 10m, not all at once; or 10 fences or more of an application"
        " in 5m, and in the 5m that ended 10m ago, more than half of its inits in 15m, and one of its ids twice",
    )


def _completion() -> Alert:
    ended = f"max by ({_BY}) (increase({catalogue.TRANSACTION_COMPLETION_SECONDS}_count[10m]"
    return Alert(
        "KafkaEosCompletionSlow",
        None,
        Board.TRANSACTIONS,
        by_severity(
            f"""\
min_over_time({P99_COMPLETION}[30m]) > 10
and {ended})) >= 10
and {ended} offset 20m)) >= 10""",
            f"""\
time() - min by ({_BY}) ({catalogue.OLDEST_COMPLETION_START_TIMESTAMP_SECONDS})
> on ({_BY}) max by ({_BY}) ({catalogue.APPLICATION_THRESHOLD_SECONDS}{{threshold="completion_critical"}})""",
        ),
        _WHO
        + ": transactions take {{ $value | humanizeDuration }} or longer from the decision to the last marker. Until"
        " then readers wait, and the producer can begin no other transaction.",
        "First: look for partitions without a leader or with replicas that are not in sync, for brokers that the"
        " coordinator does not reach, and for slow disks. Its markers wait to be written, or to be replicated."
        " Leave the transaction alone: ending it by hand would tear it, and it completes by itself."
        + per_row(
            "topk(5, max by (transactional_id, producer_id, state)"
            f" ({catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}"
            '{kafka_cluster=%q, application=%q, state=~"prepare_.+"}))',
            "\n- transactional.id {{ .Labels.transactional_id }}, producer id {{ .Labels.producer_id }},"
            " {{ .Labels.state }}",
            *_LABELS,
        ),
        steady=True,
        when="a ticket: one in a hundred transactions takes more than 10 s to complete, of 10 or more in 10m, for 30m;"
        " a page: one was decided more than 5m ago (application: completion_critical) and is not complete",
    )


def flink_alerts() -> Iterator[Alert]:
    """Precommitted transactions that are not committed, a page if proven and a ticket if likely; and lost ones."""
    at = "{kafka_cluster=%q, application=%q}"
    proven = f'min by ({_BY}) ({_DEADLINE}{{precommitted="proven"}})'
    likely = f'min by ({_BY}) ({_DEADLINE}{{precommitted="likely"}})'
    yield Alert(
        "KafkaEosFlinkTransactionAtRisk",
        None,
        Board.TRANSACTIONS,
        by_severity(f"{likely} - time()\nunless on ({_BY}) {proven}", f"{proven} - time()"),
        _JOB + '{{ if eq $labels.severity "warning" }} likely{{ end }}'
        " has precommitted transactions and does not commit them. The first is lost in"
        " {{ $value | humanizeDuration }}.",
        "First: start the job from its last checkpoint before that. Do not end these transactions by hand, and do not"
        " start the job from an older checkpoint or without one."
        + per_row(
            f"max({catalogue.FLINK_CHECKPOINT_INTERVAL_SECONDS}{at})",
            " Its checkpoints are usually {{ .Value | humanizeDuration }} apart.",
            *_LABELS,
        )
        + per_row(
            f"bottomk(5, floor(min by (transactional_id, precommitted) ({_DEADLINE}{at})))",
            "\n- transactional.id {{ .Labels.transactional_id }} is lost at {{ .Value | humanizeTimestamp }};"
            " precommitted: {{ .Labels.precommitted }}",
            *_LABELS,
        )
        + "\nIf it cannot be started, tell the owner of the data which records will be missing.",
        keeps=False,
        when="a transaction of a Flink job is precommitted and not committed: a page where that is proven, after the"
        " job's usual interval or a third of its timeout; a ticket where it is likely, after a third of its timeout:"
        " before that, the job may only have a longer interval now",
    )
    yield Alert(
        "KafkaEosFlinkDataLost",
        Severity.CRITICAL,
        Board.TRANSACTIONS,
        f"time() - max by ({_BY}) ({catalogue.FLINK_LOSS_TIMESTAMP_SECONDS}) < {EVENT_SECONDS}",
        _JOB + " lost what it had precommitted, {{ $value | humanizeDuration }} ago. Where its checkpoint was complete,"
        " no restart writes these records again.",
        "First: tell the owner of the data which records are missing, by the list below."
        + per_row(
            "topk(5, floor(max by (transactional_id, checkpoint, completed)"
            f" ({catalogue.FLINK_LOSS_TIMESTAMP_SECONDS}{at})))",
            "\n- transactional.id {{ .Labels.transactional_id }}, number {{ .Labels.checkpoint }}, at"
            " {{ .Value | humanizeTimestamp }}; checkpoint complete: {{ .Labels.completed }}",
            *_LABELS,
        )
        + per_row(
            "topk(10, max by (transactional_id, topic, partition, start_offset, end_offset)"
            f" ({catalogue.FLINK_LOSS_INFO}{at}))",
            "\n- {{ .Labels.topic }}-{{ .Labels.partition }} of {{ .Labels.transactional_id }}"
            "{{ if .Labels.start_offset }}, from offset {{ .Labels.start_offset }}, before {{ .Labels.end_offset }}"
            "{{ end }}",
            *_LABELS,
        ),
        when=f"the server ended a transaction that a Flink job had precommitted; fires until {EVENT_WINDOW} after the"
        " last one",
    )
