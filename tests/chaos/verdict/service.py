"""The agent itself: it answers, says what is down, calls nothing overdue that is not, and is right when all is well."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.agent import AgentScrape
from tests.chaos.evidence import RunEvidence, claims_of
from tests.chaos.verdict.values import LOOK_SECONDS, STALE_SECONDS, WELL_SECONDS, Disagreement, label, place_of

START_SECONDS = 60.0
"""Until a start of the agent must have an answer, on a machine that runs other tests as well."""
OVERDUE_AFTER = 15.0
REST_SCRAPES = 20


def answers(evidence: RunEvidence) -> Iterator[Disagreement]:
    """/metrics and the status are answered whenever the process lives, from soon after its start on."""
    for at, code, tail in evidence.crashes:
        yield Disagreement(
            "crash", f"the agent ended by itself with code {code} before {evidence.ago(at)}: {tail[-600:]}"
        )
    answered: set[int] = set()
    for scrape in evidence.scrapes:
        if not scrape.error:
            answered.add(scrape.life)
        elif not scrape.paused and not evidence.just_paused(scrape.at, 5):
            age = evidence.running(evidence.lives[scrape.life].began, scrape.at)
            if scrape.life in answered or age > START_SECONDS:
                text = f"{scrape.error} at {evidence.ago(scrape.at)}, {age:.0f} s after its start"
                yield Disagreement("answers", text, (scrape.life, round(scrape.at / 30)))


def sources_down(evidence: RunEvidence) -> Iterator[Disagreement]:
    """While partitions are not answered for 20 s, a source says that it is down."""
    told: set[int] = set()
    for place, looks in evidence.looks.items():
        silent: list[float] = []
        for look in looks:
            if look.high is not None:
                silent = []
                continue
            silent.append(look.at)
            began, at = silent[0], look.at
            if at - began < WELL_SECONDS or not evidence.healthy(at - WELL_SECONDS, at) or round(began) in told:
                continue
            told.add(round(began))
            window = [
                scrape for scrape in evidence.scrapes if at - WELL_SECONDS <= scrape.at <= at + 5 and not scrape.error
            ]
            if window and not any(_down(scrape) for scrape in window):
                yield Disagreement(
                    "sources down",
                    f"{place[0]}-{place[1]} was not answered from {evidence.ago(began)} to {evidence.ago(at)}, and "
                    f"every source was up all the while; faults: {evidence.faults_near(at)}",
                )


def _down(scrape: AgentScrape) -> bool:
    return any(
        series[0] == "kafka_eos_source_up" and label(series, "source") in {"lso", "txnlog"} and value == 0
        for series, value in scrape.samples.items()
    )


def overdue(evidence: RunEvidence) -> Iterator[Disagreement]:
    """An application is reported as overdue only while one of its transactions is."""
    for scrape in evidence.scrapes:
        if evidence.just_paused(scrape.at, LOOK_SECONDS):
            continue
        for series, value in scrape.samples.items():
            if series[0] != "kafka_eos_overdue_transactions" or not value:
                continue
            at = scrape.at
            late = [
                transaction
                for known in evidence.histories.values()
                for transaction in (*known.transactions, *([known.open] if known.open else []))
                if transaction.application == label(series, "application")
                and (transaction.started + transaction.timeout) / 1000 + OVERDUE_AFTER <= at + 1
                and evidence.decided_at(transaction) >= at - STALE_SECONDS
            ]
            if not late:
                clock = f"clock {evidence.clock(scrape):+d} s"
                text = f"{label(series, 'application')}: {value:g} at {evidence.ago(at)}, {clock}"
                about = label(series, "application"), scrape.life, round(at / 30)
                yield Disagreement("overdue, invented", f"{text}; faults: {evidence.faults_near(at)}", about)


def at_rest(evidence: RunEvidence) -> Iterator[Disagreement]:
    """When all is healed and every transaction has ended, nothing is open, and what has no marker holds its partition.

    Said in one of the last scrapes, as a machine that is busy may take a broker away once more.
    """
    if still := [known.open for known in evidence.histories.values() if known.open is not None]:
        yield Disagreement(
            "oracle", f"{len(still)} transactions never ended: {[place_of(transaction) for transaction in still[:5]]}"
        )
    wrong = ["there is no scrape at all"]
    for scrape in reversed(evidence.scrapes[-REST_SCRAPES:]):
        wrong = list(_restless(evidence, scrape))
        if not wrong:
            return
    yield from (Disagreement("at rest", text) for text in wrong)


def _restless(evidence: RunEvidence, scrape: AgentScrape) -> Iterator[str]:
    if scrape.error:
        yield scrape.error
        return
    for series, value in scrape.samples.items():
        if series[0] in {"kafka_eos_transactions_open", "kafka_eos_overdue_transactions"} and value:
            yield f"{series[0]}{dict(series[1])} is {value:g}"
        if series[0] == "kafka_eos_source_up" and value == 0:
            yield f"{series[0]}{dict(series[1])} is 0"
    held = evidence.unended().keys()
    told = {claim.place for claim in claims_of(scrape)}
    if told != held:
        yield f"stalled are {sorted(told)}, and without a marker {sorted(held)}"
