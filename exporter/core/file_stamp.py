"""Detects a changed file without reading it: inode, size and modification time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Self


class FileStamp(NamedTuple):
    """Equal as long as a file was neither written nor replaced."""

    modified: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)

    @classmethod
    def at(cls, path: Path) -> Self | None:
        """Return the stamp of the file at a path, behind its links; None for a missing one."""
        try:
            return cls.of(path.stat())
        except OSError:
            return None
