"""Stalls: none invented, none missed, the right holder, and nothing hangs but the orphans."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.agent import STALL_AFTER
from tests.chaos.evidence import BlockerClaim, Place, RunEvidence
from tests.chaos.oracle.offset_observer import UnmovedOffset, moved_at
from tests.chaos.verdict.values import LOOK_SECONDS, STALE_SECONDS, WELL_SECONDS, Disagreement, label

MISSED_AFTER = 30.0
FOUND_WITHIN = 120.0
ESTIMATE_SECONDS = 2.0
"""By how much a wrong clock's distance is estimated too large: the delay of the least delayed record."""


def no_stall_invented(evidence: RunEvidence) -> Iterator[Disagreement]:
    """No stall is reported of a partition that moved, none before its time, and none begins again."""
    since: dict[tuple[Place, int], tuple[BlockerClaim, tuple[float, ...]]] = {}
    for claim in evidence.claims():
        at, where = claim.scrape.at, f"{claim.place[0]}-{claim.place[1]} at {claim.offset}"
        about = claim.place, claim.offset, claim.scrape.life
        standing = evidence.standing(claim.place, claim.offset)
        moved = moved_at(list(evidence.looks.get(claim.place, ())), claim.offset)
        if at > moved + STALE_SECONDS and not evidence.just_paused(at, STALE_SECONDS):
            text = f"{where} is told at {evidence.ago(at)}, and had moved by {evidence.ago(moved)}"
            yield Disagreement("stall of what moved", f"{text}; faults: {evidence.faults_near(at)}", about)
        if standing is None:
            continue
        stood = evidence.stood_from(claim, standing)
        if at < stood + STALL_AFTER - LOOK_SECONDS:
            text = f"{where} is told at {evidence.ago(at)}, and did not stand at {evidence.ago(stood)}"
            yield Disagreement("stall too early", f"{text}; faults: {evidence.faults_near(at)}", about)
        if not (meant := evidence.since(claim)):
            continue
        first, told = since.setdefault((claim.place, claim.offset), (claim, meant))
        slack = LOOK_SECONDS + (ESTIMATE_SECONDS if evidence.clock(claim.scrape) or evidence.clock(first.scrape) else 0)
        if min(meant) > max(told) + slack:
            text = f"{where} stands since {evidence.ago(max(told))} at {evidence.ago(first.scrape.at)}"
            later = f"since {evidence.ago(min(meant))} at {evidence.ago(at)}"
            yield Disagreement(
                "a stall begins again", f"{text}, and {later}; {evidence.clocks_of(first, claim)}", about
            )
        if standing.before and max(meant) < evidence.dated_from(claim, standing) - slack:
            text = f"{where} is told at {evidence.ago(at)} to stand since {evidence.ago(max(meant))}"
            clocks = evidence.clocks_of(claim)
            yield Disagreement("since", f"{text}, and did not stand at {evidence.ago(stood)}; {clocks}", about)


def no_stall_missed(evidence: RunEvidence) -> Iterator[Disagreement]:
    """An LSO that did not move for 30 s is reported, once leader and source answered for 20 s of them."""
    told: dict[tuple[Place, int], float] = {}
    for claim in evidence.claims():
        told.setdefault((claim.place, claim.offset), claim.scrape.at)
    for place, found in evidence.standings.items():
        for standing in found:
            due = due_at(evidence, standing)
            when = told.get((place, standing.offset), float("inf"))
            if due is not None and when > due + LOOK_SECONDS:
                seen = f"told at {evidence.ago(when)}" if when < float("inf") else "never told"
                yield Disagreement(
                    "stall missed",
                    f"{place[0]}-{place[1]} stood at {standing.offset} from {evidence.ago(standing.began)} to "
                    f"{evidence.ago(standing.ended)}, due by {evidence.ago(due)}, {seen}; "
                    f"faults: {evidence.faults_near(due, 40)}",
                )


def due_at(evidence: RunEvidence, standing: UnmovedOffset) -> float | None:
    """When an agent that reads well must have reported it; None where it need not."""
    return next(
        (
            at
            for at in standing.answered
            if at >= standing.began + MISSED_AFTER
            and at <= standing.ended - 1
            and evidence.reads_well(at - WELL_SECONDS, at)
            and sum(number >= at - WELL_SECONDS for number in standing.answered if number <= at) >= WELL_SECONDS - 3
        ),
        None,
    )


def holders(evidence: RunEvidence) -> Iterator[Disagreement]:
    """Who is said to hold a partition is who holds it, and open, completing or hanging as it is said."""
    for claim in evidence.claims():
        if claim.kind == "unknown" or evidence.just_paused(claim.scrape.at, STALE_SECONDS):
            continue
        wrong = _wrong_holder(evidence, claim)
        if wrong:
            who = f"{claim.kind} {claim.transactional_id!r} producer {claim.producer_id} epoch {claim.epoch}"
            yield Disagreement(
                "holder",
                f"{claim.place[0]}-{claim.place[1]} at {claim.offset}: {who} from {claim.start} is told at "
                f"{evidence.ago(claim.scrape.at)}: {wrong}; faults: {evidence.faults_near(claim.scrape.at)}",
                (claim.place, claim.offset, claim.scrape.life, who),
            )


