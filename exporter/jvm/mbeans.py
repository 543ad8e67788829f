"""MBeans and queries for them: ObjectNames as the JVM writes them, and parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

LONGEST_NAME = 4000
"""Characters of an ObjectName: a client id and a topic of 249 characters each are its longest parts."""

# Possessive throughout, and no two parts that match the same characters: the time is linear.
_PROPERTY = re.compile(r'([^,=:"*?]++)=("(?:[^"\\]|\\.)*+"|[^,="]*+)(?:,|$)')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class MBean(NamedTuple):
    """A parsed ObjectName. ``properties`` have their quotes undone, in no particular order."""

    domain: str
    properties: Mapping[str, str]

    @property
    def type(self) -> str:
        """The value of its ``type``, "" when it has none; all of Kafka's have one."""
        return self.properties.get("type", "")


class MBeanQuery(NamedTuple):
    """The attributes to read of the MBeans that match an ObjectName or pattern.

    ``pattern`` is written as Kafka registers the name: ``type`` (and ``name``, where there is one) first and without
    wildcards, the others in their order, each by name with its value or ``*``:
    ``kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=*``. A jmx_exporter's text can be searched
    only in this form. ``expected`` means that every JVM of this kind has such an MBean, whatever the other properties:
    where a jmx_exporter shows none, its rules drop it. ``presence`` means that an attribute that exists without a value
    (NaN, null) is returned too, with the text "".
    """

    pattern: str
    attributes: tuple[str, ...]
    expected: bool = False
    presence: bool = False


def parse_object_name(text: str) -> MBean:
    """An ObjectName or pattern as domain and properties. Raises ValueError when it is none."""
    domain, colon, rest = text.partition(":")
    if not colon or not rest or len(text) > LONGEST_NAME:
        raise ValueError(f"{text[:120]!r:.120} is no ObjectName")
    properties: dict[str, str] = {}
    at = 0
    while at < len(rest):
        match = _PROPERTY.match(rest, at)
        if match is None:
            raise ValueError(f"{text[:120]!r:.120} is no ObjectName")
        properties[match[1].lstrip()] = unquoted(match[2])
        at = match.end()
    return MBean(domain, properties)


def unquoted(value: str) -> str:
    """The text that ``ObjectName.quote`` was given, or the value itself when it is not quoted."""
    if len(value) < 2 or not (value.startswith('"') and value.endswith('"')):
        return value
    return _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], value[1:-1])


def is_pattern(text: str) -> bool:
    """Return whether this names many MBeans: then the answer is keyed by their names."""
    return "*" in text or "?" in text


def matches(wanted: Mapping[str, str], properties: Mapping[str, str]) -> bool:
    """Return whether the properties have exactly these keys with values that match."""
    return wanted.keys() == properties.keys() and all(
        pattern == properties[key] or fnmatchcase(properties[key], pattern.replace("[", "[[]"))
        for key, pattern in wanted.items()
    )
