"""One transactional producer of librdkafka that does what its standard input says, one command a line.

Each command is answered with one line of JSON, as by ``java/TransactionalClient.java``. Started by path, in a
process of its own, so that it can be killed. Arguments: bootstrap servers, transactional.id, then further producer
settings as key=value; with REPORT_TO in the environment it hands its statistics to the agent at that address. The end
of the input ends the process without closing anything: what a crash looks like to the broker.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from exporter.librdkafka_stats import EosStats

CALL_SECONDS = 45.0

# librdkafka's local error codes are public and spelt with an underscore.
_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}  # noqa: SLF001
_TIMED_OUT = KafkaError._TIMED_OUT  # noqa: SLF001
_NOT_SERVING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,  # noqa: SLF001
}
_ANY_PARTITION = -1


class RdkafkaClient:
    """Executes commands; keeps the first delivery error until ``flush`` or ``commit`` reports it."""

    def __init__(self, bootstrap: str, transactional_id: str, settings: list[str], report_to: str = "") -> None:
        self._bootstrap = bootstrap
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "log_level": 3,
        }
        self._settings |= dict(pair.split("=", 1) for pair in settings)
        if report_to:
            self._settings |= {"statistics.interval.ms": 1000, "stats_cb": EosStats(report_to, transactional_id)}
        self._producer: Producer | None = None
        self._sequence = 0
        self._sent = 0
        self._failed: KafkaError | None = None

    def execute(self, words: list[str]) -> int:
        """Execute one command; returns how many records or transactions it did. Raises KafkaException."""
        if words[0] == "init":
            # A new incarnation takes over from one that crashed: dropping a producer sends no abort.
            self._producer = None
            self._sent, self._failed = 0, None
            self._producer = Producer(self._settings)
            self._producer.init_transactions(CALL_SECONDS)
            return 1
        if self._producer is None:
            raise ValueError("init comes first")
        return self._execute(self._producer, words)

    def _execute(self, producer: Producer, words: list[str]) -> int:
        match words:
            case ["begin"]:
                producer.begin_transaction()
            case ["send", topic, count, *partition]:
                return self._send(producer, topic, int(count), int(partition[0]) if partition else _ANY_PARTITION)
            case ["offsets", group, topic, partition_number, offset]:
                self._send_offsets(producer, group, TopicPartition(topic, int(partition_number), int(offset)))
            case ["flush"]:
                return self._flush(producer)
            case ["commit"]:
                producer.commit_transaction(CALL_SECONDS)
                return self._flush(producer)
            case ["abort"]:
                producer.abort_transaction(CALL_SECONDS)
                self._sent, self._failed = 0, None
            case ["loop", count, topic, records, end]:
                for _ in range(int(count)):
                    producer.begin_transaction()
                    self._send(producer, topic, int(records), _ANY_PARTITION)
                    self._flush(producer)
                    if end == "commit":
                        producer.commit_transaction(CALL_SECONDS)
                    else:
                        producer.abort_transaction(CALL_SECONDS)
                return int(count)
            case ["close"]:
                self._producer = None
            case _:
                raise ValueError(f"unknown command {' '.join(words)}")
        return 1

    def _send(self, producer: Producer, topic: str, count: int, partition: int) -> int:
        for _ in range(count):
            number = str(self._sequence)
            self._sequence += 1
            producer.produce(topic, f"value-{number}", number, partition, on_delivery=self._delivered)
        self._sent += count
        return count

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _flush(self, producer: Producer) -> int:
        left = producer.flush(CALL_SECONDS)
        count, failed = self._sent, self._failed
        self._sent, self._failed = 0, None
        if failed is not None:
            raise KafkaException(failed)
        if left:
            raise TimeoutError(f"{left} records are not delivered")
        return count

    def _send_offsets(self, producer: Producer, group: str, offset: TopicPartition) -> None:
        # A consumer that never joins has the metadata of a group without members, which may commit for it.
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            _wait_for_coordinator(consumer, offset)
            producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), CALL_SECONDS)
        finally:
            consumer.close()


def _wait_for_coordinator(consumer: Consumer, offset: TopicPartition) -> None:
    """Wait until the group has a coordinator that serves it. Raises KafkaException when it does not in time.

    The producer asks for it three times in 0.3 s, and then not before its timeout. A new cluster may take longer to
    make the topic that the groups are in, and to load its partitions.
    """
    until = time.monotonic() + CALL_SECONDS
    while True:
        try:
            consumer.committed([offset], CALL_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_SERVING or time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def kind_of(error: KafkaError) -> str:
    """Fenced, ended, timeout or other: the kinds that the caller distinguishes."""
    if error.code() in _FENCED:
        return "fenced"
    if error.code() == KafkaError.INVALID_TXN_STATE:
        return "ended"
    if error.retriable() or error.code() == _TIMED_OUT:
        return "timeout"
    return "other"


def answer(client: RdkafkaClient, line: str) -> dict[str, object]:
    """The answer to one line of input."""
    began = time.monotonic()
    try:
        done = client.execute(line.split())
    except KafkaException as error:
        cause = error.args[0]
        return {"ok": False, "kind": kind_of(cause), "error": f"{cause.name()}: {cause.str()}"}
    except TimeoutError as error:
        return {"ok": False, "kind": "timeout", "error": str(error)}
    except ValueError as error:
        return {"ok": False, "kind": "other", "error": str(error)}
    return {"ok": True, "done": done, "seconds": time.monotonic() - began}


def main() -> None:
    client = RdkafkaClient(sys.argv[1], sys.argv[2], sys.argv[3:], os.environ.get("REPORT_TO", ""))
    for line in sys.stdin:
        print(json.dumps(answer(client, line)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
