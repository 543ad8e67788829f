"""Promises: no line for what a client was told is committed, and nothing promised is lost by following the lines."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.evidence import Place, RunEvidence
from tests.chaos.verdict.values import Disagreement


def no_line_for_what_is_promised(evidence: RunEvidence) -> Iterator[Disagreement]:
    """Every printed line is for open records that were promised to nobody, and that nobody may still commit."""
    for claim in evidence.claims():
        if " abort " in claim.next_step and "--start-offset" in claim.next_step:
            yield from _wrong_line(evidence, claim.place, claim.start, claim.scrape.at, claim.next_step)
    for line in evidence.followed:
        if line.place is not None and line.start is not None and " abort " in line.line:
            yield from _wrong_line(evidence, line.place, line.start, line.at, line.line)


def _wrong_line(evidence: RunEvidence, place: Place, start: int, at: float, line: str) -> Iterator[Disagreement]:
    truths = [
        transaction
        for transaction in (evidence.records_at(place, start), evidence.lost_at(place, start))
        if transaction is not None
    ]
    reasons = [evidence.why_kept(place, truth, at) for truth in truths] or ["no open records begin there"]
    if why := next(filter(None, reasons), ""):
        text = f"{place[0]}-{place[1]} from {start} at {evidence.ago(at)}: {why}; faults: {evidence.faults_near(at)}"
        yield Disagreement("abort line", f"{text}; {line}", (place, start))


def nothing_promised_is_lost(evidence: RunEvidence) -> Iterator[Disagreement]:
    """No record that a client was told is committed has an abort marker of a line that was run."""
    for line in evidence.followed:
        if line.place is None or line.start is None or line.code != 0:
            continue
        truth = evidence.records_at(line.place, line.start)
        if truth is None or truth.ended is None or truth.committed:
            continue
        lost = {token for token, at in truth.tokens.items() if at <= line.ended} & evidence.books.committed
        if lost:
            text = f"{line.place[0]}-{line.place[1]} from {line.start}: {sorted(lost)[:5]}; {line.line}"
            yield Disagreement("lost by following", text, (line.place, line.start))
