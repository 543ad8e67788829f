"""Every regular expression that meets text of others takes a time that grows with the text's length only.

Each is tried in a process of its own on a megabyte of what makes backtracking slow, with a limit of processor time that
a linear one does not come near, and that a quadratic one exceeds by hours.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.patterns import ELSEWHERE, FOREIGN, INLINE, OF_OTHER_ROOMS

ROOT = Path(__file__).parents[2]
CPU_SECONDS = 60


@pytest.mark.parametrize("name", [*FOREIGN, INLINE])
def test_a_megabyte_takes_a_pattern_no_longer_than_its_length(name: str) -> None:
    done = subprocess.run(
        ["prlimit", f"--cpu={CPU_SECONDS}", sys.executable, "-m", "tests.hostile.patterns", name],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])


def test_every_pattern_is_tried_or_meets_no_text_of_others() -> None:
    found = set()
    for file in sorted((ROOT / "exporter").rglob("*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        if not module.startswith(OF_OTHER_ROOMS):
            found |= {f"{module}:{name}" for name in re.findall(r"(?m)^(\w+)[^=\n]* = re\.compile\(", file.read_text())}
    known = {name.split(".1")[0] for name in FOREIGN} | ELSEWHERE.keys()
    assert sorted(found - known) == []
