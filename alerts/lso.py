"""Stalled and hanging: rows about the last stable offset.

Every age is told by a timestamp, so there is no ``for`` that a failed scrape or a restarted Prometheus could set back.
Blockers are joined to open transactions on producer_id: their epochs differ as soon as the transaction is prepared.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import BLOCKER_STEP, BOOTSTRAP, HANGING_STEP, LSO_LAG, STALLED_SINCE, WAITING
from exporter.alerts.rule import Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import LSO_BLOCKER_INFO, LSO_STALLED_SINCE_TIMESTAMP_SECONDS, OPEN_TRANSACTION_TIMEOUT_SECONDS

DASHBOARD = "kafka-eos-lso"
_AT = "kafka_cluster, topic, partition"
_VARIABLES = ("kafka_cluster", "topic")
# Not while another replica says that a coordinator knows what holds the partition.
_HANGING = f"""\
group by ({_AT}) ({LSO_BLOCKER_INFO}{{kind="hanging"}})
unless on ({_AT})
  {LSO_BLOCKER_INFO}{{kind=~"open|completing"}}"""
_WHERE = "{{ $labels.topic }}-{{ $labels.partition }} on {{ $labels.kafka_cluster }}"


def alerts(settings: Settings) -> Iterator[Alert]:
    """A partition stalled, as a ticket and as a page, and a hanging transaction."""
    yield from _stalled(settings)
    yield _hanging()


def _stalled(settings: Settings) -> Iterator[Alert]:
    warning, critical = settings.stall_warning.seconds, settings.stall_critical.seconds
    age = f"time() - min by ({_AT}) ({LSO_STALLED_SINCE_TIMESTAMP_SECONDS})"
    patience = (
        f"clamp(max by (kafka_cluster, producer_id) ({OPEN_TRANSACTION_TIMEOUT_SECONDS})"
        f" + {settings.stall_slack.seconds}, {warning}, {critical})"
    )
    description = (
        BOOTSTRAP
        + "The last stable offset of "
        + _WHERE
        + " has stood still for {{ $value | humanizeDuration }}"
        + STALLED_SINCE
        + ":"
        + LSO_LAG
        + WAITING
        + BLOCKER_STEP
    )
    summary = "A transaction holds back read_committed consumers: the last stable offset does not move."
    yield Alert(
        "KafkaEosLsoStalled",
        Severity.WARNING,
        f"{age} > {warning}",
        summary,
        description,
        DASHBOARD,
        _VARIABLES,
        when=f"the last stable offset of a partition stands still for more than {settings.stall_warning}",
    )
    yield Alert(
        "KafkaEosLsoStalled",
        Severity.CRITICAL,
        f"""\
{age}
> on ({_AT}) (
  0 * {_HANGING}
  or
  max by ({_AT}) ({LSO_BLOCKER_INFO} * on (kafka_cluster, producer_id) group_left () {patience})
  or
  {critical} * group by ({_AT}) ({LSO_STALLED_SINCE_TIMESTAMP_SECONDS})
)""",
        summary,
        description,
        DASHBOARD,
        _VARIABLES,
        when=f"it does for more than {settings.stall_critical}, or {settings.stall_slack} longer than its holder's"
        " timeout allows, or at once when the holder is hanging",
    )


def _hanging() -> Alert:
    return Alert(
        "KafkaEosHangingTransaction",
        Severity.CRITICAL,
        _HANGING,
        "A transaction that no coordinator knows blocks a partition, and will never end by itself.",
        BOOTSTRAP + "A hanging transaction blocks " + _WHERE + STALLED_SINCE + ":" + LSO_LAG + WAITING + HANGING_STEP,
        DASHBOARD,
        _VARIABLES,
        when="at once: no coordinator knows the transaction that holds a stalled partition",
    )
