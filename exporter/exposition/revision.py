"""Which source the running agent was made from. setup.py runs this file alone: it imports nothing of ours."""

from __future__ import annotations

import re
from pathlib import Path

UNKNOWN = "unknown"
_PACKAGE = Path(__file__).parents[1]
_COMMIT = re.compile("[0-9a-f]{7,64}")


def revision(package: Path = _PACKAGE) -> str:
    """The commit, shortened to 12 digits: from a file ``REVISION`` that a build writes into the package, else from the
    checkout that contains the package, else "unknown".
    """
    git = package.parent / ".git"
    found = _text(package / "REVISION") or _text(git / "HEAD")
    if found.startswith("ref: "):
        name = found.removeprefix("ref: ")
        packed = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", _text(git / "packed-refs"), re.MULTILINE)
        found = _text(git / name) or (packed[1] if packed else "")
    return found[:12] if _COMMIT.fullmatch(found) else UNKNOWN


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
