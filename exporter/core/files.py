"""Atomic writes of a file or a line: after a crash or a full disk the content is the old one or the new one, never a
part.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, text: str, *, durable: bool = False) -> None:
    """Write ``text`` to a draft beside ``path`` and rename it to ``path``; for one writer. Raises OSError.

    ``durable`` syncs the draft before the rename, so that the content survives a loss of power as well. The rename
    itself survives one after ``sync`` of the folder.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.write_text(text, encoding="utf-8")
        if durable:
            sync(draft)
        draft.replace(path)
    except OSError:
        with suppress(OSError):  # a partial draft would keep the disk full
            draft.unlink(missing_ok=True)
        raise


def append_line(path: Path, line: bytes) -> None:
    """Add a whole line to a file, or nothing; for one writer. Raises OSError, on a full disk too."""
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        left = memoryview(line)
        try:
            while left:  # a full disk takes a part, and reports it at the next write
                left = left[file.write(left) or 0 :]
        except OSError:
            file.truncate(size)
            raise


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
