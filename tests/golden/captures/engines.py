"""Write the captures of Connect and Kafka Streams anew: ``python -m tests.golden.captures.engines``.

Two real Connect workers and a real Streams application do fixed work, some of which fails; then REST and their Jolokia
agents are read with the queries of the sources. Folders of the machine are replaced by ``/data``.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo import jars
from demo.cluster import KafkaCluster
from demo.connect import ConnectCluster
from demo.jvm_agents import JvmAgents
from demo.processes import poll
from demo.streams import StreamsApp
from demo.workloads.producers import JavaProducer, RdkafkaProducer
from exporter.connect import workers
from exporter.jvm.jolokia import question
from exporter.jvm.mbeans import MBeanQuery
from exporter.model import Deadline
from exporter.sources import streams

HERE = Path(__file__).parent
WAIT_SECONDS = 180.0
LINES = 100
WORDS = 250_000
PASSWORD = "hunter2"


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-capture-"))
    agents = JvmAgents(folder)
    with KafkaCluster(jvm_options=agents.options, transaction_partitions=4, progress=jars.say) as cluster:
        record_connect(cluster, agents)
        record_streams(cluster, agents)


def record_connect(cluster: KafkaCluster, agents: JvmAgents) -> None:
    """Sources of each transaction boundary, one of them fenced, one that fails, and a sink."""
    for topic in ("lines", "lines2", "steps", "steps2"):
        cluster.create_topic(topic, 1)
    with ConnectCluster(cluster, jvm_options=agents.options) as connect:
        lines, fail = connect.folder / "in.txt", connect.folder / "fail"
        lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
        connect.create_file_source("orders-source", lines, "lines")
        connect.create_file_source(
            "orders-interval", lines, "lines2", transaction_boundary="interval", transaction_boundary_interval_ms=1000
        )
        steps = {"exactly_once_support": "required", "transaction_boundary": "connector"}
        connect.create_step_source("steps", "steps", 2, **steps)
        connect.create_step_source("crash", "steps2", fail_file=fail, source_password=PASSWORD)
        isolation = {"consumer_override_isolation_level": "read_committed"}
        connect.create_file_sink("copy", connect.folder / "out.txt", "lines", **isolation)
        for name, tasks in (("orders-source", 1), ("orders-interval", 1), ("steps", 2), ("crash", 1), ("copy", 1)):
            connect.wait_tasks(name, tasks=tasks)
        fail.touch()
        connect.wait_tasks("crash", "FAILED")
        with JavaProducer(cluster, connect.transactional_id("steps")) as zombie:
            zombie.init()
            _wait(lambda: connect.task_states("steps") == ["FAILED", "RUNNING"], "task 0 of steps fails")

        def answers() -> list[Any]:
            return [_post(agents.jolokia(worker.name), workers.QUERIES) for worker in connect.workers]

        # A size of a transaction is that of the last minute; the file sources are idle by then.
        _wait(lambda: '"transaction-size-avg": 1.0' not in json.dumps(answers()), "the file sources are idle")
        for number, answer in enumerate(answers(), 1):
            _save(f"connect/worker-{number}.json", answer)
        url = f"{connect.urls[0]}/connectors?expand=status&expand=info"
        with urllib.request.urlopen(url, timeout=30) as found:  # noqa: S310
            text = found.read().decode().replace(str(connect.folder), "/data")
        _save("connect/rest.json", json.loads(text))
        _origin("connect", cluster)


def record_streams(cluster: KafkaCluster, agents: JvmAgents) -> None:
    """An application that lost its state, while it restores, and when it runs again."""
    cluster.create_topic("words", 2)
    # With a small batch, the restoration takes long enough to be seen.
    slow = {"restore.consumer.max.poll.records": "500", "restore.consumer.fetch.max.bytes": "20000"}
    app = StreamsApp(cluster, "wordcount", "words", settings=slow, jvm_options=agents.options)

    def answer() -> Any:
        return _post(agents.jolokia("streams-wordcount"), streams.QUERIES)

    with app, RdkafkaProducer(cluster, "words-1") as writer:
        _wait(lambda: _is(answer, "RUNNING"), "the application runs")
        writer.init()
        for _ in range(50):
            writer.run(1, "words", WORDS // 50)
        _wait(lambda: sum(_ends(cluster, app.changelog)) >= WORDS, "every word is counted")
        app.stop()
        app.lose_state()
        app.start()
        _wait(lambda: min(_remaining(answer()), default=0) > 90_000, "both tasks restore")
        _save("streams/restoring.json", answer())
        _wait(lambda: _is(answer, "RUNNING"), "everything is restored")
        _save("streams/running.json", answer())
    _origin("streams", cluster)


def _remaining(answer: Any) -> list[float]:
    return [float(each) for each in re.findall(r'"restore-remaining-records-total": ([0-9.]+)', json.dumps(answer))]


def _is(answer: Callable[[], Any], state: str) -> bool:
    try:
        text = json.dumps(answer())
    except OSError:  # the JVM is not up yet
        return False
    return text.count(f'"state": "{state}"') == 3


def _ends(cluster: KafkaCluster, topic: str) -> list[int]:
    from confluent_kafka import Consumer, KafkaException, TopicPartition  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "captures"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] for number in range(2)]
    except KafkaException:
        return []
    finally:
        consumer.close()


def _wait(condition: Callable[[], bool], what: str) -> None:
    until = Deadline.after(WAIT_SECONDS)
    while not condition():
        if not poll(until, 0.2):
            raise TimeoutError(f"not in {WAIT_SECONDS:.0f} s: {what}")


def _post(url: str, queries: tuple[MBeanQuery, ...]) -> Any:
    with urllib.request.urlopen(url, question(queries), timeout=30) as answer:  # noqa: S310
        return json.load(answer)


def _origin(folder: str, cluster: KafkaCluster) -> None:
    _save(
        f"{folder}/origin.json",
        {
            "kafka": cluster.version,
            "jolokia": "org.jolokia:jolokia-agent-jvm:2.6.0:javaagent",
            "date": datetime.now(UTC).date().isoformat(),
            "command": "python -m tests.golden.captures.engines",
        },
    )


def _save(name: str, document: object) -> None:
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    (HERE / name).write_text(text)
    print(f"{time.strftime('%H:%M:%S')} {name}: {len(text)} characters", flush=True)


if __name__ == "__main__":
    main()
