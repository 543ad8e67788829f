"""Write the captures of brokers' and producers' JVMs anew: ``python -m tests.golden.captures.jvms.capture``.

A real broker and a real Java producer, each with a Jolokia agent and a jmx_exporter, do fixed work and become idle.
Then both agents are read with the same queries. Pages keep only the requests that the sources read; other lines are
unchanged. The captures of Connect, Streams and Spark are described in their ORIGIN.md.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from demo import jars
from demo.cluster import KafkaCluster
from demo.jvm_agents import RULES, SPELLINGS, JvmAgents
from demo.workloads.producers import EndedError, JavaProducer, RdkafkaProducer
from exporter.catalogue import BROKER_REQUESTS
from exporter.jvm.jolokia import question
from exporter.sources import brokers, producers

HERE = Path(__file__).parent
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
                _save(f"jolokia-{name}.json", _post(agents.jolokia(name), question(queries)))
                for spelling in SPELLINGS:
                    agents.use(name, RULES / f"{spelling}.yml")
                    time.sleep(1.5)  # the agent compares the file's time in seconds
                    _save(f"{spelling}-{name}.txt", _cut(_get(agents.jmx_exporter(name))))
    origin = {
        "what": "answers of a real broker and of a real Java producer to the questions of the sources",
        "kafka": cluster.version,
        "jolokia": "org.jolokia:jolokia-agent-jvm:2.6.0:javaagent",
        "jmx_exporter": "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1, rules of demo/jmx_rules",
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python -m tests.golden.captures.jvms.capture",
    }
    _save("origin.json", json.dumps(origin, indent=1) + "\n")


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


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
        return str(answer.read().decode())


def _post(url: str, body: bytes) -> str:
    with urllib.request.urlopen(url, body, timeout=30) as answer:  # noqa: S310
        return json.dumps(json.load(answer), indent=0) + "\n"


def _save(name: str, text: str) -> None:
    (HERE / name).write_text(text)
    print(f"{name}: {len(text)} characters")


if __name__ == "__main__":
    main()
