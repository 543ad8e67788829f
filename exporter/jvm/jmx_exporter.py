"""A JVM through the page of an existing jmx_exporter, for the known spellings of its rules."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import NamedTuple

from exporter.bounds.memory import AnswerRoom, one_heavy_at_a_time
from exporter.bounds.text import cut, decoded
from exporter.http_client import Endpoint, HttpError, ask
from exporter.jvm.answers import MOST_VALUES, JvmAnswer, MBeanValue, Missing
from exporter.jvm.mbeans import MBean, MBeanQuery, matches, parse_object_name, unquoted
from exporter.jvm.rule_files import PROFILES, RENAMED, Spelt, plain, rule_for, spelt, squashed
from exporter.model import Deadline, Fault, Reason

_ACCEPT = "text/plain; version=0.0.4"
# Possessive throughout, and no two parts that match the same characters: the time is linear.
_LABEL = re.compile(r'\s*+([A-Za-z_][A-Za-z0-9_]*+)="((?:[^"\\]|\\.)*+)"\s*+(?:,|$)', re.DOTALL)
_NAME = re.compile("[A-Za-z_:][A-Za-z0-9_:]*+")
_ALL_CONNECTORS = "aggregate"
"""The label value that Confluent's rules give to MBeans without the property."""

_OWN_SERIES = ("jmx_scrape_", "jmx_config_", "jmx_exporter_")

MOST_LINES = 500_000
"""Lines of a page. One of a broker with 10,000 partitions, by a catch-all rule, has 110,000."""
LONGEST_LINE = 16 * 1024
COUNTED_AT_ONCE = 256 * 1024
"""Bytes whose lines are counted at once: counting 30 MB holds the interpreter for 20 ms."""
NO_NAME = "no name of a metric"
MOST_NAMES = 20_000
"""Size of the cache of normalized names."""
_ESCAPE = re.compile(r'\\([\\"n])')


class JmxSeries(NamedTuple):
    """One line of a page. ``labels`` are as written."""

    labels: Mapping[str, str]
    value: float


Page = Mapping[str, Sequence[JmxSeries]]
"""Series by their plain name."""


class ScrapeReader:
    """See ``JvmReader``. A read is a scrape, with its cost in the JVM."""

    def __init__(self, endpoint: Endpoint, profile: str = "") -> None:
        self._endpoint = endpoint
        self._profile = profile

    def read(self, queries: Sequence[MBeanQuery], deadline: Deadline) -> JvmAnswer:
        """Read all queries from one scrape; see ``JvmReader.read``."""
        with AnswerRoom() as room:
            try:
                reply = ask(self._endpoint, deadline, accept=_ACCEPT, room=room)
            except HttpError as error:
                return JvmAnswer(faults=(error.fault,), failed=tuple(queries))
            with one_heavy_at_a_time(len(reply.body)):
                return read_page(queries, reply.body, self._endpoint.url, self._profile)


def read_page(queries: Sequence[MBeanQuery], body: bytes, url: str, profile: str = "") -> JvmAnswer:
    """The page's values for the queries, and the attributes that its rules drop."""
    asked = [_Asked(query, parse_object_name(query.pattern)) for query in queries]
    wanted = {name for question in asked for name in question.names(profile)}
    try:
        page, unreadable, by_rules = parse_page(body, frozenset(wanted))
    except PageError as error:
        return JvmAnswer(faults=(Fault(Reason.MALFORMED, f"{url}: {error}"),), failed=tuple(queries))
    values: list[MBeanValue] = []
    lost: list[tuple[_Asked, str]] = []
    hits = dict.fromkeys(PROFILES, 0)
    for question in asked:
        for attribute in question.query.attributes:
            way, found = question.look(page, attribute, profile)
            values += found
            if way is not None:
                hits[way.profile] += 1
            elif question.query.expected:
                lost.append((question, attribute))
    known = profile or max(hits, key=lambda name: hits[name])
    # Where a line cannot be parsed, neither the value nor its absence is known.
    failed = tuple(question.query for question in asked if not question.names(profile).isdisjoint(unreadable))
    missing = tuple(
        Missing(question.query, name, rule_for(question.mbean, name, known) if by_rules else "")
        for question, name in lost
        if question.query not in failed
    )
    return JvmAnswer(tuple(values), tuple(_unreadable(unreadable, url)), missing, failed)


def _unreadable(lines: Mapping[str, int], url: str) -> Iterator[Fault]:
    if lines:
        which = cut(", ".join(sorted(lines)), 200)
        yield Fault(Reason.MALFORMED, f"{url}: {sum(lines.values())} line(s) cannot be read, of {which}")


class _Asked(NamedTuple):
    """A query, and the pattern of its MBeans."""

    query: MBeanQuery
    mbean: MBean

    def ways(self, profile: str) -> Iterator[Spelt]:
        for attribute in self.query.attributes:
            yield from spelt(self.mbean, attribute, profile)

    def names(self, profile: str) -> set[str]:
        return {name for way in self.ways(profile) for name in way.names}

    def look(self, page: Page, attribute: str, profile: str) -> tuple[Spelt | None, list[MBeanValue]]:
        """The first spelling of the attribute that the page has for any MBean of the kind, and its values."""
        for way in spelt(self.mbean, attribute, profile):
            seen = [
                found
                for name in way.names
                for series in page.get(name, ())
                if (found := self._found(way, attribute, series)) is not None
            ]
            if seen:
                wanted = [found for found in seen if self._is_wanted(found.reading)]
                return way, _plainest(wanted, presence=self.query.presence)
        return None, []

    def _found(self, way: Spelt, attribute: str, series: JmxSeries) -> _Match | None:
        """The MBean of a series of this kind; None when it is of another kind."""
        labels = {squashed(key): value for key, value in series.labels.items() if value != _ALL_CONNECTORS}
        if not all(_equal(labels.pop(squashed(key), ""), value) for key, value in way.labels.items()):
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
            elif (label := _label(key, labels)) in labels:
                properties[key] = unquoted(labels.pop(label))
            else:
                return None
        reading = MBeanValue(MBean(self.mbean.domain, properties), attribute, text or series.value)
        return _Match(reading, len(labels), series.value)

    def _is_wanted(self, reading: MBeanValue) -> bool:
        return matches(self.mbean.properties, reading.mbean.properties)


