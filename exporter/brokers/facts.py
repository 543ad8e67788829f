"""Facts that the source of a broker's JVM publishes for the posture checks."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.model import Fact


@dataclass(frozen=True, slots=True)
class BrokerVersion(Fact):
    """The version of Kafka that a broker runs, by its app-info MBean."""

    cluster: str
    broker: int
    version: str
