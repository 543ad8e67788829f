"""The keeper of one cluster's journal: starts, and what the process before left."""

from __future__ import annotations

import os
from pathlib import Path

from exporter.cluster import Cluster
from exporter.journal.journal import Instants, JournalSettings
from exporter.journal.keeper import ID_SECONDS, JournalKeeper
from exporter.journal.rebuild import KeptJournal, gaps_of
from exporter.journal.segments import DAY, KeptLimits, touched
from tests.helpers.cluster import FakeKafka

LIMITS = KeptLimits(50 * 1024**2, 30 * DAY)


def keeper(cluster: Cluster, folder: Path) -> JournalKeeper:
    return JournalKeeper(cluster, JournalSettings(folder, LIMITS, Instants()), tuple)


def test_a_start_that_waited_for_the_clusters_id_tells_what_was_not_seen_once_its_journal_is_open(
    tmp_path: Path,
) -> None:
    kafka = FakeKafka()
    first = kafka.cluster(tmp_path)
    first.cluster_id = "id-1"
    keeper(first, tmp_path).look()
    (segment,) = tmp_path.glob("id-1/journal/*")
    killed = segment.stat().st_mtime
    kafka.time.wall = killed + 7200.0

    later = kafka.cluster(tmp_path)
    after = keeper(later, tmp_path)
    after.look()
    kafka.time.pass_(ID_SECONDS)
    after.look()
    (waiting,) = after.journal.newest()
    assert waiting["what"].endswith("does not know the cluster's id yet: its journal cannot be opened")
    kafka.time.pass_(10.0)
    later.cluster_id = "id-1"
    for _ in range(2):
        after.look()
    events = after.journal.newest()[::-1]
    assert [event.get("evidence", {}).get("previous") for event in events] == [None, None, "ended without a word"]
    (gap,) = gaps_of(KeptJournal(events), kafka.time.wall)
    assert (round(gap.begin, 2), gap.end) == (round(killed, 2), killed + 7200.0)


def test_a_journal_restored_from_a_backup_does_not_tell_of_the_time_up_to_the_copy(tmp_path: Path) -> None:
    kafka = FakeKafka()
    first = kafka.cluster(tmp_path / "before")
    first.cluster_id = "id-1"
    before = keeper(first, tmp_path / "before")
    before.look()
    kafka.time.pass_(1_800.0)
    before.look()
    kept = kafka.time.wall
    (segment,) = (tmp_path / "before").glob("id-1/journal/*")
    assert touched(segment) == kept
    copied = tmp_path / "id-1" / "journal" / segment.name
    copied.parent.mkdir(parents=True)
    copied.write_bytes(segment.read_bytes())
    kafka.time.wall += 3_600.0
    os.utime(copied, ns=(0, round(kafka.time.wall * 1e9) + 123_456_789))
    assert touched(copied) is None

    later = kafka.cluster(tmp_path)
    later.cluster_id = "id-1"
    after = keeper(later, tmp_path)
    after.look()
    (*_, gap) = gaps_of(KeptJournal(after.journal.newest()[::-1]), kafka.time.wall)
    assert gap.begin <= kept
    assert gap.end == kafka.time.wall
