"""A wall clock of its own for a process, Java's too: an LD_PRELOAD library that is compiled on the spot."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def with_clock(argv: Sequence[str], seconds: int, folder: Path) -> list[str]:
    """The command with a wall clock that is this many seconds ahead. The library is compiled into the folder."""
    library = folder / "shifted_clock.so"
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return ["env", f"LD_PRELOAD={library}", f"CLOCK_SHIFT_SECONDS={seconds}", *argv]
