"""Rows about the cluster: the transaction log with its replicas, the posture, and the canary."""

from __future__ import annotations

from collections.abc import Iterator

from exporter import catalogue
from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, Alert, Board, Severity, by_severity

LOG_SECONDS = 240
"""Less than the five minutes after which its transactions are pages themselves, so that the cause is reported first."""
NO_SUCCESS = "2m"
"""Longer than a turn of the canary whose phases all time out, so that one slow turn is no page."""


def alerts() -> Iterator[Alert]:
    """The transaction log that cannot be made or has missing replicas, and failed posture checks."""
    yield _not_made()
    broken = 'topic="__transaction_state", condition=~"offline|under_min_isr"'
    since = f"min by (kafka_cluster) ({catalogue.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS}{{{broken}}})"
    yield Alert(
        "KafkaEosTransactionLogUnderMinIsr",
        Severity.CRITICAL,
        Board.OVERVIEW,
        # The age of one partition's gap, whose start is exposed: three short gaps do not add up to a long one.
        f"time() - {since} > {LOG_SECONDS}",
        "{{ $labels.kafka_cluster }}: partitions of the transaction log take no writes for"
        " {{ $value | humanizeDuration }}. Producers whose ids live there can neither commit nor start.",
        "First: bring back the missing brokers. Do not lower min.insync.replicas: what is then lost is lost."
        + per_row(
            f"max by (condition) ({catalogue.INTERNAL_TOPIC_PARTITIONS}{{kafka_cluster=%q, {broken}}}) > 0",
            "\n- {{ .Value }} partition(s) {{ .Labels.condition }}",
            "kafka_cluster",
        )
        + per_row(
            f"topk(5, max by (application) ({catalogue.TRANSACTIONAL_IDS_UNAVAILABLE}{{kafka_cluster=%q}}) > 0)",
            "\n- application {{ .Labels.application }}: {{ .Value }} transactional id(s) can do nothing",
            "kafka_cluster",
        ),
        when="a partition of `__transaction_state` is offline or under its minimum ISR for more than 4m",
    )
    yield Alert(
        "KafkaEosPostureFailed",
        Severity.WARNING,
        Board.OVERVIEW,
        f"min by (kafka_cluster, check) (last_over_time({catalogue.POSTURE_CHECK}[{BRIDGE}])) < 1",
        "{{ $labels.kafka_cluster }}: check {{ $labels.check }} fails. Exactly-once does not survive the next failure"
        " there; office hours are soon enough.",
        "First: run `kafka-eos-exporter check posture`, or open the agent's status page (page_url): both show each"
        " value, what it should be, and what to set.",
        hold="15m",
        when="a check of the EOS posture fails for 15m; one alert lists all subjects of the check",
    )


def _not_made() -> Alert:
    check = f'{catalogue.POSTURE_CHECK}{{check="internal_topic_creation", subject="__transaction_state"}}'
    fails = f"min by (kafka_cluster) (last_over_time({check}[{BRIDGE}])) < 1"
    unavailable = 'request="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE"'
    refused = f"max by (kafka_cluster) (increase({catalogue.BROKER_REQUEST_ERRORS_TOTAL}{{{unavailable}}}[10m])) > 0"
    return Alert(
        "KafkaEosTransactionLogNotMade",
        None,
        Board.OVERVIEW,
        by_severity(fails, f"{fails} and on (kafka_cluster) {refused}"),
        "{{ $labels.kafka_cluster }}: __transaction_state cannot be made, more replicas are set than there are brokers."
        " No transactional producer can start.",
        "First: set transaction.state.log.replication.factor no higher than the number of brokers, on every broker, and"
        " restart them; or start the missing brokers. `kafka-eos-exporter check posture` has both numbers. Nothing is"
        " lost: no transaction has begun.",
        hold="5m",
        when="there is no `__transaction_state`, and its replication factor is above the number of brokers, for 5m; a"
        " page while brokers refuse FindCoordinator with COORDINATOR_NOT_AVAILABLE (needs their JMX)",
    )


def canary_alerts() -> Iterator[Alert]:
    """No transaction of the canary succeeds, none through one coordinator, or no canary runs any more."""
    success = catalogue.CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS
    failures = "\n- {{ .Labels.phase }}: {{ .Labels.error }}, {{ .Value | humanize }} times in 5m"
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.CRITICAL,
        Board.BROKERS,
        # The instant of the last success does not change: no clock is compared with another one.
        f"""\
time() - (
  max by (kafka_cluster) ({success})
  <= max by (kafka_cluster) ({success} offset {NO_SUCCESS})
)""",
        "{{ $labels.kafka_cluster }}: no transaction of the canary has succeeded for {{ $value | humanizeDuration }}."
        " It is the cluster: transactional applications fail as well.",
        "First: check the brokers, then the network between them."
        + per_row(
            f"topk(5, sum by (phase, error) (increase({catalogue.CANARY_FAILURES_TOTAL}{{kafka_cluster=%q}}[5m])) > 0)",
            failures,
            "kafka_cluster",
        ),
        reason="cluster",
        when=f"no transaction of the canary succeeded in {NO_SUCCESS}",
    )
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.CRITICAL,
        Board.BROKERS,
        f"max by (kafka_cluster, coordinator) (last_over_time({catalogue.CANARY_FAILING_PARTITIONS}[{BRIDGE}])) > 0",
        "{{ $labels.kafka_cluster }}: transactions coordinated by broker {{ $labels.coordinator }} fail, in"
        " {{ $value }} partition(s) of __transaction_state. Applications whose transactional.id belongs there fail.",
        "First: check broker {{ $labels.coordinator }}: its log, its disk, its connections to the other brokers."
        + per_row(
            f"topk(5, sum by (phase, error) (increase({catalogue.CANARY_FAILURES_TOTAL}"
            "{kafka_cluster=%q, coordinator=%q}[5m])) > 0)",
            failures,
            "kafka_cluster",
            "coordinator",
        ),
        hold="2m",
        reason="coordinator",
        when="the canary's transactions through one coordinator have failed for more than 2m",
    )
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.WARNING,
        Board.BROKERS,
        f"""\
group by (kafka_cluster) (present_over_time({success}[7d]))
unless on (kafka_cluster) present_over_time({success}[{BRIDGE}])""",
        "{{ $labels.kafka_cluster }}: the canary does not run any more. An outage that hits every transactional"
        " application alike is found later without it.",
        "First: start `kafka-eos-exporter canary` again, and see that Prometheus scrapes it. Stopped on purpose:"
        " silence this alert, it ends 7 days after the canary.",
        hold="10m",
        keeps=False,
        reason="absent",
        when="a canary that ran in the last 7d is not scraped for 13m",
    )
