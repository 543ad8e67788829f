"""The sources of JVMs: brokers, producers, Streams.

Imported where there is one to read only: what reads them takes time at the start, and memory.
"""

from __future__ import annotations

from exporter.agent.jvm_targets import WatchedJvm
from exporter.brokers.source import BrokersSource
from exporter.cluster import Cluster
from exporter.jvm.reader import reader_for
from exporter.model import Source
from exporter.producers.source.producers import ProducersSource
from exporter.streams.source import StreamsSource

MOST_SECONDS = 10.0
"""Longest wait in seconds for a JVM; never longer than its interval."""


def jvm_source(jvm: WatchedJvm, cluster: Cluster) -> Source:
    """The source that reads this JVM."""
    reader = reader_for(jvm.target)
    timeout = min(MOST_SECONDS, jvm.interval)
    if jvm.source == "brokers":
        return BrokersSource(cluster, jvm.target.endpoint, reader, jvm.interval, timeout, jvm.node_id)
    if jvm.source == "streams":
        return StreamsSource(cluster, jvm.target.name, reader, jvm.interval)
    return ProducersSource(cluster, jvm.target.name, reader, jvm.interval, timeout)
