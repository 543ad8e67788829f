"""Spark's event logs: both layouts, as they grow, roll, end, and are damaged."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.spark import application_log, event_log, log_files
from exporter.spark.event_log import EventLogFolder
from exporter.spark.events import batch_of
from exporter.spark.queries import KEEP_ENDED, KEEP_SILENT, StreamingQuery
from exporter.words import QueryState, TerminationReason
from tests.helpers.recordings import RECORDINGS

CAPTURE = RECORDINGS / "spark" / "events.jsonl"
LINES = CAPTURE.read_bytes().splitlines(keepends=True)
RECORDED: list[dict[str, Any]] = [json.loads(line) for line in LINES]
PREFIX = "org.apache.spark.sql.streaming.StreamingQueryListener$"


def recorded(kind: str, **fields: Any) -> list[dict[str, Any]]:
    """The recorded events of this kind that have these fields, those of a progress included."""
    events = [
        recorded_event.get("progress", recorded_event)
        for recorded_event in RECORDED
        if recorded_event["Event"].endswith(kind)
    ]
    return [event for event in events if fields.items() <= event.items()]


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


APP = recorded("ApplicationStart")[0]["App ID"]
COPY = recorded("QueryStartedEvent", name="orders-copy")[0]["id"]
NOW = recorded("ApplicationEnd")[0]["Timestamp"] // 1000 + 60.0
"""Shortly after the capture."""


def frames(*lines: bytes) -> bytes:
    """Each line in a frame of its own, as Spark flushes them."""
    return b"".join(zstandard.compress(line) for line in lines)


class RolledLog:
    """A rolled log that is written by a test."""

    def __init__(self, folder: Path, app: str = APP) -> None:
        self.app = app
        self.folder = folder / f"eventlog_v2_{app}"
        self.folder.mkdir(parents=True)
        (self.folder / f"appstatus_{app}.inprogress").touch()
        self.at = NOW

    def write(self, *lines: bytes, number: int = 1, suffix: str = ".zstd") -> Path:
        path = self.folder / f"events_{number}_{self.app}{suffix}"
        with path.open("ab") as file:
            file.write(frames(*lines) if suffix.startswith(".zstd") else b"".join(lines))
        os.utime(path, (self.at, self.at))
        return path

    def finish(self) -> None:
        (self.folder / f"appstatus_{self.app}.inprogress").rename(self.folder / f"appstatus_{self.app}")


class EventLogRead:
    """The result of one read."""

    def __init__(self, folder: EventLogFolder, now: float = NOW) -> None:
        items = list(folder.read(Deadline.after(10), now))
        self.faults = [item for item in items if isinstance(item, Fault)]
        self.queries = {item.name or item.id: item for item in items if isinstance(item, StreamingQuery)}

    @property
    def reasons(self) -> list[Reason]:
        return [fault.reason for fault in self.faults]


def event(kind: str, **fields: Any) -> bytes:
    return json.dumps({"Event": PREFIX + kind, "id": "q1", "runId": "r1", **fields}).encode() + b"\n"


def progress(number: int, rows: int = 10, **fields: Any) -> bytes:
    document = {
        "id": "q1",
        "runId": "r1",
        "name": "orders",
        "timestamp": "2026-11-21T14:49:14.000Z",
        "batchId": number,
        "durationMs": {"triggerExecution": 500, "addBatch": 400},
        "sources": [
            {
                "description": "KafkaV2[Subscribe[orders]]",
                "endOffset": json.dumps({"orders": {"0": number * 10}}),
                "numInputRows": rows,
            }
        ],
    }
    return event("QueryProgressEvent", progress={**document, **fields})


START = b'{"Event":"SparkListenerApplicationStart","App Name":"billing","App ID":"a","Timestamp":1,"User":"u"}\n'


END = b'{"Event":"SparkListenerApplicationEnd","Timestamp":1795272556366}\n'


@pytest.fixture(params=["rolled", "rolled plain", "single", "single plain", "ended single"])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The capture in each layout."""
    plain = request.param.endswith("plain")
    if request.param.startswith("rolled"):
        RolledLog(tmp_path).write(*LINES, suffix="" if plain else ".zstd")
        return tmp_path
    suffix = ("" if plain else ".zstd") + ("" if request.param.startswith("ended") else ".inprogress")
    path = tmp_path / f"{APP}{suffix}"
    path.write_bytes(b"".join(LINES) if plain else frames(*LINES))
    (tmp_path / f".{APP}.crc").write_bytes(b"crc")
    os.utime(path, (NOW, NOW))
    return tmp_path


