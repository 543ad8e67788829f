"""Whether an answer about all topics has all of them."""

from __future__ import annotations

from exporter.kafka.requests.by_coordinator import PROBES
from exporter.kafka.requests.routing import BrokerAccess
from exporter.model import Deadline, Fault, Reason


def hidden_topics(client: BrokerAccess, deadline: Deadline) -> Fault | None:
    """The fault for topics without DESCRIBE; None when DESCRIBE on all is proven.

    A broker leaves them out of an answer about all topics and reports no error. It authorizes a request by name before
    it looks for the topic (KafkaApis.handleTopicMetadataRequest): a refusal for a name that is not in use shows that
    the grant is not for all. A DENY for single topics beside an ALLOW for all is not seen. Raises AskError.
    """
    if not client.metadata(deadline, [PROBES[0]]).denies(PROBES[0]):
        return None
    return Fault(
        Reason.AUTHORIZATION,
        "topics that may not be described are left out, if there are any: grant READ on Topic:*, or name a topic",
    )
