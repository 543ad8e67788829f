"""A topic against the topic that its records are made from: what is missing, and what has no source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.jobs.audit.candidates import ABSENT, UNSOURCED, Summary, newest_matched
from exporter.jobs.audit.columns import checked, chosen_by, named
from exporter.jobs.audit.evidence import located
from exporter.jobs.audit.offset_range import (
    Bound,
    Covered,
    OffsetSpan,
    before,
    cover,
    described,
    lost_since,
    offset_of,
    partition_of,
    up_to,
)
from exporter.jobs.audit.read import Reader, TopicAccess
from exporter.kafka.client import AskError
from exporter.kafka.requests.groups import committed_offsets

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from exporter.jobs.audit.definition import Audit, Remarks

Keep = Callable[["DataFrame"], "DataFrame"]
Positions = Callable[[int], "DataFrame"]
"""The positions of the records of all suspects of a kind."""
Found = Callable[[str, str, "DataFrame"], None]
"""Takes the kind of a finding, the topic of its records, and these."""


def committed_by(access: TopicAccess, group: str, topic: str) -> tuple[dict[int, int], list[str]]:
    """The offsets of the topic that a group has committed, by partition, and a sentence if it has none.

    Raises AskError.
    """
    deadline = access.deadline()
    metadata = described(access.client, topic, deadline)
    answers = committed_offsets(access.client, metadata, [group], deadline)
    if answers.faults:
        raise AskError(answers.faults[0])
    offsets = answers.values.get(group, {})
    found = {partition.partition: offsets.get(partition, 0) for partition in metadata.partitions(topic)}
    if any(found.values()):
        return found, []
    return found, [f"group {group} has committed no offset of {topic}: none of its records was looked for"]


@dataclass(frozen=True)
class AuditedSource:
    """The source topic of one run; ``topic`` reads the audited one."""

    source: Reader
    topic: Reader
    audit: Audit
    remarks: Remarks
    keep: Keep
    found: Found
    say: Callable[[str], None]

    def covered(self) -> Covered:
        """The offsets to compare: with a group, what it committed. Raises AskError."""
        audit, access = self.audit, self.source.access
        at_most: Mapping[int, int] | None = None
        if audit.source_group:
            at_most, nothing = committed_by(access, audit.source_group, audit.source_topic)
            self.remarks.unknown += nothing
        covered = cover(access.client, audit.source_topic, audit.begin, audit.end, access.deadline(), at_most)
        self.remarks.take(covered)
        if covered.compacted:
            self.remarks.add(
                f"{audit.source_topic} is compacted: its records that are still there were compared"
                " (begin: earliest asks about those alone)",
                known=audit.begin.earliest,
            )
        return covered

    def compare(self, covered: Covered, groups: DataFrame, summary: Summary, positions: Positions, taken: int) -> None:
        """Hand on what is found. ``taken`` is the number of records that compaction took of the topic, at most."""
        source, access = self.source, self.source.access
        absent, strange = summary.suspects(ABSENT, "source_").records, summary.suspects(UNSOURCED).records
        if absent:
            must = self.audit.end is not None or bool(self.audit.source_group)
            known = self.keep(positions(ABSENT))
            due = known
            if not must:
                places = {"partition": partition_of("position"), "offset": offset_of("position")}
                due = known.withColumns(places).where(up_to(newest_matched(groups))).select("position")
            late = absent - due.count()
            if late:
                self.remarks.notes.append(
                    f"{late:,} records of {source.topic} are newer than all that {self.audit.topic} has of it"
                )
            if absent - late and taken:
                self.remarks.unknown.append(
                    f"{absent - late:,} records of {source.topic} are not in {self.audit.topic}: compaction may have"
                    " taken them there"
                )
            elif absent - late:
                records = named(source.at(due, absent - late), self.audit.shape)
                self.found("missing", source.topic, located(records, due))
        if strange:
            self._unsourced(positions(UNSOURCED), strange)
        self.remarks.unknown += lost_since(access.client, source.topic, covered.spans, access.deadline())

    def _unsourced(self, positions: DataFrame, strange: int) -> None:
        """Records whose id the source lacks so far: aborted there, not decided yet, or from elsewhere."""
        audit, source, access = self.audit, self.source, self.source.access
        self.say(f"looking for {strange:,} records in what {source.topic} has besides")
        now = cover(access.client, source.topic, Bound("earliest", earliest=True), None, access.deadline())
        beyond = {number: OffsetSpan(number, span.start, now.high[number]) for number, span in now.spans.items()}
        frame = named(self.topic.at(positions, strange), audit.shape)
        mine = self.keep(
            frame.select(
                checked(frame, "id", audit.id).cast("string").alias("it"), "partition", "offset", "timestamp", "key"
            ).where("it IS NOT NULL")
        )
        all_ids, committed = self._ids(beyond, committed=False), self._ids(now.spans, committed=True)
        ends = {number: span.end for number, span in now.spans.items()}
        left = self.keep(mine.join(committed, "it", "left_anti"))
        undecided = all_ids.where(f"NOT ({before(ends)})")
        early = self.keep(left.join(undecided, "it", "left_semi"))
        aborted = self.keep(left.join(early, "it", "left_anti").join(all_ids, "it", "left_semi"))
        self.found("ahead", audit.topic, early.withColumnRenamed("it", "id"))
        self.found("aborted_visible", audit.topic, aborted.withColumnRenamed("it", "id"))
        rest = left.count() - early.count() - aborted.count()
        if rest:
            self.remarks.unknown.append(
                f"{rest:,} records of {audit.topic} have ids that {source.topic} has no more, or never had"
            )

    def _ids(self, spans: Mapping[int, OffsetSpan], *, committed: bool) -> DataFrame:
        frame = named(self.source.records(spans, committed=committed), self.audit.shape)
        if (chosen := chosen_by(self.audit.shape, self.audit.source_where)) is not None:
            frame = frame.where(chosen)
        column: Column = checked(frame, "source.id", self.audit.source_id or self.audit.id)
        return frame.select(column.cast("string").alias("it"), "partition", "offset")
