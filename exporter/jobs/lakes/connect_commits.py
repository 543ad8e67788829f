"""What Iceberg's sink connector notes in the snapshots that it commits, and what in it cannot be. Pure.

The notes are ``kafka.connect.offsets.CONTROL_TOPIC.GROUP``, the offsets of its control topic up to which all files are
committed, and ``kafka.connect.commit-id`` (``org.apache.iceberg.connect.channel.Coordinator``). A commit begins where
the one before it ended. Offsets that are lower, or a commit id that comes again, are of a coordinator that was replaced
and committed all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from exporter.jobs.lakes.lake import LakeSnapshot

OFFSETS = "kafka.connect.offsets."
COMMIT_ID = "kafka.connect.commit-id"
MOST_TOLD = 20


def doubts(snapshots: Iterable[LakeSnapshot]) -> list[str]:
    """Sentences on commits that cannot be right; ``snapshots`` are the newest first."""
    found = [text for snapshot, after in _commits(snapshots) for text in _compared(snapshot, after)]
    if len(found) > MOST_TOLD:
        return [*found[:MOST_TOLD], f"and {len(found) - MOST_TOLD:,} more commits of the sink that cannot be right"]
    return found


def _commits(snapshots: Iterable[LakeSnapshot]) -> Iterator[tuple[LakeSnapshot, LakeSnapshot]]:
    """Each commit of the sink with the one that followed it, of the same group."""
    newer: dict[str, LakeSnapshot] = {}
    for snapshot in snapshots:
        for key in snapshot.notes:
            if key.startswith(OFFSETS):
                if key in newer:
                    yield snapshot, newer[key]
                newer[key] = snapshot


def _compared(snapshot: LakeSnapshot, after: LakeSnapshot) -> Iterator[str]:
    commit = snapshot.notes.get(COMMIT_ID)
    if commit is not None and commit == after.notes.get(COMMIT_ID):
        yield f"the sink committed {commit} twice, in snapshots {snapshot.id} and {after.id}: rows may be there twice"
    for key in snapshot.notes.keys() & after.notes.keys():
        if not key.startswith(OFFSETS):
            continue
        before, then = _offsets(snapshot.notes[key]), _offsets(after.notes[key])
        if before is None or then is None:
            yield f"the sink's {key} in snapshots {snapshot.id} and {after.id} cannot be read"
            continue
        for partition, offset in sorted(before.items()):
            if then.get(partition, -1) < offset:
                yield (
                    f"the sink's committed offsets went back at snapshot {after.id}: partition {partition} of"
                    f" {key.removeprefix(OFFSETS)} from {offset} to {then.get(partition, 'none')} (snapshot"
                    f" {snapshot.id}): rows may be there twice, or be lost"
                )


def _offsets(text: str) -> dict[int, int] | None:
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return None
