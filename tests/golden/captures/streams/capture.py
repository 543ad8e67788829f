"""Record a Kafka Streams application: ``make captures ARGS=streams``.

It counts words with exactly_once_v2 and two threads. Its Jolokia agent is read with the queries of the source while it
restores the state that it lost, and when it runs again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from exporter.streams import source as streams
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.jvm_agents import JvmAgents
from testkit.streams import StreamsApp
from testkit.workloads.producers import RdkafkaProducer
from tests.golden.captures.recording import JOLOKIA, Recording, jolokia_answer, wait_for

WORDS = 250_000
BATCHES = 50
RESTORING = 90_000
"""Records of each task that remain when it is recorded."""
# With a small batch, the restoration takes long enough to be seen.
SLOW = {"restore.consumer.max.poll.records": "500", "restore.consumer.fetch.max.bytes": "20000"}


def main() -> None:
    agents = JvmAgents(Path(tempfile.mkdtemp(prefix="kafka-eos-capture-")))
    recording = Recording(Path(__file__).parent)
    with KafkaCluster(jvm_options=agents.options, transaction_partitions=4, progress=jars.say) as cluster:
        cluster.create_topic("words", 2)
        app = StreamsApp(cluster, "wordcount", "words", settings=SLOW, jvm_options=agents.options)

        def answer() -> Any:
            return jolokia_answer(agents.jolokia("streams-wordcount"), streams.QUERIES)

        with app, RdkafkaProducer(cluster, "words-1") as writer:
            wait_for(lambda: is_in(answer, "RUNNING"), "the application runs")
            writer.init()
            for _ in range(BATCHES):
                writer.run(1, "words", WORDS // BATCHES)
            wait_for(lambda: sum(ends(cluster, app.changelog)) >= WORDS, "every word is counted")
            app.stop()
            app.lose_state()
            app.start()
            wait_for(
                lambda: (
                    min(numbers(answer, "stream-task-metrics", "restore-remaining-records-total"), default=0)
                    > RESTORING
                ),
                "both tasks restore",
            )
            recording.save("restoring.json", answer())
            wait_for(lambda: is_in(answer, "RUNNING"), "everything is restored")
            for _ in range(BATCHES):
                writer.run(1, "words", 100)
            wait_for(
                lambda: min(numbers(answer, "stream-thread-metrics", "commit-total"), default=0) > 0,
                "both threads commit",
            )
            recording.save("running.json", answer())
        recording.origin("MBeans of a Kafka Streams application", kafka=cluster.version, jolokia=JOLOKIA)


def numbers(answer: Callable[[], Any], kind: str, attribute: str) -> list[float]:
    """The values of an attribute, of all MBeans of a type; empty while the JVM starts."""
    try:
        items = answer()
    except OSError:
        return []
    mbeans = (value for item in items if f"type={kind}" in item["request"]["mbean"] for value in _values(item))
    return [float(mbean[attribute]) for mbean in mbeans if mbean.get(attribute) is not None]


def _values(item: dict[str, Any]) -> Iterable[dict[str, Any]]:
    value: dict[str, dict[str, Any]] = item.get("value") or {}
    return value.values()


def is_in(answer: Callable[[], Any], state: str) -> bool:
    """Whether the application and both its threads are in this state."""
    try:
        text = json.dumps(answer())
    except OSError:
        return False
    return text.count(f'"state": "{state}"') == 3


def ends(cluster: KafkaCluster, topic: str) -> list[int]:
    """The end offsets of its two partitions; empty before it exists."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "captures"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] for number in range(2)]
    except KafkaException:
        return []
    finally:
        consumer.close()
