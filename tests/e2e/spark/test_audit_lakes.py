"""Audits of sinks in Iceberg and Delta: what is planted in a snapshot is found, and nothing in the snapshot before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.lakes import Lake
from exporter.jobs.session import SessionError
from tests.e2e.spark.auditing import Auditor, PlannedRecord, by_kind, places, write

Place = tuple[int, int]
COUNT = 20
COLUMNS = "kafka_topic string, kafka_partition int, kafka_offset bigint"


def created(lake: Lake) -> str:
    """Make it the table of a sink. Returns its format."""
    lake.create(COLUMNS, "kafka_partition")
    return lake.format_name.lower()


def store(lake_audits: Auditor, lake: Lake, topic: str, stored: list[Place]) -> str:
    """Append rows of these records; the new snapshot."""
    rows = lake_audits.session.createDataFrame([(topic, *place) for place in stored], COLUMNS)
    rows.writeTo(lake.name).append()
    return next(lake.snapshots())


@pytest.mark.proof
def test_a_sink_is_audited_at_a_snapshot(lake_audits: Auditor, fresh: Callable[[str], str], lake: Lake) -> None:
    name, kafka = created(lake), lake_audits.kafka
    topic = fresh("lake")
    kafka.create_topic(topic)
    records = [PlannedRecord(0, f"k{number}", str(number)) for number in range(COUNT)]
    write(kafka, topic, [(records[:10], True), (records[10:12], False), (records[12:], True)])
    # The abort's records are at 11 and 12, after the first marker; the second marker is at 13.
    aborted = [(0, 11), (0, 12)]
    committed = [(0, offset) for offset in range(22) if offset not in {10, 13} and (0, offset) not in aborted]
    whole = store(lake_audits, lake, topic, committed)
    good = SinkTable(lake.url, format=name)
    result = lake_audits.audit(topic, sink=good)
    assert (result.verdict, result.more["settings"]["sink"]) == ("clean", f"{name}:{lake.url}@{whole}")
    store(lake_audits, lake, topic, [committed[3], aborted[0]])
    lake_audits.session.sql(f"DELETE FROM {lake.name} WHERE kafka_offset = 5")  # noqa: S608 -- a name of this test
    found = by_kind(lake_audits.audit(topic, sink=good))
    assert {kind: places(finding) for kind, finding in found.items()} == {
        "repeated": {committed[3]},
        "aborted_visible": {aborted[0]},
        "missing": {(0, 5)},
    }
    # The snapshot before has nothing of it.
    assert lake_audits.audit(topic, sink=SinkTable(lake.url, format=name, snapshot=whole)).verdict == "clean"
    with pytest.raises(SessionError, match="no such snapshot"):
        lake_audits.audit(topic, sink=SinkTable(lake.url, format=name, snapshot="99999"))
