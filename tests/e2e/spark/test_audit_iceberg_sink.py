"""Audits of a table that Iceberg's own sink connector writes, through crashes of its worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from exporter.jobs.audit.source_compared import committed_by
from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.lakes import Lake, folder_url
from exporter.model import Deadline
from testkit import jars
from testkit.connect import ConnectCluster
from testkit.processes import poll
from tests.e2e.spark.auditing import Auditor, PlannedRecord, by_kind, places, write
from tests.e2e.spark.test_audit_lakes import created

pytestmark = [pytest.mark.proof, pytest.mark.parametrize("lake", ["iceberg"], indirect=True)]
CONTROL = "control"
TRANSFORM = "org.apache.kafka.connect.transforms.InsertField$Value"
SESSION_MS = 6_000
NEVER_MS = 600_000
SECONDS = 60


@pytest.fixture(scope="module")
def connect(lake_audits: Auditor) -> Iterator[ConnectCluster]:
    lake_audits.kafka.create_topic(CONTROL)
    properties = {"plugin.path": str(jars.iceberg())}
    with ConnectCluster(lake_audits.kafka, "lake", 1, properties=properties, heap_mb=512) as one:
        yield one


def sink_into(connect: ConnectCluster, lake: Lake, topic: str, bootstrap: str, timeout_ms: int) -> None:
    """Start a connector of two tasks, named like its topic; a commit waits so long for the files of all tasks."""
    warehouse, _, table = folder_url(lake.url).rpartition("/")
    connect.create(
        topic,
        {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": 2,
            "topics": topic,
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": warehouse,
            "iceberg.tables": table,
            "iceberg.control.topic": CONTROL,
            "iceberg.control.commit.interval-ms": 1000,
            "iceberg.control.commit.timeout-ms": timeout_ms,
            "iceberg.kafka.bootstrap.servers": bootstrap,
            # After a kill, the groups wait for the consumers that are gone.
            "iceberg.kafka.session.timeout.ms": SESSION_MS,
            "consumer.override.session.timeout.ms": SESSION_MS,
            "consumer.override.isolation.level": "read_committed",
            "consumer.override.auto.offset.reset": "earliest",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "transforms": "place",
            "transforms.place.type": TRANSFORM,
            **{f"transforms.place.{word}.field": f"kafka_{word}" for word in ("topic", "partition", "offset")},
        },
    )
    connect.wait_tasks(topic, tasks=2)


def restart(connect: ConnectCluster, topic: str) -> None:
    """Start the worker again after its end."""
    connect.workers[0].start()
    connect.wait_ready(Deadline.after(SECONDS))
    connect.wait_tasks(topic, tasks=2)


def stored(lake: Lake) -> int:
    """Rows of the table, of which its session may remember an older snapshot."""
    lake.spark.catalog.refreshTable(lake.name)
    return lake.rows().count()


def wait(connect: ConnectCluster, what: Callable[[], bool]) -> None:
    until = Deadline.after(SECONDS)
    while not what():
        assert poll(until, 0.2), connect.log_tail()


def records(*partitions: int) -> list[PlannedRecord]:
    return [PlannedRecord(partition, None, "{}") for partition in partitions]


def test_a_table_is_clean_after_an_abort_and_a_killed_worker(
    lake_audits: Auditor, fresh: Callable[[str], str], lake: Lake, connect: ConnectCluster
) -> None:
    name, kafka, topic = created(lake), lake_audits.kafka, fresh("sunk")
    sink, group = SinkTable(lake.url, format=name), f"connect-{topic}"
    kafka.create_topic(topic, 2)
    sink_into(connect, lake, topic, kafka.bootstrap, timeout_ms=2000)
    write(kafka, topic, [(records(0, 1, 0, 1), True), (records(0, 1), False), (records(0, 1), True)])
    wait(connect, lambda: stored(lake) == 6)
    connect.workers[0].kill()
    restart(connect, topic)
    write(kafka, topic, [(records(0, 1), True)])
    wait(connect, lambda: stored(lake) == 8)
    result = lake_audits.audit(topic, sink=sink, source_group=group)
    assert (result.verdict, result.records, result.aborted_records) == ("clean", 8, 2)
    connect.delete(topic)


def test_rows_that_were_written_and_never_committed_are_missing(
    lake_audits: Auditor, fresh: Callable[[str], str], lake: Lake, connect: ConnectCluster
) -> None:
    """The group's offsets are committed with the names of the files, and a new coordinator reads only new names."""
    name, kafka, topic = created(lake), lake_audits.kafka, fresh("lost")
    sink, group = SinkTable(lake.url, format=name), f"connect-{topic}"
    kafka.create_topic(topic, 2)
    # A task without records does not answer: the commit waits for it.
    sink_into(connect, lake, topic, kafka.bootstrap, timeout_ms=NEVER_MS)
    write(kafka, topic, [(records(0, 0, 0), True)])
    wait(connect, lambda: committed_by(lake_audits.access, group, topic)[0][0] >= 3)
    connect.workers[0].kill()
    assert lake_audits.audit(topic, sink=sink).verdict == "unknown"
    lost = {"missing": {(0, 0), (0, 1), (0, 2)}}
    found = by_kind(lake_audits.audit(topic, sink=sink, source_group=group))
    assert {kind: places(finding) for kind, finding in found.items()} == lost
    restart(connect, topic)
    write(kafka, topic, [(records(0, 1), True)])
    wait(connect, lambda: stored(lake) == 2)
    found = by_kind(lake_audits.audit(topic, sink=sink))
    assert {kind: places(finding) for kind, finding in found.items()} == lost
    connect.delete(topic)
