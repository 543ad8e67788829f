"""Targets and answers of JVMs: frozen values shared by both agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from exporter.http_client import Endpoint
from exporter.jvm.mbeans import MBean, MBeanQuery, parse_object_name
from exporter.model import Deadline, Fault


class AgentKind(StrEnum):
    """How a JVM is reached."""

    JOLOKIA = "jolokia"
    JMX_EXPORTER = "jmx_exporter"


@dataclass(frozen=True, slots=True)
class JvmTarget:
    """A JVM to read. ``profile`` names the spelling of a jmx_exporter's series, "" to find it out."""

    way: AgentKind
    endpoint: Endpoint
    profile: str = ""

    @property
    def name(self) -> str:
        """``host:port``: the value of the label ``target``."""
        return self.endpoint.address


MOST_VALUES = 20_000
"""Largest number of values in one answer: 2,000 producers in a JVM, or 2,000 tasks on a worker. A larger one is
refused.
"""


class MBeanValue(NamedTuple):
    """The value of one attribute. NaN, infinities and null, Kafka's "no value yet", are left out, or "" where the query
    asks for the presence of attributes.
    """

    mbean: MBean
    attribute: str
    value: float | str


class Missing(NamedTuple):
    """An attribute that every such JVM has and this page does not show.

    ``remedy`` is the line that shows it when put first into ``rules`` of the jmx_exporter's configuration, "" where the
    page is another exporter's.
    """

    query: MBeanQuery
    attribute: str
    remedy: str

    @property
    def kind(self) -> str:
        """The MBeans that lack it, without the properties that distinguish one from another."""
        mbean = parse_object_name(self.query.pattern)
        named = (f"{key}={mbean.properties[key]}" for key in ("type", "name") if key in mbean.properties)
        return f"{mbean.domain}:{','.join(named)}"


@dataclass(frozen=True, slots=True)
class JvmAnswer:
    """Result of one read. ``failed`` are the queries without an answer: all of them when the request failed.

    A value that is absent without its query having failed, or its attribute being missing, does not exist.
    ``exhaustive``: an attribute that a query for presence did not return does not exist. A jmx_exporter shows only what
    its rules select, so a missing series does not prove absence.
    """

    values: tuple[MBeanValue, ...] = ()
    faults: tuple[Fault, ...] = ()
    missing: tuple[Missing, ...] = ()
    failed: tuple[MBeanQuery, ...] = ()
    exhaustive: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about what a page leaves out, each once, with the rule of the jmx_exporter that would add it."""
        kinds = {(f"{missing.attribute} of {missing.kind}", missing.remedy): None for missing in self.missing}
        return tuple(
            f"the rules leave out {what}; put first into them (and its name into includeObjectNames, where there is "
            f"one): {remedy}"
            if remedy
            else f"the page has no {what}: see what its exporter selects (an allowlist, or a filter in the address)"
            for what, remedy in kinds
        )


class JvmReader(Protocol):
    """Reads one JVM. Safe to call from one thread at a time; keeps no connection between calls."""

    def read(self, queries: Sequence[MBeanQuery], deadline: Deadline) -> JvmAnswer:
        """The values of all attributes that exist. A failure to answer is a fault; raises only for bugs."""
