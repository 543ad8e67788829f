"""The internal topics that a cluster does not have yet, and whether its brokers can make them.

Brokers make them at the first FindCoordinator for a key. That request is never sent here: it would write to the
cluster. Where the topic is absent, the settings are compared with the brokers instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka.protocol.admin import DescribeClusterRequest

from exporter.core.replication import CREATION, UnmadeTopic, unmade_topic
from exporter.kafka.client import ClusterClient
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason


def unmade_topics(
    client: ClusterClient, metadata: Metadata, deadline: Deadline, topics: Sequence[str] = tuple(CREATION)
) -> dict[str, UnmadeTopic | str]:
    """Return those of the internal topics that are not there; the text says why that, or whether they can be made, is
    not known. ``metadata`` is of a request by their names: one about all topics passes over what may not be described.
    """
    found: dict[str, UnmadeTopic | str] = {}
    absent = []
    for topic in topics:
        error = metadata.errors.get(topic)
        if error is not None and error.reason is not Reason.UNKNOWN_TOPIC:
            found[topic] = error.detail
        elif not metadata.topics.get(topic):
            absent.append(topic)
    if not absent:
        return found
    keys = sorted({key for topic in absent for key in CREATION[topic][:3]})
    answers = client.configs("broker", [str(node) for node in sorted(metadata.brokers)], keys, deadline)
    settings = [answer.detail if isinstance(answer, Fault) else answer for answer in answers.values()]
    alive = len(metadata.brokers)
    plans = {topic: unmade_topic(topic, settings, alive, alive) for topic in absent}
    if any(isinstance(plan, UnmadeTopic) and plan.obstacle for plan in plans.values()):
        registered = max(alive, _registered(client, metadata, deadline))
        plans = {topic: unmade_topic(topic, settings, registered, alive) for topic in absent}
    return found | plans


def _registered(client: ClusterClient, metadata: Metadata, deadline: Deadline) -> int:
    """How many brokers are registered, those that are down among them (KIP-1073, Kafka 4.0 and later); 0 where no
    broker says.
    """
    request = DescribeClusterRequest(include_fenced_brokers=True, min_version=2)
    node = min(metadata.brokers)
    answer = client.ask({node: request}, deadline)[node]
    return 0 if isinstance(answer, Fault) or answer.error_code else len(answer.brokers)
