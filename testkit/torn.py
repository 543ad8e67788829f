"""A torn transaction, made with the command that must never be used on an open transaction, and how it is found.

``kafka-transactions.sh abort`` writes a marker into one partition of a transaction that its coordinator has. The
client commits afterwards without an error, and read_committed consumers see the rest of the transaction only.
"""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

from testkit.agent import COMMAND
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import Producer, ProducerError

FIND_SECONDS = 120.0
TOPIC, PARTITION, OTHER = "payments", 1, 0


class TornError(RuntimeError):
    """It could not be made; the text says why."""


def tear(cluster: KafkaCluster, producer: Producer, topic: str = TOPIC) -> None:
    """One committed transaction, of which the records in ``PARTITION`` are aborted by hand. The producer has begun."""
    producer.begin()
    producer.send(topic, 2, OTHER)
    producer.send(topic, 2, PARTITION)
    producer.flush()
    abort_by_hand(cluster, topic, PARTITION)
    producer.commit()


def abort_by_hand(cluster: KafkaCluster, topic: str, partition: int) -> None:
    """Write a marker into an open transaction: never to be done in production. Raises TornError."""
    place = ("--topic", topic, "--partition", str(partition))
    described = cluster.transactions_tool("describe-producers", *place)
    rows = [line.split() for line in described.stdout.splitlines()]
    start = next((row[-1] for row in rows[1:] if row and row[-1].isdigit()), None)
    if start is None:
        raise TornError(f"no open transaction in {topic}-{partition}: {described.stdout}{described.stderr}")
    done = cluster.transactions_tool("abort", *place, "--start-offset", start)
    if done.returncode:
        raise TornError(f"kafka-transactions abort failed: {done.stdout}{done.stderr}")


def found(bootstrap: str) -> dict[str, Any]:
    """Return what ``audit markers`` says of the cluster. Raises TornError."""
    argv = [str(COMMAND), "audit", "markers", "--bootstrap-server", bootstrap, "--output", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=FIND_SECONDS, check=False)
    if not done.stdout:
        raise TornError(f"audit markers failed: {done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)["clusters"][0]
    return document


class TornTransaction:
    """Tears one on a topic of its own and looks for it, on a thread; ``evidence`` is what was found."""

    def __init__(self, cluster: KafkaCluster, producer: Producer, topic: str) -> None:
        self._cluster, self._producer, self._topic = cluster, producer, topic
        self.evidence: str | None = None
        self.wrong: str | None = None

    def start(self) -> None:
        """Returns at once."""
        threading.Thread(target=self._run, name="torn", daemon=True).start()

    def _run(self) -> None:
        try:
            self._producer.init()
            tear(self._cluster, self._producer, self._topic)
            torn = found(self._cluster.bootstrap)["torn"]
        except (ProducerError, TornError, subprocess.SubprocessError, ValueError) as error:
            self.wrong = f"no transaction was torn: {error}"
            return
        places = [(row["transactional_id"], row["topic"], row["partition"]) for row in torn]
        if places == [(self._producer.transactional_id, self._topic, PARTITION)]:
            (each,) = torn
            self.evidence = (
                f"{each['transactional_id']} was decided {each['decided']}, {each['topic']}-{each['partition']} has an"
                f" {each['marker']} at offset {each['marker_offset']}"
            )
        else:
            self.wrong = f"audit markers found {places or 'nothing'}, where {self._topic}-{PARTITION} was torn"
