"""The sources of what clients post: librdkafka's statistics, and telemetry (KIP-714).

Imported where ``ingest`` is enabled only: what reads these takes time at the start, and memory.
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.agent.receivers import Receivers
from exporter.model import Source
from exporter.producers.source.librdkafka import IngestSource
from exporter.telemetry.source import TelemetrySource


def posted_sources(receivers: Receivers, only_cluster: Callable[[], str]) -> tuple[Source, ...]:
    """One for each kind. ``only_cluster`` returns the name of the only cluster, "" when there are several."""
    return (
        IngestSource(receivers.clients, only_cluster, receivers.budget),
        TelemetrySource(receivers.telemetry, only_cluster),
    )
