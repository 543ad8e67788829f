"""A record of a partition and its transaction: what is known of it, and what is not. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from exporter.kafka.log.batches import Marker
from exporter.kafka.log.record_batch import RecordBatch
from exporter.model import TopicPartition
from exporter.words import RecordState


class RecordEnds(NamedTuple):
    """Offsets of a partition: the first record, the last stable offset and the high watermark."""

    log_start: int
    stable: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class RecordFate:
    """A record, its transaction, and what is not known of it.

    ``decided`` is whether the log decided COMMIT, None where that is not known; ``begun`` and ``decided_at`` are Unix
    seconds by the coordinator's clock. ``marker`` is the one that ended the record in its partition. ``partitions`` are
    all of the transaction, None where the log does not say. ``own_marker`` is False where the marker is that of a later
    transaction of the producer. ``notes`` say what is known beyond that, ``missing`` what is not, and how to find out.
    """

    partition: TopicPartition
    offset: int
    state: RecordState
    ends: RecordEnds | None = None
    batch: RecordBatch | None = None
    transactional_id: str = ""
    decided: bool | None = None
    begun: float | None = None
    decided_at: float | None = None
    timeout: float | None = None
    marker: Marker | None = None
    own_marker: bool = True
    partitions: frozenset[TopicPartition] | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def lacking(self, *missing: str) -> RecordFate:
        """Return the same with more that is not known."""
        return replace(self, missing=(*self.missing, *missing))

    @property
    def torn(self) -> bool:
        """Return whether readers get something other than what was decided."""
        readers = {RecordState.COMMITTED: True, RecordState.ABORTED: False}.get(self.state)
        return None not in {readers, self.decided} and readers is not self.decided

    @property
    def holds_readers(self) -> bool:
        """Return whether read_committed consumers are not past it yet."""
        return self.ends is not None and self.ends.stable <= self.offset < self.ends.high_watermark
