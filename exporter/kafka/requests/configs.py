"""DescribeConfigs as a raw request: kafka-python's own method drops the error codes, so a missing grant looks like no
settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kafka.protocol.admin import DescribeConfigsRequest

from exporter.kafka.connection import Response
from exporter.kafka.faults import refusal
from exporter.model import Fault, Reason

AT_ONCE = 100
"""Topics in one request."""
MIN_ISR = "min.insync.replicas"

Resource = Literal["topic", "broker"]
_TYPES = {"topic": 2, "broker": 4}  # ConfigResource.java


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
