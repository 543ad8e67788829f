"""Data points of the metrics that are read, whatever the encoding, and the names by which they are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from exporter.producers import producer_samples
from exporter.streams import streams_samples

MOST_ATTRIBUTES = 64
"""Attributes of one resource or data point."""
LONGEST_TEXT = 400
"""Characters of an attribute: a thread's name is a client id of 249 characters and its number."""
MOST_REASONS = 5
"""Reasons for which points are refused that one answer has."""


class OtlpError(ValueError):
    """The bytes are no OTLP metrics (``status`` 400) or more than is read (413); the text has the reason."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Temporality(Enum):
    """How the numbers of a metric follow each other."""

    GAUGE = "gauge"
    CUMULATIVE = "cumulative"
    DELTA = "delta"


class PushedAttribute(NamedTuple):
    """The MBean type and attribute of which a metric is the pushed form."""

    type: str
    attribute: str


class Point(NamedTuple):
    """One number. ``start`` and ``time`` are Unix nanoseconds; ``start`` is 0 where it is not known."""

    place: PushedAttribute
    attributes: Mapping[str, str]
    value: float
    temporality: Temporality
    start: int
    time: int


class Pushed(NamedTuple):
    """The points of one resource."""

    resource: Mapping[str, str]
    points: tuple[Point, ...]


class PointTally:
    """The points of one body that are ignored or refused."""

    def __init__(self) -> None:
        self.ignored = 0
        self.refused = 0
        self._reasons: Counter[str] = Counter()

    @property
    def why(self) -> str:
        """The reasons of the refused points. Where they are several, each has its number of points in parentheses."""
        numbers = {**self._reasons, "other reasons": self.refused - self._reasons.total()}
        told = [(reason, points) for reason, points in numbers.items() if points]
        return "; ".join(f"{reason} ({points})" for reason, points in told) if len(told) > 1 else "".join(self._reasons)

    def refuse(self, why: str, points: int = 1) -> None:
        """Count points that are refused. The first ``MOST_REASONS`` reasons are kept."""
        self.refused += points
        if why in self._reasons or len(self._reasons) < MOST_REASONS:
            self._reasons[why] += points


def metric_name(name: str) -> str:
    """A metric's name in one spelling.

    KIP-714 has ``org.apache.kafka.producer.txn.commit.time.ns.total`` (TelemetryMetricNamingConvention), the Java agent
    of OpenTelemetry ``kafka.producer.txn_commit_time_ns_total``.
    """
    return name.lower().replace("_", ".").replace("-", ".").removeprefix("org.apache.")


def attribute_name(name: str) -> str:
    """The name of an attribute in one spelling: ``client-id`` is ``client_id``."""
    return name.lower().replace("-", "_").replace(".", "_")


def place_of(name: str) -> PushedAttribute | None:
    """Return the place of a metric by its name; None for one that is not read."""
    return _PLACES.get(metric_name(name)) if len(name) <= LONGEST_TEXT else None


def _places() -> Iterator[tuple[str, PushedAttribute]]:
    for attribute in producer_samples.ATTRIBUTES:
        yield f"kafka.producer.{attribute}", PushedAttribute(producer_samples.TYPE, attribute)
    for kind, attributes in streams_samples.NUMBERS.items():
        for attribute in attributes:
            yield f"kafka.{kind.removesuffix('-metrics')}.{attribute}", PushedAttribute(kind, attribute)


_PLACES = {metric_name(name): place for name, place in _places()}


def text_of(value: str | float | None) -> str | None:
    """The value of an attribute as text; None for one that is too long, not printable, or no text and no number."""
    if value is None or isinstance(value, bool):
        return None
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_TEXT and text.isprintable() else None


def attributes_of(pairs: Iterator[tuple[str, str | float | None]]) -> Mapping[str, str] | None:
    """Attributes by their name in one spelling; None where one cannot be a label and the point is refused."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if len(name) > LONGEST_TEXT:
            continue
        text = text_of(value)
        if text is None:
            if attribute_name(name) in IDENTIFYING:
                return None
            continue
        found[attribute_name(name)] = text
    return found


IDENTIFYING = frozenset({"client_id", "thread_id", "task_id", "topic", "process_id", "application_id"})
"""Attributes of a data point that tell it from others of its metric."""
