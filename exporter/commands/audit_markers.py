"""``audit markers``: transactions that were decided one way and marked another way in a partition."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from exporter.audit_results.result import AuditResult
from exporter.audit_results.torn_markers import markers_result
from exporter.bounds.text import printable
from exporter.cluster import Cluster
from exporter.commands.audit_post import add_agent_flags, agent_of, post
from exporter.commands.output import print_table, progress, say
from exporter.commands.runner import CLEAN, FOUND, UNKNOWN, ClusterReport, SectionForm, add_command, run
from exporter.commands.settings import add_duration_flag
from exporter.config import ClusterConfig
from exporter.core.durations import instant, seconds_of
from exporter.kafka.client import AskError
from exporter.kafka.log.markers import OffsetRange, look_back, read_markers
from exporter.kafka.log.tail import Polled
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, log_end_offsets, offsets_at, start_offsets
from exporter.model import Clock, Deadline, Fault, Reason, TopicPartition
from exporter.settings.values import bytes_of
from exporter.transactions.decided.log_gaps import SETTINGS, LogGaps, may_be_cleaned
from exporter.transactions.decided.shared_epoch import CLOCK_SLACK_MS
from exporter.transactions.decided.torn import (
    ComparisonStopped,
    DecidedLog,
    MarkerComparison,
    Torn,
    clocks_apart_ms,
    judge,
)
from exporter.transactions.source.log_range import Range, RangeConsumer, read_ranges
from exporter.transactions.transaction import Transaction
from exporter.views.command_documents import MarkersSection, TornDocument

BEFORE_MS = 3_600_000
"""The log is read from so long before the window: a transaction may have begun before it."""
READ_SHARE = 0.8
"""Share of the time that is left for reading markers: the rest is for the comparison of those that were read."""
MOST_QUESTIONS = 10
_EXAMPLES = """\
examples:
  kafka-eos-exporter audit markers --bootstrap-server kafka-1:9092
  kafka-eos-exporter audit markers --bootstrap-server kafka-1:9092 --since 6h --output json

Reads the transaction log and then, of every partition that its transactions name, the headers of the batches since
then: as many bytes as were written. Needs READ on __transaction_state and on these topics, __consumer_offsets included.

With --agent each result is posted: the page shows what is torn, and KafkaEosTornTransaction pages.

exit codes: 0 none is torn, 1 found, 2 some could not be compared, or the agent did not take a clean result
"""
_ADVICE = """\
A torn transaction is partly committed: read_committed consumers see its records in some partitions only."""
_ABORT_ADVICE = """\
An ABORT in a committed transaction was written by hand, with Kafka's tool, which must not be used where a coordinator
has it. The records that the transaction had written to that partition before it are skipped by read_committed
consumers, and are still in the log for read_uncommitted ones. Compare both sides, and write again what is missing from
its source."""
_MISSING_ADVICE = """\
A committed transaction without a marker in a partition: do not end it by hand, an abort marker destroys its records
there. The next commit of the same producer on that partition releases them; the next abort of it drops them."""


@dataclass(frozen=True, slots=True)
class MarkerReport:
    """The result for one cluster; ``error`` says why nothing was, "" otherwise. ``configured_name`` is the one in the
    settings, "" without one: an agent of one cluster takes that for it.
    """

    cluster: str
    configured_name: str
    judged: MarkerComparison
    offsets: int = 0
    error: str = ""

    @property
    def verdict(self) -> Literal["findings", "unknown", "clean"]:
        """findings, unknown or clean."""
        if self.judged.torn:
            return "findings"
        return "unknown" if self.error or self.judged.open_questions else "clean"


def add_to(audits: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``audit markers``."""
    parser = add_command(
        audits,
        "markers",
        _command,
        summary="torn transactions: COMMIT in one partition, ABORT or nothing in another",
        description="Compare the decision of each transaction with the markers in each of its partitions.",
        examples=_EXAMPLES,
        timeout=600.0,
    )
    parser.set_defaults(timeout=600.0, output="text")  # `audit` has defaults of its own
    add_duration_flag(parser, "--since", 3600.0, "how far back (1h)")
    text = "bytes of partitions to read at most, such as 1GiB; what was not compared then is said (no limit)"
    parser.add_argument("--max-bytes", type=_size, default=math.inf, metavar="SIZE", help=text)
    add_agent_flags(parser)


