"""Every reader on what others may write: the inputs of its corpus, and new ones for a while.

FUZZ_SECONDS is how long each is tried for, FUZZ_SEED where it begins. A failure leaves its input in tests/fuzz/corpus,
for `git add`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.run import corpus_of
from tests.fuzz.targets import TARGETS

SECONDS = int(os.environ.get("FUZZ_SECONDS", "8"))
PARTS = 2 if SECONDS > 5 else 1
"""For as many workers. A part begins with 5 s in which the code is instrumented."""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_that_is_known_is_more_than_a_fault(name: str) -> None:
    inputs = corpus_of(name)
    assert inputs, f"{name} has no corpus to begin with"
    for path in inputs:
        TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", ["jolokia", "settings"])
def test_hypothesis_serves_where_atheris_is_not(name: str) -> None:
    """No wheel of atheris exists for other platforms and Pythons."""
    run.by_hypothesis(name, 1)


def test_what_hypothesis_finds_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reader(data: bytes) -> None:
        if b"\xff" in data:
            raise ZeroDivisionError

    monkeypatch.setattr(run, "CORPUS", tmp_path)
    monkeypatch.setitem(TARGETS, "fails", reader)
    (tmp_path / "fails").mkdir()
    (tmp_path / "fails" / "known").write_bytes(b"abc\xffdef")
    with pytest.raises(ZeroDivisionError):
        run.by_hypothesis("fails", 60)
    assert any(path.name.startswith("crash-") and b"\xff" in path.read_bytes() for path in run.corpus_of("fails"))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(SECONDS * len(TARGETS) * 3 + 180)
def test_no_input_that_is_found_is_more_than_a_fault(part: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", str(SECONDS), *list(TARGETS)[part::PARTS]],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-5000:]