def test_what_a_real_log_tells_is_reported_whatever_its_layout(capture: Path) -> None:
    look = EventLogRead(EventLogFolder(capture))
    assert not look.faults
    assert look.queries.keys() == {started["name"] or started["id"] for started in recorded("QueryStartedEvent")}
    assert {"orders-copy", "bad"} < look.queries.keys()
    copy = look.queries["orders-copy"]
    assert (copy.id, copy.application, copy.state) == (COPY, "billing", QueryState.TERMINATED)
    assert (copy.batches, copy.rows) == (2, 150)
    assert copy.offsets == {TopicPartition("orders", 0): 47 + 1, TopicPartition("orders", 1): 53 + 1 + 50 + 1}, (
        "the marker of each transaction takes an offset"
    )
    took = recorded("QueryProgressEvent", id=COPY)[-1]["durationMs"]
    assert copy.phases["trigger_execution"] == took["triggerExecution"] / 1000
    assert copy.phases["commit_offsets"] == took["commitOffsets"] / 1000
    assert copy.last_progress == instant(recorded("QueryIdleEvent", id=COPY)[-1]["timestamp"])
    assert [end.reason for end in copy.ends] == [TerminationReason.STOPPED]
    bad = look.queries["bad"]
    assert (bad.state, bad.batches, bad.last_progress) == (QueryState.FAILED, None, None)
    assert [end.reason for end in bad.ends] == [TerminationReason.USER_CODE]


def test_a_log_is_followed_as_it_grows_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, event("QueryStartedEvent", name="orders", timestamp="2026-11-21T14:49:00.000Z"), progress(0))
    assert EventLogRead(folder).queries["orders"].rows == 10
    assert EventLogRead(folder).queries["orders"].rows == 10
    log.write(progress(1))
    assert EventLogRead(folder).queries["orders"].rows == 20
    log.write(event("QueryIdleEvent", timestamp="2026-11-21T14:50:00.000Z"))
    assert EventLogRead(folder).queries["orders"].state is QueryState.IDLE


def test_half_a_frame_and_half_a_line_wait_for_the_rest(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    whole = frames(START, progress(0), progress(1))
    path = log.write()
    for end in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:end])
        look = EventLogRead(folder)
        assert not look.faults
        assert look.queries.keys() <= {"orders"}
    path.write_bytes(whole)
    assert EventLogRead(folder).queries["orders"].rows == 20


def test_files_are_read_in_the_order_of_their_numbers_as_they_roll(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, progress(0), number=9)
    assert EventLogRead(folder).queries["orders"].batches == 1
    log.write(progress(1), number=9)
    log.write(progress(2), number=10)
    log.write(progress(3), number=11)
    query = EventLogRead(folder).queries["orders"]
    assert (query.batches, query.rows) == (4, 40)


def test_files_folded_by_the_history_server_are_not_read_twice(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, progress(0), number=1)
    log.write(progress(1), number=2)
    assert EventLogRead(folder).queries["orders"].rows == 20
    log.write(START, progress(0), number=1, suffix=".zstd.compact")
    (log.folder / f"events_1_{APP}.zstd").unlink()
    log.write(progress(2), number=3)
    assert EventLogRead(folder).queries["orders"].rows == 30
    # Whoever comes later begins with what was folded.
    assert EventLogRead(EventLogFolder(tmp_path)).queries["orders"].rows == 30


@pytest.mark.parametrize("folded", [1, 2])
def test_a_file_that_is_folded_before_it_was_read_to_its_end_is_read_from_the_compact_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folded: int
) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    monkeypatch.setattr(log_files, "MOST_DECODED", 1)
    path = log.write(START, *map(progress, range(10)), number=1)
    assert not EventLogRead(folder).queries, "not read to its end"
    monkeypatch.undo()
    path.unlink()
    other = b'{"Event":"SparkListenerStageSubmitted","id":"%s"}\n' % Random(0).randbytes(8000).hex().encode()
    log.write(other, START, *map(progress, range(60)), number=folded, suffix=".zstd.compact")
    log.write(progress(70), number=3)
    looks = [EventLogRead(folder) for _ in range(2)]
    assert not any(look.faults for look in looks)
    assert (looks[-1].queries["orders"].batches, looks[-1].queries["orders"].rows) == (71, 610)


