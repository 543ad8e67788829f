"""Atomic writes of a file or a line: after a crash or a full disk the content is the old one or the new one, never a
part.

A changed file is detected without reading it: by inode, size and modification time.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from exporter.bounds.files import NotRegularError


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


PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
"""The modes of files and folders that only their writer reads."""


def replace_file(path: Path, text: str, *, durable: bool = False, mode: int = 0o666) -> None:
    """Write ``text`` to a draft beside ``path`` and rename it to ``path``; for one writer. Raises OSError.

    ``durable`` syncs the draft before the rename, so that the content survives a loss of power as well. The rename
    itself survives one after ``sync`` of the folder. The draft is a new file: a link that others
    put there under its name is removed.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if durable:
            sync(draft)
        draft.replace(path)
    except OSError:
        with suppress(OSError):  # a partial draft would keep the disk full
            draft.unlink(missing_ok=True)
        raise


def append_line(path: Path, line: bytes) -> None:
    """Add a whole line to a private file, or nothing; for one writer. Raises OSError, on a full disk too.

    A link, and a file that has another name as well, are not written to: NotRegularError.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, PRIVATE), "ab", buffering=0) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise NotRegularError(path)
        size = found.st_size
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
