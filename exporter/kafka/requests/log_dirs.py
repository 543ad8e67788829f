"""DescribeLogDirs: the bytes of topics on every broker, and the disks that hold them (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeLogDirsRequest

from exporter.bounds.text import cut
from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import refusal
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason

GRANT = "DESCRIBE on Cluster"
MOST_DIRS = 100
"""Log directories of one broker that are kept."""
LONGEST_PATH = 1000


class LogDir(NamedTuple):
    """A log directory that holds one of the topics. Bytes of its volume: None before Kafka 3.3."""

    path: str
    total: int | None
    usable: int | None


class BrokerLogs(NamedTuple):
    """The topics on one broker: bytes by topic and partition, over all replicas and directories there."""

    sizes: Mapping[str, Mapping[int, int]]
    dirs: tuple[LogDir, ...]


def log_dirs(
    client: BrokerAccess, metadata: Metadata, topics: Sequence[str], deadline: Deadline
) -> dict[int, BrokerLogs | Fault]:
    """Return the logs of these topics by broker. An answer without a directory is a refusal: before version 3 of the
    request a missing grant looks like that. What a broker with a failed directory has is not known.
    """
    # A request object is for one broker.
    requests = {node: _request(metadata, topics) for node in metadata.brokers}
    return {
        node: answer if isinstance(answer, Fault) else _read(node, answer)
        for node, answer in client.ask(requests, deadline).items()
    }


def _request(metadata: Metadata, topics: Sequence[str]) -> DescribeLogDirsRequest:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    named = [topic(topic=name, partitions=sorted(metadata.topics.get(name, ()))) for name in topics]
    return DescribeLogDirsRequest(topics=named)


def _read(node: int, answer: Any) -> BrokerLogs | Fault:  # noqa: ANN401 -- kafka-python ships no types
    code = getattr(answer, "error_code", 0) or 0
    if code:
        return refusal(f"DescribeLogDirs of broker {node}", code, GRANT)
    if not answer.results:
        return Fault(Reason.AUTHORIZATION, f"DescribeLogDirs of broker {node} names no directory: grant {GRANT}")
    sizes: dict[str, dict[int, int]] = {}
    for result in answer.results:
        if result.error_code:
            what = f"DescribeLogDirs of broker {node}, {cut(result.log_dir, LONGEST_PATH)}"
            return refusal(what, result.error_code, GRANT, "see the broker's log")
        for topic in result.topics:
            found = sizes.setdefault(topic.name, {})
            for partition in topic.partitions:
                found[partition.partition_index] = found.get(partition.partition_index, 0) + partition.partition_size
    return BrokerLogs(sizes, tuple(_dirs(answer.results[:MOST_DIRS])))


def _dirs(results: Sequence[Any]) -> Iterator[LogDir]:
    for result in results:
        if result.topics:
            total, usable = (getattr(result, name, None) for name in ("total_bytes", "usable_bytes"))
            known = total is not None and usable is not None and total > 0
            yield LogDir(result.log_dir[:LONGEST_PATH], total if known else None, usable if known else None)
