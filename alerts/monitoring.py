"""Rows about what the alerts rest on: notifications that arrive, clocks that agree, labels that name clusters."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    CLOCK_DISTANCE_SECONDS,
    CLUSTER_INFO,
    SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    SOURCE_UP,
)

DASHBOARD = "kafka-eos-exporter"
CLOCK_SECONDS = 60
_AGENT = "kafka_cluster, job, instance"
_LSO = '{source="lso"}'


def alerts(_: Settings) -> Iterator[Alert]:
    """An alert that always fires, clocks that differ, and clusters that share one name or have none."""
    yield Alert(
        "KafkaEosWatchdog",
        Severity.NONE,
        "vector(1)",
        "kafka-eos-exporter: alerting works. This alert always fires; its absence is the trouble.",
        "First: do nothing. Route it to a dead-man's switch, which calls when it no longer arrives: then Prometheus or"
        " Alertmanager is down, and what it last reported as resolved may go on.",
        DASHBOARD,
        (),
        keeps=False,
        when="always, for a dead-man's switch",
    )
    yield from _clocks()
    yield from _labels()


def _clocks() -> Iterator[Alert]:
    yield Alert(
        "KafkaEosClocksDiffer",
        Severity.WARNING,
        f"max by (kafka_cluster) (abs({CLOCK_DISTANCE_SECONDS})) > {CLOCK_SECONDS}",
        "{{ $labels.kafka_cluster }}: the clocks of the agent and of the transaction coordinators differ by"
        " {{ $value | humanizeDuration }}. Ages of transactions are wrong by that much.",
        "First: synchronise the clocks (NTP, chrony) of the agent's machine and of the brokers."
        + per_row(
            f"max by (instance) ({CLOCK_DISTANCE_SECONDS}{{kafka_cluster=%q}})",
            "\n- agent {{ .Labels.instance }} is {{ .Value | humanizeDuration }} ahead",
            "kafka_cluster",
        ),
        DASHBOARD,
        hold="5m",
        labels=(("reason", "coordinators"),),
        when=f"the clocks of an agent and of the coordinators differ by more than {CLOCK_SECONDS} s for 5m",
    )
    yield Alert(
        "KafkaEosClocksDiffer",
        Severity.WARNING,
        # The source is read every few seconds: while it is up, its last success is as old as the clocks differ.
        f"""\
abs(time() - max by ({_AGENT}) ({SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS}{_LSO})) > {2 * CLOCK_SECONDS}
and on ({_AGENT}) {SOURCE_UP}{_LSO} == 1""",
        "{{ $labels.kafka_cluster }}: the clocks of agent {{ $labels.instance }} and of Prometheus differ by about"
        " {{ $value | humanizeDuration }}. Alerts by age come too early, too late, or not at all.",
        "First: synchronise the clocks (NTP, chrony) of both machines. If they agree, the agent's source lso hangs:"
        " look at its log, and start it again.",
        DASHBOARD,
        hold="5m",
        labels=(("reason", "prometheus"),),
        when=f"the clocks of an agent and of Prometheus differ by more than {2 * CLOCK_SECONDS} s for 5m",
    )


def _labels() -> Iterator[Alert]:
    yield Alert(
        "KafkaEosLabelsAmbiguous",
        Severity.CRITICAL,
        f'count by (kafka_cluster) (group by (kafka_cluster, cluster_id) ({CLUSTER_INFO}{{cluster_id!=""}})) > 1',
        "{{ $labels.kafka_cluster }}: {{ $value }} Kafka clusters have this name. Their alerts are one, and an outage"
        " of one of them may be unseen.",
        "First: give each its own name in the agents' settings (clusters: name), or make the label in which they differ"
        " a group label (generate alerts --set group_labels=region)."
        + per_row(
            f"group by (cluster_id, instance) ({CLUSTER_INFO}{{kafka_cluster=%q}})",
            "\n- cluster id {{ .Labels.cluster_id }}, by agent {{ .Labels.instance }}",
            "kafka_cluster",
        ),
        DASHBOARD,
        hold="15m",
        labels=(("reason", "names"),),
        when="clusters with different cluster ids have one name, and no group label distinguishes them, for 15m",
    )
    yield Alert(
        "KafkaEosLabelsAmbiguous",
        Severity.CRITICAL,
        f'group by (job, instance) ({SOURCE_UP}{{kafka_cluster="", source="lso"}})',
        "{{ $labels.job }}: series of agent {{ $labels.instance }} have no label kafka_cluster. No alert of its"
        " clusters can say which cluster it is about.",
        "First: look for a relabelling in Prometheus' scrape configuration that drops or renames kafka_cluster, and"
        " remove it.",
        DASHBOARD,
        (),
        hold="5m",
        labels=(("reason", "missing"),),
        when="the label kafka_cluster of an agent's series is gone, for 5m",
    )
