"""The text of a YAML file, which is parsed elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 1024 * 1024
"""Greatest file of settings. One of a hundred clusters has 100 kB."""


class FileText(NamedTuple):
    """The text of a file, or the problem with it, as the end of a sentence. ``origin`` is its path."""

    origin: str
    text: str
    problem: str = ""


def read_file_text(path: Path) -> FileText:
    """Read a file of settings, at most ``MOST_BYTES`` of it. Never raises."""
    origin = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            return FileText(origin, "", too_large())
        return FileText(origin, content.decode("utf-8-sig"))
    except OSError as error:
        return FileText(origin, "", f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        return FileText(origin, "", "is no UTF-8 text")


def too_large() -> str:
    """Return the end of a sentence about a file that is larger."""
    return f"is larger than {MOST_BYTES // 1024} kB"
