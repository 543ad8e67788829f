"""Helpers of the recorders of captures: asking a JVM, waiting for what shall be recorded, and writing files."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exporter.jvm.jolokia import question
from exporter.jvm.mbeans import MBeanQuery
from exporter.model import Deadline
from testkit.processes import poll

JOLOKIA = "org.jolokia:jolokia-agent-jvm:2.6.0:javaagent"
WAIT_SECONDS = 240.0


def http_get(url: str) -> str:
    """The body. Raises OSError."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 -- loopback
        return str(answer.read().decode())


def jolokia_answer(url: str, queries: tuple[MBeanQuery, ...]) -> Any:
    """Return what a Jolokia agent answers to these queries. Raises OSError, also while the JVM starts."""
    with urllib.request.urlopen(url, question(queries), timeout=30) as answer:  # noqa: S310 -- loopback
        return json.load(answer)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until it is so. Raises TimeoutError."""
    until = Deadline.after(WAIT_SECONDS)
    while not condition():
        if not poll(until, 0.2):
            raise TimeoutError(f"not in {WAIT_SECONDS:.0f} s: {what}")


class Recording:
    """The folder of one capture: its files are replaced, and ``origin.json`` names what they come from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, name: str, content: str | list[Any] | dict[str, Any]) -> None:
        """Write a text as it is, anything else as JSON with sorted keys."""
        text = content if isinstance(content, str) else json.dumps(content, indent=1, sort_keys=True) + "\n"
        (self.folder / name).write_text(text)
        print(f"{self.folder.name}/{name}: {len(text)} characters", flush=True)

    def origin(self, what: str, **software: str) -> None:
        """Write what was recorded, of which software, when, and by which command."""
        command = f"make captures ARGS={self.folder.name}"
        today = datetime.now(UTC).date().isoformat()
        document = {"what": what, **software, "date": today, "command": command}
        (self.folder / "origin.json").write_text(json.dumps(document, indent=1) + "\n")
