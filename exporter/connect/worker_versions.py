"""Versions of Connect's workers, by ``GET /`` of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from exporter.bounds.json_text import JsonError, parse_json
from exporter.bounds.text import cut
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Deadline

LONGEST_VERSION = 60
"""Characters of a version that are kept."""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
_CONFLUENT = re.compile(r"-(?:ccs|ce)\b")
_CONFLUENT_MINORS = {5: (2, 0), 6: (2, 6), 7: (3, 0)}
"""Confluent's major version: Kafka's major version, and its minor version for Confluent's .0."""


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


def kafka_version(text: str) -> tuple[int, int] | None:
    """Return Kafka's major and minor version of a worker's version, None for another text.

    Confluent's builds (``7.6.0-ccs``) are numbered by its platform: 7.6 is Kafka 3.6, 8 is Kafka 4.
    """
    match = _VERSION.match(text)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    if not _CONFLUENT.search(text):
        return major, minor
    if major in _CONFLUENT_MINORS:
        base, first = _CONFLUENT_MINORS[major]
        return base, first + minor
    return (major - 4, minor) if major >= 8 else None
