"""The demo sees all that it stages, and counts what its applications count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEMO_SECONDS = 600
"""At most: it ends once every situation was seen."""


def test_the_demo_sees_all_that_it_stages() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "DEMO_SECONDS": str(DEMO_SECONDS)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"the demo has not seen all:\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
