"""A standalone Spark cluster of a master and two workers, and the jobs submitted to it as docs/history.md says.

The history is in an object store: what the driver and the workers share is the network.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from exporter.jobs.lakes import DeltaLake
from exporter.jobs.session import kafka_connector
from testkit.agent import COMMAND
from testkit.cluster import KafkaCluster
from testkit.processes import ProcessGroup
from testkit.s3 import S3Server
from testkit.spark_cluster import HOME, StandaloneSpark, conf_flags
from testkit.workloads.producers import RdkafkaProducer

SECONDS = 400
TRANSACTIONS = 100
WORKERS = 2
PROGRAM = "import sys; from exporter.cli import main; sys.exit(main())\n"


def submit(spark: StandaloneSpark, folder: Path, packages: Sequence[str], *arguments: str) -> str:
    """Return what a submitted command writes to standard output."""
    program = folder / "eos.py"
    program.write_text(PROGRAM)
    command = [
        str(HOME / "bin" / "spark-submit"),
        *("--master", spark.master, "--packages", ",".join(packages)),
        *("--driver-memory", "1g", "--executor-memory", "768m", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.sql.shuffle.partitions=2"),
        str(program),
        *arguments,
    ]
    environment = {**os.environ, **spark.environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.proof
@pytest.mark.timeout(3 * SECONDS)
def test_history_and_audit_run_on_the_workers_of_a_cluster(
    clusters: Callable[..., KafkaCluster], fresh: Callable[[str], str], tmp_path: Path
) -> None:
    kafka = clusters("4.3.1")
    topic, name = fresh("standalone"), fresh("standalone")
    kafka.create_topic(topic, 2)
    producer = RdkafkaProducer(kafka, name)
    producer.init()
    producer.run(TRANSACTIONS, topic)
    producer.close()
    with ProcessGroup(tmp_path) as processes:
        spark, store = StandaloneSpark(processes, tmp_path, WORKERS), S3Server(processes, tmp_path)
        where, output = ("--bootstrap-server", kafka.bootstrap), f"s3a://{store.bucket}/eos"
        table = ("--format", "delta", *conf_flags(store.conf))
        position = ("--checkpoint", str(tmp_path / "checkpoint"))  # S3Proxy has no empty folders
        run = partial(submit, spark, tmp_path)
        run(DeltaLake.packages(output), "history", *where, "--once", *table, *position, "--output", output)
        assert spark.executors() == {f"worker-{number}" for number in range(WORKERS)}
        report = [str(COMMAND), "history", "report", *table, "--input", output, "--output", "json"]
        done = subprocess.run(report, capture_output=True, text=True, timeout=SECONDS, check=False)
        found = {application["application"]: application for application in json.loads(done.stdout)["applications"]}
        mine = next(figure for key, figure in found.items() if name.startswith(key))
        assert mine["outcomes"]["committed"] == TRANSACTIONS
        asked = ("--topic", topic, "--id", "concat_ws('-', partition, offset)", "--output", "json")
        said = run([kafka_connector()], "audit", *where, *asked)
        [line] = re.findall(r"^\{.*\}$", said, re.MULTILINE)
        result = json.loads(line)
        assert (result["verdict"], result["records"]) == ("clean", TRANSACTIONS)
