"""Facts that the source of a Streams application publishes for the posture checks."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.model import Fact


@dataclass(frozen=True, slots=True)
class StreamsVersion(Fact):
    """The version of Kafka Streams that a JVM of the cluster's applications runs, by its MBean."""

    cluster: str
    version: str
