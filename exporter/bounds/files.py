"""Files of other programs: opened only when they are regular, so that a pipe or a device never blocks a reader."""

from __future__ import annotations

import errno
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import islice
from pathlib import Path

from exporter.bounds.text import printable

log = logging.getLogger(__name__)

MOST_NAMES = 50_000
"""Largest number of names read from one folder."""


class NotRegularError(OSError):
    """The path is not a regular file: a pipe, a device, a socket, a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "is no regular file", str(path))


class TooLargeError(OSError):
    """The file is larger than the limit of its kind."""

    def __init__(self, path: Path, most: int) -> None:
        size = f"{most // 1024 // 1024} MB" if most >= 1024 * 1024 else f"{most // 1024} kB"
        super().__init__(errno.EFBIG, f"is larger than {size}", str(path))


def open_regular(path: Path, *, links: bool = True) -> FileIO:
    """The file for reading, unbuffered, and behind links if so. Raises OSError; NotRegularError without blocking."""
    # O_NONBLOCK: opening a pipe without a writer returns at once; it has no effect on a regular file.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularError(path)
    return FileIO(descriptor)


def read_regular(path: Path, most: int) -> bytes:
    """All that is in a regular file of at most so many bytes. Raises OSError, NotRegularError and TooLargeError."""
    with open_regular(path) as file:
        parts = []
        left = most + 1
        while left > 0 and (part := file.read(min(left, 1024 * 1024))):
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise TooLargeError(path, most)
    return b"".join(parts)


@contextmanager
def file_of(text: str) -> Iterator[str]:
    """A path from which the text is read, for a library that takes files only.

    In memory on Linux, where the file system may be read-only; elsewhere in a file that its owner alone may read.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("text"), "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name


def warn_of_writers(path: Path) -> None:
    """Log that everybody may write a file that decides who has access, if so."""
    with suppress(OSError):
        if path.stat().st_mode & stat.S_IWOTH:
            log.warning("%s is about access, and everybody may write it: chmod o-w", printable(str(path)))


def is_regular(entry: os.DirEntry[str]) -> bool:
    """Return whether the entry is a regular file, behind links; False for what cannot be looked up, as a loop of links:
    one entry must not hide the others of its folder.
    """
    try:
        return entry.is_file()
    except OSError:
        return False


def names_in(folder: Path, most: int = MOST_NAMES) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder, in no order, up to a limit. Raises OSError."""
    with os.scandir(folder) as entries:
        yield from islice(entries, most)
