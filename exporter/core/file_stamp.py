"""Detects a changed file without reading it: inode, size and modification time."""

from __future__ import annotations

import os
from typing import NamedTuple, Self


class FileStamp(NamedTuple):
    """Equal as long as a file was neither written nor replaced."""

    modified: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)
