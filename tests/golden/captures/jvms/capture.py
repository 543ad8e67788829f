"""Record the JVMs of a broker and a producer: ``make captures ARGS=jvms``.

A real broker and a real Java producer, each with a Jolokia agent and a jmx_exporter, do fixed work and become idle.
Then both agents are read with the same queries. Pages keep only the requests that the sources read; other lines are
unchanged.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path

from exporter.brokers import source as brokers
from exporter.catalogue import BROKER_REQUESTS
from exporter.producers.source import producers
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.jvm_agents import RULES, SPELLINGS, JvmAgents
from testkit.workloads.producers import EndedError, JavaProducer, RdkafkaProducer
from tests.golden.captures.recording import JOLOKIA, Recording, http_get, jolokia_answer

RECORDING = Recording(Path(__file__).parent)
BROKER, PRODUCER = "broker-1", "java-pay-1"
OTHERS = re.compile(rf'request="(?!(?:{"|".join(BROKER_REQUESTS)})")')


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-capture-"))
    agents = JvmAgents(folder)
    with KafkaCluster(jvm_options=agents.options, transaction_partitions=4, progress=jars.say) as cluster:
        cluster.create_topic("orders", 3)
        with JavaProducer(cluster, "pay-1", jvm_options=agents.options) as producer:
            producer.init()
            producer.run(5, "orders")
            producer.run(2, "orders", commit=False)
            _fence(cluster)
            for name, queries in ((BROKER, brokers.QUERIES), (PRODUCER, producers.QUERIES)):
                answer = jolokia_answer(agents.jolokia(name), queries)
                RECORDING.save(f"jolokia-{name}.json", json.dumps(answer, indent=0) + "\n")
                for spelling in SPELLINGS:
                    agents.use(name, RULES / f"{spelling}.yml")
                    time.sleep(1.5)  # the agent compares the file's time in seconds
                    RECORDING.save(f"{spelling}-{name}.txt", _cut(http_get(agents.jmx_exporter(name))))
    RECORDING.origin(
        "answers of a real broker and of a real Java producer to the questions of the sources",
        kafka=cluster.version,
        jolokia=JOLOKIA,
        jmx_exporter="io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1, rules of demo/jmx_rules",
    )


def _fence(cluster: KafkaCluster) -> None:
    with RdkafkaProducer(cluster, "pay-2") as zombie, RdkafkaProducer(cluster, "pay-2") as successor:
        zombie.init()
        zombie.begin()
        zombie.send("orders")
        zombie.flush()
        successor.init()
        try:
            zombie.commit()
        except EndedError:
            return
        raise AssertionError("the zombie was not fenced")


def _cut(page: str) -> str:
    return "".join(line for line in page.splitlines(keepends=True) if not OTHERS.search(line))
