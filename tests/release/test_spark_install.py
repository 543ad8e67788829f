"""The wheel with its extra for Spark, installed as a user does: pip chooses a pyspark whose connector resolves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.jobs.session import TRIED_PYSPARK
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import RdkafkaProducer

DIST = Path(__file__).parents[2] / "dist"
SECONDS = 900
TRANSACTIONS = 20


@pytest.mark.proof
@pytest.mark.timeout(3 * SECONDS)
def test_a_fresh_install_writes_a_history_and_audits_a_topic(tmp_path: Path) -> None:
    [wheel] = DIST.glob("*.whl")
    bin_folder = tmp_path / "venv" / "bin"

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    run(str(bin_folder / "pip"), "install", "--quiet", f"{wheel}[spark]")
    version = run(str(bin_folder / "python"), "-c", "import pyspark; print(pyspark.__version__)").strip()
    assert version == TRIED_PYSPARK[-1]
    command = str(bin_folder / "kafka-eos-exporter")
    with KafkaCluster("4.3.1") as kafka:
        kafka.create_topic("orders", 2)
        producer = RdkafkaProducer(kafka, "pay-1")
        producer.init()
        producer.run(TRANSACTIONS, "orders")
        producer.close()
        where = ("--bootstrap-server", kafka.bootstrap)
        for name in ("parquet", "delta"):
            run(command, "history", *where, "--once", "--format", name, "--output", f"{tmp_path}/{name}")
            said = run(
                command, "history", "report", "--format", name, "--input", f"{tmp_path}/{name}", "--output", "json"
            )
            assert json.loads(said)["outcomes"]["committed"] == TRANSACTIONS
        said = run(
            command, "audit", *where, "--topic", "orders", "--id", "concat(partition, offset)", "--output", "json"
        )
        assert (json.loads(said)["verdict"], json.loads(said)["records"]) == ("clean", TRANSACTIONS)
