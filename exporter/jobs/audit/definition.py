"""What one audit is asked to do, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.jobs.audit.columns import Shape
from exporter.jobs.audit.fold import OffsetSpan
from exporter.jobs.audit.offset_range import BEGINNING, Bound
from exporter.jobs.audit.sink import SinkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Audit:
    """What to audit. With ``source_topic``, the bounds are the source's, and the topic is read whole."""

    topic: str
    id: str = ""
    key: str = ""
    sequence: str = ""
    shape: Shape = field(default_factory=Shape)
    begin: Bound = BEGINNING
    end: Bound | None = None
    source_topic: str = ""
    source_id: str = ""
    source_group: str = ""
    sink: SinkTable | None = None
    hash_bits: int = 64
    """Bits of the hashes. Fewer make hashes collide, which changes only the duration."""

    @property
    def expressions(self) -> dict[str, str]:
        """The topic's own, by flag."""
        given = {"--id": self.id, "--key": self.key, "--sequence": self.sequence}
        return {flag: text for flag, text in given.items() if text}

    @property
    def checks(self) -> tuple[str, ...]:
        """The kinds of finding that are searched for."""
        kinds = ["duplicate"] if self.id or self.key else []
        if self.key:
            kinds += ["gap", "reordered"]
        if self.source_topic:
            kinds += ["missing", "aborted_visible", "ahead"]
        if self.sink is not None:
            kinds += ["missing", "repeated", "aborted_visible", "ahead"]
        return tuple(dict.fromkeys(kinds))

    @property
    def mask(self) -> int:
        return -1 if self.hash_bits >= 64 else (1 << self.hash_bits) - 1


@dataclass(frozen=True)
class FindingFrame:
    """Findings of one kind as a frame of ``EVIDENCE``; ``topic`` is where the records are that it points at."""

    kind: str
    topic: str
    frame: DataFrame


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What was read, and why the verdict is unknown, if so. The findings were passed on one kind at a time."""

    records: int
    aborted: int
    spans: Mapping[int, OffsetSpan]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Portion:
    """A batch of a continuous audit: ``fresh`` offsets, compared with the folds of the batches before it.

    ``window`` are the offsets that all these folds cover. The batch's own fold is written to the folder ``store``.
    """

    fresh: Mapping[int, OffsetSpan]
    window: Mapping[int, OffsetSpan]
    store: str
    past: tuple[str, ...]
    parts: tuple[int, ...]
