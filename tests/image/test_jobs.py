"""The jobs' image: history and audit of a real broker's topic, read-only and without a capability."""

from __future__ import annotations

import json
from pathlib import Path

from tests.image.engine import Kafka, engine

IMAGE = "kafka-eos-exporter-spark:test"
JOB_SECONDS = 400


def job(broker: Kafka, *words: str | Path, volume: str = "", check: bool = True) -> str:
    confined = ("--read-only", "--tmpfs", "/tmp:rw,exec,size=512m", "--cap-drop", "ALL")
    mounts = ("--volume", volume) if volume else ()
    done = engine(
        "run", "--rm", *confined, "--network", broker.network, *mounts, IMAGE, *words, check=False, seconds=JOB_SECONDS
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_audit_finds_each_record_once_by_offset_and_key(broker: Kafka) -> None:
    broker.produce("orders", 200, "audited-1")
    words = ("audit", "--bootstrap-server", "kafka:9092", "--topic", "orders", "--id", "concat(partition, '-', offset)")
    found = json.loads(job(broker, *words, "--output", "json", "--conf", "spark.driver.memory=1g"))
    assert found["verdict"] == "clean"
    assert found["records"] >= 200


def test_a_history_has_the_transactions_of_the_broker(broker: Kafka, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    broker.produce("orders", 200, "history-1")
    words = ("history", "--bootstrap-server", "kafka:9092", "--output", "/data/eos")
    job(broker, *words, "--once", "--conf", "spark.driver.memory=1g", volume=f"{tmp_path}:/data")
    assert list((tmp_path / "eos").glob("day=*/*.parquet"))
