"""One read of one source, to a snapshot. The one broad ``except`` of the project is here: see ``read_source``."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from exporter.model import (
    Clock,
    Deadline,
    Fact,
    Facts,
    Fault,
    Kind,
    Reason,
    Sample,
    SampleBatch,
    Snapshot,
    Source,
    checked,
)

log = logging.getLogger(__name__)


def log_traceback(error: Exception, source: Source) -> None:
    """Log a bug of a source with its traceback."""
    log.error("source %s of %s failed: this is a bug", source.name, source.target, exc_info=error)


def read_source(
    source: Source,
    deadline: Deadline,
    facts: Facts,
    clock: Clock,
    on_bug: Callable[[Exception, Source], None] = log_traceback,
) -> Snapshot:
    """Read a source once. What it yielded before it raised is kept, and the exception becomes a Fault(INTERNAL)."""
    samples: list[Sample] = []
    batches: list[SampleBatch] = []
    faults: list[Fault] = []
    made: list[Fact] = []
    began = clock.monotonic()
    try:
        for item in source.read(deadline, facts):
            if isinstance(item, Sample):
                samples.append(checked(item))
            elif isinstance(item, SampleBatch):
                batches.append(item)
            elif isinstance(item, Fault):
                faults.append(item)
            else:
                made.append(item)
    except Exception as error:  # noqa: BLE001 -- the one place: a bug in one source is that source's fault
        on_bug(error, source)
        # The fault has no text of the exception, which may hold secrets. The log has it.
        faults.append(Fault(Reason.INTERNAL, f"{raised_at(error)}; the log has the traceback"))
    ended = clock.monotonic()
    return Snapshot(
        source=source.name,
        target=source.target,
        cluster=source.cluster,
        interval=source.interval,
        samples=tuple(samples),
        faults=tuple(faults),
        facts=tuple(made),
        duration=ended - began,
        ended=ended,
        wall=clock.wall(),
        batches=tuple(batches),
    )


def only_lasting(snapshot: Snapshot, late: float) -> Snapshot:
    """Keep of a read that returned ``late`` seconds after its deadline only its counters, and add a fault."""
    detail = f"a read came back {late:.0f} s after its deadline, so what it saw is as old: was the process stopped?"
    return replace(
        snapshot,
        samples=tuple(sample for sample in snapshot.every_sample() if sample.metric.kind is not Kind.GAUGE),
        batches=(),
        faults=(*snapshot.faults, Fault(Reason.TIMEOUT, detail)),
        facts=(),
    )


def raised_at(error: Exception) -> str:
    """The type of an exception and the line that raised it."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    line = f" in {place.tb_frame.f_code.co_name}, line {place.tb_lineno}" if place else ""
    return f"{type(error).__name__}{line}"


def is_blind(snapshot: Snapshot) -> bool:
    """Return whether a read had a fault and gave no gauge. Counters alone do not show that a read succeeded."""
    return not snapshot.up and not any(sample.metric.kind is Kind.GAUGE for sample in snapshot.every_sample())


def next_start(began: float, now: float, interval: float) -> float:
    """When the next read begins: a whole number of intervals after the last start. Intervals missed by an overrun are
    skipped.
    """
    return began + interval * max(1, math.ceil((now - began) / interval))
