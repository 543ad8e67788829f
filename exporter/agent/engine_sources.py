"""The sources of engines on a cluster (Connect, Spark) and of its audits, from their settings.

The agent imports this where there are such settings, or ``ingest`` is enabled: it takes time at the start, and memory.
"""

from __future__ import annotations

from exporter.agent.jvm_sources import JvmReaders
from exporter.agent.receivers import Receivers
from exporter.audit_results.source import AuditFiles, AuditsSource, Names
from exporter.cluster import Cluster
from exporter.connect.rest import ConnectRest
from exporter.connect.source import ConnectSource
from exporter.model import Source
from exporter.settings.targets import Connect, Engines, Spark
from exporter.spark.checkpoint import CheckpointFolder
from exporter.spark.event_log import EventLogFolder
from exporter.spark.queries import StreamingQuery
from exporter.spark.source import SparkFolderSource, SparkSource


def engine_sources(
    cluster: Cluster, engines: Engines, receivers: Receivers | None = None, names: Names = frozenset
) -> tuple[Source, ...]:
    """One source for each Connect cluster and each folder of Spark's, one for all of Spark, and one for all audits.

    ``receivers`` is None where nothing is posted. ``names`` returns the names of all clusters that are watched: data
    that names no cluster belongs to the only one.
    """
    return (
        *(_connect(cluster, connect) for connect in engines.connect),
        *(_spark_folder(cluster, spark) for spark in engines.spark),
        *([_spark(cluster, receivers, names)] if engines.spark or receivers else []),
        *([_audits(cluster, engines, receivers, names)] if engines.audits or receivers else []),
    )


def _connect(cluster: Cluster, config: Connect) -> ConnectSource:
    return ConnectSource(
        cluster,
        config.name,
        ConnectRest([config.endpoint(url) for url in config.rest], validate=config.validate_plugins)
        if config.rest
        else None,
        JvmReaders(config.workers) if config.workers else None,
        config.group_id,
        config.interval,
    )


def _spark_folder(cluster: Cluster, config: Spark) -> SparkFolderSource:
    folder = config.event_log or config.checkpoint
    assert folder is not None  # noqa: S101 -- Spark's own check
    if config.event_log is not None:
        return SparkFolderSource(cluster, str(folder), EventLogFolder(folder), config.interval)
    checkpoint = CheckpointFolder(folder, config.application, config.query or folder.name)
    return SparkFolderSource(cluster, str(folder), checkpoint, config.interval)


def _spark(cluster: Cluster, receivers: Receivers | None, names: Names) -> SparkSource:
    if receivers is None:
        return SparkSource(cluster)
    receiver = receivers.spark

    def posted() -> tuple[StreamingQuery, ...]:
        unnamed = receiver.queries("") if len(names()) <= 1 else ()
        return (*receiver.queries(cluster.configured_name), *(unnamed if cluster.configured_name else ()))

    return SparkSource(cluster, posted, receiver.left_out)


def _audits(cluster: Cluster, engines: Engines, receivers: Receivers | None, names: Names) -> AuditsSource:
    files = AuditFiles([audit.path for audit in engines.audits])
    if receivers is None:
        return AuditsSource(cluster, names, files)
    return AuditsSource(cluster, names, files, receivers.audits.results, receivers.audits.left_out)