def _equal(label: str, wanted: str) -> bool:
    """Whether two values of a label are one text or one number: quantiles are written 0.5, 0.50 and 5.0E-1."""
    if label == wanted:
        return True
    try:
        return float(label) == float(wanted)
    except ValueError:
        return False


def _label(key: str, labels: Mapping[str, str]) -> str:
    """Return the name of the label that holds this property."""
    own = squashed(key)
    return own if own in labels else RENAMED.get(key, own)


class _Match(NamedTuple):
    """A reading, the number of labels that are no property of its MBean, and the number that the page gives."""

    reading: MBeanValue
    further: int
    number: float


def _plainest(found: Iterable[_Match], *, presence: bool = False) -> list[MBeanValue]:
    """One reading for each MBean; with ``presence`` a number without a value is "".

    Series of two kinds of MBeans may have one name, such as of one connector and of all. The one with fewer extra
    labels is used.
    """
    best: dict[tuple[tuple[str, str], ...], _Match] = {}
    for translated in found:
        if isinstance(translated.reading.value, str):
            if translated.number != 1:
                continue
        elif not math.isfinite(translated.number) and not presence:
            continue
        key = tuple(sorted(translated.reading.mbean.properties.items()))
        if key not in best or translated.further < best[key].further:
            best[key] = translated
    return [
        match.reading
        if isinstance(match.reading.value, str) or math.isfinite(match.number)
        else match.reading._replace(value="")
        for match in best.values()
    ]


class PageError(ValueError):
    """The bytes are not a page of metrics, or exceed a limit; the text has the reason."""


class ParsedPage(NamedTuple):
    """The wanted series, and how many lines of each wanted name could not be read.

    ``by_rules``: it is a jmx_exporter's, which shows series of its own on each page (JmxCollector, BuildInfoMetrics).
    """

    page: Page
    unreadable: Mapping[str, int]
    by_rules: bool


def parse_page(body: bytes, wanted: frozenset[str]) -> ParsedPage:
    """The wanted series of a page in the text format 0.0.4 or OpenMetrics. Raises PageError for any other answer."""
    names: dict[bytes, str] = {}
    page: dict[str, list[JmxSeries]] = {}
    unreadable: dict[str, int] = {}
    series = 0
    by_rules = False
    _check_lines(body)
    for content in BytesIO(body):  # a line at a time: the page is in memory once
        if content[:1] in b"#\n":
            continue
        written = content[: _end_of_name(content)]
        name = names.get(written)
        if name is None:
            text = written.decode("ascii", "replace")
            if len(written) > LONGEST_LINE or not _NAME.fullmatch(text):
                if names:
                    unreadable[NO_NAME] = unreadable.get(NO_NAME, 0) + 1
                    continue
                what = "HTML" if written.startswith(b"<") else "no page of metrics"
                raise PageError(f"the answer is {what}: is this the address of a jmx_exporter?")
            name = plain(text)
            by_rules = by_rules or name.startswith(_OWN_SERIES)
            if len(names) < MOST_NAMES:
                names[written] = name
        if name in wanted:
            series += 1
            if series > MOST_VALUES:
                raise PageError(f"the page has more than {MOST_VALUES} series of those that are asked for")
            try:
                page.setdefault(name, []).append(_series(content, len(written)))
            except ValueError:
                unreadable[name] = unreadable.get(name, 0) + 1
    if not names:
        raise PageError("the page has no series")
    if not body.endswith(b"\n"):
        raise PageError("the page is cut off")
    return ParsedPage(page, unreadable, by_rules)


def _check_lines(body: bytes) -> None:
    """Raise PageError for a page of too many lines."""
    lines = 0
    for at in range(0, len(body), COUNTED_AT_ONCE):
        lines += body.count(b"\n", at, at + COUNTED_AT_ONCE)
        if lines > MOST_LINES:
            raise PageError(f"the page has more than {MOST_LINES} lines")


def _end_of_name(line: bytes) -> int:
    ends = (line.find(b"{"), line.find(b" "), len(line.rstrip(b"\r\n")))
    return min(at for at in ends if at >= 0)


def _series(content: bytes, at: int) -> JmxSeries:
    """A line as a series. Raises ValueError."""
    if len(content) > LONGEST_LINE:
        raise ValueError("a line of the page is too long")
    line = decoded(content)
    labels: dict[str, str] = {}
    if line[at : at + 1] == "{":
        at += 1
        end = line.rfind("}")
        while line[at : at + 1] not in {"}", ""}:
            match = _LABEL.match(line, at, end)
            if match is None:
                raise ValueError("a line of the page cannot be read")
            value = match[2]
            labels[match[1]] = _ESCAPE.sub(lambda e: "\n" if e[1] == "n" else e[1], value) if "\\" in value else value
            at = match.end()
        at += 1
    fields = line[at:].split()
    if not fields:
        raise ValueError("a line of the page has no value")
    return JmxSeries(labels, float(fields[0]))
