"""The cluster: values that other rooms take."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.model import Fact


@dataclass(frozen=True, slots=True)
class ClusterIdentity(Fact):
    """The cluster's identity; ``transaction_version`` is the finalised feature level, None before 4.0."""

    cluster_id: str
    bootstrap_servers: str
    transaction_version: int | None
    brokers: int
