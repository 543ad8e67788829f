"""Tests of what the commits of Iceberg's sink connector say of each other."""

from __future__ import annotations

import json

from exporter.jobs.lakes.connect_commits import COMMIT_ID, MOST_TOLD, OFFSETS, doubts
from exporter.jobs.lakes.lake import LakeSnapshot

KEY = f"{OFFSETS}control.connect-orders"


def commit(number: int, offsets: object, key: str = KEY, commit_id: str | None = None) -> LakeSnapshot:
    return LakeSnapshot(str(number), {key: json.dumps(offsets), COMMIT_ID: commit_id or f"commit-{number}"})


def newest_first(*snapshots: LakeSnapshot) -> list[str]:
    return doubts(reversed(snapshots))


def test_commits_that_go_on_from_each_other_are_not_doubted() -> None:
    compaction = LakeSnapshot("2", {"operation": "replace"})
    assert newest_first(commit(1, {"0": 5}), compaction, commit(3, {"0": 9}), commit(4, {"0": 9, "1": 2})) == []


def test_offsets_that_went_back_are_told_with_the_snapshot() -> None:
    [text] = newest_first(commit(1, {"0": 5}), commit(2, {"0": 9}), commit(3, {"0": 5}))
    assert "went back at snapshot 3: partition 0 of control.connect-orders from 9 to 5 (snapshot 2)" in text


def test_a_partition_that_a_new_coordinator_has_not_read_yet_is_compared_with_its_next_commit() -> None:
    commits = [commit(1, {"0": 5, "1": 3}), commit(2, {"0": 6}), commit(3, {"0": 7, "1": 4})]
    assert newest_first(*commits) == []
    [text] = newest_first(*commits[:2], commit(3, {"0": 7, "1": 2}))
    assert "at snapshot 3: partition 1 of control.connect-orders from 3 to 2 (snapshot 1)" in text


def test_a_commit_that_is_there_twice_is_told() -> None:
    [text] = newest_first(commit(1, {"0": 5}, commit_id="x"), commit(2, {"0": 5}, commit_id="x"))
    assert "committed x twice, in snapshots 1 and 2" in text


def test_commits_of_other_groups_are_not_compared() -> None:
    other = f"{OFFSETS}control.another"
    assert newest_first(commit(1, {"0": 5}), commit(2, {"0": 1}, key=other)) == []


def test_offsets_that_cannot_be_read_are_told() -> None:
    many: list[object] = [[], "x", {"x": 1}, {"0": None}]
    for strange in many:
        [text] = newest_first(commit(1, strange), commit(2, {"0": 1}))
        assert "cannot be read" in text


def test_few_of_many_are_told() -> None:
    many = [commit(number, {"0": 1_000 - number}) for number in range(100)]
    found = newest_first(*many)
    assert len(found) == MOST_TOLD + 1
    assert found[-1].startswith("and 79 more")
