"""Rows about known gaps: records of the transaction log that were not read, and series left out by a cap."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    SERIES_DROPPED,
    TRANSACTION_LOG_LOST_RECORDS_TOTAL,
    TRANSACTION_LOG_TAIL_LAG_RECORDS,
    TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL,
)
from exporter.model import Metric

DASHBOARD = "kafka-eos-exporter"
BEHIND = 10_000
_EVIDENCE_ONLY = f"{OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}|{LSO_STALLED_SINCE_TIMESTAMP_SECONDS}"
"""Families that show only the worst by design: their alerts and sums use other families."""


_incomplete = partial(Alert, "KafkaEosTransactionLogIncomplete", Severity.WARNING, dashboard=DASHBOARD)


def alerts(_: Settings) -> Iterator[Alert]:
    """Records that were not decoded or not read, a tail that is behind, and series beyond a cap."""
    yield _incomplete(
        _more(TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL),
        "{{ $labels.kafka_cluster }}: the agent could not decode {{ $value | humanize }} record(s) of the transaction"
        " log in the last hour. What became of their transactions is in no alert.",
        "First: after an upgrade of the brokers or of transaction.version, upgrade the agent as well. Otherwise the"
        " records are garbage: somebody else wrote to __transaction_state.",
        labels=(("reason", "undecodable"),),
        when="records of the transaction log could not be decoded in the last 1h",
    )
    yield _incomplete(
        _more(TRANSACTION_LOG_LOST_RECORDS_TOTAL),
        "{{ $labels.kafka_cluster }}: {{ $value | humanize }} offset(s) of the transaction log were gone before the"
        " agent read them. Transactions and fences of that time may not be counted; what is open now is known.",
        "First: look why the agent was away or behind for longer than the log keeps, and keep its state on a volume"
        " (state.dir).",
        labels=(("reason", "lost"),),
        when="records of the transaction log were compacted before they were read, in the last 1h",
    )
    yield _incomplete(
        f"max by (kafka_cluster) (min_over_time({TRANSACTION_LOG_TAIL_LAG_RECORDS}[{BRIDGE}])) > {BEHIND}",
        "{{ $labels.kafka_cluster }}: an agent is {{ $value | humanize }} records of the transaction log behind, for 10"
        " minutes. What it says of transactions is old by that much.",
        "First: see whether it gets too little CPU (cpu throttling), the network is slow, or a partition of the log is"
        " not readable.",
        hold="10m",
        labels=(("reason", "behind"),),
        when=f"the tail of the transaction log is more than {BEHIND} records behind for 10m",
    )
    yield Alert(
        "KafkaEosSeriesDropped",
        Severity.WARNING,
        f'group by (metric) (min_over_time({SERIES_DROPPED}{{metric!~"{_EVIDENCE_ONLY}"}}[5m]) > 0)',
        "A cap keeps out series of {{ $labels.metric }}, or folds them into application _other. Their subjects have no"
        " alert.",
        "First: name applications by patterns (applications), so that ids with a counter or a host in them are one."
        " Leave out what needs no watching (topics, groups: include), or raise the cap of that source."
        + per_row(
            f"topk(5, max by (instance) ({SERIES_DROPPED}{{metric=%q}}) > 0)",
            "\n- {{ .Value }} series by agent {{ .Labels.instance }}",
            "metric",
        ),
        DASHBOARD,
        (),
        hold="30m",
        when="a cap leaves out series for 30m",
    )


def _more(counter: Metric) -> str:
    """The increase of a counter in an hour. Its value at the first sample counts as well, once a day."""
    return f"""\
max by (kafka_cluster) (increase({counter}[1h])) > 0
or
max by (kafka_cluster) ({counter})
- (max by (kafka_cluster) (max_over_time({counter}[1d] offset 1h)) or 0 * group by (kafka_cluster) ({counter}))
> 0"""
