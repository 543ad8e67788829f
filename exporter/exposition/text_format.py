"""Samples to lines of the Prometheus text format 0.0.4 and of OpenMetrics 1.0.0: pure functions.

The lines of the samples are the same bytes in both formats; only the lines that introduce a family differ (OpenMetrics
names a counter without its ``_total``). So a family of a source is written, and compressed, once per change and not per
format.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain, repeat
from operator import add
from struct import pack
from typing import NamedTuple

from exporter.bounds.text import printable_identity
from exporter.model import Distribution, Kind, Metric

Labels = tuple[str, ...]
Value = float | Distribution


class Format(StrEnum):
    """The formats of ``/metrics``."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


CONTENT_TYPES = {
    Format.TEXT: "text/plain; version=0.0.4; charset=utf-8",
    Format.OPENMETRICS: "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
END_OF_OPENMETRICS = b"# EOF\n"

SERIES_AT_ONCE = 250
"""New series whose labels are written in one call, of less than 1 ms."""

_SPECIAL = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


class Chunk:
    """Some bytes of a body, and on demand the same bytes as deflate blocks that can be at any place of a stream."""

    __slots__ = ("_deflated", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._deflated: bytes | None = None

    def deflated(self) -> bytes:
        """The data as raw deflate blocks that end on a byte and refer to nothing before them (RFC 1951)."""
        if self._deflated is None:
            compressor = zlib.compressobj(level=1, wbits=-15)
            self._deflated = compressor.compress(self.data) + compressor.flush(zlib.Z_FULL_FLUSH)
        return self._deflated


class FamilyBlock(NamedTuple):
    """One family of one source: its lines, and what is needed to write the next ones cheaply.

    ``prefixes`` and ``values`` run in parallel. The prefixes are the cache for the next block of the same family and
    source, which takes over only those that it still needs: a series that the source drops leaves the cache.
    """

    metric: Metric
    prefixes: dict[Labels, str]
    values: list[Value]
    piece: Chunk


def block(metric: Metric, values: Mapping[Labels, Value], earlier: FamilyBlock | None = None) -> FamilyBlock:
    """Write one family; ``earlier`` is the block that the same source gave before."""
    if metric.kind in (Kind.HISTOGRAM, Kind.SUMMARY):
        return _distributions(metric, values, earlier)
    if earlier and list(values.values()) == earlier.values and list(values) == list(earlier.prefixes):
        return earlier
    known = earlier.prefixes if earlier else {}
    # Written for the interpreter: the loops over 100,000 samples run in C, where no other thread takes it meanwhile.
    prefixes = dict(zip(values, map(known.get, values, repeat("")), strict=True))
    if not all(prefixes.values()):
        prefixes |= _prefixes(metric, [labels for labels, prefix in prefixes.items() if not prefix])
    lines = list(map(add, prefixes.values(), numbers(values.values())))
    return FamilyBlock(metric, prefixes, list(values.values()), _piece(lines, earlier))


def _distributions(metric: Metric, values: Mapping[Labels, Value], earlier: FamilyBlock | None) -> FamilyBlock:
    """Histograms and summaries: the text of an unchanged one, as most are, is reused."""
    known = earlier.prefixes if earlier else {}
    before = dict(zip(known, earlier.values, strict=True)) if earlier else {}
    texts: dict[Labels, str] = {}
    for labels, value in values.items():
        if not isinstance(value, Distribution):
            raise TypeError(f"{metric.name} is a {metric.kind} and takes a Distribution")
        text = known.get(labels)
        if text is None or before[labels] != value:
            text = "\n".join(_distribution_lines(metric, labels, value))
        texts[labels] = text
    return FamilyBlock(metric, texts, list(values.values()), _piece(list(texts.values()), earlier))


def _distribution_lines(metric: Metric, labels: Labels, value: Distribution) -> Iterable[str]:
    name, inner = metric.name, _inside_braces(metric.labels, labels)
    step_label, suffix = ("le", "_bucket") if metric.kind is Kind.HISTOGRAM else ("quantile", "")
    comma = "," if inner else ""
    for step, reached in value.steps:
        yield f'{name}{suffix}{{{inner}{comma}{step_label}="{number(step)}"}} {number(reached)}'
    if metric.kind is Kind.HISTOGRAM:
        yield f'{name}_bucket{{{inner}{comma}le="+Inf"}} {number(value.count)}'
    braces = f"{{{inner}}}" if inner else ""
    yield f"{name}_count{braces} {number(value.count)}"
    if value.total is not None:
        yield f"{name}_sum{braces} {number(value.total)}"


def _piece(lines: Sequence[str], earlier: FamilyBlock | None) -> Chunk:
    """The lines as bytes; the earlier piece itself when nothing changed, since it may be compressed already."""
    data = ("\n".join(lines) + "\n").encode() if lines else b""
    return earlier.piece if earlier and earlier.piece.data == data else Chunk(data)


def numbers(values: Collection[Value]) -> list[str]:
    """As ``number``, for many."""
    try:
        texts = list(map(repr, map(float, values)))  # type: ignore[arg-type]  # a Distribution here raises TypeError
    except OverflowError:
        return [number(value) for value in values]  # type: ignore[arg-type]
    return texts if _SPECIAL.keys().isdisjoint(texts) else [_SPECIAL.get(text, text) for text in texts]


def number(value: float) -> str:
    """A number that parses back to exactly the same float, in prometheus_client's form (``1.0``, ``+Inf``, ``NaN``)."""
    try:
        text = repr(float(value))
    except OverflowError:  # an int beyond the largest float
        return "+Inf" if value > 0 else "-Inf"
    return _SPECIAL.get(text, text)


def _prefixes(metric: Metric, series: Sequence[Labels]) -> dict[Labels, str]:
    inner = ",".join(f'{name}="%s"' for name in metric.labels)
    form = f"{metric.name}{{{inner}}} " if inner else f"{metric.name} "
    made: dict[Labels, str] = {}
    for at in range(0, len(series), SERIES_AT_ONCE):
        some = series[at : at + SERIES_AT_ONCE]
        plain = _is_plain("".join(chain.from_iterable(some)))
        escaped = some if plain else [tuple(map(_escaped, labels)) for labels in some]
        made |= zip(some, map(form.__mod__, escaped), strict=True)
    return made


def _is_plain(text: str) -> bool:
    """Return whether nothing in it has to be escaped."""
    return text.isprintable() and '"' not in text and "\\" not in text


def _inside_braces(names: Sequence[str], values: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))


def _escaped(value: str) -> str:
    """A label value. What does not print is escaped before the format's own escapes: a label ends on dashboards, in
    alerts and in chats.
    """
    return printable_identity(value).replace("\\", r"\\").replace('"', r"\"")


def header(metric: Metric, fmt: Format) -> bytes:
    """The HELP and TYPE lines of a family."""
    name, text = metric.name, metric.help.replace("\\", r"\\").replace("\n", r"\n")
    if fmt is Format.OPENMETRICS:
        text = text.replace('"', r"\"")
        if metric.kind is Kind.COUNTER:
            name = name.removesuffix("_total")
    return f"# HELP {name} {text}\n# TYPE {name} {metric.kind}\n".encode()


def gzipped(pieces: Sequence[Chunk]) -> bytes:
    """One gzip member (RFC 1952) of pieces that may be compressed already: a render pays only for what changed."""
    checksum = size = 0
    for piece in pieces:
        checksum = zlib.crc32(piece.data, checksum)
        size += len(piece.data)
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"  # deflate, no name, no time, fastest, unknown system
    last = b"\x03\x00"  # an empty final block
    return b"".join((head, *(piece.deflated() for piece in pieces), last, pack("<LL", checksum, size & 0xFFFFFFFF)))
