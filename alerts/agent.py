"""Rows about the agent itself: who is blind must say so."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
from exporter.alerts.rule import Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import EXPORTER_BUILD_INFO, EXPORTER_SHARDS, SOURCE_FAULTS_TOTAL, SOURCE_UP

DASHBOARD = "kafka-eos-exporter"
_SHARD = "\n- {{ .Labels.shard }}/{{ .Value }}, {{ .Labels.instance }}"


def alerts(settings: Settings) -> Iterator[Alert]:
    """One source down, no agent at all, and not every shard of it."""
    ignored = f'{{source!~"{settings.ignored_sources}"}}' if settings.ignored_sources else ""
    yield Alert(
        "KafkaEosSourceDown",
        Severity.WARNING,
        # Each replica for itself: one that is blind is no reason to trust the other one less, or it less.
        f"avg_over_time({SOURCE_UP}{ignored}[10m]) < {settings.source_success:g}",
        "The agent gets no full answer from something that it reads, and is blind there.",
        "Source {{ $labels.source }} of {{ $labels.target }} (agent {{ $labels.instance }}): only {{ $value |"
        " humanizePercentage }} of the reads in 10 minutes were answered in full."
        + each(
            f"increase({SOURCE_FAULTS_TOTAL}{{kafka_cluster=%q, source=%q, target=%q, instance=%q}}[10m]) >= 1",
            " {{ .Labels.reason }}: {{ .Value | humanize }}.",
            "kafka_cluster",
            "source",
            "target",
            "instance",
        )
        + " The alerts that rest on it cannot fire. The agent's status page and its log say what is missing, down to"
        " the grant to add.",
        DASHBOARD,
        hold="5m",
        when=f"less than {settings.source_success:.0%} of a source's reads in 10m are answered in full, for 5m",
    )
    yield Alert(
        "KafkaEosExporterAbsent",
        Severity.CRITICAL,
        f"absent_over_time({EXPORTER_BUILD_INFO}[5m])",
        "No agent is scraped: nothing watches exactly-once.",
        "Prometheus has had no sample of any kafka-eos-exporter for 10 minutes. Is it running, does Prometheus find it"
        " (its target page), and does GET /-/healthy answer from there? Until then no other alert of this set can"
        " fire.",
        DASHBOARD,
        (),
        hold="5m",
        keeps=False,
        when="no sample of any agent for 10m",
    )
    yield Alert(
        "KafkaEosExporterAbsent",
        Severity.CRITICAL,
        # Each is one of as many as it was told: these parts add up to 1 when all are there and agree.
        f"round(sum without (shard) (1 / avg by (job, shard) (last_over_time({EXPORTER_SHARDS}[5m]))), 0.001) != 1",
        "Not every shard of the agent is scraped: nothing watches exactly-once on a part of the cluster.",
        "Of the shards of job {{ $labels.job }}, not all have been there for 10 minutes, or they do not agree on how"
        " many there are. The topics, applications and groups of a missing shard are on no page and in no alert."
        " Those that are there:"
        + each(f"max by (shard, instance) ({EXPORTER_SHARDS}{{job=%q}})", _SHARD, "job")
        + "\nRun one agent with --shard INDEX/COUNT for each INDEX from 0 to COUNT - 1, all with the same COUNT.",
        DASHBOARD,
        (),
        hold="5m",
        keeps=False,
        when="a shard is missing for 10m, or the shards do not agree on how many they are",
    )
