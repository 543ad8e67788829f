"""Streaming progress by each way, against a real Structured Streaming query on a real broker."""

from __future__ import annotations

import time

from demo.agent import Metrics
from demo.workloads.producers import RdkafkaProducer
from exporter import catalogue as c
from exporter.spark.terminations import Reason
from tests.e2e.conftest import Keep
from tests.e2e.spark.conftest import SparkStage

TOPIC = "spark-orders"
COPY = {"spark_application": "billing", "query": "copy"}
EVENTS = ("listener", "event_log", "all")
WAYS = (*EVENTS, "checkpoint")


def labels(way: str, query: str) -> dict[str, str]:
    """A checkpoint alone knows no application."""
    return {"query": query, **({} if way == "checkpoint" else {"spark_application": "billing"})}


def test_a_query_is_told_of_by_each_way_alike(spark_stage: SparkStage, keep: Keep) -> None:
    spark_stage.kafka.create_topic(TOPIC, 2)
    producer = keep(RdkafkaProducer(spark_stage.kafka, "spark-feeder"))
    producer.init()
    for _ in range(2):
        producer.begin()
        producer.send(TOPIC, 50, 0)
        producer.send(TOPIC, 50, 1)
        producer.commit()
    began = time.time()
    # Before its first batch a checkpoint is not there, and that is said.
    spark_stage.wait("checkpoint", lambda seen: seen.total(c.SOURCE_FAULTS_TOTAL, reason="unreachable") > 0)
    spark_stage.driver.start("copy", TOPIC)
    batches: dict[str, float | None] = {}
    for way in WAYS:
        who = labels(way, "copy")

        def done(seen: Metrics, who: dict[str, str] = who) -> bool:
            lags = [sample.value for sample in seen.samples(c.SPARK_SOURCE_LAG_OFFSETS, topic=TOPIC, **who)]
            return lags == [0.0] and (seen.value(c.SPARK_BATCHES_TOTAL, **who) or 0) > 0

        metrics = spark_stage.wait(way, done)
        batches[way] = metrics.value(c.SPARK_BATCHES_TOTAL, **who)
        assert metrics.value(c.SPARK_SOURCE_BLOCKED_OFFSETS, topic=TOPIC, **who) == 0
        assert began < (metrics.value(c.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS, **who) or 0) < time.time() + 1
        rows = metrics.value(c.SPARK_INPUT_ROWS_TOTAL, **who)
        assert rows == (None if way == "checkpoint" else 200), way
        uncommitted = metrics.value(c.SPARK_UNCOMMITTED_BATCHES, **who)
        assert uncommitted == (0 if way in {"checkpoint", "all"} else None), way
        if way != "checkpoint":
            whole = metrics.value(c.SPARK_BATCH_DURATION_SECONDS, phase="trigger_execution", **who) or 0
            assert 0 < (metrics.value(c.SPARK_BATCH_DURATION_SECONDS, phase="add_batch", **who) or 0) <= whole
    assert len(set(batches.values())) == 1, batches


def test_a_query_that_an_open_transaction_starves_looks_idle_and_is_told_of(
    spark_stage: SparkStage, keep: Keep
) -> None:
    holder = keep(RdkafkaProducer(spark_stage.kafka, "spark-holder", timeout=600))
    holder.init()
    holder.begin()
    holder.send(TOPIC, 1, 0)
    holder.flush()
    producer = keep(RdkafkaProducer(spark_stage.kafka, "spark-behind"))
    producer.init()
    producer.begin()
    producer.send(TOPIC, 30, 0)
    producer.commit()
    for way in WAYS:
        who = labels(way, "copy")

        def starved(seen: Metrics, who: dict[str, str] = who) -> bool:
            blocked = seen.value(c.SPARK_SOURCE_BLOCKED_OFFSETS, topic=TOPIC, **who)
            return blocked is not None and blocked >= 31

        metrics = spark_stage.wait(way, starved)
        if way != "checkpoint":
            metrics = spark_stage.wait(way, lambda seen: seen.samples(c.SPARK_QUERY_STATE, state="idle", **COPY))
        rows = metrics.value(c.SPARK_INPUT_ROWS_TOTAL, **who)
        assert rows == (None if way == "checkpoint" else 200), "it read nothing, and says that all is well"
    holder.commit()
    for way in WAYS:
        who = labels(way, "copy")
        spark_stage.wait(way, lambda seen, who=who: seen.value(c.SPARK_SOURCE_BLOCKED_OFFSETS, **who) == 0)  # type: ignore[misc]
    spark_stage.wait("all", lambda seen: seen.value(c.SPARK_INPUT_ROWS_TOTAL, **COPY) == 231)


def test_each_fact_is_one_series_when_all_ways_see_a_query(spark_stage: SparkStage) -> None:
    metrics = spark_stage.wait("all", lambda seen: seen.samples(c.SPARK_UNCOMMITTED_BATCHES, query="copy"))
    for family in (row for row in c.rows() if row.source == "spark" and row is not c.SPARK_BATCH_DURATION_SECONDS):
        found = metrics.samples(family, query="copy")
        wanted = len(c.SPARK_TERMINATION_REASONS) if family is c.SPARK_QUERY_TERMINATIONS_TOTAL else 1
        assert len(found) == wanted, family
        assert {sample.labels["spark_application"] for sample in found} == {"billing"}


def test_a_batch_that_never_ends_stays_uncommitted(spark_stage: SparkStage) -> None:
    spark_stage.driver.start("stuck", TOPIC, "stick")
    for way in ("checkpoint", "all"):
        metrics = spark_stage.wait(way, lambda seen: seen.total(c.SPARK_UNCOMMITTED_BATCHES, query="stuck") == 1)
        assert metrics.total(c.SPARK_SOURCE_LAG_OFFSETS, query="stuck") >= 231, "from where its first batch begins"
        assert not metrics.samples(c.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS, query="stuck"), way
        assert metrics.value(c.SPARK_BATCHES_TOTAL, query="stuck") == 0, way


def test_a_query_that_is_stopped_ends_without_a_fault_of_its_own(spark_stage: SparkStage) -> None:
    spark_stage.driver.start("brief", TOPIC)
    for way in EVENTS:
        spark_stage.wait(way, lambda seen: seen.samples(c.SPARK_QUERY_STATE, query="brief"))
    spark_stage.driver.stop("brief")
    for way in EVENTS:
        metrics = spark_stage.wait(
            way,
            lambda seen: seen.value(c.SPARK_QUERY_TERMINATIONS_TOTAL, query="brief", reason=Reason.STOPPED) == 1,
        )
        assert metrics.samples(c.SPARK_QUERY_STATE, query="brief", state="terminated")
        assert metrics.total(c.SPARK_QUERY_TERMINATIONS_TOTAL, query="brief") == 1


def test_a_query_that_fails_and_takes_its_driver_with_it_is_told_with_the_reason(spark_stage: SparkStage) -> None:
    spark_stage.driver.start("bad", TOPIC, "fail")
    assert spark_stage.driver.die_with("bad") != 0
    for way in EVENTS:
        metrics = spark_stage.wait(
            way,
            lambda seen: seen.value(c.SPARK_QUERY_TERMINATIONS_TOTAL, query="bad", reason=Reason.USER_CODE) == 1,
        )
        assert metrics.samples(c.SPARK_QUERY_STATE, query="bad", state="failed")
        assert metrics.total(c.SPARK_QUERY_TERMINATIONS_TOTAL, query="bad") == 1
        agent = spark_stage.agents[way]
        assert "not to our taste" not in agent.log, "texts of exceptions may hold records"
