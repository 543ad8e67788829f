"""Versions as software names itself."""

from __future__ import annotations

import re

Version = tuple[int, ...]

_NUMBERS = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){1,3})")
_CONFLUENT = re.compile(r"-(?:ccs|ce)\b")
_CONFLUENT_MINORS = {5: (2, 0), 6: (2, 6), 7: (3, 0)}
"""Confluent's major version: Kafka's major version, and its minor version for Confluent's .0."""
_RED_HAT = ".redhat-"


def software_version(text: str) -> Version | None:
    """Read ``4.3.1`` or ``v1.11.0-SNAPSHOT``. Return None for another text.

    Confluent's builds (``7.6.0-ccs``) are numbered by its platform: 7.6 is Kafka 3.6, 8.0 is Kafka 4.0. Red Hat's have
    Kafka's number (``3.7.0.redhat-00007``). A vendor's build has a major and a minor version only: it may have fixes of
    later releases.
    """
    match = _NUMBERS.match(text)
    if match is None:
        return None
    numbers = tuple(map(int, match[1].split(".")))
    if _RED_HAT in text:
        return numbers[:2]
    if not _CONFLUENT.search(text):
        return numbers
    major, minor = numbers[:2]
    if major in _CONFLUENT_MINORS:
        base, first = _CONFLUENT_MINORS[major]
        return (base, first + minor)
    return (major - 4, minor) if major >= 8 else None
