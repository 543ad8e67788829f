"""Rows about the canary: the cluster itself cannot do transactions."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    CANARY_FAILING_PARTITIONS,
    CANARY_FAILURES_TOTAL,
    CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS,
)

NO_SUCCESS = "2m"
"""Longer than a turn whose phases all time out, so that one slow turn is no page."""
_SUCCESS = CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS


def alerts(_: Settings) -> Iterator[Alert]:
    """No transaction succeeds, none through one coordinator, or no canary runs any more."""
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.CRITICAL,
        # The instant of the last success does not change: no clock is compared with another one.
        f"""\
time() - (
  max by (kafka_cluster) ({_SUCCESS})
  <= max by (kafka_cluster) ({_SUCCESS} offset {NO_SUCCESS})
)""",
        "{{ $labels.kafka_cluster }}: no transaction of the canary has succeeded for {{ $value | humanizeDuration }}."
        " It is the cluster: transactional applications fail as well.",
        "First: check the brokers, then the network between them."
        + per_row(
            f"topk(5, sum by (phase, error) (increase({CANARY_FAILURES_TOTAL}{{kafka_cluster=%q}}[5m])) > 0)",
            "\n- {{ .Labels.phase }}: {{ .Labels.error }}, {{ .Value | humanize }} times in 5m",
            "kafka_cluster",
        )
        + "\nThe canary writes to a topic of its own through every coordinator.",
        "kafka-eos-brokers",
        labels=(("reason", "cluster"),),
        when=f"no transaction of the canary succeeded in {NO_SUCCESS}",
    )
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.CRITICAL,
        f"max by (kafka_cluster, coordinator) (last_over_time({CANARY_FAILING_PARTITIONS}[{BRIDGE}])) > 0",
        "{{ $labels.kafka_cluster }}: transactions coordinated by broker {{ $labels.coordinator }} fail, in"
        " {{ $value }}"
        " partition(s) of __transaction_state. Applications whose transactional.id belongs there fail, others do not.",
        "First: check broker {{ $labels.coordinator }}: its log, its disk, its connections to the other brokers."
        + per_row(
            f"topk(5, sum by (phase, error) (increase({CANARY_FAILURES_TOTAL}"
            "{kafka_cluster=%q, coordinator=%q}[5m])) > 0)",
            "\n- {{ .Labels.phase }}: {{ .Labels.error }}, {{ .Value | humanize }} times in 5m",
            "kafka_cluster",
            "coordinator",
        ),
        "kafka-eos-brokers",
        hold="2m",
        labels=(("reason", "coordinator"),),
        when="the canary's transactions through one coordinator have failed for more than 2m",
    )
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.WARNING,
        f"""\
group by (kafka_cluster) (present_over_time({_SUCCESS}[7d]))
unless on (kafka_cluster) present_over_time({_SUCCESS}[{BRIDGE}])""",
        "{{ $labels.kafka_cluster }}: the canary does not run any more. An outage that hits every transactional"
        " application alike is found later without it.",
        "First: start `kafka-eos-exporter canary` again, and see that Prometheus scrapes it. Stopped on purpose:"
        " silence this alert, it ends 7 days after the canary.",
        "kafka-eos-brokers",
        hold="10m",
        keeps=False,
        labels=(("reason", "absent"),),
        when="a canary that ran in the last 7d is not scraped for 13m",
    )
