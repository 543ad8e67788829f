"""The definition of one audit, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exporter.jobs.audit.columns import Shape
from exporter.jobs.audit.offset_range import BEGINNING, Bound, Covered, OffsetSpan
from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.audit.upsert import KINDS
from exporter.model import Word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NullId(Word):
    """The effect of a record whose id, key or number is null: none, a note, or an unknown result."""

    SKIP = "skip"
    COUNT = "count"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class KeyedSink:
    """A table with the latest row of each key: expressions over its columns; "" where one is not compared."""

    table: SinkTable
    key: str
    version: str = ""
    content: str = ""

    @property
    def expressions(self) -> dict[str, str]:
        """By flag."""
        given = {"sink.key": self.key, "sink.version": self.version, "sink.content": self.content}
        return {flag: text for flag, text in given.items() if text}


@dataclass(frozen=True, slots=True)
class Outbox:
    """A table of which each row (that ``where`` is true for) must be in the topic, by ``id``."""

    table: SinkTable
    id: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """The definition of an audit. With ``source_topic``, the bounds are the source's, and the topic is read whole."""

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
    due: Mapping[int, int] = field(default_factory=dict)
    """With a sink, what ``source_group`` has committed, by partition."""
    sink: SinkTable | None = None
    where: str = ""
    source_where: str = ""
    null_id: NullId = NullId.FAIL
    sparse: bool = False
    """Numbers of a key grow, and may leave some out."""
    version: str = ""
    content: str = ""
    deleted: str = "value_bytes IS NULL"
    keyed: KeyedSink | None = None
    outbox: Outbox | None = None
    hash_bits: int = 64
    """Bits of the hashes. Fewer make hashes collide, which changes only the duration."""

    @property
    def expressions(self) -> dict[str, str]:
        """The topic's own, by flag."""
        given = {
            "id": self.id,
            "key": self.key,
            "sequence": self.sequence,
            "version": self.version,
            "content": self.content,
        }
        return {flag: text for flag, text in given.items() if text}

    @property
    def conditions(self) -> dict[str, str]:
        """The filters of the records of the topic, by flag."""
        given = {"where": self.where, "deleted": self.deleted if self.keyed is not None else ""}
        return {flag: text for flag, text in given.items() if text}

    @property
    def tables(self) -> tuple[SinkTable, ...]:
        """All tables that are read."""
        keyed = None if self.keyed is None else self.keyed.table
        outbox = None if self.outbox is None else self.outbox.table
        return tuple(table for table in (self.sink, keyed, outbox) if table is not None)

    def pinned(self, pin: Callable[[SinkTable], SinkTable]) -> Audit:
        """The audit of tables at one snapshot of each."""
        sink = None if self.sink is None else pin(self.sink)
        keyed = None if self.keyed is None else replace(self.keyed, table=pin(self.keyed.table))
        outbox = None if self.outbox is None else replace(self.outbox, table=pin(self.outbox.table))
        return replace(self, sink=sink, keyed=keyed, outbox=outbox)

    def due_before(self, spans: Mapping[int, OffsetSpan], stored: Mapping[int, int]) -> dict[int, int]:
        """By partition the offset before which a sink must have all; ``stored`` is where what it has ends."""
        if self.end is not None and not self.source_group:
            return {number: span.end for number, span in spans.items()}
        return {number: max(stored.get(number, 0), self.due.get(number, 0)) for number in spans}

    @property
    def checks(self) -> tuple[str, ...]:
        """The kinds of finding that are searched for."""
        kinds = ["duplicate"] if self.id or self.sequence else []
        if self.sequence:
            kinds += ["reordered"] if self.sparse else ["gap", "reordered"]
        if self.source_topic:
            kinds += ["missing", "aborted_visible", "ahead"]
        if self.sink is not None:
            kinds += ["missing", "repeated", "aborted_visible", "ahead"]
        if self.keyed is not None:
            kinds += [*KINDS, "aborted_visible"]
        if self.outbox is not None:
            kinds.append("missing")
        return tuple(dict.fromkeys(kinds))

    @property
    def mask(self) -> int:
        return -1 if self.hash_bits >= 64 else (1 << self.hash_bits) - 1


@dataclass
class Remarks:
    """Sentences on what could not be compared, which make the audit's answer unknown, and other sentences."""

    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *sentences: str, known: bool) -> None:
        """Add notes, or what could not be compared."""
        (self.notes if known else self.unknown).extend(sentences)

    def take(self, covered: Covered) -> None:
        """Add those of the offsets that are audited."""
        self.unknown += covered.unknown
        self.notes += covered.notes


@dataclass(frozen=True)
class FindingFrame:
    """Findings of one kind as a frame of ``EVIDENCE``; ``topic`` is where the records are that it points at."""

    kind: str
    topic: str
    frame: DataFrame


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The counts of one audit, and why its verdict is unknown, if it is. The findings were passed on one kind at a
    time.
    """

    records: int
    aborted: int | None
    spans: Mapping[int, OffsetSpan]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
