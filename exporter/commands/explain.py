"""``transactions explain``: whose transaction one record is in, and what became of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.bounds.text import printable, some
from exporter.cluster import Cluster
from exporter.commands.clusters import configured, owner_of
from exporter.commands.output import say
from exporter.commands.runner import CLEAN, FOUND, UNKNOWN, ClusterReport, add_command, run
from exporter.commands.waiting_groups import WaitingGroups, waiting_groups
from exporter.config import ClusterConfig
from exporter.core.documents import document_of
from exporter.core.durations import instant
from exporter.lso.proof.record_fate import RecordFate
from exporter.lso.proof.record_reader import RecordReader
from exporter.model import Deadline, TopicPartition
from exporter.transactions.source.log_range import RangeConsumer
from exporter.views.command_documents import ExplainedRecordDocument
from exporter.words import RecordState

MOST_NAMES = 20
_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions explain --bootstrap-server kafka-1:9092 --topic orders --partition 0 --offset 1234
  kafka-eos-exporter transactions explain --config /etc/kafka-eos-exporter.yml --cluster.name prod --topic orders \\
    --partition 0 --offset 1234 --output json

Needs READ on the topic, DESCRIBE on all transactional ids and groups, and READ on __transaction_state for the other
partitions of the transaction and for what was decided.

exit codes: 0 settled: committed, aborted, in no transaction, or a marker; 1 not settled: open, completing, unmarked, or
not as it was decided; 2 not known, no record at this offset (compacted, below the log start, beyond the end), or the
partition could not be read
"""
_SAID = {
    RecordState.COMMITTED: "committed: read_committed consumers get it",
    RecordState.ABORTED: "aborted: read_committed consumers skip it",
    RecordState.OPEN: "open: its transaction is not decided",
    RecordState.COMPLETING: "decided, and its marker is under way",
    RecordState.UNMARKED: "decided, but its marker is missing in this partition, and no coordinator will write it",
    RecordState.NO_TRANSACTION: "in no transaction: read_committed consumers get it",
    RecordState.MARKER: "no record, but the marker that ended a transaction",
    RecordState.COMPACTED: "no record any more: compaction took it",
    RecordState.BELOW_LOG_START: "no record any more: retention or DeleteRecords took it",
    RecordState.BEYOND_END: "no record yet: the partition ends before it",
    RecordState.UNKNOWN: "not known",
}
_SETTLED = {RecordState.COMMITTED, RecordState.ABORTED, RecordState.NO_TRANSACTION, RecordState.MARKER}
_READ = {RecordState.COMMITTED, RecordState.NO_TRANSACTION}
_UNSETTLED = {RecordState.OPEN, RecordState.COMPLETING, RecordState.UNMARKED}


class Explanation(NamedTuple):
    """A record with its application and owner, "" for none, and the groups that wait; None where nobody has to."""

    found: RecordFate
    application: str
    owner: str
    waiting: WaitingGroups | None

    @property
    def missing(self) -> tuple[str, ...]:
        """Sentences of what is not known, and how to find out."""
        return (*self.found.missing, *(f"who waits: {text}" for text in (self.waiting.missing if self.waiting else ())))


