"""The work of the transaction log's source where it is exact: what reads make, and what is made for a body only.

No time is measured: what is counted here is the same on each machine.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from exporter import catalogue
from exporter.core.reading import read_source
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import Format
from exporter.model import Deadline, Facts, Snapshot
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.machine.records import Status
from exporter.transactions.machine.state_machine import ROOM
from exporter.transactions.source.txnlog import TxnlogSource
from tests.helpers.calls import calls_of
from tests.helpers.cluster import LOG, world_of
from tests.helpers.coordinator import BEGIN_MS, CoordinatorRecord
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

APPLICATIONS = 10
MINUTE = 60


class WatchedLog:
    """A log that one source reads and one exposition shows. Each application has an id."""

    def __init__(self, directory: Path | None = None, before: int = 0) -> None:
        """With ``before``, so many applications committed before the source began to read."""
        self.world = world_of()
        self.world.time.wall = BEGIN_MS / 1000
        self.source = TxnlogSource(self.world.cluster(directory), TransactionsConfig(), self.world.tail)
        self.exposition = Exposition(self.world.time.clock)
        self.commit(before)
        for _ in range(2):
            self.commit(APPLICATIONS)
            self.publish()

    def commit(self, applications: int) -> None:
        """A second passes, in which each of so many applications commits."""
        self.world.time.pass_(1.0)
        ms = round(self.world.time.wall * 1000)
        for number in range(applications):
            for status in (Status.ONGOING, Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT):
                topics = [("orders", [number])] if status < Status.COMPLETE_COMMIT else []
                value = encode_value(1, number, 0, 60_000, status, topics, ms, ms, kafka_tags(number, -1, 0))
                offset = self.world.topics[LOG][0].high_watermark
                self.world.write([CoordinatorRecord(0, offset, ms, encode_key(f"app{'x' * number}-1"), value)])

    def read(self) -> Snapshot:
        clock = self.world.time.clock
        snapshot = read_source(self.source, Deadline.after(10.0, clock.monotonic), Facts(), clock)
        assert not snapshot.faults
        return snapshot

    def publish(self) -> None:
        self.exposition.swap({("txnlog",): self.read()})

    def committed(self) -> float:
        """Return what the page shows of all applications together."""
        lines = self.exposition.body(Format.TEXT).decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{catalogue.TRANSACTIONS_TOTAL}{{")
        )

    def run(self, seconds: int, applications: int) -> Counter[str]:
        """The functions that reads call, one at each second."""
        found: Counter[str] = Counter()
        for _ in range(seconds):
            self.commit(applications)
            found += calls_of(self.publish)
        return found


def test_reads_make_no_sample_of_what_was_counted_and_a_body_makes_each_once() -> None:
    log = WatchedLog()
    found = log.run(5, APPLICATIONS)
    assert found["StateMachine.apply"] == 5 * 3 * APPLICATIONS
    assert found["distribution"] == found["counter_samples"] == found["last_samples"] == 0
    for histograms in (2 * APPLICATIONS, 0):  # open and completion
        assert calls_of(log.committed)["distribution"] == histograms


def test_only_applications_with_a_transaction_are_counted_anew() -> None:
    log = WatchedLog()
    assert log.run(5, 3)["Histogram.counted"] == 5 * 2 * 3
    assert log.run(5, 0)["Histogram.counted"] == 0


def test_a_quiet_minute_reads_ids_once_for_the_census_and_never_for_the_posture() -> None:
    log = WatchedLog()
    found = log.run(2 * MINUTE, 0)
    assert found["transaction_use"] <= 1
    found = log.run(2 * MINUTE, 0)
    assert found["FinishedIds.unseen_since"] <= 2
    for name in ("transaction_use", "Census._count_ids"):
        assert found[name] == 0, name
    found = log.run(2 * MINUTE, 1)
    assert found["transaction_use"] == 2
    assert found["FinishedIds.unseen_since"] <= 2 * 2  # for the census, and for the posture
    assert found["Census._count_ids"] == 0  # no id came or went


def test_ids_of_a_quiet_log_are_put_away_and_count_on() -> None:
    log = WatchedLog()
    log.commit(2 * ROOM)
    log.publish()
    shown = log.committed()
    assert log.source._log is not None
    machine = log.source._log.machines[0]
    assert (len(machine.entries), len(machine.finished)) == (2 * ROOM, 0)
    log.run(3 * MINUTE, 0)
    assert (len(machine.entries), len(machine.finished)) == (2 * ROOM, 0)
    log.run(4 * MINUTE, 0)
    assert (len(machine.entries), len(machine.finished)) == (0, 2 * ROOM)
    log.run(1, APPLICATIONS)
    assert (len(machine.entries), len(machine.finished)) == (APPLICATIONS, 2 * ROOM - APPLICATIONS)
    assert log.committed() == shown + APPLICATIONS


def test_ids_of_before_the_start_are_put_away_until_their_next_record() -> None:
    log = WatchedLog(before=2 * ROOM)
    assert log.source._log is not None
    machine = log.source._log.machines[0]
    assert (len(machine.entries), len(machine.finished)) == (APPLICATIONS, 2 * ROOM - APPLICATIONS)


def test_a_body_never_shows_what_a_read_under_way_has_counted(tmp_path: Path) -> None:
    log = WatchedLog(tmp_path)
    shown = log.committed()
    log.commit(APPLICATIONS)
    log.publish()
    log.commit(APPLICATIONS)
    log.read()  # it is not published yet
    assert log.committed() == shown + APPLICATIONS
