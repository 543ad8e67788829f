"""Subscriptions of client metrics (KIP-714): what brokers ask their clients to push."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.admin import ListConfigResourcesRequest

from exporter.kafka.client import ClusterClient
from exporter.kafka.faults import refusal
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault

METRICS = "metrics"
_CLIENT_METRICS = 16  # ConfigResource.java
_DESCRIBE = "DESCRIBE_CONFIGS on Cluster"


def subscriptions(
    client: ClusterClient, metadata: Metadata, deadline: Deadline
) -> Mapping[str, tuple[str, ...]] | Fault:
    """The prefixes of metrics that each subscription asks for, by its name; the fault where they are refused. An empty
    list asks for none (ClientMetricsConfigs).

    Version 0 of the request lists these resources only, later ones every kind (KIP-1142).
    """
    node = min(metadata.brokers)
    answer = client.ask({node: ListConfigResourcesRequest()}, deadline)[node]
    if isinstance(answer, Fault):
        return answer
    if answer.error_code:
        return refusal("ListConfigResources", answer.error_code, _DESCRIBE)
    names = [
        resource.resource_name for resource in answer.config_resources if resource.resource_type == _CLIENT_METRICS
    ]
    found: dict[str, tuple[str, ...]] = {}
    for name, settings in client.configs("client_metrics", names, (METRICS,), deadline).items():
        if isinstance(settings, Fault):
            return settings
        found[name] = tuple(filter(None, map(str.strip, settings.get(METRICS, "").split(","))))
    return found
