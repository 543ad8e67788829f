"""Stalled and hanging: rows about the last stable offset, an alert for each transaction that holds partitions.

The agent exposes the instants at which a holder's stalls become a ticket and a page: by the thresholds of their topics,
by the holder's own timeout, and at once when it hangs. So there is no ``for`` that a failed scrape or a restart of
Prometheus resets, and one producer that holds 5,000 partitions is one alert.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import ENDS, HELD, READERS, STEP, WAITING, WAITING_GROUPS, WHO, WORST
from exporter.alerts.rule import MOST_ALERTS, Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import LSO_HOLDER_DUE_TIMESTAMP_SECONDS, LSO_HOLDER_PARTITIONS, TRANSACTION_OPEN_SECONDS

DASHBOARD = "kafka-eos-lso"
_HOLDER = "kafka_cluster, producer_id"
_KNOWN = 'kind=~"open|completing"'
_DAY = 86400


_OPEN = f'{TRANSACTION_OPEN_SECONDS}_bucket{{outcome="committed"}}'
_COUNT = f'{TRANSACTION_OPEN_SECONDS}_count{{outcome="committed"}}'
_BY = "kafka_cluster, application"
HABIT = Record(
    "kafka_cluster_application:kafka_eos_transaction_open_seconds:habit",
    f"""\
clamp(max by ({_BY}) (histogram_quantile(0.9, increase({_OPEN}[1d]))) - 300, 0, 590)
and max by ({_BY}) (increase({_COUNT}[1d])) >= 5""",
)
"""By how many seconds the committed transactions of an application are usually open for longer than five minutes, up to
just below the quarter of an hour after which a stall is a page."""


def records() -> Iterator[Record]:
    """Recording rules that the evidence reads, so that its cost does not grow with the replicas."""
    yield WORST
    yield WAITING_GROUPS


def alerts(_: Settings) -> Iterator[Alert]:
    """A holder of stalled partitions, as a ticket and as a page, and a hanging transaction.

    Those that are due longest come first: a holder leaves the list only when it is over.
    """
    summary = "{{ $labels.kafka_cluster }}: " + READERS + WHO + ENDS
    description = STEP + HELD + WAITING
    yield Alert(
        "KafkaEosLsoStalled",
        Severity.WARNING,
        f"""\
topk by (kafka_cluster) ({MOST_ALERTS},
  time() - min by ({_HOLDER}) (
    {LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="warning"}} + on ({_BY}) group_left () {HABIT}
    or
    {LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="warning"}}
  ) > 0
)""",
        summary,
        description,
        DASHBOARD,
        when="a transaction holds the last stable offset of a partition for more than 5m (topic: stall_warning), and"
        " for longer than is usual for its application",
    )
    yield Alert(
        "KafkaEosLsoStalled",
        Severity.CRITICAL,
        # Not as hanging while another replica reports that a coordinator has it.
        f"""\
topk by (kafka_cluster) ({MOST_ALERTS},
  time() - min by ({_HOLDER}) (
    {LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical", kind!="hanging"}}
    or
    {LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical"}}
    unless on ({_HOLDER})
    {LSO_HOLDER_PARTITIONS}{{{_KNOWN}}}
  ) > 0
)""",
        summary,
        description,
        DASHBOARD,
        when="a transaction holds it for more than 15m (topic: stall_critical), or for a minute longer than its own"
        " timeout; at once when it hangs",
    )
    yield Alert(
        "KafkaEosHangingTransaction",
        Severity.CRITICAL,
        # Due: not where the thresholds ignore all its topics.
        f"""\
group by ({_HOLDER}) (
  bottomk by (kafka_cluster) ({MOST_ALERTS},
    min by ({_HOLDER}) (
      {LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical", kind="hanging"}} < time() + {_DAY}
      unless on ({_HOLDER})
      {LSO_HOLDER_PARTITIONS}{{{_KNOWN}}}
    )
  )
)""",
        "{{ $labels.kafka_cluster }}: "
        + READERS
        + WHO
        + " No coordinator has this transaction: it never ends by itself.",
        STEP + HELD + WAITING,
        DASHBOARD,
        when="no coordinator has the transaction that holds stalled partitions; fires at once",
    )
