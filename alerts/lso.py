"""Stalled and hanging: rows about the last stable offset, an alert for each transaction that holds partitions.

The agent exposes the instants at which a holder's stalls become a ticket and a page: by the thresholds of their topics,
by the holder's own timeout, and at once when it never ends by itself. So there is no ``for`` that a failed scrape or a
restart of Prometheus resets, and one producer that holds 5,000 partitions is one alert.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import HELD, NEXT_STEP, WAITING, WAITING_GROUPS, WORST
from exporter.alerts.rule import Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import LSO_HOLDER_DUE_TIMESTAMP_SECONDS, LSO_HOLDER_PARTITIONS, TORN_TRANSACTIONS

DASHBOARD = "kafka-eos-lso"
_HOLDER = "kafka_cluster, producer_id"
_KNOWN = 'kind=~"open|completing"'
_NOT_HANGING = 'kind=~"open|completing|unmarked"'
"""Known, or committed, by one replica: what another one says is no reason to page that it hangs."""
_WHO = "The transaction of producer id {{ $labels.producer_id }} on {{ $labels.kafka_cluster }}"
_SUMMARY = "A transaction holds back read_committed consumers: the last stable offset does not move."


def records() -> Iterator[Record]:
    """Recording rules that the evidence reads, so that its cost does not grow with the replicas."""
    yield WORST
    yield WAITING_GROUPS


def alerts(_: Settings) -> Iterator[Alert]:
    """A holder of stalled partitions, as a ticket and as a page; a hanging one, and a committed one without marker."""
    description = _WHO + " holds stalled partitions, and has passed its threshold." + HELD + WAITING + NEXT_STEP
    yield Alert(
        "KafkaEosLsoStalled",
        Severity.WARNING,
        f'time() - min by ({_HOLDER}) ({LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="warning"}}) > 0',
        _SUMMARY,
        description,
        DASHBOARD,
        when="a transaction holds the last stable offset of a partition for more than 5m (topic: stall_warning)",
    )
    yield Alert(
        "KafkaEosLsoStalled",
        Severity.CRITICAL,
        # Not as one that never ends while another replica reports that a coordinator has it.
        f"""\
time() - min by ({_HOLDER}) (
  {LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical", kind!~"hanging|unmarked"}}
  or
  {LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical"}}
  unless on ({_HOLDER})
  {LSO_HOLDER_PARTITIONS}{{{_KNOWN}}}
) > 0""",
        _SUMMARY,
        description,
        DASHBOARD,
        when="a transaction holds it for more than 15m (topic: stall_critical), or for a minute longer than its own"
        " timeout; at once when it hangs, or was committed and lacks its marker",
    )
    yield Alert(
        "KafkaEosHangingTransaction",
        Severity.CRITICAL,
        f"""\
group by ({_HOLDER}) ({LSO_HOLDER_PARTITIONS}{{kind="hanging"}})
unless on ({_HOLDER})
  {LSO_HOLDER_PARTITIONS}{{{_NOT_HANGING}}}""",
        "A transaction that no coordinator has blocks partitions, and will never end by itself.",
        _WHO + " hangs: no coordinator has it." + HELD + WAITING + NEXT_STEP,
        DASHBOARD,
        when="no coordinator has the transaction that holds stalled partitions; fires at once",
    )
    yield Alert(
        "KafkaEosUnmarkedTransaction",
        Severity.CRITICAL,
        f"""\
group by ({_HOLDER}) ({LSO_HOLDER_PARTITIONS}{{kind="unmarked"}})
unless on ({_HOLDER})
  {LSO_HOLDER_PARTITIONS}{{{_KNOWN}}}""",
        "A committed transaction lacks its commit marker in partitions, and holds them. Do not end it by hand.",
        _WHO
        + " was committed, and partitions lack its marker. An abort marker would destroy its records there."
        + HELD
        + WAITING
        + NEXT_STEP,
        DASHBOARD,
        when="the transaction that holds stalled partitions was committed, and they lack its marker; fires at once",
    )
    yield Alert(
        "KafkaEosTornTransaction",
        Severity.CRITICAL,
        f'max by (kafka_cluster, topic) ({TORN_TRANSACTIONS}{{decided="commit"}}) > 0',
        "A committed transaction lacks its commit marker in a partition, or has an abort marker there.",
        "Committed transactions of {{ $labels.topic }} on {{ $labels.kafka_cluster }} lack their commit marker in a"
        " partition, or have an abort marker in its place. With an abort, readers of committed records never get these"
        " records; without a marker the next commit of the same producer on the partition releases them. The status"
        " page names the transactions.",
        DASHBOARD,
        when="a committed transaction lacks its marker in a partition, or an abort was written in its place; fires at"
        " once",
    )
