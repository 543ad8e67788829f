"""The settings of brokers and topics, and what is known by them.

DescribeConfigs is a raw request: kafka-python's own method drops the error codes, so a missing grant looks like no
settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

from kafka.protocol.admin import DescribeClusterRequest, DescribeConfigsRequest

from exporter.core.replication import CREATION, UnmadeTopic, unmade_topic
from exporter.kafka.ask import BrokerAccess
from exporter.kafka.connection import Response
from exporter.kafka.faults import refusal
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason

AT_ONCE = 100
"""Topics in one request."""
MIN_ISR = "min.insync.replicas"

SCAN_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
"""How often coordinators look for transactions that timed out: until then a client can still commit its own."""
DEFAULT_SCAN_SECONDS = 10.0

Resource = Literal["topic", "broker"]
_TYPES = {"topic": 2, "broker": 4}  # ConfigResource.java


class ConfigAccess(BrokerAccess, Protocol):
    """The part of a client that is used here. ``ClusterClient`` implements it."""

    def configs(
        self, resource: Resource, names: Sequence[str], keys: Sequence[str], deadline: Deadline
    ) -> dict[str, dict[str, str] | Fault]: ...


def configs_request(resource: Resource, names: Sequence[str], keys: Sequence[str]) -> DescribeConfigsRequest:
    """Asks for these settings of these topics, or of one broker by its node id."""
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TYPES[resource], resource_name=name, configuration_keys=list(keys)
        )
        for name in names
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)


def read_configs(resource: Resource, names: Sequence[str], answer: Response) -> dict[str, dict[str, str] | Fault]:
    """The settings of each, or the fault. Settings that the broker does not know are left out."""
    missing = Fault(Reason.MALFORMED, f"DescribeConfigs of a {resource} was answered without it")
    found: dict[str, dict[str, str] | Fault] = dict.fromkeys(names, missing)
    found.update((result.resource_name, _settings(resource, result)) for result in answer.results)
    return found


def _settings(resource: Resource, result: Any) -> dict[str, str] | Fault:  # noqa: ANN401 -- kafka-python ships no types
    if result.error_code:
        name = result.resource_name
        grant = f"DESCRIBE_CONFIGS on {f'Topic:{name}' if resource == 'topic' else 'Cluster'}"
        return refusal(f"DescribeConfigs of {resource} {name}", result.error_code, grant)
    return {item.name: item.value for item in result.configs if item.value is not None}


def scans_late(client: ConfigAccess, brokers: Iterable[int], deadline: Deadline) -> dict[int, float]:
    """By how many seconds rarer than by default each broker looks for them.

    Those that look as often are left out, as are those whose settings may not be read.
    """
    answers = client.configs("broker", [str(broker) for broker in sorted(brokers)], [SCAN_INTERVAL], deadline)
    found = {
        int(broker): int(answer.get(SCAN_INTERVAL) or 0) / 1000 - DEFAULT_SCAN_SECONDS
        for broker, answer in answers.items()
        if not isinstance(answer, Fault)
    }
    return {broker: seconds for broker, seconds in found.items() if seconds > 0}


def unmade_topics(
    client: ConfigAccess, metadata: Metadata, deadline: Deadline, topics: Sequence[str] = tuple(CREATION)
) -> dict[str, UnmadeTopic | str]:
    """Return those of the internal topics that are not there; the text says why that, or whether they can be made, is
    not known. ``metadata`` is of a request by their names: one about all topics passes over what may not be described.

    Brokers make them at the first FindCoordinator for a key. That request is never sent here: it would write to the
    cluster. Where the topic is absent, the settings are compared with the brokers instead.
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


def _registered(client: ConfigAccess, metadata: Metadata, deadline: Deadline) -> int:
    """How many brokers are registered, those that are down among them (KIP-1073, Kafka 4.0 and later); 0 where no
    broker says.
    """
    request = DescribeClusterRequest(include_fenced_brokers=True, min_version=2)
    node = min(metadata.brokers)
    answer = client.ask({node: request}, deadline)[node]
    return 0 if isinstance(answer, Fault) or answer.error_code else len(answer.brokers)
