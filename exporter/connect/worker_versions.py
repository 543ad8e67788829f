"""Versions of Connect's workers, by ``GET /`` of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.bounds.json_text import JsonError, parse_json
from exporter.bounds.text import cut
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Deadline

LONGEST_VERSION = 60
"""Characters of a version that are kept."""


def worker_versions(endpoints: Sequence[Endpoint], deadline: Deadline) -> Mapping[str, str]:
    """Return the version by address of the workers that answer. Never raises."""
    found: dict[str, str] = {}
    for number, endpoint in enumerate(endpoints):
        share = deadline.within(deadline.remaining() / (len(endpoints) - number))
        try:
            document = parse_json(ask(endpoint, share, path="/", max_bytes=64 * 1024).body)
        except (HttpError, JsonError):
            continue
        version = document.get("version") if isinstance(document, dict) else None
        if isinstance(version, str) and version:
            found[endpoint.address] = cut(version, LONGEST_VERSION)
    return found
