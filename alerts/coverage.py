"""Rows about known gaps: records of the transaction log that were not read, and series left out by a cap."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
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


def alerts(_: Settings) -> Iterator[Alert]:
    """Records that were not decoded or not read, a tail that is behind, and series beyond a cap."""
    yield _incomplete(
        "undecodable",
        _more(TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL),
        "The agent could not decode records of the transaction log.",
        "{{ $value | humanize }} record(s) of __transaction_state of {{ $labels.kafka_cluster }} could not be decoded"
        " in the last hour: garbage, or a layout that is newer than this agent. What became of their transactions is"
        " on no"
        " page and in no alert. After an upgrade of the brokers or of transaction.version, upgrade the agent as well.",
        when="records of the transaction log could not be decoded in the last 1h",
    )
    yield _incomplete(
        "lost",
        _more(TRANSACTION_LOG_LOST_RECORDS_TOTAL),
        "Compaction took records of the transaction log before the agent read them.",
        "{{ $value | humanize }} offset(s) of __transaction_state of {{ $labels.kafka_cluster }} were gone before the"
        " agent read them, within the last hour: it was away or behind for longer than the log keeps. Transactions"
        " and fences of that time may not be counted; what is open now is known. Keep its state on a volume"
        " (state.dir), and look why it was away.",
        when="records of the transaction log were compacted before they were read, in the last 1h",
    )
    yield _incomplete(
        "behind",
        f"max by (kafka_cluster) (min_over_time({TRANSACTION_LOG_TAIL_LAG_RECORDS}[{BRIDGE}])) > {BEHIND}",
        "The agent reads the transaction log and does not keep up with it.",
        "An agent is {{ $value | humanize }} records of __transaction_state of {{ $labels.kafka_cluster }} behind, and"
        " was never less than that in 10 minutes. What it says of transactions is old by that much. Does it get too"
        " little CPU (cpu throttling), is the network slow, or is a partition of the log not readable?",
        hold="10m",
        when=f"the tail of the transaction log is more than {BEHIND} records behind for 10m",
    )
    yield Alert(
        "KafkaEosSeriesDropped",
        Severity.WARNING,
        f'group by (metric) (min_over_time({SERIES_DROPPED}{{metric!~"{_EVIDENCE_ONLY}"}}[5m]) > 0)',
        "A cap keeps series out: some subjects of the agent have no alert.",
        "Series of {{ $labels.metric }} are kept out by a cap, or folded into application _other, for half"
        " an hour."
        + each(
            f"topk(5, max by (instance) ({SERIES_DROPPED}{{metric=%q}}) > 0)",
            "\n- {{ .Value }} series by agent {{ .Labels.instance }}",
            "metric",
        )
        + "\nName applications by patterns (applications), so that ids with a counter or a host in them are one; leave"
        " out what needs no watching (topics, groups: include); or raise the cap of that source.",
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


def _incomplete(reason: str, expr: str, summary: str, description: str, when: str, hold: str = "") -> Alert:
    return Alert(
        "KafkaEosTransactionLogIncomplete",
        Severity.WARNING,
        expr,
        summary,
        description,
        DASHBOARD,
        hold=hold,
        labels=(("reason", reason),),
        when=when,
    )
