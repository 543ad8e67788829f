"""Spark's checkpoint folder: the id of its query, and how far it got.

Files as Spark 4 writes them: ``metadata`` is ``{"id": ...}``; ``offsets/N`` is written before batch N runs and
``commits/N`` after it, each ``v1`` and lines of JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class CheckpointError(Exception):
    """The folder is not a checkpoint as a query leaves it. The text has the reason."""


class Checkpoint(NamedTuple):
    """``query`` is "" before the first start; ``planned`` and ``committed`` are batch numbers, -1 for none."""

    query: str
    planned: int
    committed: int


def read_checkpoint(folder: Path) -> Checkpoint:
    """The state in the folder; an empty or missing one is of a query that never ran. Raises CheckpointError."""
    if not folder.exists():
        return Checkpoint("", -1, -1)
    planned, committed = _newest(folder / "offsets"), _newest(folder / "commits")
    file = folder / "metadata"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["id"]
    except FileNotFoundError:
        if planned >= 0 or committed >= 0:
            raise CheckpointError(f"{folder}: metadata is missing") from None
        return Checkpoint("", -1, -1)
    except (OSError, ValueError, KeyError, TypeError):
        raise CheckpointError(f"{file}: is not what Spark writes") from None
    if not planned - 1 <= committed <= planned:
        raise CheckpointError(f"{folder}: batch {planned} is the last in offsets, {committed} in commits")
    return Checkpoint(str(found), planned, committed)


def _newest(folder: Path) -> int:
    """The highest batch number whose file is complete."""
    if not folder.is_dir():
        return -1
    last = max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=-1)
    if last >= 0:
        file = folder / str(last)
        if not _is_whole(file):
            raise CheckpointError(f"{file}: is not what Spark writes")
    return last


def _is_whole(file: Path) -> bool:
    try:
        version, *lines = file.read_text(encoding="utf-8").splitlines()
        for line in lines:
            json.loads(line)
    except (OSError, ValueError):
        return False
    return version.startswith("v") and bool(lines)
