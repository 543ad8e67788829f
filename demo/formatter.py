"""The transaction log as Kafka's own formatter prints it: the witness against which books and agent are checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from demo.cluster import KafkaCluster

_QUIET_MS = 2000
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


class LogRecord(NamedTuple):
    """One record of ``__transaction_state``; ``state`` in Kafka's spelling, ``layout`` is the version of its value."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    layout: int


def transaction_log(cluster: KafkaCluster, transactional_id: str | None = None) -> list[LogRecord]:
    """All records of the log in order, or those of one id. Tombstones are left out. Takes a few seconds."""
    run = cluster.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--topic=__transaction_state",
        "--from-beginning",
        "--formatter=org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        f"--timeout-ms={_QUIET_MS}",
    )
    if "Processed a total of" not in run.stdout + run.stderr:
        raise RuntimeError(f"Kafka's formatter failed: {run.stderr}")
    found = (_record(entry) for entry in _documents(run.stdout) if isinstance(entry["value"], dict))
    return [record for record in found if transactional_id in (None, record.transactional_id)]


def _documents(text: str) -> Iterator[dict[str, object]]:
    """The JSON documents that the formatter prints one after the other without a separator."""
    decoder = json.JSONDecoder()
    position = 0
    while (position := text.find("{", position)) >= 0:
        document, position = decoder.raw_decode(text, position)
        yield document


def _record(entry: dict[str, object]) -> LogRecord:
    key, value = entry["key"], entry["value"]
    if not isinstance(key, dict) or not isinstance(value, dict):
        raise TypeError(f"not a record of the transaction log: {entry}")
    data = value["data"]
    return LogRecord(
        key["data"]["transactionalId"],
        STATES[data["transactionStatus"]],
        data["producerId"],
        data["producerEpoch"],
        value["version"],
    )
