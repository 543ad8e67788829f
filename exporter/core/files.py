"""Writing a file all at once: a crash leaves the old content or the new one, never a part."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, text: str, *, durable: bool = False) -> None:
    """Write ``text`` to a draft beside ``path`` and rename it to ``path``; for one writer. Raises OSError.

    ``durable`` syncs the draft before the rename, so that the content survives a loss of power as well. The rename
    itself survives one after ``sync`` of the folder.
    """
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    if durable:
        sync(draft)
    draft.replace(path)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
