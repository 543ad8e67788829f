"""The samples of each source in the exposition, and their text once a body needed it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from exporter.exposition.text_format import FamilyBlock
from exporter.model import Kind, Metric, Sample, SampleBatch

LASTING = frozenset({Kind.COUNTER, Kind.HISTOGRAM})
"""Kinds whose last value is kept while their source does not answer. Summaries are not: their quantiles are of the
present.
"""

Blocks = Mapping[Metric, FamilyBlock]
NOTHING: Blocks = MappingProxyType({})


class Unwritten(NamedTuple):
    """Samples, and the blocks that the same source gave before."""

    samples: Iterable[Sample]
    earlier: Blocks


class Part:
    """The families of one batch of samples; ``batch`` is None for the samples that a source yielded one by one.

    They are written when a body needs them: sources are read more often than they are scraped.
    """

    __slots__ = ("_held", "batch")

    def __init__(self, batch: SampleBatch | None, held: Unwritten | Blocks) -> None:
        self.batch = batch
        self._held = held  # one attribute: the threads of a source and of the server read and replace it

    def metrics(self) -> Iterable[Metric]:
        held = self._held
        return {sample.metric for sample in held.samples} if isinstance(held, Unwritten) else held

    def latest(self) -> Blocks:
        """The newest blocks that were written, of these samples or of earlier ones."""
        held = self._held
        return held.earlier if isinstance(held, Unwritten) else held

    def blocks(self, write: Callable[[Unwritten], Blocks]) -> Blocks:
        held = self._held
        if isinstance(held, Unwritten):
            held = self._held = write(held)
        return held

    def lasting(self, made: Container[Metric]) -> Part:
        """The counters and histograms among them whose family is not in ``made``."""

        def lasts(metric: Metric) -> bool:
            return metric.kind in LASTING and metric not in made

        held = self._held
        if isinstance(held, Unwritten):
            return Part(None, held._replace(samples=[sample for sample in held.samples if lasts(sample.metric)]))
        return Part(None, {metric: samples for metric, samples in held.items() if lasts(metric)})


@dataclass(frozen=True, slots=True)
class Slot:
    """The samples of one source. ``expires`` (monotonic) is the end of those that are not lasting."""

    parts: tuple[Part, ...] = ()
    expires: float = 0.0

    def live(self, now: float, write: Callable[[Unwritten], Blocks]) -> Iterable[FamilyBlock]:
        return (
            block
            for part in self.parts
            for block in part.blocks(write).values()
            if now < self.expires or block.metric.kind in LASTING
        )
