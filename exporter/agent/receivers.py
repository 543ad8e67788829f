"""Receivers of documents posted over HTTP: clients' statistics, streaming queries, results of audits."""

from __future__ import annotations

from typing import NamedTuple

from exporter.audit_results.posts import AuditReceiver
from exporter.ingest.budget import Budget
from exporter.model import Clock
from exporter.producers.source.librdkafka import LibrdkafkaReceiver
from exporter.settings.root import Config
from exporter.spark.posts import SparkReceiver
from exporter.telemetry.clients import TelemetryReceiver


class Receivers(NamedTuple):
    """One for each kind of sender."""

    clients: LibrdkafkaReceiver
    spark: SparkReceiver
    audits: AuditReceiver
    telemetry: TelemetryReceiver
    budget: Budget
    names: set[str]

    def accept_names_of(self, config: Config) -> None:
        """Accept the names of these clusters, and no other."""
        names = _names(config)
        self.names.update(names)  # first: a name that stays is there at every moment
        self.names.intersection_update(names)


def _names(config: Config) -> set[str]:
    return {cluster.name for cluster in config.clusters if cluster.name}


def receivers_of(config: Config, clock: Clock) -> Receivers:
    """The receivers that the settings ask for, where ``ingest`` is enabled."""
    ingest = config.ingest
    names = _names(config)
    budget = Budget(ingest.memory)
    return Receivers(
        LibrdkafkaReceiver(names, ingest.clients, ingest.expire_after, clock, budget),
        SparkReceiver(names, ingest.clients, clock, budget),
        AuditReceiver(names, ingest.clients, clock, budget),
        TelemetryReceiver(names, ingest.clients, clock, budget),
        budget,
        names,
    )
