"""What a JVM is asked through, and what it answers: frozen values shared by both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from exporter.http import Endpoint
from exporter.jmx.mbeans import MBean, Query
from exporter.model import Deadline, Fault


class Way(StrEnum):
    """How a JVM is reached."""

    JOLOKIA = "jolokia"
    JMX_EXPORTER = "jmx_exporter"


@dataclass(frozen=True, slots=True)
class JvmTarget:
    """A JVM to read. ``profile`` names the spelling of a jmx_exporter's series, "" to find it out."""

    way: Way
    endpoint: Endpoint
    profile: str = ""

    @property
    def name(self) -> str:
        """``host:port``: the value of the label ``target``."""
        return self.endpoint.address


class Reading(NamedTuple):
    """The value of one attribute. NaN, infinities and null, by which Kafka says "nothing yet", are no readings."""

    mbean: MBean
    attribute: str
    value: float | str


class Missing(NamedTuple):
    """An attribute that every such JVM has and this jmx_exporter does not show.

    ``remedy`` is the line that shows it when put first into ``rules`` of the jmx_exporter's configuration.
    """

    query: Query
    attribute: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Answer:
    """All that one read gave. With faults, values may be absent that are there; without, absent ones do not exist."""

    values: tuple[Reading, ...] = ()
    faults: tuple[Fault, ...] = ()
    missing: tuple[Missing, ...] = ()


class JvmReader(Protocol):
    """Reads one JVM. Safe to call from one thread at a time; keeps no connection between calls."""

    def read(self, queries: Sequence[Query], deadline: Deadline) -> Answer:
        """The values of all attributes that exist. Whatever does not answer is a fault; raises only for bugs."""
