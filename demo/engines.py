"""The demo's engines, with DEMO_FULL=1: two Connect workers, a Kafka Streams and a Spark application, and what befalls
them.
"""

from __future__ import annotations

from contextlib import ExitStack
from threading import Event, Thread
from typing import Self

from demo.scenes import STALLED_TOPIC, Scene
from exporter.catalogue import (
    CONNECT_CONNECTOR_INFO,
    CONNECT_TASK_COMMITS_TOTAL,
    CONNECT_TASK_FAILURES_TOTAL,
    CONNECT_TASK_STATE,
    CONNECT_TASK_TRANSACTION_SIZE_RECORDS,
    SPARK_QUERY_TERMINATIONS_TOTAL,
    SPARK_SOURCE_BLOCKED_OFFSETS,
    STREAMS_RESTORE_REMAINING_RECORDS,
    STREAMS_THREAD_COMMITS_TOTAL,
)
from testkit.cluster import KafkaCluster
from testkit.connect import ConnectCluster
from testkit.jvm_agents import JvmAgents
from testkit.spark import SparkDriver
from testkit.streams import StreamsApp
from testkit.workloads.producers import JavaProducer, ProducerError, RdkafkaProducer

GROUP = "etl"
WORDS = "words"
TOPICS = {"lines": 1, "steps": 2, WORDS: 2}
CALM_SECONDS = 5.0
# One record a poll and a changelog record for every update: a restoration that takes seconds and can be seen.
SLOW_RESTORE = {"restore.consumer.max.poll.records": "1", "statestore.cache.max.bytes": "0"}

SCENES = (
    Scene("a connector that defines its transactions", CONNECT_CONNECTOR_INFO, {"transaction_boundary": "connector"}),
    Scene("a Connect task commits", CONNECT_TASK_COMMITS_TOTAL, {"connector": "lines"}),
    Scene("a Connect sink commits its offsets (Jolokia)", CONNECT_TASK_COMMITS_TOTAL, {"connector": "archive"}),
    Scene("its transactions have a size (Jolokia)", CONNECT_TASK_TRANSACTION_SIZE_RECORDS, {"connector": "steps"}),
    Scene("a Connect task fails", CONNECT_TASK_FAILURES_TOTAL, {"connector": "crash", "cause": "other"}),
    Scene("a Connect task is fenced", CONNECT_TASK_STATE, {"connector": "steps", "task": "0", "state": "failed"}),
    Scene("Kafka Streams commits (Jolokia)", STREAMS_THREAD_COMMITS_TOTAL, {}),
    Scene("Kafka Streams restores a lost state", STREAMS_RESTORE_REMAINING_RECORDS, {}),
    Scene("an idle Spark query is starved by a transaction", SPARK_SOURCE_BLOCKED_OFFSETS, {"query": "orders-copy"}),
    Scene("a Spark query fails", SPARK_QUERY_TERMINATIONS_TOTAL, {"query": "picky", "reason": "user_code"}),
)


class DemoEngines:
    """Starts them, as a context manager; ``play`` lets them be fenced, fail and lose their state in a thread."""

    def __init__(self, cluster: KafkaCluster, jvms: JvmAgents) -> None:
        self._cluster = cluster
        self._jvms = jvms
        self._connect = ConnectCluster(cluster, GROUP, jvm_options=jvms.options)
        self._streams = StreamsApp(cluster, "wordcount", WORDS, settings=SLOW_RESTORE, jvm_options=jvms.options)
        self._fail = self._connect.folder / "fail"
        self._stack = ExitStack()
        self._over = Event()
        self.failures: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """The agent's settings for these engines."""
        connect = {
            "NAME": "main",
            "GROUP_ID": GROUP,
            "INTERVAL": "2s",
            "REST": str(list(self._connect.urls)),
            **{
                f"WORKERS__{at}__JOLOKIA": self._jvms.jolokia(worker.name)
                for at, worker in enumerate(self._connect.workers)
            },
        }
        streams = {"JOLOKIA": self._jvms.jolokia("streams-wordcount"), "INTERVAL": "500ms"}
        return {
            **{f"KAFKA_EOS_CONNECT__0__{key}": value for key, value in connect.items()},
            **{f"KAFKA_EOS_STREAMS__0__{key}": value for key, value in streams.items()},
        }

    def play(self, agent_url: str) -> None:
        """Start the failures; Spark reports to the agent. Failures that were not planned are in ``failures``."""
        Thread(target=self._play, args=(agent_url,), name="engines", daemon=True).start()

    def __enter__(self) -> Self:
        for topic, partitions in TOPICS.items():
            self._cluster.create_topic(topic, partitions)
        try:
            connect = self._stack.enter_context(self._connect)
            self._stack.enter_context(self._streams)
            lines = connect.folder / "lines.txt"
            lines.write_text("".join(f"line {number}\n" for number in range(1000)))
            connect.create_file_source("lines-once", lines, "lines", transaction_boundary="interval")
            connect.create_step_source("lines", "lines")
            connect.create_step_source("steps", "steps", 2, transaction_boundary="connector")
            connect.create_step_source(
                "crash",
                "lines",
                fail_file=self._fail,
                source_password="not-for-your-eyes",  # noqa: S106 -- to see that it shows nowhere
            )
            connect.create_file_sink("archive", connect.folder / "archive.txt", "lines")
            for name, tasks in (("lines", 1), ("steps", 2), ("crash", 1)):
                connect.wait_tasks(name, tasks=tasks)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._stack.close()

    def _play(self, agent_url: str) -> None:
        try:
            spark = SparkDriver(self._cluster, "copies", [(agent_url, "")])
            with (
                RdkafkaProducer(self._cluster, "words-1") as writer,
                JavaProducer(self._cluster, self._connect.transactional_id("steps")) as zombie,
            ):
                self._over.wait(CALM_SECONDS)
                self._fail.touch()
                zombie.init()
                writer.init()
                for _ in range(10):
                    writer.run(5, WORDS, 400)
                self._over.wait(CALM_SECONDS)
                self._streams.stop()
                self._streams.lose_state()
                if not self._over.is_set():
                    self._streams.start()
                    spark.wait_ready()
                    spark.start("orders-copy", STALLED_TOPIC)
                    spark.start("picky", STALLED_TOPIC, "fail")
                    self._over.wait()
        except (ProducerError, RuntimeError, OSError) as error:
            if not self._over.is_set():
                self.failures.append(str(error))
