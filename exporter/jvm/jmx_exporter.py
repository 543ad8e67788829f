"""A JVM through the text of a jmx_exporter that is already there, whatever its rules call things."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.http import AskError, Endpoint, ask
from exporter.jvm.answers import Answer, Missing, Reading
from exporter.jvm.mbeans import MBean, Query, matches, parse_object_name, unquoted
from exporter.jvm.rule_files import PROFILES, Spelt, plain, rule_for, spelt, squashed
from exporter.model import Deadline, Fault, Reason

_ACCEPT = "text/plain; version=0.0.4"
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ALL_CONNECTORS = "aggregate"
"""What Confluent's rules put in the label of MBeans that have no such property."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Series(NamedTuple):
    """One line of a page. ``labels`` are as written."""

    labels: Mapping[str, str]
    value: float


Page = Mapping[str, Sequence[Series]]
"""Series by their plain name."""


class ScrapeReader:
    """See ``JvmReader``. A read is a scrape, and costs the JVM what one costs."""

    def __init__(self, endpoint: Endpoint, profile: str = "") -> None:
        self._endpoint = endpoint
        self._profile = profile

    def read(self, queries: Sequence[Query], deadline: Deadline) -> Answer:
        """One scrape; see ``JvmReader.read``."""
        try:
            reply = ask(self._endpoint, deadline, accept=_ACCEPT)
        except AskError as error:
            return Answer(faults=(error.fault,), failed=tuple(queries))
        return read_page(queries, reply.body, self._endpoint.url, self._profile)


def read_page(queries: Sequence[Query], body: bytes, url: str, profile: str = "") -> Answer:
    """The page's values for the queries, and what its rules drop."""
    asked = [_Asked(query, parse_object_name(query.pattern)) for query in queries]
    wanted = {name for each in asked for way in each.ways(profile) for name in way.names}
    try:
        page = parse_page(body, frozenset(wanted))
    except ValueError as error:
        return Answer(faults=(Fault(Reason.MALFORMED, f"{url}: {error}"),), failed=tuple(queries))
    values: list[Reading] = []
    lost: list[tuple[_Asked, str]] = []
    hits = dict.fromkeys(PROFILES, 0)
    for each in asked:
        for attribute in each.query.attributes:
            way, found = each.look(page, attribute, profile)
            values += found
            if way is not None:
                hits[way.profile] += 1
            elif each.query.expected:
                lost.append((each, attribute))
    known = profile or max(hits, key=lambda name: hits[name])
    missing = tuple(Missing(each.query, name, rule_for(each.mbean, name, known)) for each, name in lost)
    return Answer(tuple(values), (), missing)


class _Asked(NamedTuple):
    """A query, and the pattern of its MBeans."""

    query: Query
    mbean: MBean

    def ways(self, profile: str) -> Iterator[Spelt]:
        for attribute in self.query.attributes:
            yield from spelt(self.mbean, attribute, profile)

    def look(self, page: Page, attribute: str, profile: str) -> tuple[Spelt | None, list[Reading]]:
        """The first way of spelling the attribute that the page has for any MBean of the kind, and what it says."""
        for way in spelt(self.mbean, attribute, profile):
            seen = [
                found
                for name in way.names
                for series in page.get(name, ())
                if (found := self._found(way, attribute, series)) is not None
            ]
            if seen:
                return way, _plainest(found for found in seen if self._is_wanted(found.reading))
        return None, []

    def _found(self, way: Spelt, attribute: str, series: Series) -> _Found | None:
        """What a series says of an MBean of this kind; None when it is of another kind."""
        labels = {squashed(key): value for key, value in series.labels.items() if value != _ALL_CONNECTORS}
        if any(labels.pop(squashed(key), None) != value for key, value in way.labels.items()):
            return None
        if "quantile" in labels:
            return None
        text = labels.pop(squashed(way.text), "") if way.text else ""
        if way.text and not text:
            return None
        properties: dict[str, str] = {}
        for key, value in self.mbean.properties.items():
            if key in {"type", "name"}:
                properties[key] = value
            elif (label := squashed(key)) in labels:
                properties[key] = unquoted(labels.pop(label))
            else:
                return None
        reading = Reading(MBean(self.mbean.domain, properties), attribute, text or series.value)
        return _Found(reading, len(labels), series.value)

    def _is_wanted(self, reading: Reading) -> bool:
        return matches(self.mbean.properties, reading.mbean.properties)


class _Found(NamedTuple):
    """A reading, the number of labels that are no property of its MBean, and the number that the page gives."""

    reading: Reading
    further: int
    number: float


def _plainest(found: Iterable[_Found]) -> list[Reading]:
    """One reading for each MBean.

    Series of two kinds of MBeans may have one name: those of one connector and those of all. The plainer is meant.
    """
    best: dict[tuple[tuple[str, str], ...], _Found] = {}
    for each in found:
        if not math.isfinite(each.number) or (isinstance(each.reading.value, str) and each.number != 1):
            continue
        key = tuple(sorted(each.reading.mbean.properties.items()))
        if key not in best or each.further < best[key].further:
            best[key] = each
    return [each.reading for each in best.values()]


def parse_page(body: bytes, wanted: frozenset[str]) -> Page:
    """The wanted series of a page in the text format 0.0.4 or OpenMetrics. Raises ValueError for any other answer."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise ValueError("the page is no UTF-8 text") from None
    names: dict[str, str] = {}
    page: dict[str, list[Series]] = {}
    for line in text.split("\n"):
        if not line or line[0] == "#":
            continue
        written = line[: min(at for at in (line.find("{"), line.find(" "), len(line)) if at >= 0)]
        name = names.get(written)
        if name is None:
            if not re.fullmatch("[A-Za-z_:][A-Za-z0-9_:]*", written):
                what = "HTML" if written.startswith("<") else "no page of metrics"
                raise ValueError(f"the answer is {what}: is this the address of a jmx_exporter?")
            name = names[written] = plain(written)
        if name in wanted:
            page.setdefault(name, []).append(_series(line, len(written)))
    if not names:
        raise ValueError("the page has no series")
    if not text.endswith("\n"):
        raise ValueError("the page is cut off")
    return page


def _series(line: str, at: int) -> Series:
    labels: dict[str, str] = {}
    if line[at] == "{":
        at += 1
        while line[at : at + 1] not in {"}", ""}:
            match = _LABEL.match(line, at, line.rfind("}"))
            if match is None:
                raise ValueError("a line of the page cannot be read")
            value = match[2]
            labels[match[1]] = _ESCAPE.sub(lambda e: "\n" if e[1] == "n" else e[1], value) if "\\" in value else value
            at = match.end()
        at += 1
    fields = line[at:].split()
    if not fields:
        raise ValueError("a line of the page has no value")
    return Series(labels, float(fields[0]))
