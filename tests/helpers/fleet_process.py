"""The command ``fleet`` in a process of its own."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class FleetProcess:
    """A running fleet. ``context`` is for a fleet that serves TLS."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address

    def get(
        self, path: str, *, scheme: str = "http", context: ssl.SSLContext | None = None, authorization: str = ""
    ) -> bytes:
        headers = {"Authorization": authorization} if authorization else {}
        request = urllib.request.Request(f"{scheme}://{self.address}{path}", headers=headers)  # noqa: S310 -- our own
        with urllib.request.urlopen(request, timeout=60, context=context) as reply:  # noqa: S310 -- as above
            return bytes(reply.read())

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/api/v1/fleet"))
        return found

    def peak(self) -> int:
        """Bytes of memory that were resident at most."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", text)
        assert match
        return int(match[1]) * 1024


@contextmanager
def fleet_process(*flags: str) -> Iterator[FleetProcess]:
    """Run ``fleet`` on a free port of loopback; it must end with 0."""
    command = [sys.executable, "-m", "exporter", "fleet", "--web.listen-address", "127.0.0.1:0", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if match := re.search(r"listening on (127\.0\.0\.1:\d+)", line):
                break
        else:
            raise AssertionError(f"it does not listen: {''.join(lines)}")
        yield FleetProcess(process, match[1])
    finally:
        process.terminate()
        process.stderr.close()
        code = process.wait(30)
    assert code == 0


def within(seconds: float, found: Callable[[], T]) -> T:
    """Return what is found, once it is true."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.2)
    return value
