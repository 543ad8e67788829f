"""An operator who runs every line that ends a transaction as soon as the page or a command prints it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from exporter.model import Deadline
from testkit.processes import java, run_to_end
from tests.chaos.agent import COMMAND, AgentUnderTest
from tests.chaos.evidence import FollowedLine, Place

LOOK_SECONDS = 1.0
COMMAND_EVERY_SECONDS = 60.0
COMMAND_SECONDS = 120.0
TOOL = "org.apache.kafka.tools.TransactionsCommand"
TOOL_NAME = "kafka-transactions.sh"
TOOL_SECONDS = 60.0
AGAIN_SECONDS = 60.0
"""Until a line that is still printed is run again."""
ENDS = re.compile(r" (?:abort --topic|forceTerminateTransaction) ")


class _Printed(NamedTuple):
    """A line that ends a transaction, and the stall that it was printed for; None for none."""

    line: str
    stall: dict[str, Any] | None


class LineFollower:
    """``watch`` is the loop of the thread that follows the page, ``ask`` of the one that runs the command as well."""

    def __init__(self, agent: AgentUnderTest, bootstrap: str, library: Path) -> None:
        self._agent = agent
        self._bootstrap = bootstrap
        self._library = library
        self._run_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self.followed: list[FollowedLine] = []

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            if self._agent.scrapes and self._agent.scrapes[-1].status is not None:
                self._follow("page", self._agent.scrapes[-1].status)

    def ask(self, stop: threading.Event) -> None:
        """Run ``transactions hanging``, which knows nothing from before, and follow what it prints."""
        words = ["transactions", "hanging", "--bootstrap-server", self._bootstrap, "--older-than", "1s"]
        while not stop.wait(COMMAND_EVERY_SECONDS):
            argv = [str(COMMAND), *words, "--output", "json", "--timeout", f"{COMMAND_SECONDS:g}s"]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, timeout=2 * COMMAND_SECONDS, check=False)
                self._follow("command", json.loads(done.stdout))
            except (subprocess.TimeoutExpired, ValueError) as error:
                print(f"transactions hanging: {error}", file=sys.stderr)

    def _follow(self, source: str, document: object) -> None:
        for printed in _lines(document):
            with self._lock:
                now = time.monotonic()
                if now - self._run_at.get(printed.line, float("-inf")) < AGAIN_SECONDS:
                    continue
                self._run_at[printed.line] = now
            self.followed.append(self._run(source, printed))

    def _run(self, source: str, printed: _Printed) -> FollowedLine:
        at = time.time()
        argv = java(128, self._library, TOOL, *shlex.split(printed.line)[1:], log_level="error")
        try:
            done = run_to_end(argv, Deadline.after(TOOL_SECONDS))
            code, output = done.returncode, done.stdout + done.stderr
        except TimeoutError as error:
            code, output = -1, str(error)
        stall, blocker = printed.stall or {}, (printed.stall or {}).get("blocker") or {}
        place: Place | None = (stall["topic"], stall["partition"]) if stall else None
        return FollowedLine(
            at, time.time(), source, printed.line, place, blocker.get("producer_id"), blocker.get("start_offset"),
            code, output[-400:],
        )  # fmt: skip


def _lines(document: object, stall: dict[str, Any] | None = None) -> Iterator[_Printed]:
    """All lines that end a transaction, wherever the document has one."""
    if isinstance(document, str):
        if document.startswith(TOOL_NAME) and ENDS.search(document):
            yield _Printed(document, stall)
    elif isinstance(document, dict):
        for value in document.values():
            yield from _lines(value, document if "last_stable_offset" in document else stall)
    elif isinstance(document, list):
        for value in document:
            yield from _lines(value, stall)
