"""The journal: it tells every stall and every unclean end, with its holder and its end, or that it cannot tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import isinf

from tests.chaos.evidence import RunEvidence
from tests.chaos.oracle.offset_observer import UnmovedOffset
from tests.chaos.oracle.outcomes import OracleTransaction
from tests.chaos.verdict import told
from tests.chaos.verdict.stalls import ESTIMATE_SECONDS, MISSED_AFTER, due_at
from tests.chaos.verdict.told import ToldGap, ToldStall
from tests.chaos.verdict.values import STALE_SECONDS, Disagreement

END_SECONDS = 10.0
"""How far the end of a stall may be from when the partition moved."""
SETTLE_SECONDS = 30.0
"""How long the journal waits for the decision that ended a stall before it tells the end; a kill loses what it saw."""
SLACK_MS = 1000
ESTIMATE_MS = round(1000 * ESTIMATE_SECONDS)
_MARKERS = {"committed": True, "aborted": False, "timed_out": False}
"""The marker of how a stall ended: COMMIT or ABORT."""


def journal_stalls(evidence: RunEvidence) -> Iterator[Disagreement]:
    """Each LSO that did not move for 30 s is told with its holder and its end; otherwise the journal has a gap."""
    stalls = told.stalls(evidence.journal, evidence.lives)
    gaps = told.gaps(evidence.journal, evidence.lives, evidence.scrapes[-1].at)
    for place, found in evidence.standings.items():
        for standing in found:
            if standing.ended - standing.began < MISSED_AFTER or not evidence.journal:
                continue
            stall = stalls.get((place, standing.offset))
            where = f"{place[0]}-{place[1]} at {standing.offset} from {evidence.ago(standing.began)}"
            if stall is None:
                if due_at(evidence, standing) is not None or not _in_gap(gaps, standing.began, standing.ended):
                    yield Disagreement("journal: stall", f"{where} to {evidence.ago(standing.ended)} is not told")
                continue
            wrong = (
                _wrong_end(evidence, stall, standing, gaps),
                _wrong_holder(evidence, stall, standing),
                _wrong_how(evidence, stall),
            )
            if text := next(filter(None, wrong), ""):
                yield Disagreement("journal: stall", f"{where}: {text}")


def _wrong_end(evidence: RunEvidence, stall: ToldStall, standing: UnmovedOffset, gaps: Sequence[ToldGap]) -> str:
    if isinf(standing.after):
        return "its end is told, and it has none" if stall.ends else ""
    unseen = _in_gap(gaps, standing.ended, standing.after + (0.0 if stall.end_seen else SETTLE_SECONDS))
    if not stall.ends:
        last = evidence.scrapes[-1].at - STALE_SECONDS - SETTLE_SECONDS
        return "" if unseen or standing.after > last else f"its end at {evidence.ago(standing.ended)} is not told"
    if any(standing.ended - END_SECONDS <= end <= standing.after + END_SECONDS for end in stall.ends):
        return ""
    if unseen and max(stall.ends) >= standing.ended - END_SECONDS:
        return ""
    ends = ", ".join(map(evidence.ago, stall.ends))
    return f"its end is told at {ends}; it moved from {evidence.ago(standing.ended)} to {evidence.ago(standing.after)}"


def _wrong_holder(evidence: RunEvidence, stall: ToldStall, standing: UnmovedOffset) -> str:
    """The producer id is that of the holder, and the name, where one is told."""
    truth = evidence.records_at(stall.place, stall.offset)
    if truth is None:
        return "no transaction of the log begins there"
    orphan = any(
        (transaction.place, transaction.start) == (stall.place, stall.offset) for transaction in evidence.orphans
    )
    right = "" if orphan else evidence.owner(truth.producer_id)
    if (stall.producer_id, stall.transactional_id) in {(truth.producer_id, right), (truth.producer_id, "")}:
        return ""
    if stall.producer_id is None and due_at(evidence, standing) is None:
        return ""  # no agent that lived for long enough could ask its leader
    who = f"{stall.kind} {stall.transactional_id!r} producer {stall.producer_id}"
    return f"held by {who} as it is told; it is {right!r} producer {truth.producer_id}"


def _wrong_how(evidence: RunEvidence, stall: ToldStall) -> str:
    """The marker that ended the records is that of how they are told to have ended.

    An end that no agent saw is told by the decision alone, and says so.
    """
    truth = evidence.records_at(stall.place, stall.offset)
    if (
        truth is None
        or truth.end is None
        or not stall.end_seen
        or stall.how not in _MARKERS
        or _MARKERS[stall.how] is truth.committed
    ):
        return ""
    return f"told as {stall.how}; its marker at {truth.end} is {'COMMIT' if truth.committed else 'ABORT'}"


def journal_ends(evidence: RunEvidence) -> Iterator[Disagreement]:
    """Each fence and timeout is told once, and no other; those in a gap may be missing.

    They are dated to the millisecond by the log, or where clocks are apart by the estimate of their distances.
    """
    if not evidence.journal:
        return
    gaps = told.gaps(evidence.journal, evidence.lives, evidence.scrapes[-1].at)
    slack_ms = ESTIMATE_MS if evidence.mode.clocks else 0
    left: dict[tuple[str, str, int | None], Counter[int]] = defaultdict(Counter)
    others = Counter[tuple[str, str]]()
    for end in told.unclean_ends(evidence.journal):
        if end.transactional_id:
            left[end.outcome, end.transactional_id, end.producer_id][round(end.at * 1000)] += 1
        else:
            others[end.outcome, end.application] += end.transactions
    for transaction in evidence.transactions:
        if transaction.outcome not in told.UNCLEAN or not transaction.completed:
            continue
        ends = left[transaction.outcome, transaction.transactional_id, transaction.producer_id]
        at = min(ends, key=lambda instant: abs(instant - transaction.completed), default=0)
        number = ends.pop(at, 0) if abs(at - transaction.completed) <= slack_ms else 0
        if number == 1:
            continue
        if others[transaction.outcome, transaction.application]:
            others[transaction.outcome, transaction.application] -= 1
        elif number or not _in_gap(gaps, transaction.decided / 1000, transaction.completed / 1000):
            how = f"is told {number} times" if number else "is not told"
            ended = f"{transaction.outcome} at {evidence.ago(transaction.completed / 1000)}"
            text = f"{transaction.transactional_id} {ended} {how}"
            yield Disagreement("journal: unclean end", text)
    for (outcome, transactional_id, _), ends in left.items():
        for at, number in ends.items():
            text = f"{number} {outcome} of {transactional_id} at {evidence.ago(at / 1000)} did not happen"
            yield Disagreement("journal: unclean end", text)


def journal_torn(evidence: RunEvidence) -> Iterator[Disagreement]:
    """What is told to be torn has not the marker of its decision in the segment files.

    Its own marker was written before it completed: a later one is that of a transaction after it, which released the
    records of one whose marker was dropped. The date of what is told is by an estimate where clocks are apart.
    """
    by_producer: dict[int, list[OracleTransaction]] = defaultdict(list)
    for transaction in evidence.transactions:
        by_producer[transaction.producer_id].append(transaction)
    for event in evidence.journal:
        if event["kind"] != "torn":
            continue
        subject, at = event["subject"], event["timestamp"] * 1000
        place = subject["topic"], subject["partition"]
        meant = [
            transaction
            for transaction in by_producer[subject["producer_id"]]
            if transaction.decided - SLACK_MS <= at <= transaction.completed + SLACK_MS
            and place in transaction.partitions
        ]
        if meant and all(_is_marked(evidence, transaction, place) for transaction in meant):
            where = f"{place[0]}-{place[1]} at {evidence.ago(event['timestamp'])}"
            text = f"{subject['transactional_id']} in {where}: {event['evidence']}, and its marker is there"
            yield Disagreement("journal: torn", text)


def _is_marked(evidence: RunEvidence, transaction: OracleTransaction, place: tuple[str, int]) -> bool:
    """Whether a partition has the marker of a transaction's decision."""
    marked = [
        one.committed == (transaction.outcome == "committed")
        for one in evidence.held.get(place, ())
        if one.ended is not None
        and one.ended * 1000 <= transaction.completed + SLACK_MS
        and one.producer_id == transaction.producer_id
        # The machine has one clock, and a marker ends records from before the decision.
        and transaction.started - 1 <= one.appended * 1000 <= transaction.decided + 1
    ]
    return bool(marked) and all(marked)


def _in_gap(gaps: Sequence[ToldGap], begin: float, end: float) -> bool:
    """Whether a part of this time is in a gap, or in the seconds after it in which the first reads are made."""
    return any(gap.begin - END_SECONDS <= end and begin <= gap.end + STALE_SECONDS for gap in gaps)
