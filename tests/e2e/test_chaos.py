"""The short form of the run under faults: the plan of one seed, against the oracle (docs/internals/proof.md)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

SEED, MINUTES = 1, 4
MOST_SECONDS = 1500
"""The faults, starting and settling; the rest is for a machine that runs other tests as well."""
LEAST_FAULTS = 30


@pytest.mark.timeout(MOST_SECONDS + 60)
def test_under_faults_the_agent_and_the_oracle_agree() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), "--minutes", str(MINUTES)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    print(done.stdout)
    assert done.returncode == 0, (
        f"exit code {done.returncode}; evidence: build/chaos/seed-{SEED}\n{done.stderr[-4000:]}"
    )
    head = re.match(rf"seed {SEED}: (\d+) faults in", done.stdout)
    assert head is not None
    assert int(head[1]) >= LEAST_FAULTS