def _wrong_holder(evidence: RunEvidence, claim: BlockerClaim) -> str:
    truth = evidence.records_at(claim.place, claim.offset)
    if truth is None:
        return "no transaction of the log begins there"
    # The server ends a transaction with the next epoch: what is completing may be named with either.
    last = max(truth.epoch, truth.last_epoch)
    epochs = {None, *range(truth.epoch, last + 1), last + 1 if claim.kind == "completing" else None}
    if (claim.producer_id, claim.start) != (truth.producer_id, truth.start) or claim.epoch not in epochs:
        return f"it is producer {truth.producer_id} epoch {truth.epoch}"
    if claim.kind == "unmarked" and not _is_committed(evidence, claim):
        return "no transaction of its producer was committed"
    if claim.kind == "unmarked":
        return ""
    if claim.kind == "hanging":
        return evidence.why_kept(claim.place, truth, claim.scrape.at)
    if not (owner := evidence.owner(truth.producer_id)):
        return "it is an orphan"
    if claim.transactional_id != owner:
        return f"it is of {owner}"
    history = evidence.histories[owner]
    at = claim.scrape.at * 1000
    stale, latest = at - STALE_SECONDS * 1000, max(at, claim.scrape.ended * 1000)
    theirs = [
        transaction
        for transaction in (*history.transactions, *([history.open] if history.open else []))
        if transaction.producer_id == truth.producer_id
        and transaction.started <= at
        and (not transaction.completed or transaction.completed >= stale)
    ]
    if claim.kind == "open" and not any(evidence.decided_at(their) * 1000 >= stale for their in theirs):
        return "it was decided before"
    if claim.kind == "completing" and not any(their.decided and their.decided <= latest + 1000 for their in theirs):
        return "it was not decided"
    return ""


def _is_committed(evidence: RunEvidence, claim: BlockerClaim) -> bool:
    """Whether the log has a commit of the producer in the partition that was decided before it was said."""
    history = evidence.histories.get(claim.transactional_id)
    return history is not None and any(
        transaction.outcome == "committed"
        and transaction.producer_id == claim.producer_id
        and claim.place in transaction.partitions
        and transaction.decided <= claim.scrape.at * 1000
        for transaction in history.transactions
    )


def hanging(evidence: RunEvidence) -> Iterator[Disagreement]:
    """Nothing is said to hang that was promised or may still be committed, and no topic has more than there are."""
    for claim in evidence.claims():
        truth = evidence.records_at(claim.place, claim.start)
        if claim.kind == "hanging" and (truth is None or evidence.why_kept(claim.place, truth, claim.scrape.at)):
            where = f"{claim.place[0]}-{claim.place[1]} at {claim.offset}, producer {claim.producer_id}"
            text = f"{where} is told at {evidence.ago(claim.scrape.at)}: {evidence.faults_near(claim.scrape.at)}"
            yield Disagreement("hanging, invented", text, (claim.place, claim.start, claim.scrape.life))
    for scrape in evidence.scrapes:
        for series, value in scrape.samples.items():
            if series[0] == "kafka_eos_hanging_transactions" and value:
                topic = label(series, "topic")
                most = _hanging(evidence, topic, scrape.at)
                if value > most:
                    near = evidence.faults_near(scrape.at)
                    text = f"{topic}: {value:g} at {evidence.ago(scrape.at)}, where there are {most}; faults: {near}"
                    yield Disagreement("hanging, invented", text, (topic, scrape.life, round(scrape.at / 30)))


def _hanging(evidence: RunEvidence, topic: str, at: float) -> int:
    """How many open records of the topic were promised to nobody, and not ended long before."""
    return sum(
        not evidence.why_kept(place, transaction, at)
        for place, every in evidence.held.items()
        for transaction in every
        if place[0] == topic
        and transaction.appended <= at
        and (transaction.ended is None or transaction.ended >= at - STALE_SECONDS)
    )


def orphans_found(evidence: RunEvidence) -> Iterator[Disagreement]:
    """An orphan from before the faults is found within two minutes, and ended by its line.

    One that is planted among the faults may be unknown for longer than a run lasts, after an election of the log, and
    so may all in a cluster that was stopped and started.
    """
    if evidence.mode.cluster == "flip" and evidence.elsewhere:
        return
    found = found_orphans(evidence)
    for orphan in evidence.orphans:
        at = found.get(orphan.place)
        late = at is None or at > orphan.at + FOUND_WITHIN
        if orphan.at < evidence.began and (late or orphan.place in evidence.unended()):
            when = f"found at {evidence.ago(at)}" if at is not None else "never found"
            planted = evidence.ago(orphan.at)
            yield Disagreement(
                "orphan", f"{orphan.place[0]}-{orphan.place[1]} from {orphan.start}: {when}; planted at {planted}"
            )


def found_orphans(evidence: RunEvidence) -> dict[Place, float]:
    """When each was first reported, by its partition."""
    found: dict[Place, float] = {}
    planted = {(orphan.place, orphan.start, orphan.producer_id) for orphan in evidence.orphans}
    for claim in evidence.claims():
        if claim.kind == "hanging" and (claim.place, claim.start, claim.producer_id) in planted:
            found.setdefault(claim.place, claim.scrape.at)
    return found
