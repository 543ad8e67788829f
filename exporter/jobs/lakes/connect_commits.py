"""Find contradictions in the notes of Iceberg's sink connector in the snapshots that it commits. Pure.

The notes are ``kafka.connect.offsets.CONTROL_TOPIC.GROUP``, where the coordinator will read its control topic next, and
``kafka.connect.commit-id``, of one commit (``org.apache.iceberg.connect.channel.Coordinator``). A commit takes no files
that were announced before the table's offsets: after lower ones, files may be committed again. A coordinator that was
replaced can write lower ones before Iceberg 1.11, which refuses commits on other offsets than were read. Before 1.10.1
a partition of which a new coordinator has read nothing yet is not in its notes. Files that were announced before the
offsets need not be committed: a coordinator begins at the end of the topic where its group has no offset.
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
    found = list(_doubts(snapshots))
    if len(found) > MOST_TOLD:
        return [*found[:MOST_TOLD], f"and {len(found) - MOST_TOLD:,} more commits of the sink that cannot be right"]
    return found


def _doubts(snapshots: Iterable[LakeSnapshot]) -> Iterator[str]:
    later: dict[tuple[str, int], tuple[int, str]] = {}
    commits: dict[tuple[str, str], str] = {}
    for snapshot in snapshots:
        for key, note in snapshot.notes.items():
            if not key.startswith(OFFSETS):
                continue
            commit = (key, snapshot.notes.get(COMMIT_ID, f"snapshot {snapshot.id}"))
            if commit in commits:
                yield (
                    f"the sink committed {commit[1]} twice, in snapshots {snapshot.id} and {commits[commit]}: rows may"
                    " be there twice"
                )
            commits[commit] = snapshot.id
            offsets = _offsets(note)
            if offsets is None:
                yield f"the sink's {key} in snapshot {snapshot.id} cannot be read"
                continue
            for partition, offset in sorted(offsets.items()):
                then, after = later.get((key, partition), (offset, ""))
                if then < offset:
                    yield (
                        f"the sink's committed offsets went back at snapshot {after}: partition {partition} of"
                        f" {key.removeprefix(OFFSETS)} from {offset} to {then} (snapshot {snapshot.id}): rows may be"
                        " there twice, or be lost"
                    )
                later[key, partition] = (offset, snapshot.id)


def _offsets(text: str) -> dict[int, int] | None:
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return None
