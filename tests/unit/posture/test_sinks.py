from __future__ import annotations

import pytest

from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector
from exporter.posture.check import CheckResult
from exporter.posture.sinks import connect_sink_checks, spark_sink_checks

PASSED, TOLD = CheckResult.PASSED, CheckResult.INFORMATION


@pytest.mark.parametrize(
    ("plugin", "settings", "verdict"),
    [
        ("io.debezium.jdbc.JdbcSinkConnector", {"insert.mode": "upsert", "primary.key.mode": "record_key"}, PASSED),
        ("io.confluent.connect.jdbc.JdbcSinkConnector", {"insert.mode": "upsert", "pk.mode": "record_value"}, PASSED),
        ("io.confluent.connect.jdbc.JdbcSinkConnector", {"insert.mode": "upsert"}, TOLD),
        ("io.confluent.connect.jdbc.JdbcSinkConnector", {}, TOLD),
        ("com.datastax.oss.kafka.sink.CassandraSinkConnector", {}, PASSED),
        ("FileStreamSink", {}, TOLD),
        ("org.example.OwnSinkConnector", {}, None),
        ("", {}, None),
    ],
)
def test_a_connectors_sink_is_judged_by_its_class_and_how_it_inserts(
    plugin: str, settings: dict[str, str], verdict: CheckResult | None
) -> None:
    connector = Connector("to-db", "sink", settings=settings, plugin=plugin)
    found = list(connect_sink_checks([ConnectState("main", (connector,), by_rest=True)]))
    assert [(check.subject, check.verdict) for check in found] == ([("main/to-db", verdict)] if verdict else [])


def test_a_source_and_a_sink_without_settings_are_not_judged() -> None:
    source = Connector("in", "source", settings={}, plugin="JdbcSinkConnector")
    unread = Connector("out", "sink", settings=None, plugin="JdbcSinkConnector")
    assert not list(connect_sink_checks([ConnectState("main", (source, unread), by_rest=True)]))


@pytest.mark.parametrize(
    ("sink", "verdict"),
    [
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable", TOLD),
        ("ForeachBatchSink", TOLD),
        ("FileSink", PASSED),
        ("DeltaSink", PASSED),
        ("iceberg.db.kafka_events", PASSED),  # a table of Iceberg is described by its name
        ("prod.db.kafka_events", None),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$", None),
    ],
)
def test_a_querys_sink_is_judged_by_its_description(sink: str, verdict: CheckResult | None) -> None:
    found = list(spark_sink_checks({"app/query": sink}))
    assert [check.verdict for check in found] == ([verdict] if verdict else [])
