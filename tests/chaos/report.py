"""The verdict for people, as plain tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.chaos.evidence import RunEvidence
from tests.chaos.oracle.outcomes import OUTCOMES
from tests.chaos.verdict.counts import told_outcomes, true_outcomes
from tests.chaos.verdict.stalls import found_orphans
from tests.chaos.verdict.values import Disagreement
from tests.chaos.workloads import APPLICATIONS

MOST_OF_A_KIND = 12


def report(evidence: RunEvidence, disagreements: Sequence[Disagreement]) -> str:
    """All of it, as lines."""
    return "\n".join(
        [
            *_head(evidence),
            "",
            *_faults(evidence),
            "",
            *_outcomes(evidence),
            "",
            *_orphans(evidence),
            *_markers(evidence),
            *_end(disagreements),
        ]
    )


def _head(evidence: RunEvidence) -> Iterator[str]:
    seconds = evidence.quiet_at - evidence.began
    answered = sum(not scrape.error for scrape in evidence.scrapes)
    faults, transactions = len(evidence.episodes), len(evidence.transactions)
    yield f"seed {evidence.seed}: {faults} faults in {seconds:.0f} s, {transactions} transactions"
    lives, stops, scrapes = len(evidence.lives), len(evidence.pauses), len(evidence.scrapes)
    yield f"agent: {lives} lives, {stops} stops, {answered} of {scrapes} scrapes answered"
    books = evidence.books
    yield (
        f"clients: {len(books.begun)} begun, {len(books.committed)} commits and {len(books.aborted)} aborts "
        f"acknowledged, {len(books.displaced)} displaced by another incarnation, {books.refused} refused"
    )
    if evidence.unclean_elections:
        yield f"{evidence.unclean_elections} unclean elections: the cluster may have lost what it acknowledged"
    stood = [unmoved.ended - unmoved.began for found in evidence.standings.values() for unmoved in found]
    claims = list(evidence.claims())
    long, short = sum(number >= 30 for number in stood), sum(10 <= number < 30 for number in stood)
    told, kinds = {(claim.place, claim.offset) for claim in claims}, Counter(claim.kind for claim in claims)
    yield f"stalls: {long} of 30 s and more, {short} of 10 to 30 s; told: {len(told)}, in scrapes by kind {dict(kinds)}"


def _faults(evidence: RunEvidence) -> Iterator[str]:
    done = Counter(episode.fault.kind for episode in evidence.episodes if not episode.trouble)
    failed = Counter(episode.fault.kind for episode in evidence.episodes if episode.trouble)
    yield f"{'fault':<42}{'done':>6}{'not done':>10}"
    for kind in sorted(done.keys() | failed.keys()):
        yield f"{kind:<42}{done[kind]:>6}{failed[kind]:>10}"
    for episode in evidence.episodes:
        if episode.trouble:
            yield f"  {evidence.ago(episode.began)} {episode.fault}: {episode.trouble[:160]}"


def _outcomes(evidence: RunEvidence) -> Iterator[str]:
    truth = true_outcomes(evidence)
    last = next((scrape for scrape in reversed(evidence.scrapes) if not scrape.error), None)
    told = told_outcomes(last)
    yield f"{'application':<14}" + "".join(f"{outcome:>22}" for outcome in OUTCOMES) + "   (log / agent)"
    for application in APPLICATIONS:
        cells = [(truth[application, outcome], told[application, outcome]) for outcome in OUTCOMES]
        shown = "".join(f"{f'{a} / {b}' + ('' if a == b else ' !'):>22}" for a, b in cells)
        yield f"{application:<14}{shown}"


def _orphans(evidence: RunEvidence) -> Iterator[str]:
    found = found_orphans(evidence)
    for orphan in evidence.orphans:
        at = found.get(orphan.place)
        after = f"found {at - orphan.at:.0f} s later" if at is not None else "never found"
        place = f"{orphan.place[0]}-{orphan.place[1]} at {orphan.start}"
        yield f"orphan in {place}, planted at {evidence.ago(orphan.at)}: {after}"


def _markers(evidence: RunEvidence) -> Iterator[str]:
    """Yield what lost its marker, and what became of the lines that were printed."""
    lost = Counter(_lost_markers(evidence))
    yield f"markers lost: {lost['committed']} of commits, {lost.total() - lost['committed']} of aborts"
    left = [(place, transaction) for place, every in evidence.unended().items() for transaction in every]
    yield f"without a marker at the end: {len(left)}"
    run = Counter((line.source, "run" if line.code == 0 else "refused") for line in evidence.followed)
    yield f"lines that end a transaction, followed: {len(evidence.followed)} {dict(run)}"
    for line in evidence.followed:
        yield f"  {evidence.ago(line.at)} {line.source}, code {line.code}: {line.line}"


def _lost_markers(evidence: RunEvidence) -> Iterator[str]:
    """The outcome of every transaction that was open in a partition after its coordinator had completed it."""
    for place, every in evidence.held.items():
        for transaction in every:
            end = float("inf") if transaction.ended is None else transaction.ended
            for owner in evidence.owners(place, transaction, end):
                if owner.completed and owner.completed / 1000 < end:
                    yield owner.outcome


def _end(disagreements: Sequence[Disagreement]) -> Iterator[str]:
    yield ""
    yield f"{len(disagreements)} disagreements"
    shown: Counter[str] = Counter()
    for disagreement in disagreements:
        shown[disagreement.rule] += 1
        if shown[disagreement.rule] <= MOST_OF_A_KIND:
            yield f"  [{disagreement.rule}] {disagreement.text}"
    for rule, count in shown.items():
        if count > MOST_OF_A_KIND:
            yield f"  [{rule}] and {count - MOST_OF_A_KIND} more"