def test_of_a_long_log_that_is_met_late_the_newest_part_is_read_and_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RolledLog(tmp_path)
    log.write(START, progress(0), number=1)
    log.write(progress(1), number=2)
    newest = log.write(progress(2), number=3)
    monkeypatch.setattr(application_log, "MOST_CATCH_UP", newest.stat().st_size)
    query = EventLogRead(EventLogFolder(tmp_path)).queries["orders"]
    assert (query.application, query.batches, query.rows) == ("billing", 3, 10)


def test_a_long_log_of_one_file_is_read_in_parts_and_reported_once_its_end_is_reached(tmp_path: Path) -> None:
    path = tmp_path / f"{APP}.inprogress"
    path.write_bytes(START + b"".join(progress(number) for number in range(3000)))
    os.utime(path, (NOW, NOW))
    log = application_log.ApplicationLog()
    layout = application_log.single_layout(path)
    reads = 0
    while not log.current:
        assert sum(part for part in log.follow(layout, NOW, 300_000, Deadline.after(10)) if isinstance(part, int))
        reads += 1
    assert reads == -(-layout.size // 300_000)
    assert log.queries["q1"].rows == 30_000


def test_a_line_that_cannot_be_understood_is_a_fault_and_the_others_are_read(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, progress(0), b'{"Event":"' + PREFIX.encode() + b"QueryIdleEvent", b"}\n", progress(1))
    log.write(progress(2, batchId="two"), progress(3))
    look = EventLogRead(folder)
    assert look.reasons == [Reason.MALFORMED, Reason.MALFORMED]
    assert "batchId is no count" in look.faults[1].detail
    assert look.queries["orders"].batches == 4
    assert not EventLogRead(folder).faults, "it is told once"


def test_a_damaged_frame_costs_what_was_in_it(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    path = log.write(START, progress(0))
    broken = bytearray(zstandard.compress(progress(1)))
    broken[8:40] = b"\xff" * 32
    with path.open("ab") as file:
        file.write(broken)
    log.write(progress(2))
    look = EventLogRead(folder)
    assert look.reasons == [Reason.MALFORMED]
    assert look.queries["orders"].batches == 3
    assert look.queries["orders"].rows == 20


def test_several_applications_are_followed_and_one_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    RolledLog(tmp_path, "app-1").write(START, progress(0))
    RolledLog(tmp_path, "app-2").write(START.replace(b"billing", b"shipping"), progress(0, id="q2", name="parcels"))
    RolledLog(tmp_path, "app-3").write(START, suffix=".lz4")
    (tmp_path / "loop").symlink_to("loop")
    look = EventLogRead(EventLogFolder(tmp_path))
    assert {name: query.application for name, query in look.queries.items()} == {
        "orders": "billing",
        "parcels": "shipping",
    }
    assert look.reasons == [Reason.UNSUPPORTED]
    assert "spark.eventLog.compression.codec to zstd" in look.faults[0].detail


def test_an_application_that_ended_has_no_running_query_and_no_end_of_one_is_made_up(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, progress(0))
    assert EventLogRead(folder).queries["orders"].state is QueryState.RUNNING
    log.write(END)
    log.finish()
    query = EventLogRead(folder).queries["orders"]
    assert query.state is QueryState.TERMINATED
    assert query.ends == ()


def delivered(folder: Path, name: str, *lines: bytes) -> Path:
    """A copy of a log as a cluster delivers it: compressed, except that which grows."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(gzip.compress(b"".join(lines)) if name.endswith(".gz") else b"".join(lines))
    os.utime(path, (NOW, NOW))
    return path


@pytest.mark.parametrize("name", ["eventlog", APP, f"{APP}.zstd", f"{APP}.gz"])
def test_a_name_without_the_mark_of_progress_does_not_show_that_an_application_ended(tmp_path: Path, name: str) -> None:
    path = delivered(tmp_path, name, START, progress(0))
    if name.endswith(".zstd"):
        path.write_bytes(frames(START, progress(0)))
        os.utime(path, (NOW, NOW))
    folder = EventLogFolder(tmp_path)
    for now in (NOW, NOW + 600, NOW + 2 * KEEP_ENDED):
        assert EventLogRead(folder, now).queries["orders"].state is QueryState.RUNNING


def test_a_status_file_does_not_show_that_an_application_ended(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, progress(0))
    log.finish()
    assert EventLogRead(folder).queries["orders"].state is QueryState.RUNNING


def test_delivered_files_of_a_driver_are_one_log_in_the_order_of_their_hours(tmp_path: Path) -> None:
    driver = tmp_path / "0802-101500-abc12345" / "eventlog" / "0802-101500-abc12345_10_1_2_3" / "77120"
    delivered(driver, "eventlog-2026-11-21--13-00.gz", START, progress(0))
    delivered(driver, "eventlog-2026-11-21--14-00.gz", progress(1))
    live = delivered(driver, "eventlog", progress(2))
    folder = EventLogFolder(tmp_path)
    query = EventLogRead(folder).queries["orders"]
    assert (query.application, query.batches, query.rows, query.state) == ("billing", 3, 30, QueryState.RUNNING)
    # An hour later what grew is compressed, and another one grows.
    delivered(driver, "eventlog-2026-11-21--15-00.gz", progress(2), progress(3))
    live.write_bytes(b"")
    EventLogRead(folder)
    delivered(driver, "eventlog", progress(4), END)
    query = EventLogRead(folder).queries["orders"]
    assert (query.batches, query.rows, query.state) == (5, 50, QueryState.TERMINATED)


def test_logs_in_folders_below_are_read_and_too_many_folders_are_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RolledLog(tmp_path / "team-a").write(START, progress(0))
    RolledLog(tmp_path / "team-b").write(START, progress(0, id="q2", name="parcels"))
    (tmp_path / "team-b" / "notes.txt").write_text("not a log\n")
    look = EventLogRead(EventLogFolder(tmp_path))
    assert look.queries.keys() == {"orders", "parcels"}
    assert not look.faults
    monkeypatch.setattr(event_log, "MOST_FOLDERS", 2)
    look = EventLogRead(EventLogFolder(tmp_path))
    assert (len(look.queries), look.reasons) == (1, [Reason.UNSUPPORTED])
    assert "more than 2 folders" in look.faults[0].detail


def test_a_codec_that_is_not_read_is_told_whatever_the_name_of_the_file(tmp_path: Path) -> None:
    delivered(tmp_path, "application_17_0001", b"LZ4Block\x26" + b"x" * 40)
    delivered(tmp_path, "application_17_0002", b"\x82SNAPPY\x00" + b"x" * 40)
    look = EventLogRead(EventLogFolder(tmp_path))
    assert look.reasons == [Reason.UNSUPPORTED] * 2
    assert {fault.detail.rpartition("compressed by ")[2].partition(";")[0] for fault in look.faults} == {
        "lz4",
        "snappy",
    }


@pytest.mark.parametrize("members", [1, 3])
def test_a_compressed_file_that_comes_in_parts_is_read_once_and_its_damage_is_told(
    tmp_path: Path, members: int
) -> None:
    parts = [START, *map(progress, range(3000))]
    step = -(-len(parts) // members)
    whole = b"".join(gzip.compress(b"".join(parts[at : at + step])) for at in range(0, len(parts), step))
    path = tmp_path / f"{APP}.gz"
    folder = EventLogFolder(tmp_path)
    for end in range(0, len(whole), len(whole) // 7):
        path.write_bytes(whole[:end])
        os.utime(path, (NOW, NOW))
        assert not EventLogRead(folder).faults
    path.write_bytes(whole)
    look = EventLogRead(folder, NOW)
    assert (look.queries["orders"].batches, look.queries["orders"].rows) == (3000, 30_000)
    with path.open("ab") as file:
        file.write(b"\x1f\x8b\x08 no member")
    assert EventLogRead(folder).reasons == [Reason.MALFORMED]
    assert not EventLogRead(folder).faults, "it is told once"


def test_a_compressed_bomb_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MOST_DECODED", 30_000_000)
    delivered(tmp_path, f"{APP}.gz", START, progress(0), b"a" * 100_000_000)
    folder = EventLogFolder(tmp_path)
    tracemalloc.start()
    try:
        look = EventLogRead(folder)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000
    assert look.reasons == [Reason.MALFORMED]
    assert look.queries["orders"].batches == 1


def test_a_log_that_a_wrong_clock_made_old_is_read_when_the_clock_is_right_again(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, progress(0))
    assert not EventLogRead(folder, NOW + KEEP_SILENT + 1).queries
    assert EventLogRead(folder, NOW).queries.keys() == {"orders"}


def test_logs_of_long_ago_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, killed = RolledLog(tmp_path, "ended"), RolledLog(tmp_path, "killed")
    ended.write(START, progress(0), END)
    killed.write(START, progress(0, id="q2", name="dead"))
    folder = EventLogFolder(tmp_path)
    assert EventLogRead(folder).queries.keys() == {"orders", "dead"}
    assert EventLogRead(folder, NOW + KEEP_ENDED + 1).queries.keys() == {"dead"}
    assert not EventLogRead(folder, NOW + KEEP_SILENT + 1).queries
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("an old log is opened"))
    assert not EventLogRead(folder, NOW + KEEP_SILENT + 2).faults
    assert not EventLogRead(EventLogFolder(tmp_path), NOW + KEEP_SILENT + 2).faults


def test_an_end_that_is_seen_happen_has_its_time_and_one_of_the_past_the_last_that_is_known(tmp_path: Path) -> None:
    log, folder = RolledLog(tmp_path), EventLogFolder(tmp_path)
    log.write(START, progress(0))
    EventLogRead(folder)
    log.write(event("QueryTerminatedEvent", exception=None))
    (live,) = EventLogRead(folder, NOW + 60).queries["orders"].ends
    (past,) = EventLogRead(EventLogFolder(tmp_path), NOW + 60).queries["orders"].ends
    assert live.at == NOW + 60
    assert past.at == 1_795_272_554.5, "its last batch ended then"


def test_what_else_lies_in_the_folder_is_let_be(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("not a log\n")
    (tmp_path / "big.bin").write_bytes(os.urandom(100_000))
    (tmp_path / "empty.inprogress").touch()
    (tmp_path / "folder").mkdir()
    for path in tmp_path.iterdir():
        os.utime(path, (NOW, NOW))
    look = EventLogRead(EventLogFolder(tmp_path))
    assert (look.faults, look.queries) == ([], {})


def test_a_folder_that_is_not_there_is_a_fault_and_read_once_it_comes(tmp_path: Path) -> None:
    folder = EventLogFolder(tmp_path / "events")
    look = EventLogRead(folder)
    assert look.reasons == [Reason.UNREACHABLE]
    assert str(tmp_path / "events") in look.faults[0].detail
    RolledLog(tmp_path / "events").write(START, progress(0))
    assert EventLogRead(folder).queries.keys() == {"orders"}


def test_a_log_that_is_replaced_by_a_shorter_one_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / f"{APP}.inprogress"
    path.write_bytes(START + progress(0) + progress(1))
    os.utime(path, (NOW, NOW))
    folder = EventLogFolder(tmp_path)
    assert EventLogRead(folder).queries["orders"].rows == 20
    path.write_bytes(START + progress(5))
    os.utime(path, (NOW, NOW))
    EventLogRead(folder)
    query = EventLogRead(folder).queries["orders"]
    assert (query.batches, query.rows) == (6, 10)


def test_offsets_of_other_sources_are_no_offsets_in_kafka(tmp_path: Path) -> None:
    lookalike = {"description": "MySource", "endOffset": '{"orders": {"0": 3}}', "numInputRows": 4}
    RolledLog(tmp_path).write(START, progress(0, sources=[lookalike]))
    query = EventLogRead(EventLogFolder(tmp_path)).queries["orders"]
    assert query.offsets == {}
    assert query.rows == 4


def test_an_idle_trigger_of_older_versions_of_spark_is_no_batch(tmp_path: Path) -> None:
    idle = progress(1, rows=0, durationMs={"triggerExecution": 3, "latestOffset": 2})
    RolledLog(tmp_path).write(START, progress(0), idle)
    query = EventLogRead(EventLogFolder(tmp_path)).queries["orders"]
    assert (query.batches, query.state) == (1, QueryState.IDLE)
    assert query.phases["add_batch"] == 0.4, "those of the last batch"


# --- What is not written by Spark -------------------------------------------------------------------------------------


def bomb(megabytes: int, head: bytes = b'{"Event":"x","a":"') -> bytes:
    """A frame that decodes to so much, without a line's end."""
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = [compressor.compress(head), *(compressor.compress(b"a" * 2**20) for _ in range(megabytes))]
    return b"".join([*parts, compressor.flush()])


def test_a_bomb_takes_no_memory_and_costs_only_its_frame(tmp_path: Path) -> None:
    log = RolledLog(tmp_path)
    path = log.write(START, progress(1))
    with path.open("ab") as file:
        file.write(bomb(200))
    log.write(progress(2))
    folder = EventLogFolder(tmp_path)
    tracemalloc.start()
    try:
        look = EventLogRead(folder)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000
    assert look.reasons == [Reason.MALFORMED]
    assert look.queries["orders"].batches == 3, "what stands behind the bomb is read"
    assert not EventLogRead(folder).faults, "and the fault is told once"


def test_what_one_read_decodes_is_bounded_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MOST_DECODED", 100_000)
    log = RolledLog(tmp_path)
    log.write(START, *(progress(number) for number in range(1000)))
    folder = EventLogFolder(tmp_path)
    reads = 1
    while not (look := EventLogRead(folder)).queries:
        assert not look.faults
        reads += 1
    assert look.queries["orders"].batches == 1000
    assert look.queries["orders"].rows == 10_000, "no line is taken twice"
    assert reads > 3


@pytest.mark.parametrize("suffix", ["", ".zstd"])
def test_a_line_without_an_end_costs_only_itself(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "LONGEST_LINE", 300_000)
    log = RolledLog(tmp_path)
    mark = b'{"Event":"' + PREFIX.encode() + b'QueryProgressEvent","a":"'
    log.write(START, progress(1), mark + b"x" * 1_000_000 + b'"}\n', progress(2), suffix=suffix)
    log.write(b'{"Event":"SparkListenerJobStart","a":"' + b"x" * 1_000_000, suffix=suffix)
    folder = EventLogFolder(tmp_path)
    look = EventLogRead(folder)
    assert [fault.detail.rpartition("has ")[2] for fault in look.faults] == [
        "a line of a query that is longer than 4 MB"
    ]
    assert look.queries["orders"].batches == 3
    log.write(b'"}\n', progress(3), suffix=suffix)
    look = EventLogRead(folder)
    assert (look.faults, look.queries["orders"].batches) == ([], 4)


def test_a_file_without_any_frame_costs_a_bounded_time(tmp_path: Path) -> None:
    log = RolledLog(tmp_path)
    path = log.write(START, progress(1))
    with path.open("ab") as file:
        file.write(b"\x28\xb5\x2f\xfd" * 100_000)
    folder = EventLogFolder(tmp_path)
    assert EventLogRead(folder).reasons == [Reason.MALFORMED]
    assert EventLogRead(folder).queries == {}, "it is not read to its end yet"


def test_a_pipe_named_as_a_log_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "application")
    log = RolledLog(tmp_path)
    os.mkfifo(log.folder / f"events_1_{APP}")
    log.write(START, progress(1), number=2)
    look = EventLogRead(EventLogFolder(tmp_path))
    assert look.queries["orders"].batches == 2


def test_of_very_many_queries_of_an_application_those_that_run_are_remembered() -> None:
    log = application_log.ApplicationLog()
    running = event("QueryStartedEvent", id="runs", name="runs", timestamp="2026-11-21T14:49:14.000Z").rstrip()
    lines = [running]
    for number in range(2 * application_log.MOST_QUERIES):
        started = event("QueryStartedEvent", id=f"q{number}", name=None, timestamp="2026-11-21T14:49:14.000Z")
        lines += [started.rstrip(), event("QueryTerminatedEvent", id=f"q{number}").rstrip()]
    assert list(log._take(log_files.FileChunk(tuple(lines)), Path("x"), NOW)) == []
    assert len(log.queries) == application_log.MOST_QUERIES
    assert "runs" in log.queries
    assert log.left_out == 0, "what ended is of no more use"


def test_a_new_query_costs_no_look_through_those_that_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def ended(state: QueryState) -> bool:
        nonlocal looks
        looks += 1
        return state in {QueryState.TERMINATED, QueryState.FAILED}

    monkeypatch.setattr(QueryState, "ended", property(ended))
    log = application_log.ApplicationLog()
    at = "2026-11-21T14:49:14.000Z"
    number = 10 * application_log.MOST_QUERIES
    lines = [event("QueryStartedEvent", id=f"q{place}", name=None, timestamp=at).rstrip() for place in range(number)]
    assert list(log._take(log_files.FileChunk(tuple(lines)), Path("x"), NOW)) == []
    assert looks == number
    assert log.left_out == number - application_log.MOST_QUERIES


def test_a_query_that_runs_again_after_its_end_is_not_the_first_to_be_forgotten() -> None:
    log = application_log.ApplicationLog()
    started = {
        name: event("QueryStartedEvent", id=name, name=None, timestamp="2026-11-21T14:49:14.000Z").rstrip()
        for name in ("again", *(f"q{number}" for number in range(application_log.MOST_QUERIES)))
    }
    again = [started["again"], event("QueryTerminatedEvent", id="again").rstrip(), started["again"]]
    other = [started["q0"], event("QueryTerminatedEvent", id="q0").rstrip()]
    rest = [line for name, line in started.items() if name not in {"again", "q0"}]
    assert list(log._take(log_files.FileChunk((*again, *other, *rest)), Path("x"), NOW)) == []
    assert log.queries.keys() == started.keys() - {"q0"}


@pytest.mark.parametrize("number", ["9" * 401, "1e999", "9" * 5000])
def test_a_number_beyond_a_float_costs_its_line(tmp_path: Path, number: str) -> None:
    log = RolledLog(tmp_path)
    wrong = progress(2).replace(b'"triggerExecution": 500', f'"triggerExecution": {number}'.encode())
    log.write(START, progress(1), wrong, progress(3))
    look = EventLogRead(EventLogFolder(tmp_path))
    assert look.reasons == [Reason.MALFORMED]
    assert look.queries["orders"].batches == 4


def test_offsets_of_very_many_partitions_are_forgotten_where_there_are_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST_PARTITIONS", 100)
    sources = [{"description": "KafkaV2[x]", "endOffset": {"t": {str(at): at for at in range(150)}}, "numInputRows": 1}]
    RolledLog(tmp_path, "a").write(START, progress(1, name="many", sources=sources))
    RolledLog(tmp_path, "b").write(START, progress(1))
    look = EventLogRead(EventLogFolder(tmp_path))
    assert look.reasons == [Reason.UNSUPPORTED]
    assert (len(look.queries["many"].offsets), len(look.queries["orders"].offsets)) == (0, 1)


def test_a_log_that_is_never_read_to_its_end_takes_no_other_s_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST_BYTES", 4000)
    flood = RolledLog(tmp_path, "flood")
    flood.at = NOW + 100  # written to last
    flood.write(START, *(progress(number, name="flood") for number in range(5000)))
    RolledLog(tmp_path, "other").write(START, progress(1))
    folder = EventLogFolder(tmp_path)
    reads = 0
    while "orders" not in EventLogRead(folder).queries:
        reads += 1
        assert reads < 5


@pytest.mark.parametrize(
    ("sink", "kind"),
    [
        ({"description": "FileSink[/data/secret]"}, "FileSink"),
        ({"description": "org.apache.spark.KafkaTable@6f94967e"}, "org.apache.spark.KafkaTable"),
        ({"description": 3}, ""),
        (None, ""),
        ("x", ""),
    ],
)
def test_the_kind_of_a_sink_is_kept_without_its_place(sink: object, kind: str) -> None:
    progress = {"batchId": 1, "timestamp": "2026-11-22T14:54:59.015Z", "sink": sink}
    assert batch_of(progress).sink == kind
