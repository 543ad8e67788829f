"""Fetch of one partition from one offset, and what an answer without records means.

A broker answers without records and without an error also where it has some: when a quota throttles the client, it
leaves the partition out (KIP-219), and when remote storage (KIP-405) does not give them within
``remote.fetch.max.wait.ms``, or its own quota is used up (KIP-956), it gives none (DelayedRemoteFetch).
"""

from __future__ import annotations

from typing import Any

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import refusal
from exporter.kafka.log.batches import fetch_request
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation, local_start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition

MOST_TRIES = 4
"""Requests for one offset: remote storage that was too slow often has the records ready for the next."""


def fetch_partition(
    client: BrokerAccess,
    metadata: Metadata,
    place: TopicPartition,
    offset: int,
    size: int,
    isolation: Isolation,
    deadline: Deadline,
) -> Any | Fault:  # noqa: ANN401 -- kafka-python ships no types
    """The partition of the leader's answer: ``size`` bytes or one batch from an offset on, or no records where the log
    has none from there to its end.
    """
    leader = metadata.leader(*place)
    if leader is None:
        return Fault(Reason.NO_LEADER, f"{place} at {offset}: no leader")
    for _ in range(MOST_TRIES):
        if deadline.over:
            return Fault(Reason.TIMEOUT, f"{place} at {offset}: not read in time")
        request = fetch_request({place: offset}, deadline, size, size, isolation)
        answer = client.ask({leader: request}, deadline)[leader]
        if isinstance(answer, Fault):
            return answer
        for part in (part for topic in answer.responses for part in topic.partitions):
            if part.error_code:
                return refusal(f"Fetch of {place}", part.error_code, f"READ on Topic:{place.topic}")
            if part.records or offset >= part.high_watermark:
                return part
            local = local_start_offsets(client, metadata, [place], deadline)
            if local.faults:
                return local.faults[0]
            if offset >= local.values.get(place, offset):
                return part
    text = f"{place} at {offset}: no records came: remote storage is slower than remote.fetch.max.wait.ms, or a quota"
    return Fault(Reason.TIMEOUT, text)