def add_to(lists: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions explain``."""
    parser = add_command(
        lists,
        "explain",
        _command,
        summary="one record: its transaction, committed, aborted or open, its marker, and who waits",
        description="Say whose transaction the record at an offset is in, and what became of it.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--topic", required=True, help="topic of the record")
    parser.add_argument("--partition", type=_number, required=True, metavar="N", help="partition of the record")
    parser.add_argument("--offset", type=_number, required=True, metavar="N", help="offset of the record")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0")
    return int(text)


def _command(options: argparse.Namespace) -> int:
    team = owner_of(configured(options))
    place = TopicPartition(options.topic, options.partition)

    def read(cluster: Cluster, settings: ClusterConfig, deadline: Deadline) -> ClusterReport[Explanation]:
        fate, waiting = explain(cluster, settings, place, options.offset, deadline)
        application = cluster.grouping.of(fate.transactional_id).name if fate.transactional_id else ""
        owner = team(application) if fate.transactional_id else ""
        return ClusterReport(cluster, (Explanation(fate, application, owner, waiting),))

    return run(options, read, Explanations())


class Explanations:
    """What became of the record in each cluster."""

    def document(self, reports: Sequence[ClusterReport[Explanation]]) -> Mapping[str, object]:
        """The record of each cluster that answered."""
        return {
            "records": [
                {"kafka_cluster": report.cluster.name, **_document(found)}
                for report in reports
                for found in report.found
            ],
            "not_asked": [text for report in reports for text in report.not_asked],
        }

    def print(self, reports: Sequence[ClusterReport[Explanation]]) -> None:
        """Print the record of each cluster that answered."""
        for report in reports:
            for found in report.found:
                _print(report.cluster, found, several=len(reports) > 1)

    def code(self, report: ClusterReport[Explanation]) -> int:
        """FOUND for a record that is not settled."""
        for found in (explanation.found for explanation in report.found):
            if found.state in _UNSETTLED or found.torn:
                return FOUND
            return CLEAN if found.state in _SETTLED else UNKNOWN
        return UNKNOWN


def explain(
    cluster: Cluster, settings: ClusterConfig, place: TopicPartition, offset: int, deadline: Deadline
) -> tuple[RecordFate, WaitingGroups | None]:
    """Find what became of a record, and who waits for it. Raises AskError."""
    reader = RecordReader(cluster, lambda: RangeConsumer(cluster.properties))
    found = reader.read(place, offset, deadline)
    if not found.holds_readers or found.ends is None:
        return found, None
    return found, waiting_groups(cluster, settings, place, found.ends, deadline)


def _document(explanation: Explanation) -> ExplainedRecordDocument:
    found, waiting = explanation.found, explanation.waiting
    batch, marker = found.batch, found.marker
    writer = marker if found.state is RecordState.MARKER else batch
    return document_of(
        ExplainedRecordDocument,
        found,
        **found.partition._asdict(),
        application=explanation.application,
        owner=explanation.owner,
        producer_id=writer.producer_id if writer else None,
        producer_epoch=writer.producer_epoch if writer else None,
        decided=None if found.decided is None else _kind(found.decided).lower(),
        begun=instant(found.begun),
        decided_at=instant(found.decided_at),
        timeout_seconds=found.timeout,
        marker=_kind(marker.commit).lower() if marker else None,
        marker_offset=marker.offset if marker else None,
        marker_is_own=None if marker is None or found.decided is None else found.own_marker,
        partitions=None if found.partitions is None else [place._asdict() for place in sorted(found.partitions)],
        log_start_offset=found.ends.log_start if found.ends else None,
        last_stable_offset=found.ends.stable if found.ends else None,
        high_watermark=found.ends.high_watermark if found.ends else None,
        waiting=None
        if waiting is None
        else [{"group": group.name, "committed_offset": group.committed} for group in waiting.groups],
        missing=list(explanation.missing),
    )


def _print(cluster: Cluster, explanation: Explanation, *, several: bool) -> None:
    found = explanation.found
    where = f"{cluster.name}: " if several else ""
    said = _SAID[found.state]
    if found.holds_readers and found.state in _READ:
        said += ", once the transactions before it in the partition have ended"
    print(printable(f"{where}{found.partition} offset {found.offset}: {said}"))
    rows = list(_rows(explanation))
    margin = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print(f"  {name:<{margin}}  {printable(value)}")
    for text in found.notes:
        print(printable(f"  note: {text}"))
    for text in explanation.missing:
        say(printable(f"not known: {text}"))


def _rows(explanation: Explanation) -> Iterator[tuple[str, str]]:
    found, marker = explanation.found, explanation.found.marker
    if found.transactional_id:
        owner = f", owner {explanation.owner}" if explanation.owner else ""
        yield "transactional.id", f"{found.transactional_id} (application {explanation.application}{owner})"
    writer = marker if found.state is RecordState.MARKER else found.batch
    if writer is not None and writer.producer_id is not None:
        yield "producer", f"id {writer.producer_id}, epoch {writer.producer_epoch}"
    if found.begun is not None:
        yield "begun", instant(found.begun) or ""
    if found.decided is not None:
        at = f" at {instant(found.decided_at)}" if found.decided_at is not None else ""
        torn = ", against what readers of this partition get: it is torn" if found.torn else ""
        yield "decided", f"{_kind(found.decided)}{at}{torn}"
    if marker is not None:
        own = "" if found.own_marker else ", of a later transaction of this producer: its own is missing"
        yield "marker", f"{_kind(marker.commit)} at offset {marker.offset}{own}"
    if found.partitions is not None:
        others = sorted(place for place in found.partitions if place != found.partition)
        yield "other partitions", some(others, MOST_NAMES) or "none"
    if found.ends is not None and found.state in {RecordState.BELOW_LOG_START, RecordState.BEYOND_END}:
        first, end = found.ends.log_start, found.ends.high_watermark
        yield "offsets", f"{first} to {end - 1}" if first < end else "none"
    if explanation.waiting is not None:
        groups = explanation.waiting.groups
        yield "waiting if read_committed", some([f"group {group.name}" for group in groups], MOST_NAMES) or "none"


def _kind(commit: bool) -> str:
    return "COMMIT" if commit else "ABORT"
