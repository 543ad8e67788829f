"""A full disk costs what a restart would need, a note and a line of the log; never a count, a stall or the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.small_disk import small_disk

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what was seen on a tmpfs of 256 kB, which vanishes with its mount namespace."""
    folder = tmp_path_factory.mktemp("disk")
    with small_disk(folder) as disk:
        # nsenter goes to the root folder, where python finds no tests.
        done = subprocess.run(
            disk.command("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.hostile.full_disk", str(folder)),
            capture_output=True,
            check=False,
            text=True,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_is_shown_is_right_while_the_disk_is_full_and_says_so(shown: dict[str, Any]) -> None:
    assert shown["before"]["note"] == ""
    assert shown["full"]["committed"] == shown["before"]["committed"] + 1
    assert shown["full"]["since"] == shown["before"]["since"] != []
    assert "No space left on device" in shown["full"]["note"]
    assert shown["full"]["faults"] == []


def test_a_restart_on_a_full_disk_goes_on_from_what_was_written(shown: dict[str, Any]) -> None:
    assert shown["restarted"]["committed"] == shown["full"]["committed"] + 1
    assert shown["restarted"]["since"] == shown["before"]["since"]
    assert "No space left on device" in shown["restarted"]["note"]


def test_it_is_written_again_once_there_is_room(shown: dict[str, Any]) -> None:
    assert shown["again"]["note"] == ""
    assert shown["again"]["committed"] == shown["restarted"]["committed"] + 1
    assert shown["after"]["committed"] == shown["again"]["committed"] + 1
    assert shown["after"]["since"] == shown["before"]["since"]


def test_the_log_has_one_line_for_each_change(shown: dict[str, Any]) -> None:
    lines = [line for line in shown["log"]["lines"] if "writable" in line or "written" in line]
    assert [line.split()[0] for line in lines] == ["WARNING", "WARNING", "INFO"], (
        lines
    )  # one for each process that failed