def _command(options: argparse.Namespace) -> int:
    agent = agent_of(options)
    delivered: list[bool] = []

    def read(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[MarkerReport]:
        try:
            report = look(cluster, options.since, deadline, options.max_bytes)
        except AskError as error:
            say(f"could not ask {cluster.target}: {error.fault.detail}")
            report = MarkerReport(
                cluster.name, cluster.configured_name, MarkerComparison((), 0, ()), error=error.fault.detail
            )
        if agent is not None:
            delivered.append(post(agent, _result(report)))
        return ClusterReport(cluster, (report,))

    code = run(options, read, SectionForm(_section, _print, lambda report: _CODES[report.found[0].verdict]))
    return code if all(delivered) else code or UNKNOWN


_CODES = {"findings": FOUND, "unknown": UNKNOWN, "clean": CLEAN}


def _result(report: MarkerReport) -> AuditResult:
    questions = ((report.error,) if report.error else ()) + report.judged.open_questions
    return markers_result(report.judged, questions, report.configured_name, time.time())


def _size(text: str) -> int:
    """A flag's size in bytes, for argparse."""
    try:
        return bytes_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def look(cluster: Cluster, since: float, deadline: Deadline, most_bytes: float = math.inf) -> MarkerReport:
    """Compare the transactions that completed in the last ``since`` seconds. Raises AskError.

    What the deadline and the limit of bytes left out is in the open questions.
    """

    def check() -> None:
        if deadline.over:
            raise ComparisonStopped("the time is over")

    try:
        return _compared(cluster, since, deadline, check, most_bytes)
    except ComparisonStopped as reason:  # before anything could be compared
        raise AskError(Fault(Reason.TIMEOUT, f"{reason}: the markers were not read")) from None


def _compared(
    cluster: Cluster, since: float, deadline: Deadline, check: Callable[[], None], most_bytes: float
) -> MarkerReport:
    since_ms = round((time.time() - since) * 1000)
    metadata = cluster.metadata(deadline)
    gaps = LogGaps(since_ms)
    log = _read_log(cluster, since_ms - BEFORE_MS, gaps, deadline, check)
    decisions = log.transactions()
    partitions = partitions_of(decisions, since_ms)
    ranges, faults = _ranges(cluster, metadata, partitions, deadline)
    offsets = sum(span.end - span.start for span in ranges.values())
    say(f"reading {offsets:,} offsets of {len(ranges)} partitions ...")
    compacted = _compacted(cluster, partitions, since_ms, deadline)
    with progress(f"reading the markers of {cluster.target}", offsets) as advance:
        reading = deadline.within(READ_SHARE * deadline.remaining())
        read = read_markers(cluster.client, metadata, ranges, reading, _checked(advance, reading, check), most_bytes)
    apart = clocks_apart_ms(decisions, read)
    if apart >= CLOCK_SLACK_MS:  # markers are found, and told apart, by their times
        text = f"clocks of brokers are {apart / 1000:.0f} s apart: no markers were compared, see NTP on each"
        return MarkerReport(cluster.name, cluster.configured_name, MarkerComparison((), 0, (text,)), offsets)
    judged = judge(decisions, read, since_ms, compacted, check)
    if judged.unproven:
        places = {torn.partition for torn in judged.unproven}
        look_back(cluster.client, metadata, {place: read[place] for place in places}, deadline)
        judged = judge(decisions, read, since_ms, compacted, check)
    questions = (*(fault.detail for fault in faults), *judged.open_questions)
    if log.undecodable:
        questions = (*questions, f"{log.undecodable} records of the transaction log are of a form unknown here")
    if log.without_partitions:
        questions = (
            *questions,
            f"{log.without_partitions} transactions have no record left that names their partitions",
        )
    questions = (*questions, *gaps.questions(judged.judged))
    return MarkerReport(cluster.name, cluster.configured_name, judged._replace(open_questions=questions), offsets)


def _checked(advance: Callable[[int], object], reading: Deadline, check: Callable[[], None]) -> Callable[[int], None]:
    """``advance`` that also ends a read that is to stop. Past ``reading`` each partition left is a fault of its own."""

    def advanced(offsets: int) -> None:
        if not reading.over:
            check()
        advance(offsets)

    return advanced


class _CheckedConsumer(RangeConsumer):
    """A consumer that calls ``check`` before each poll."""

    def __init__(self, properties: Properties, check: Callable[[], None]) -> None:
        super().__init__(properties)
        self._check = check

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        self._check()
        return super().poll(limit, seconds)


def _read_log(
    cluster: Cluster, since_ms: int, gaps: LogGaps, deadline: Deadline, check: Callable[[], None]
) -> DecidedLog:
    """Fold the transaction log from an instant to its end at the time of the call. Raises AskError, and what ``check``
    raises.

    The record before that instant is read, too: between it and the next one nothing is missing.
    """
    # By name: an answer about all topics leaves out those without DESCRIBE.
    metadata = cluster.metadata(deadline, [TRANSACTION_STATE])
    places = metadata.partitions(TRANSACTION_STATE)
    if not places:
        if metadata.denies(TRANSACTION_STATE):
            raise AskError(metadata.errors[TRANSACTION_STATE])
        return DecidedLog()
    starts = offsets_at(cluster.client, metadata, dict.fromkeys(places, since_ms), deadline)
    begins = start_offsets(cluster.client, metadata, places, deadline)
    ends = log_end_offsets(cluster.client, metadata, places, deadline)
    for fault in (*starts.faults, *begins.faults, *ends.faults):
        raise AskError(fault)
    # Where nothing came since, the end.
    first = {place.partition: start if start >= 0 else ends.values[place] for place, start in starts.values.items()}
    ranges = {
        place.partition: Range(place.partition, max(begin, first[place.partition] - 1), ends.values[place])
        for place, begin in begins.values.items()
    }
    for number, span in ranges.items():
        gaps.begin(number, span.start if first[number] > span.start else 0)
    say(
        f"reading {sum(max(0, span.end - span.start) for span in ranges.values()):,} records of the transaction log ..."
    )
    log = DecidedLog()
    reader = _CheckedConsumer(cluster.properties, check)
    try:
        for messages in read_ranges(reader, ranges, deadline.remaining(), Clock()):
            for message in messages:
                number, offset = message.partition(), message.offset()
                gaps.read(number, offset, message.timestamp()[1])
                key, value = message.key(), message.value()
                if key is not None and offset >= first[number]:
                    log.take(number, offset, message.timestamp()[1], key, value)
    finally:
        reader.close()
    for number, span in ranges.items():
        gaps.ended(number, span.end)
    return log


def partitions_of(decisions: Iterable[Transaction], since_ms: int) -> dict[TopicPartition, int]:
    """The partitions of the transactions to compare, with the instant from which on markers of these may be there.

    A marker by hand may be as old as its transaction: it is written while that is open.
    """
    found: dict[TopicPartition, int] = {}
    for decision in decisions:
        if decision.completed_ms is not None and decision.completed_ms >= since_ms:
            begun_ms = decision.begun_ms if decision.begun_ms >= 0 else since_ms
            for place in decision.partitions or ():
                found[place] = min(found.get(place, since_ms), begun_ms)
    return {place: found[place] - CLOCK_SLACK_MS for place in sorted(found)}


def _ranges(
    cluster: Cluster, metadata: Metadata, partitions: Mapping[TopicPartition, int], deadline: Deadline
) -> tuple[Mapping[TopicPartition, OffsetRange], tuple[Fault, ...]]:
    """Offsets to read in each partition: from an instant to its high watermark, requested after the log was read."""
    client = cluster.client
    ends = end_offsets(client, metadata, partitions, Isolation.READ_UNCOMMITTED, deadline)
    first = offsets_at(client, metadata, partitions, deadline)
    ranges = {
        place: OffsetRange(end if start < 0 else start, end)
        for place, end in ends.values.items()
        if (start := first.values.get(place)) is not None
    }
    return ranges, tuple(dict.fromkeys((*ends.faults, *first.faults)))


def _compacted(
    cluster: Cluster, partitions: Iterable[TopicPartition], since_ms: int, deadline: Deadline
) -> frozenset[str]:
    """Topics whose cleaner may have taken markers of the window, and those whose settings are not known."""
    topics = sorted({partition.topic for partition in partitions})
    answers = cluster.client.configs("topic", topics, SETTINGS, deadline)
    window_ms = int(time.time() * 1000 - since_ms) + 1  # what is kept for no longer than the window may be gone
    return frozenset(topic for topic in topics if may_be_cleaned(answers.get(topic), window_ms) is not False)


def _section(read: ClusterReport[MarkerReport]) -> MarkersSection:
    (report,) = read.found
    return {
        "verdict": report.verdict,
        "transactions": report.judged.judged,
        "offsets": report.offsets,
        "torn": [_torn_document(torn) for torn in report.judged.torn],
        "not_compared": [*([report.error] if report.error else ()), *report.judged.open_questions],
    }


def _torn_document(torn: Torn) -> TornDocument:
    decision, marker = torn.decision, torn.marker
    return {
        "transactional_id": decision.transactional_id,
        "producer_id": decision.producer_id,
        "producer_epochs": sorted(decision.marker_epochs | decision.client_epochs),
        "decided": "commit" if decision.commit else "abort",
        "begun": instant(seconds_of(decision.begun_ms)),
        "completed": instant(seconds_of(decision.completed_ms)),
        "partitions": sorted(map(str, decision.partitions or ())),
        "topic": torn.partition.topic,
        "partition": torn.partition.partition,
        "marker": None if marker is None else "commit" if marker.commit else "abort",
        "marker_offset": None if marker is None else marker.offset,
        "marker_time": None if marker is None else instant(seconds_of(marker.timestamp_ms)),
    }


def _print(read: ClusterReport[MarkerReport], _: bool) -> None:
    (report,) = read.found
    if report.error:
        return
    say(f"{report.judged.judged:,} transactions compared, {len(report.judged.torn)} torn places")
    if report.judged.torn:
        print_table(
            ("transactional.id", "producer id", "decided", "topic", "partition", "found", "completed"),
            (_row(torn) for torn in report.judged.torn),
            {"producer id", "partition"},
        )
        print(_ADVICE)
        if any(torn.marker is not None for torn in report.judged.torn):
            print(_ABORT_ADVICE)
        if any(torn.marker is None and torn.decision.commit for torn in report.judged.torn):
            print(_MISSING_ADVICE)
    for text in report.judged.open_questions[:MOST_QUESTIONS]:
        say(printable(f"not compared: {text}"))
    if len(report.judged.open_questions) > MOST_QUESTIONS:
        say(f"and {len(report.judged.open_questions) - MOST_QUESTIONS} more")


def _row(torn: Torn) -> tuple[object, ...]:
    decision = torn.decision
    decided = "COMMIT" if decision.commit else "ABORT"
    where = torn.partition
    completed = instant(seconds_of(decision.completed_ms))
    return decision.transactional_id, decision.producer_id, decided, where.topic, where.partition, torn.found, completed
