"""The transaction log as Kafka's own formatter prints it: the witness against which counts and agent are checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from testkit.cluster import KafkaCluster

_TOPIC = "__transaction_state"

_QUIET_MS = (2000, 15_000)
"""How long the tool waits for one more record before it ends. On a busy machine the first wait may end too early."""

_CALL_SECONDS = 10.0
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


class FormattedRecord(NamedTuple):
    """One record of ``__transaction_state``; ``state`` in Kafka's spelling, ``layout`` is the version of its value."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    layout: int


def transaction_log(cluster: KafkaCluster, transactional_id: str | None = None) -> list[FormattedRecord]:
    """All records of the log in order, or those of one id. Tombstones are left out. Takes a few seconds."""
    text, read = "", 0
    for quiet_ms in _QUIET_MS:
        text, read = _formatted(cluster, quiet_ms)
        if read >= _records(cluster):
            break
    else:
        raise RuntimeError(f"Kafka's formatter stopped after {read} of {_records(cluster)} records")
    found = (_record(entry) for entry in _documents(text) if isinstance(entry["value"], dict))
    return [record for record in found if transactional_id in (None, record.transactional_id)]


def _formatted(cluster: KafkaCluster, quiet_ms: int) -> tuple[str, int]:
    """Return what the tool printed, and how many records it says it read."""
    run = cluster.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        f"--topic={_TOPIC}",
        "--from-beginning",
        "--formatter=org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        f"--timeout-ms={quiet_ms}",
    )
    total = re.search(r"Processed a total of (\d+)", run.stdout + run.stderr)
    if total is None:
        raise RuntimeError(f"Kafka's formatter failed: {run.stderr}")
    return run.stdout, int(total[1])


def _records(cluster: KafkaCluster) -> int:
    """How many records the log has: on a cluster of minutes it begins at 0, and nothing was compacted yet."""
    admin = cluster.admin()
    numbers = admin.list_topics(_TOPIC, timeout=_CALL_SECONDS).topics[_TOPIC].partitions
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = admin.list_offsets({TopicPartition(_TOPIC, number): latest for number in numbers})
    return sum(int(end.result(_CALL_SECONDS).offset) for end in ends.values())


def _documents(text: str) -> Iterator[dict[str, object]]:
    """The JSON documents that the formatter prints one after the other without a separator."""
    decoder = json.JSONDecoder()
    position = 0
    while (position := text.find("{", position)) >= 0:
        document, position = decoder.raw_decode(text, position)
        yield document


def _record(entry: dict[str, object]) -> FormattedRecord:
    key, value = entry["key"], entry["value"]
    if not isinstance(key, dict) or not isinstance(value, dict):
        raise TypeError(f"not a record of the transaction log: {entry}")
    data = value["data"]
    return FormattedRecord(
        key["data"]["transactionalId"],
        STATES[data["transactionStatus"]],
        data["producerId"],
        data["producerEpoch"],
        value["version"],
    )
