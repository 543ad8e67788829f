"""Where the tools are that judge; `make container` gets them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

GET_TOOLS_SECONDS = 3000


@pytest.fixture(scope="session")
def tools() -> Path:
    script = Path(__file__).parents[2] / "scripts" / "install-chart-tools"
    done = subprocess.run([script], stdout=subprocess.PIPE, text=True, timeout=GET_TOOLS_SECONDS, check=True)
    return Path(done.stdout.strip())
