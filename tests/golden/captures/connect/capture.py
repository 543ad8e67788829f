"""Record two Connect workers: ``make captures ARGS=connect``.

Sources of each transaction boundary, one of them fenced, one that fails, and a sink do fixed work; then REST and the
workers' Jolokia agents are read with the queries of the source. Folders of the machine are replaced by ``/data``. The
password is made up: tests look for it in all that is kept.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from exporter.connect import workers
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.connect import ConnectCluster
from testkit.jvm_agents import JvmAgents
from testkit.workloads.producers import JavaProducer
from tests.golden.captures.recording import JOLOKIA, Recording, http_get, jolokia_answer, wait_for

LINES = 100
PASSWORD = "hunter2"
SIZES = re.compile(r'"transaction-size-avg": [0-9]')


def main() -> None:
    agents = JvmAgents(Path(tempfile.mkdtemp(prefix="kafka-eos-capture-")))
    with (
        KafkaCluster(jvm_options=agents.options, transaction_partitions=4, progress=jars.say) as cluster,
        ConnectCluster(cluster, jvm_options=agents.options) as connect,
    ):
        run_connectors(cluster, connect)

        def answers() -> list[Any]:
            return [jolokia_answer(agents.jolokia(worker.name), workers.QUERIES) for worker in connect.workers]

        # A size of a transaction is that of the last minute; all tasks but one are idle or dead by then.
        wait_for(lambda: len(SIZES.findall(json.dumps(answers()))) == 1, "one task makes transactions")
        recording = Recording(Path(__file__).parent)
        for number, answer in enumerate(answers(), 1):
            recording.save(f"worker-{number}.json", answer)
        text = http_get(f"{connect.urls[0]}/connectors?expand=status&expand=info")
        recording.save("rest.json", json.loads(text.replace(str(connect.folder), "/data")))
        recording.origin("REST and MBeans of two distributed workers", kafka=cluster.version, jolokia=JOLOKIA)


def run_connectors(cluster: KafkaCluster, connect: ConnectCluster) -> None:
    """Start all connectors, and wait until those that shall fail have failed."""
    for topic in ("lines", "lines2", "steps", "steps2"):
        cluster.create_topic(topic, 1)
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
        wait_for(lambda: connect.task_states("steps") == ["FAILED", "RUNNING"], "task 0 of steps fails")
