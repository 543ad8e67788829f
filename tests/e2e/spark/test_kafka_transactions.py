"""The data source ``kafka_transactions`` on a real log: equal to the producers' counts, in a batch and in a stream that
is stopped between its batches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exporter.jobs.kafka_transactions import NAME, KafkaTransactions
from exporter.jobs.session import kafka_connector, spark_session
from testkit.access import READ_ALL
from testkit.cluster import KafkaCluster
from testkit.settings import Security
from testkit.workloads.producers import JavaProducer, Producer, RdkafkaProducer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

USER = "eos"
NOTEBOOK = Path(__file__).parents[3] / "docs" / "examples" / "transactions.ipynb"
Counts = Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster("4.3.1", security=Security.of(USER)) as cluster:
        cluster.access.allow_all_reads(USER)
        cluster.create_topic("orders", 3)
        yield cluster


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    with spark_session("transactions", master="local[2]", packages=[kafka_connector()], conf=conf) as session:
        session.dataSource.register(KafkaTransactions)
        yield session


@pytest.fixture
def producers(kafka: KafkaCluster, fresh: Callable[[str], str]) -> Iterator[list[Producer]]:
    """Both generations of clients."""
    kinds = {"rdkafka": RdkafkaProducer, "java": JavaProducer}
    made: list[Producer] = [kind(kafka, f"{fresh(name)}-1", timeout=60.0) for name, kind in kinds.items()]
    for producer in made:
        producer.init()
    yield made
    for producer in made:
        producer.close()


def options(kafka: KafkaCluster) -> dict[str, str]:
    return {f"kafka.{name}": str(value) for name, value in kafka.client_properties(USER).items()}


def counted(rows: DataFrame, producers: Sequence[Producer]) -> Counts:
    """Rows of these producers by id and outcome, none of them twice."""
    names = [producer.transactional_id for producer in producers]
    found = rows.where(rows.transactional_id.isin(names)).collect()
    assert len({(row.log_partition, row.log_offset) for row in found}) == len(found)
    return Counter((row.transactional_id, row.outcome) for row in found)


def expected(producers: Sequence[Producer]) -> Counts:
    return Counter(
        {
            (producer.transactional_id, outcome): count
            for producer in producers
            for outcome, count in producer.counts.outcomes().items()
            if count
        }
    )


def test_a_batch_has_what_the_producers_did(
    kafka: KafkaCluster, spark: SparkSession, producers: list[Producer]
) -> None:
    for producer in producers:
        producer.run_to_every_end(30, "orders")
        producer.begin()
        producer.send("orders", partition=1)
        producer.send_offsets("billing", "orders", 1, 7)
        producer.flush()
        producer.commit()
    rows = spark.read.format(NAME).options(**options(kafka)).load()
    assert counted(rows, producers) == expected(producers)
    names = [producer.transactional_id for producer in producers]
    reading = rows.where("exists(partitions, p -> p.topic = '__consumer_offsets')").where(
        rows.transactional_id.isin(names)
    )
    assert {row.transactional_id: row.outcome for row in reading.collect()} == dict.fromkeys(names, "committed")
    # Bounds are by the instant of completion.
    ordered = (
        rows.where(rows.transactional_id == names[0]).selectExpr("unix_millis(complete) AS ms").orderBy("ms").collect()
    )
    middle = ordered[len(ordered) // 2].ms
    parts = [
        spark.read.format(NAME).options(**options(kafka)).option(bound, str(middle)).load()
        for bound in ("startingTimestamp", "endingTimestamp")
    ]
    assert sum((counted(part, producers) for part in parts), Counter()) == expected(producers)
    assert all(counted(part, producers) for part in parts)


def test_a_stream_neither_loses_nor_doubles_what_was_open_at_the_end_of_a_batch(
    kafka: KafkaCluster, spark: SparkSession, producers: list[Producer], tmp_path: Path
) -> None:
    def run() -> dict[str, Any]:
        stream = spark.readStream.format(NAME).options(**options(kafka)).load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "rows"))
        query.awaitTermination()
        progress = query.lastProgress
        return json.loads(progress["sources"][0]["endOffset"]) if progress else {}

    run()
    for producer in producers:
        producer.begin()
        producer.send("orders", partition=2)
        producer.flush()
    run()
    for producer in producers:
        producer.commit()
        producer.begin()
        producer.send("orders", partition=0)
        producer.flush()
        producer.abort()
    run()
    for producer in producers:
        producer.init()  # with a Transactions V2 client, the abort before it might have been a fence until here
        producer.run_to_every_end(5, "orders")
        producer.run(1, "orders")
    run()
    rows = spark.read.parquet(str(tmp_path / "rows"))
    whole = spark.read.format(NAME).options(**options(kafka)).load()
    assert counted(rows, producers) == counted(whole, producers)
    assert rows.where("partitions IS NULL").isEmpty()


def test_a_password_is_in_no_plan(kafka: KafkaCluster, spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    spark.read.format(NAME).options(**options(kafka)).load().explain(extended=True)
    plan = capfd.readouterr().out
    assert NAME in plan
    assert kafka.client_properties(USER)["sasl.password"] not in plan


def test_a_missing_grant_is_named(kafka: KafkaCluster, spark: SparkSession) -> None:
    kafka.access.deny(USER, "READ", "Topic", "__transaction_state")
    try:
        with pytest.raises(Exception, match="READ on Topic:__transaction_state"):
            spark.read.format(NAME).options(**options(kafka)).load().count()
    finally:
        kafka.access.revoke(USER, "READ", "Topic", "__transaction_state", "DENY")
    assert READ_ALL


def test_the_notebook_runs(
    kafka: KafkaCluster, spark: SparkSession, producers: list[Producer], capsys: pytest.CaptureFixture[str]
) -> None:
    for producer in producers:
        producer.run_to_every_end(3, "orders")
        producer.init()
    first, *cells = [
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    names: dict[str, Any] = {}
    exec(first, names)  # noqa: S102 -- the notebook of the docs
    names["kafka"] = kafka.client_properties(USER)
    for cell in cells:
        exec(cell, names)  # noqa: S102 -- as above
    shown = capsys.readouterr().out
    assert all(producer.transactional_id in shown for producer in producers)  # both were fenced
    assert names["result"].records > 0
