"""What processes cost: CPU seconds and peak memory by /proc, and the load of the machine they shared."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.model import Deadline

TICKS = os.sysconf("SC_CLK_TCK")
"""Of /proc, in a second."""
_POLL_SECONDS = 0.02


class CommandCost(NamedTuple):
    """What one run of a command took. ``output`` is its standard output."""

    wall: float
    cpu: float
    output: str


class ToolError(RuntimeError):
    """A tool failed or did not end in time; the text has what it said."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_rss_mb(pid: int) -> float:
    """The most memory that a process ever held, in MB (VmHWM)."""
    return _status_mb(pid, "VmHWM:")


def rss_mb(pid: int) -> float:
    """The memory that a process holds, in MB (VmRSS)."""
    return _status_mb(pid, "VmRSS:")


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"process {pid} has no {name}")


def run(argv: Sequence[str], seconds: float) -> CommandCost:
    """Run a command to its end. Raises ToolError."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        deadline = Deadline.after(seconds)
        process = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if deadline.over:
                process.kill()
                process.wait()
                raise ToolError(f"{argv[0]} did not end in {seconds:g} s")
            time.sleep(_POLL_SECONDS)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        output.seek(0)
        if process.returncode:
            errors.seek(0)
            raise ToolError(
                f"{argv[0]} ended with {process.returncode}: {errors.read()[-2000:].decode(errors='replace')}"
            )
        return CommandCost(wall, usage.ru_utime + usage.ru_stime, output.read().decode(errors="replace"))


def load() -> str:
    """The load average, to judge a row by."""
    return "/".join(f"{average:.1f}" for average in os.getloadavg())


def family(root: int) -> Iterator[int]:
    """A process and all below it."""
    yield root
    # A JVM starts processes from any of its threads.
    for file in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = [int(pid) for pid in file.read_text(encoding="utf-8").split()]
        except OSError:
            continue
        for child in children:
            yield from family(child)
