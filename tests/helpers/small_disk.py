"""A disk of 256 kB: a tmpfs in a mount namespace of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SIZE = "256k"


class SmallDisk:
    """The disk, mounted at ``folder`` for the processes that are started with its ``command`` only."""

    def __init__(self, folder: Path, holder: int) -> None:
        self.folder = folder
        user = ("--user", "--preserve-credentials") if os.geteuid() != 0 else ()
        self._enter = ("nsenter", "--target", str(holder), "--mount", *user)

    def command(self, *argv: str) -> Sequence[str]:
        """The same command with this disk."""
        return (*self._enter, *argv)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """A line of the shell with this disk; ``$0`` is its folder."""
        argv = self.command("sh", "-c", script, str(self.folder))
        return subprocess.run(argv, capture_output=True, check=False, text=True)

    def fill(self) -> None:
        done = self.run('cat /dev/zero > "$0/filler"')
        assert "No space left on device" in done.stderr, done

    def free(self) -> None:
        assert self.run('rm "$0/filler"').returncode == 0


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount it; it outlives the processes that are started in it, and vanishes with the context."""
    user = ("--user", "--map-root-user") if os.geteuid() != 0 else ()
    script = f'mount -t tmpfs -o size={SIZE} disk "$0" && echo ready && exec cat'
    argv = ["unshare", "--mount", *user, "sh", "-c", script, str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        yield SmallDisk(folder, holder.pid)
        holder.stdin.close()  # ends it
