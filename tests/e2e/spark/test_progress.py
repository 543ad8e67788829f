"""Streaming progress by each way, against a real Structured Streaming query on a real broker."""

from __future__ import annotations

import time

from exporter import catalogue as c
from exporter.model import Metric
from exporter.words import TerminationReason
from testkit.agent import Metrics
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext
from tests.e2e.spark.conftest import WAYS, SparkStage

TOPIC = "spark-orders"
EVENTS = ("listener", "event_log", "all")


class QueryView:
    """One query by one way of reading. A checkpoint alone has no application."""

    def __init__(self, stage: SparkStage, way: str, query: str) -> None:
        self._stage = stage
        application = {} if way == "checkpoint" else {"spark_application": "billing"}
        self._labels = {"kafka_cluster": way, "query": query, **application}
        self.metrics = stage.agent.metrics()

    def value(self, family: Metric, **labels: str) -> float | None:
        return self.metrics.value(family, **self._labels, **labels)

    def wait(self, wanted: float, family: Metric, **labels: str) -> None:
        """Wait until a series has this value."""
        self.metrics = self._stage.wait(lambda seen: seen.value(family, **self._labels, **labels) == wanted)


def every_way(stage: SparkStage, query: str) -> list[tuple[str, QueryView]]:
    return [(way, QueryView(stage, way, query)) for way in WAYS]


def test_a_query_is_reported_of_by_each_way_alike(spark_stage: SparkStage, keep: EnterContext) -> None:
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
    refused = {"kafka_cluster": "checkpoint", "reason": "unreachable"}
    spark_stage.wait(lambda seen: seen.total(c.SOURCE_FAULTS_TOTAL, **refused) > 0)
    spark_stage.driver.start("copy", TOPIC)
    batches = set()
    for way, view in every_way(spark_stage, "copy"):
        view.wait(0, c.SPARK_SOURCE_LAG_OFFSETS, topic=TOPIC)
        if way != "checkpoint":
            view.wait(200, c.SPARK_INPUT_ROWS_TOTAL)
        if way in {"checkpoint", "all"}:
            view.wait(0, c.SPARK_UNCOMMITTED_BATCHES)
        assert view.value(c.SPARK_SOURCE_BLOCKED_OFFSETS, topic=TOPIC) == 0, way
        batches.add(view.value(c.SPARK_BATCHES_TOTAL))
        assert began < (view.value(c.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS) or 0) < time.time() + 1, way
        assert view.value(c.SPARK_INPUT_ROWS_TOTAL) == (None if way == "checkpoint" else 200), way
        assert view.value(c.SPARK_UNCOMMITTED_BATCHES) == (0 if way in {"checkpoint", "all"} else None), way
        if way != "checkpoint":
            whole = view.value(c.SPARK_BATCH_DURATION_SECONDS, phase="trigger_execution") or 0
            assert 0 < (view.value(c.SPARK_BATCH_DURATION_SECONDS, phase="add_batch") or 0) <= whole, way
    assert len(batches) == 1, batches


def test_a_query_that_an_open_transaction_starves_looks_idle_and_is_reported_of(
    spark_stage: SparkStage, keep: EnterContext
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
    for way, view in every_way(spark_stage, "copy"):
        view.wait(1 + 30 + 1, c.SPARK_SOURCE_BLOCKED_OFFSETS, topic=TOPIC)  # and the marker
        assert view.value(c.SPARK_SOURCE_LAG_OFFSETS, topic=TOPIC) == 32, way
        if way != "checkpoint":
            view.wait(1, c.SPARK_QUERY_STATE, state="idle")
            assert view.value(c.SPARK_INPUT_ROWS_TOTAL) == 200, "it read nothing, and says that all is well"
    holder.commit()
    for way, view in every_way(spark_stage, "copy"):
        view.wait(0, c.SPARK_SOURCE_BLOCKED_OFFSETS, topic=TOPIC)
        if way != "checkpoint":
            view.wait(231, c.SPARK_INPUT_ROWS_TOTAL)


def test_each_fact_is_one_series_when_all_ways_see_a_query(spark_stage: SparkStage) -> None:
    view = QueryView(spark_stage, "all", "copy")
    for family in (row for row in c.rows() if row.source == "spark"):
        found = view.metrics.samples(family, kafka_cluster="all", query="copy")
        assert found, family
        further = set(family.labels) - set(c.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS.labels)
        facts = {tuple(sample.labels[label] for label in further) for sample in found}
        assert len(found) == len(facts), family
        assert {sample.labels["spark_application"] for sample in found} == {"billing"}, family


def test_a_batch_that_never_ends_stays_uncommitted(spark_stage: SparkStage) -> None:
    spark_stage.driver.start("stuck", TOPIC, "stick")
    for way in ("checkpoint", "all"):
        view = QueryView(spark_stage, way, "stuck")
        view.wait(1, c.SPARK_UNCOMMITTED_BATCHES)
        view.wait(0, c.SPARK_BATCHES_TOTAL)
        assert view.value(c.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS) is None, way
        assert (view.value(c.SPARK_SOURCE_LAG_OFFSETS, topic=TOPIC) or 0) > 231, "from where its first batch begins"


def test_a_query_that_is_stopped_ends_without_a_fault_of_its_own(spark_stage: SparkStage) -> None:
    spark_stage.driver.start("brief", TOPIC)
    views = [QueryView(spark_stage, way, "brief") for way in EVENTS]
    for view in views:
        view.wait(0, c.SPARK_QUERY_TERMINATIONS_TOTAL, reason=TerminationReason.STOPPED)
    spark_stage.driver.stop("brief")
    for view in views:
        view.wait(1, c.SPARK_QUERY_TERMINATIONS_TOTAL, reason=TerminationReason.STOPPED)
        view.wait(1, c.SPARK_QUERY_STATE, state="terminated")
    assert ended(views[-1].metrics, "brief") == len(EVENTS)


def test_a_query_that_fails_and_takes_its_driver_with_it_is_reported_with_the_reason(spark_stage: SparkStage) -> None:
    spark_stage.driver.start("bad", TOPIC, "fail")
    assert spark_stage.driver.die_with("bad") != 0
    views = [QueryView(spark_stage, way, "bad") for way in EVENTS]
    for view in views:
        view.wait(1, c.SPARK_QUERY_TERMINATIONS_TOTAL, reason=TerminationReason.USER_CODE)
        view.wait(1, c.SPARK_QUERY_STATE, state="failed")
    assert ended(views[-1].metrics, "bad") == len(EVENTS), "once for each way, and by no other reason"
    assert "not to our taste" not in spark_stage.agent.log, "texts of exceptions may hold records"


def ended(metrics: Metrics, query: str) -> float:
    return metrics.total(c.SPARK_QUERY_TERMINATIONS_TOTAL, query=query)
