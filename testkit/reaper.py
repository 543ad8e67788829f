"""Kills what a process started when that process dies, however it dies.

Run as a script with its standard input on a pipe that only the owner writes to. Each line is ``+PID`` (mine now) or
``-PID`` (reaped). The end of the pipe means that the owner is gone, also by SIGKILL: all that is left gets SIGKILL,
which reaches stopped processes as well. A pipe and not PR_SET_PDEATHSIG, because that signal comes when the *thread*
that started a child ends, and exists on Linux only.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable


def watch(lines: Iterable[str]) -> set[int]:
    """The processes that were still the owner's when the pipe ended."""
    owned: set[int] = set()
    for line in lines:
        operation, pid = line[0], int(line[1:])
        if operation == "+":
            owned.add(pid)
        else:
            owned.discard(pid)
    return owned


def main() -> None:
    """Outlive the owner's signals: Ctrl-C reaches the whole terminal, and the owner stops its children in order."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for pid in watch(sys.stdin):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
