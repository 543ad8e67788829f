"""Tables that Spark Structured Streaming writes: batches that are there twice, or not at all, after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.lakes import Lake
from tests.e2e.spark.auditing import Auditor, PlannedRecord, by_kind, places, write
from tests.e2e.spark.test_audit_lakes import COLUMNS, created

BATCH = 3
"""Records of each batch."""


def stream(audits: Auditor, table: Lake, topic: str, checkpoint: Path) -> None:
    """Write what is new for this checkpoint into the table, by one batch, and end."""
    records = (
        audits.session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", audits.kafka.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    columns = [
        f"{column.removeprefix('kafka_')} AS {column}" for column in (word.split()[0] for word in COLUMNS.split(", "))
    ]
    rows = records.selectExpr(*columns)
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    # Delta has no streams into a table that is named by its folder.
    query = writer.format("delta").start(table.url) if table.format_name == "Delta" else writer.toTable(table.name)
    assert query.awaitTermination(120)


@pytest.mark.proof
def test_a_batch_that_the_table_has_twice_or_not_at_all_is_found(
    lake_audits: Auditor, fresh: Callable[[str], str], lake: Lake, tmp_path: Path
) -> None:
    name, kafka = created(lake), lake_audits.kafka
    topic, sink = fresh("stream"), SinkTable(lake.url, format=name)
    kafka.create_topic(topic)

    def batch(checkpoint: str) -> None:
        write(kafka, topic, [([PlannedRecord(0, None, "x")] * BATCH, True)])
        stream(lake_audits, lake, topic, tmp_path / checkpoint)

    batch("first")
    whole = next(lake.snapshots())
    batch("first")
    assert lake_audits.audit(topic, sink=sink).verdict == "clean"
    # The table is set back, and the checkpoint is not: the second batch is lost. A marker is between two batches.
    set_back(lake_audits, name, lake, whole)
    batch("first")
    found = by_kind(lake_audits.audit(topic, sink=sink))
    assert {kind: places(finding) for kind, finding in found.items()} == {"missing": {(0, 4), (0, 5), (0, 6)}}
    # A new checkpoint writes all once more.
    batch("second")
    found = by_kind(lake_audits.audit(topic, sink=sink))
    assert {kind: finding.count for kind, finding in found.items()} == {"repeated": 2 * BATCH}


def set_back(audits: Auditor, name: str, table: Lake, snapshot: str) -> None:
    if name == "delta":
        audits.session.sql(f"RESTORE TABLE {table.name} TO VERSION AS OF {snapshot}")
    else:
        catalog, _, of = table.name.partition(".")
        audits.session.sql(f"CALL {catalog}.system.rollback_to_snapshot('{of}', {snapshot})")
