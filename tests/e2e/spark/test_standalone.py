"""A standalone Spark cluster of a master and two workers, and the jobs submitted to it as docs/history.md says.

The history is in an object store: what the driver and the workers share is the network.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyspark
import pytest

from demo.agent import COMMAND
from demo.cluster import KafkaCluster
from demo.processes import Child, ProcessGroup, poll
from demo.s3 import S3Server
from demo.settings import free_ports
from demo.workloads.producers import RdkafkaProducer
from exporter.jobs.lakes.delta import DeltaLake
from exporter.jobs.session import kafka_connector
from exporter.model import Deadline

HOME = Path(pyspark.__file__).parent
SECONDS = 400
TRANSACTIONS = 100
WORKERS = 2
HERE = "127.0.0.1"
PROGRAM = "import sys; from exporter.cli import main; sys.exit(main())\n"


class StandaloneSpark:
    """The cluster's master and workers, each worker in a folder of its own."""

    def __init__(self, processes: ProcessGroup, folder: Path) -> None:
        self.processes, self.folder = processes, folder
        port, *pages = free_ports(2 + WORKERS)
        self.master = f"spark://{HERE}:{port}"
        self.environment = {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": HERE,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "128m",
        }
        ports = ["--port", str(port), "--webui-port", str(pages[0])]
        self._start("master", "master.Master", "--host", HERE, *ports)
        for number, page in enumerate(pages[1:]):
            where = ["--webui-port", str(page), "--work-dir", str(folder / f"worker-{number}"), "--host", HERE]
            worker = self._start(
                f"worker-{number}", "worker.Worker", "--cores", "1", "--memory", "1g", *where, self.master
            )
            until = Deadline.after(SECONDS)
            while "Successfully registered with master" not in worker.tail(100):
                assert worker.running, worker.tail()
                assert poll(until), worker.tail()

    def _start(self, name: str, program: str, *arguments: str) -> Child:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", *arguments]
        return self.processes.start(name, command, environment=self.environment)

    def submit(self, packages: Sequence[str], *arguments: str) -> str:
        """What a submitted command writes to standard output."""
        program = self.folder / "eos.py"
        program.write_text(PROGRAM)
        command = [
            str(HOME / "bin" / "spark-submit"),
            *("--master", self.master, "--packages", ",".join(packages)),
            *("--driver-memory", "1g", "--executor-memory", "768m", "--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.sql.shuffle.partitions=2"),
            str(program),
            *arguments,
        ]
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def executors(self) -> set[str]:
        """The workers that ran an executor of the last application, by their folders."""
        return {path.parents[2].name for path in self.folder.glob("worker-*/app-*/*/stderr")}


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[StandaloneSpark]:
    with ProcessGroup(tmp_path) as processes:
        yield StandaloneSpark(processes, tmp_path)


@pytest.mark.proof
def test_history_and_audit_run_on_the_workers_of_a_cluster(
    spark: StandaloneSpark, clusters: Callable[..., KafkaCluster], fresh: Callable[[str], str], tmp_path: Path
) -> None:
    kafka = clusters("4.3.1")
    topic, name = fresh("standalone"), fresh("standalone")
    kafka.create_topic(topic, 2)
    producer = RdkafkaProducer(kafka, name)
    producer.init()
    producer.run(TRANSACTIONS, topic)
    producer.close()
    store = S3Server(spark.processes, tmp_path)
    where, output = ("--bootstrap-server", kafka.bootstrap), f"s3a://{store.bucket}/eos"
    table = ("--format", "delta", *(word for key, value in store.conf.items() for word in ("--conf", f"{key}={value}")))
    spark.submit(DeltaLake.packages(output), "history", "run", *where, "--once", *table, "--output", output)
    assert spark.executors() == {f"worker-{number}" for number in range(WORKERS)}
    report = [str(COMMAND), "history", "report", *table, "--input", output, "--output", "json"]
    done = subprocess.run(report, capture_output=True, text=True, timeout=SECONDS, check=False)
    found = {each["name"]: each for each in json.loads(done.stdout)["applications"]}
    mine = next(each for key, each in found.items() if name.startswith(key))
    assert mine["outcomes"]["committed"] == TRANSACTIONS
    identity = "concat_ws('-', partition, offset)"
    said = spark.submit([kafka_connector()], "audit", *where, "--topic", topic, "--id", identity, "--output", "json")
    [line] = re.findall(r"^\{.*\}$", said, re.MULTILINE)
    result = json.loads(line)
    assert (result["verdict"], result["records"]) == ("clean", TRANSACTIONS)
