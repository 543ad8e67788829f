"""A query's checkpoint folder: what was begun, what was committed, and where that is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.spark.checkpoint import CheckpointFolder
from exporter.spark.queries import Origin, StreamingQuery

ID = "cbb8ccf7-68b1-441a-8a88-b5928436b904"
CONF = '{"batchWatermarkMs":0,"batchTimestampMs":1795272548013,"conf":{}}'


class WrittenCheckpoint:
    """A checkpoint as Spark 4.0.0 wrote one, checksums and all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("offsets", "commits", "sources/0"):
            (folder / name).mkdir(parents=True)
        self.write("metadata", f'{{"id":"{ID}"}}')
        self.write("sources/0/0", '\0v1\n{"orders":{"0":5,"1":0}}')

    def write(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_text(content)
        (path.parent / f".{path.name}.crc").write_bytes(b"crc")
        return path

    def begin(self, number: int, *sources: str) -> None:
        self.write(f"offsets/{number}", "\n".join(("v1", CONF, *(sources or (orders(number * 10),)))))

    def commit(self, number: int, at: float = 1_795_272_548.5) -> None:
        os.utime(self.write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}'), (at, at))


def orders(offset: int) -> str:
    return f'{{"orders":{{"0":{offset},"1":{offset + 1}}}}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> WrittenCheckpoint:
    return WrittenCheckpoint(tmp_path / "orders")


def look(folder: Path) -> StreamingQuery | Fault:
    (item,) = CheckpointFolder(folder, "billing", "orders").read(Deadline.after(1), 0.0)
    return item


def query(checkpoint: WrittenCheckpoint) -> StreamingQuery:
    item = look(checkpoint.folder)
    assert isinstance(item, StreamingQuery), item
    return item


def fault(folder: Path) -> Fault:
    item = look(folder)
    assert isinstance(item, Fault), item
    return item


def test_the_last_commit_tells_how_far_the_query_is(checkpoint: WrittenCheckpoint) -> None:
    for number in range(12):
        checkpoint.begin(number)
        checkpoint.commit(number, 1_795_272_548.5 + number)
    found = query(checkpoint)
    assert (found.id, found.way, found.application, found.name) == (ID, Origin.CHECKPOINT, "billing", "orders")
    assert (found.batches, found.uncommitted) == (12, 0)
    assert found.last_progress == 1_795_272_559.5
    assert found.offsets == {TopicPartition("orders", 0): 110, TopicPartition("orders", 1): 111}
    assert (found.state, found.rows) == (None, None), "no file tells them"


def test_a_batch_that_was_begun_and_not_committed_is_reported_and_its_offsets_are_not_reached(
    checkpoint: WrittenCheckpoint,
) -> None:
    checkpoint.begin(0)
    checkpoint.commit(0)
    checkpoint.begin(1)
    found = query(checkpoint)
    assert (found.batches, found.uncommitted) == (1, 1)
    assert found.offsets[TopicPartition("orders", 0)] == 0


def test_before_the_first_commit_the_query_stands_where_it_begins(checkpoint: WrittenCheckpoint) -> None:
    checkpoint.begin(0)
    found = query(checkpoint)
    assert (found.batches, found.uncommitted, found.last_progress) == (0, 1, None)
    assert found.offsets == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 0}


def test_several_sources_are_put_together_and_those_that_are_not_kafka_are_passed_over(
    checkpoint: WrittenCheckpoint,
) -> None:
    checkpoint.begin(0, orders(3), '{"payments":{"0":7}}', "17", '{"logOffset":4}', "-", '[{"a":{"0":1}}]')
    checkpoint.commit(0)
    assert query(checkpoint).offsets == {
        TopicPartition("orders", 0): 3,
        TopicPartition("orders", 1): 4,
        TopicPartition("payments", 0): 7,
    }


def test_old_batches_that_spark_removed_are_not_missed(checkpoint: WrittenCheckpoint) -> None:
    for number in (100, 101):
        checkpoint.begin(number)
    checkpoint.commit(100)
    found = query(checkpoint)
    assert (found.batches, found.uncommitted) == (101, 1)


def test_what_spark_writes_before_it_renames_it_is_not_looked_at(checkpoint: WrittenCheckpoint) -> None:
    checkpoint.begin(0)
    checkpoint.commit(0)
    checkpoint.write("offsets/.1.5e7b.tmp", "v1\nhalf")
    checkpoint.write("commits/.1.5e7b.tmp", "v")
    assert query(checkpoint).uncommitted == 0


def test_a_query_that_has_only_just_been_made_is_there(checkpoint: WrittenCheckpoint) -> None:
    (checkpoint.folder / "sources/0/0").unlink()
    found = query(checkpoint)
    assert (found.batches, found.uncommitted, found.offsets) == (0, 0, {})


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("offsets/3", "v2\n{}\n{}", "of a version that is not supported"),
        ("offsets/3", "", "of a version that is not supported"),
        ("offsets/3", f"v1\n{CONF}\n{{half", "has offsets that are no JSON"),
        ("offsets/3", "v1\n" + "[" * 50_000 + "\n" + "[" * 50_000, "has offsets that are no JSON"),
        ("metadata", "{}", "holds no id of a query"),
        ("metadata", "", "holds no id of a query"),
    ],
)
def test_a_file_that_is_not_as_spark_writes_it_is_a_fault_that_says_so(
    checkpoint: WrittenCheckpoint, name: str, content: str, why: str
) -> None:
    checkpoint.begin(3)
    checkpoint.commit(3)
    checkpoint.write(name, content)
    found = fault(checkpoint.folder)
    assert found.reason is Reason.MALFORMED
    assert why in found.detail
    assert str(checkpoint.folder / name) in found.detail


def test_a_folder_that_is_not_there_is_a_fault_that_names_it(tmp_path: Path) -> None:
    found = fault(tmp_path / "gone")
    assert found.reason is Reason.UNREACHABLE
    assert str(tmp_path / "gone") in found.detail


def test_a_folder_of_something_else_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    assert fault(tmp_path).reason is Reason.MALFORMED


def test_an_empty_folder_is_a_checkpoint_to_come(tmp_path: Path) -> None:
    assert not list(CheckpointFolder(tmp_path).read(Deadline.after(1), 0.0))


def test_a_file_that_may_not_be_read_names_whom_to_let_in(
    checkpoint: WrittenCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)  # root, who may run these tests, may read everything
    found = fault(checkpoint.folder)
    assert found.reason is Reason.AUTHORIZATION
    assert "the agent's user" in found.detail
