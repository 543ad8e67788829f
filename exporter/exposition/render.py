"""Snapshots to the text that Prometheus scrapes: rendered on request, at most twice a second.

A worker's ``swap`` hands over samples. They are written to text when a body is made. ``body`` returns bytes and never
waits for a source.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from exporter import catalogue
from exporter.exposition.slots import NOTHING, Blocks, Part, Slot, Unwritten
from exporter.exposition.text_format import (
    END_OF_OPENMETRICS,
    Chunk,
    FamilyBlock,
    Format,
    Labels,
    Value,
    block,
    gzipped,
    header,
)
from exporter.model import Clock, Distribution, Metric, Sample, SampleBatch, Snapshot

LOG = logging.getLogger(__name__)

Key = tuple[str, ...]
"""A snapshot replaces the last one with the same key. Where two expose one series, the greater key is used."""

EXPIRY_INTERVALS = 3
MAX_AGE = 10.0
"""Seconds after which a body is rendered again even if no source swapped: it has the metrics of the process itself."""

SHARED_SECONDS = 0.5
"""Seconds for which a body is given to further requests although a source swapped since: however often it is requested,
it is made twice a second.
"""


class BodyKey(NamedTuple):
    """One of the bodies that ``/metrics`` serves."""

    format: Format
    gzip: bool


@dataclass(frozen=True, slots=True)
class _Body:
    data: bytes
    generation: int
    made_at: float
    valid_until: float

    def is_usable(self, generation: int, now: float) -> bool:
        """Return whether it has what sources gave up to this generation, and the metrics of the process are not old."""
        return now < self.valid_until and self.generation == generation


class Exposition:
    """All of ``/metrics``. Any thread may call any method; for one key, ``swap`` is called by one thread at a time."""

    def __init__(
        self,
        clock: Clock | None = None,
        families: Iterable[Metric] | None = None,
        own: Callable[[Format], bytes] | None = None,
    ) -> None:
        """``families`` give the order; ``own`` writes the families of the process itself, at the end."""
        self.clock = clock or Clock()
        rows = catalogue.rows() if families is None else families
        self._order = {metric: place for place, metric in enumerate(rows)}
        self._own = own
        self._headers: dict[tuple[Metric, Format], Chunk] = {}
        self._lock = threading.Lock()  # guards the three below; held only briefly
        self._slots: dict[Key, Slot] = {}
        self._generation = 0
        self._bodies: dict[BodyKey, _Body] = {}
        self._duplicates: dict[str, int] = {}
        self._rendering = threading.Lock()

    # --- What sources do --------------------------------------------------------------------------------------------

    def swap(self, snapshots: Mapping[Key, Snapshot]) -> None:
        """Replace what these keys exposed, all at once.

        Gauges are replaced. A counter or histogram that the snapshot lacks is kept if the snapshot has faults, and
        dropped if it has none: then the source was read completely.
        """
        slots = {key: self._slot(key, snapshot) for key, snapshot in snapshots.items()}
        with self._lock:
            self._slots.update(slots)
            self._change()

    def drop(self, keys: Collection[Key]) -> None:
        """Drop everything that these keys exposed: their source is no longer read."""
        with self._lock:
            for key in keys:
                self._slots.pop(key, None)
            self._change()

    def _change(self) -> None:
        """Note a change, and drop bodies that are not given any more, often megabytes. The caller holds the lock."""
        self._generation += 1
        since = self.clock.monotonic() - SHARED_SECONDS
        self._bodies = {key: body for key, body in self._bodies.items() if body.made_at > since}

    def _slot(self, key: Key, snapshot: Snapshot) -> Slot:
        with self._lock:
            before = self._slots.get(key, Slot())
        known = {part.batch: part for part in before.parts if part.batch is not None}
        given: list[tuple[SampleBatch | None, Iterable[Sample]]] = [(None, snapshot.samples)]
        given += [(batch, batch) for batch in snapshot.batches]
        parts = []
        for place, (batch, samples) in enumerate(given):
            earlier = before.parts[place].latest() if place < len(before.parts) else NOTHING
            same = known.get(batch) if batch is not None else None
            parts.append(same or Part(batch, Unwritten(samples, earlier)))
        if snapshot.faults:
            made = {metric for part in parts for metric in part.metrics()}
            parts += [kept for old in before.parts if any((kept := old.lasting(made)).metrics())]
        return Slot(tuple(parts), snapshot.ended + EXPIRY_INTERVALS * snapshot.interval)

    def _write(self, part: Unwritten) -> Blocks:
        try:
            families = self._by_family(part.samples)
            return {metric: block(metric, values, part.earlier.get(metric)) for metric, values in families.items()}
        except Exception:
            # A bug of one source must not take the others from the page.
            LOG.exception("samples of one source cannot be written")
            return NOTHING

    def _by_family(self, samples: Iterable[Sample]) -> dict[Metric, dict[Labels, Value]]:
        families: dict[Metric, dict[Labels, Value]] = {}
        current: Metric | None = None
        values: dict[Labels, Value] = {}
        for metric, labels, value in samples:
            if metric is not current:
                current, values = metric, families.setdefault(metric, {})
            if labels in values:
                value = self._settle(metric, values[labels], value, one_source=True)  # noqa: PLW2901  # the merged one
            values[labels] = value
        return families

    def _settle(self, metric: Metric, earlier: Value, later: Value, *, one_source: bool = False) -> Value:
        """One value for two samples with the same labels: Prometheus refuses a whole scrape that has a series twice.

        Two sources may agree on a sample; two equal samples of one source are an error in that source.
        """
        if metric.name == catalogue.SERIES_DROPPED.name:
            return _number(earlier) + _number(later)  # each source reports its own drops
        if earlier == later and not one_source:
            return later  # while a subject passes from one source to another, both have its thresholds
        with self._lock:
            count = self._duplicates[metric.name] = self._duplicates.get(metric.name, 0) + 1
        if count & (count - 1) == 0:  # 1, 2, 4, 8 ...: a lasting bug must not fill the log
            LOG.warning("two samples of %s had the same labels; the later one is exposed (%d so far)", metric, count)
        return later

    # --- Called by the server ---------------------------------------------------------------------------------------

    def ready(self, fmt: Format, gzip: bool = False) -> bytes | None:
        """Return this body of ``/metrics``, if it is in memory and not too old."""
        now = self.clock.monotonic()
        with self._lock:
            made = self._bodies.get(BodyKey(fmt, gzip))
            if made is None or not (made.is_usable(self._generation, now) or now < made.made_at + SHARED_SECONDS):
                return None
            return made.data

    def body(self, fmt: Format, gzip: bool = False, asked: float = math.inf) -> bytes:
        """The body of ``/metrics``, made here unless another request has just made it.

        ``asked`` is when the request came, by the clock: a body that was begun after it answers it, so that requests
        that wait for a long render are answered by the next one, not by one each.
        """
        key = BodyKey(fmt, gzip)
        with self._rendering:
            made = self._bodies.get(key)
            if made is None or not (made.made_at >= asked or made.is_usable(self._generation, self.clock.monotonic())):
                made = self._render(key)
        return made.data

    def _render(self, key: BodyKey) -> _Body:
        """Make a body and keep it. The caller holds ``_rendering``."""
        now = self.clock.monotonic()
        with self._lock:
            slots = sorted(self._slots.items())
            generation = self._generation
        by_family: dict[Metric, list[FamilyBlock]] = {}
        for _, slot in slots:
            for sample in slot.live(now, self._write):
                by_family.setdefault(sample.metric, []).append(sample)
        pieces: list[Chunk] = []
        for metric in sorted(by_family, key=self._place):
            pieces.append(self._header(metric, key.format))
            pieces += self._merged(metric, by_family[metric])
        if self._own:
            pieces.append(Chunk(self._own(key.format)))
        if key.format is Format.OPENMETRICS:
            pieces.append(Chunk(END_OF_OPENMETRICS))
        data = gzipped(pieces) if key.gzip else b"".join(piece.data for piece in pieces)
        ends = (slot.expires for _, slot in slots if slot.expires > now)
        made = _Body(data, generation, now, min((*ends, now + MAX_AGE)))
        with self._lock:
            self._bodies[key] = made
        return made

    def _merged(self, metric: Metric, blocks: list[FamilyBlock]) -> list[Chunk]:
        """The pieces of one family, no series twice: the block of the greater key wins, ``series_dropped`` adds up."""
        if len(blocks) == 1:
            return [blocks[0].piece]
        seen: set[Labels] = set(blocks[0].prefixes)
        for made in blocks[1:]:
            if not seen.isdisjoint(made.prefixes):
                break
            seen.update(made.prefixes)
        else:
            return [made.piece for made in blocks]
        values: dict[Labels, Value] = {}
        for made in blocks:
            for labels, value in zip(made.prefixes, made.values, strict=True):
                values[labels] = self._settle(metric, values[labels], value) if labels in values else value
        return [block(metric, values).piece]

    def _place(self, metric: Metric) -> tuple[int, str]:
        return self._order.get(metric, len(self._order)), metric.name

    def _header(self, metric: Metric, fmt: Format) -> Chunk:
        piece = self._headers.get((metric, fmt))
        if piece is None:
            piece = self._headers[metric, fmt] = Chunk(header(metric, fmt))
        return piece


def _number(value: Value) -> float:
    if isinstance(value, Distribution):
        raise TypeError("a gauge takes a number")
    return value
