"""An audit that goes on: Structured Streaming says what is new, and a window of the past is kept beside it.

Spark's checkpoint decides which offsets a batch has, so a batch that is repeated after a crash is the same one: it
replaces its own files. Memory and disk are bounded by the window: 16 bytes for each record in it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from exporter import __version__
from exporter.audit_result.result import Finding
from exporter.jobs.audit.findings import Findings, merged
from exporter.jobs.audit.fold import Span, parts_of
from exporter.jobs.audit.job import Audit, Outcome, Portion, Say, check_expressions, failure, run
from exporter.jobs.audit.offset_range import cover
from exporter.jobs.audit.outcome import EVIDENCE_FILE, Report, Settings, described, report_of, unfinished, who_wrote
from exporter.jobs.audit.read import Access, Reader
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
    """``checkpoint`` is the folder of Spark's and of ours; ``window`` and ``interval`` are seconds."""

    checkpoint: Path
    window: float
    interval: float


@dataclass(frozen=True, slots=True)
class Standing:
    """All that is known after a batch; kept beside its fold."""

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
            Finding(each["kind"], each["topic"], each["count"], tuple(each["examples"])) for each in self.findings
        )


class Follow:
    """One audit that goes on. ``told`` gets the report after each batch."""

    def __init__(
        self,
        session: SparkSession,
        access: Access,
        audit: Audit,
        settings: Settings,
        following: Following,
        told: Callable[[Report], None],
        say: Say,
    ) -> None:
        self._session, self._access, self._audit = session, access, audit
        self._settings, self._following, self._told, self._say = settings, following, told, say
        self._folder = following.checkpoint / "audit"
        self._query_folder = following.checkpoint / "query"
        self._failed: Exception | None = None
        self._reader = Reader(session, access, audit.topic)

    def run(self, over: Event) -> Standing | None:
        """Goes on until ``over`` is set; gives how it stands then. Raises SessionError, AskError."""
        check_expressions(self._reader, self._audit)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(f"--checkpoint {self._following.checkpoint}: {error.strerror}") from None
        self._check_question()
        covered = cover(self._access.client, self._audit.topic, self._audit.begin, None, self._access.deadline())
        self._starts = {number: span.start for number, span in covered.spans.items()}
        self._unknown = covered.unknown
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
        # What Spark read for the batch is left alone: it is read again between the offsets that it wrote down.
        try:
            self._audited(number)
        except Exception as error:
            self._failed = error
            raise

    def _audited(self, number: int) -> None:
        before = self._standing(number - 1)
        ends, instant = planned(self._query_folder / "offsets" / str(number), self._audit.topic)
        began = dict(self._starts if before is None else {int(key): value[1] for key, value in before.fresh.items()})
        fresh = {each: Span(each, began.get(each, 0), end) for each, end in ends.items()}
        known = self._before(number)
        past = [each for each in known if each.batch_ms >= instant - self._following.window * 1000]
        window = {
            each: Span(
                each, min([span.start, *(one.fresh[str(each)][0] for one in past if str(each) in one.fresh)]), span.end
            )
            for each, span in fresh.items()
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
            standing = self._added(before, number, instant, fresh, outcome, findings.result())
            report = self._report(standing)
            if folder is not None:
                report.write(folder, self._settings.name)
        self._keep(standing)
        # What is out of the window is needed by no batch any more, a repeated one included.
        self._forget(one for one in known if one not in past and one.batch != number - 1)
        self._told(report)

    def _added(
        self,
        before: Standing | None,
        number: int,
        instant: int,
        fresh: Mapping[int, Span],
        outcome: Outcome,
        found: tuple[Finding, ...],
    ) -> Standing:
        known = before.found if before else ()
        return Standing(
            number,
            instant,
            {str(each): [span.start, span.end] for each, span in fresh.items()},
            {str(each): span.start for each, span in fresh.items()} if before is None else before.begun,
            outcome.records + (before.records if before else 0),
            outcome.aborted + (before.aborted if before else 0),
            [asdict(each) for each in merged(known, found, self._settings.most_shown)],
            list(dict.fromkeys([*(before.unknown if before else self._unknown), *outcome.unknown])),
            described(self._audit),
        )

    def _report(self, standing: Standing) -> Report:
        spans = {
            int(number): Span(int(number), standing.begun.get(number, start), end)
            for number, (start, end) in standing.fresh.items()
        }
        outcome = Outcome(standing.records, standing.aborted, spans, tuple(standing.unknown), ())
        return report_of(self._audit, self._settings, outcome, standing.found, time.time(), 0.0, __version__)

    # --- Files ---

    def _store(self, number: int) -> Path:
        return self._folder / f"fold-{number}"

    def _standing(self, number: int) -> Standing | None:
        file = self._folder / f"{number}.json"
        try:
            return Standing(**json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            if number < 0:
                return None
            raise SessionError(
                f"{file} is missing: the checkpoint is of no use without it; begin with a new one"
            ) from None
        except (ValueError, TypeError):
            raise SessionError(f"{file} cannot be read: begin with a new checkpoint") from None

    def _before(self, number: int) -> list[Standing]:
        numbers = sorted(int(file.stem) for file in self._folder.glob("*.json") if file.stem.isdecimal())
        return [one for each in numbers if each < number and (one := self._standing(each)) is not None]

    def _last(self) -> Standing | None:
        known = self._before(1 << 62)
        return known[-1] if known else None

    def _keep(self, standing: Standing) -> None:
        file = self._folder / f"{standing.batch}.json"
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(standing)), encoding="utf-8")
        os.replace(partial, file)  # noqa: PTH105 -- Path.replace is the same, this one says it

    def _forget(self, standings: Iterable[Standing]) -> None:
        for one in standings:
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
