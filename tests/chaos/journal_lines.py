"""The agent's journal as its files have it: read without any code of the product."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def journal_lines(state: Path, since: float = 0.0) -> tuple[Mapping[str, Any], ...]:
    """The events of a cluster in its folder of the agent's ``state.dir``, as they were recorded from an instant on.

    A torn line is no event.
    """
    found = []
    for file in sorted(state.glob("journal/*.jsonl")):
        for line in file.read_bytes().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            # A segment begins with a header.
            if isinstance(event, dict) and "kind" in event and event["timestamp"] >= since:
                found.append(event)
    return tuple(found)
