"""Versions as software names itself."""

from __future__ import annotations

import re
from typing import NamedTuple

Version = tuple[int, ...]

_NUMBERS = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){1,3})")
_CONFLUENT = re.compile(r"-(?:ccs|ce)\b")
_CONFLUENT_MINORS = {5: (2, 0), 6: (2, 6), 7: (3, 0)}
"""Confluent's major version: Kafka's major version, and its minor version for Confluent's .0."""
_RED_HAT = ".redhat-"


class SoftwareVersion(NamedTuple):
    """A version. A vendor's build of a release of Kafka may have fixes of later ones: ``numbers`` are its major and
    minor version.
    """

    numbers: Version
    vendor_build: bool = False


def software_version(text: str) -> SoftwareVersion | None:
    """Read ``4.3.1`` or ``v1.11.0-SNAPSHOT``. Return None for another text.

    Confluent's builds (``7.6.0-ccs``) are numbered by its platform: 7.6 is Kafka 3.6, 8.0 is Kafka 4.0. Red Hat's have
    Kafka's number (``3.7.0.redhat-00007``).
    """
    match = _NUMBERS.match(text)
    if match is None:
        return None
    numbers = tuple(map(int, match[1].split(".")))
    if _RED_HAT in text:
        return SoftwareVersion(numbers[:2], vendor_build=True)
    if not _CONFLUENT.search(text):
        return SoftwareVersion(numbers)
    major, minor = numbers[:2]
    if major in _CONFLUENT_MINORS:
        base, first = _CONFLUENT_MINORS[major]
        return SoftwareVersion((base, first + minor), vendor_build=True)
    return SoftwareVersion((major - 4, minor), vendor_build=True) if major >= 8 else None
