"""A continuous audit: Structured Streaming finds new offsets, and the folds of a window of past batches are kept.

Spark's checkpoint decides the offsets of each batch, so a batch that is repeated after a crash is the same one: it
replaces its own files. Memory and disk are bounded by the window: 16 bytes for each record in it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from exporter.audit_results.result import Finding
from exporter.core.files import replace_file
from exporter.jobs.audit.definition import Audit, AuditOutcome, Portion
from exporter.jobs.audit.findings import Findings, merged
from exporter.jobs.audit.fold import OffsetSpan, parts_of
from exporter.jobs.audit.job import Say, check_expressions, failure, run
from exporter.jobs.audit.offset_range import cover
from exporter.jobs.audit.outcome import (
    EVIDENCE_FILE,
    AuditReport,
    AuditSettings,
    described,
    report_of,
    unfinished,
    who_wrote,
)
from exporter.jobs.audit.read import Reader, TopicAccess
from exporter.jobs.session import SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTS = 32
"""Parts of the hash space: fixed, since a fold is kept for later batches. Each may hold some two million records."""
BATCH_OFFSETS = 5_000_000
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Following:
    """``checkpoint`` is the folder for Spark's state and the audit's; ``window`` and ``interval`` are seconds."""

    checkpoint: Path
    window: float
    interval: float


@dataclass(frozen=True, slots=True)
class FollowState:
    """The state after a batch, stored beside its fold."""

    batch: int
    batch_ms: int
    fresh: dict[str, list[int]]
    begun: dict[str, int]
    records: int = 0
    aborted: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    question: dict[str, str] = field(default_factory=dict)

    @property
    def found(self) -> tuple[Finding, ...]:
        """The findings of all batches so far."""
        return tuple(
            Finding(finding["kind"], finding["topic"], finding["count"], tuple(finding["examples"]))
            for finding in self.findings
        )


class Follow:
    """One continuous audit. ``on_report`` is called with the report after each batch."""

    def __init__(
        self,
        session: SparkSession,
        access: TopicAccess,
        audit: Audit,
        settings: AuditSettings,
        following: Following,
        on_report: Callable[[AuditReport], None],
        say: Say,
    ) -> None:
        self._session, self._access, self._audit = session, access, audit
        self._settings, self._following, self._on_report, self._say = settings, following, on_report, say
        self._folder = following.checkpoint / "audit"
        self._query_folder = following.checkpoint / "query"
        self._failed: Exception | None = None
        self._reader = Reader(session, access, audit.topic)

    def run(self, over: Event) -> FollowState | None:
        """Run until ``over`` is set. Returns the state after the last batch. Raises SessionError, AskError."""
        check_expressions(self._reader, self._audit)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(f"--checkpoint {self._following.checkpoint}: {error.strerror}") from None
        self._check_question()
        covered = cover(self._access.client, self._audit.topic, self._audit.begin, None, self._access.deadline())
        self._starts = {number: span.start for number, span in covered.spans.items()}
        self._unknown = covered.unknown
        if covered.compacted:
            compacted = f"{self._audit.topic} is compacted: records may be removed before they are read"
            self._unknown = (*self._unknown, compacted)
        try:
            query = self._start()
            try:
                while query.isActive and not over.wait(LOOK_SECONDS):
                    pass
            finally:
                query.stop()
            if (failed := self._failed or query.exception()) is not None:
                raise failed
        except (PySparkException, Py4JError) as error:
            raise SessionError(failure(error)) from None
        return self._last()

    def _start(self) -> StreamingQuery:
        stream = (
            self._session.readStream.format("kafka")
            .options(**self._reader.options())
            .option("subscribe", self._audit.topic)
            .option("startingOffsets", json.dumps({self._audit.topic: {str(k): v for k, v in self._starts.items()}}))
            .option("maxOffsetsPerTrigger", str(BATCH_OFFSETS))
            .load()
        )
        return (
            stream.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(self._query_folder))
            .trigger(processingTime=f"{max(1, round(self._following.interval))} seconds")
            .start()
        )

    def _batch(self, _: DataFrame, number: int) -> None:
        # The records that Spark read for the batch are not used: the job reads between the offsets in the checkpoint.
        try:
            self._audited(number)
        except Exception as error:
            self._failed = error
            raise

    def _audited(self, number: int) -> None:
        started = time.monotonic()
        before = self._state(number - 1)
        ends, instant = planned(self._query_folder / "offsets" / str(number), self._audit.topic)
        began = dict(self._starts if before is None else {int(key): value[1] for key, value in before.fresh.items()})
        fresh = {partition: OffsetSpan(partition, began.get(partition, 0), end) for partition, end in ends.items()}
        known = self._before(number)
        past = [past_state for past_state in known if past_state.batch_ms >= instant - self._following.window * 1000]
        window = {
            partition: OffsetSpan(
                partition,
                min([span.start, *(one.fresh[str(partition)][0] for one in past if str(partition) in one.fresh)]),
                span.end,
            )
            for partition, span in fresh.items()
        }
        portion = Portion(
            fresh, window, str(self._store(number)), tuple(str(self._store(one.batch)) for one in past), parts_of(PARTS)
        )
        with unfinished(self._settings) as folder:
            file = None if folder is None else folder / f"{self._settings.name}-{number}{EVIDENCE_FILE}"
            findings = Findings(self._audit.topic, file, who_wrote(self._access), self._settings.most_shown)
            try:
                outcome = run(self._session, self._access, self._audit, findings.take, self._say, portion)
            finally:
                findings.close()
            if file is not None and not findings.result():
                file.unlink()
            state = self._added(before, number, instant, fresh, outcome, findings.result())
            report = self._report(state, time.monotonic() - started)
            if folder is not None:
                report.write(folder, self._settings.name)
        self._keep(state)
        # No later or repeated batch needs batches outside of the window.
        self._delete(one for one in known if one not in past and one.batch != number - 1)
        self._on_report(report)

    def _added(
        self,
        before: FollowState | None,
        number: int,
        instant: int,
        fresh: Mapping[int, OffsetSpan],
        outcome: AuditOutcome,
        found: tuple[Finding, ...],
    ) -> FollowState:
        known = before.found if before else ()
        return FollowState(
            number,
            instant,
            {str(partition): [span.start, span.end] for partition, span in fresh.items()},
            {str(partition): span.start for partition, span in fresh.items()} if before is None else before.begun,
            outcome.records + (before.records if before else 0),
            outcome.aborted + (before.aborted if before else 0),
            [asdict(finding) for finding in merged(known, found, self._settings.most_shown)],
            list(dict.fromkeys([*(before.unknown if before else self._unknown), *outcome.unknown])),
            described(self._audit),
        )

    def _report(self, state: FollowState, seconds: float) -> AuditReport:
        """The report of all batches so far; ``seconds`` is what the last one took."""
        spans = {
            int(number): OffsetSpan(int(number), state.begun.get(number, start), end)
            for number, (start, end) in state.fresh.items()
        }
        outcome = AuditOutcome(state.records, state.aborted, spans, tuple(state.unknown), ())
        return report_of(self._audit, self._settings, outcome, state.found, time.time(), seconds)

    # --- Files ---

    def _store(self, number: int) -> Path:
        return self._folder / f"fold-{number}"

    def _state(self, number: int) -> FollowState | None:
        file = self._folder / f"{number}.json"
        try:
            return FollowState(**json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            if number < 0:
                return None
            raise SessionError(
                f"{file} is missing: the checkpoint is of no use without it; begin with a new one"
            ) from None
        except (ValueError, TypeError):
            raise SessionError(f"{file} cannot be read: begin with a new checkpoint") from None

    def _before(self, number: int) -> list[FollowState]:
        numbers = sorted(int(file.stem) for file in self._folder.glob("*.json") if file.stem.isdecimal())
        return [one for batch in numbers if batch < number and (one := self._state(batch)) is not None]

    def _last(self) -> FollowState | None:
        known = self._before(1 << 62)
        return known[-1] if known else None

    def _keep(self, state: FollowState) -> None:
        file = self._folder / f"{state.batch}.json"
        replace_file(file, json.dumps(asdict(state)))

    def _delete(self, states: Iterable[FollowState]) -> None:
        for one in states:
            shutil.rmtree(self._store(one.batch), ignore_errors=True)
            (self._folder / f"{one.batch}.json").unlink()

    def _check_question(self) -> None:
        last = self._last()
        if last is not None and last.question != described(self._audit):
            raise SessionError(
                f"--checkpoint {self._following.checkpoint} asks another question: {last.question};"
                " begin with a new one"
            )


def planned(file: Path, topic: str) -> tuple[dict[int, int], int]:
    """Where a batch ends, and when it was planned (Unix milliseconds), from Spark's checkpoint. Raises SessionError."""
    try:
        _, metadata, *sources = file.read_text(encoding="utf-8").splitlines()
        ends = json.loads(sources[0])[topic]
        return {int(number): int(end) for number, end in ends.items()}, int(json.loads(metadata)["batchTimestampMs"])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise SessionError(f"{file} cannot be used: {error!r}: begin with a new checkpoint") from None
