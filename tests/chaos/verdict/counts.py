"""Counts: equal to the log's, never going back, and the log's equal to what the clients know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.agent import AgentScrape, Series
from tests.chaos.cluster import PAIRS
from tests.chaos.evidence import RunEvidence
from tests.chaos.verdict.values import Disagreement, counted, label, place_of
from tests.chaos.workloads import APPLICATIONS, BEFORE_COUNTING

LOG_COUNTERS = (
    "kafka_eos_transactions_total",
    "kafka_eos_producer_inits_total",
    "kafka_eos_producer_fences_total",
    "kafka_eos_transaction_open_seconds_bucket",
    "kafka_eos_transaction_open_seconds_count",
    "kafka_eos_transaction_open_seconds_sum",
    "kafka_eos_transaction_completion_seconds_bucket",
    "kafka_eos_transaction_completion_seconds_count",
    "kafka_eos_transaction_completion_seconds_sum",
    "kafka_eos_transaction_log_lost_records_total",
)


def true_outcomes(evidence: RunEvidence) -> Counter[tuple[str, str]]:
    """Finished transactions by application and outcome, but those from before the agent began to count."""
    return Counter(
        (transaction.application, transaction.outcome)
        for transaction in evidence.transactions
        if transaction.application != BEFORE_COUNTING
    )


def told_outcomes(scrape: AgentScrape | None) -> Counter[tuple[str, str]]:
    told: Counter[tuple[str, str]] = Counter()
    for series, value in scrape.samples.items() if scrape is not None else ():
        if series[0] == "kafka_eos_transactions_total":
            told[label(series, "application"), label(series, "outcome")] += int(value)
    return told


def outcomes(evidence: RunEvidence) -> Iterator[Disagreement]:
    """Outcomes per application are equal, exactly, over all restarts of the agent together."""
    last = next((scrape for scrape in reversed(evidence.scrapes) if not scrape.error), None)
    truth, told = true_outcomes(evidence), told_outcomes(last)
    for application, outcome in sorted(truth.keys() | told.keys()):
        key = application, outcome
        if truth[key] != told[key]:
            text = f"{application} {outcome}: {truth[key]} in the log, {told[key]} told at the end; "
            yield Disagreement("outcomes", text + _first_wrong(evidence, application, outcome))
    for name, true in (("inits", _inits(evidence)), ("fences", _fences(evidence))):
        for application in APPLICATIONS:
            value = counted(last, f"kafka_eos_producer_{name}_total", application=application) if last else None
            if (value or 0) != true[application]:
                yield Disagreement(name, f"{application}: {true[application]} in the log, {value} told at the end")


def outcomes_of_lost_logs(evidence: RunEvidence) -> Iterator[Disagreement]:
    """Of each application as many commits, and as many aborts, as the log has, and at most those that it lost as well.

    What the log lost before it was read may be missing; how an abort came about was in records that are lost.
    """
    last = next((scrape for scrape in reversed(evidence.scrapes) if not scrape.error), None)
    told, truth = _by_end(told_outcomes(last)), _by_end(true_outcomes(evidence))
    lost = _by_end(
        Counter((transaction.application, transaction.outcome) for transaction in evidence.lost.transactions)
    )
    for application, commit in sorted(truth.keys() | told.keys()):
        key = application, commit
        if not truth[key] <= told[key] <= truth[key] + lost[key]:
            text = f"{application} {'committed' if commit else 'aborted'}: {truth[key]} in the log, {lost[key]} lost"
            yield Disagreement("outcomes", f"{text}, {told[key]} told at the end")


def _by_end(outcomes: Counter[tuple[str, str]]) -> Counter[tuple[str, bool]]:
    found: Counter[tuple[str, bool]] = Counter()
    for (application, outcome), number in outcomes.items():
        found[application, outcome == "committed"] += number
    return found


def _inits(evidence: RunEvidence) -> Counter[str]:
    found: Counter[str] = Counter()
    for transactional_id, history in evidence.histories.items():
        found[transactional_id.rpartition("-")[0]] += history.inits
    return found


def _fences(evidence: RunEvidence) -> Counter[str]:
    return Counter(transaction.application for transaction in evidence.transactions if transaction.outcome == "fenced")


def _first_wrong(evidence: RunEvidence, application: str, outcome: str) -> str:
    """The first scrape that no reading of the log explains, and what finished around it."""
    mine = sorted(
        (
            transaction
            for transaction in evidence.transactions
            if (transaction.application, transaction.outcome) == (application, outcome)
        ),
        key=lambda transaction: transaction.completed,
    )
    for scrape in evidence.scrapes:
        value = counted(scrape, "kafka_eos_transactions_total", application=application, outcome=outcome)
        if value is None:
            continue
        most = sum(transaction.completed / 1000 <= scrape.at + 2 for transaction in mine)
        least = sum(transaction.completed / 1000 <= scrape.at - 60 for transaction in mine)
        if not least <= value <= most:
            around = [transaction for transaction in mine if abs(transaction.completed / 1000 - scrape.at) < 60]
            shown = ", ".join(place_of(transaction) for transaction in around[-4:])
            return (
                f"first wrong at {evidence.ago(scrape.at)} (agent's life {scrape.life}): {value:g} told, between "
                f"{least} and {most} were true; faults before: {evidence.faults_near(scrape.at)}; records near: {shown}"
            )
    return "no single scrape is wrong by itself"


def counters_go_on(evidence: RunEvidence) -> Iterator[Disagreement]:
    """No counter that comes from the log is ever lower than an earlier scrape showed."""
    highest: dict[Series, tuple[float, AgentScrape]] = {}
    told: set[tuple[int, str]] = set()
    for scrape in evidence.scrapes:
        for series, value in scrape.samples.items():
            if series[0] not in LOG_COUNTERS:
                continue
            before = highest.get(series)
            if before is not None and value < before[0] - 1e-6 and (scrape.life, series[0]) not in told:
                told.add((scrape.life, series[0]))
                yield Disagreement(
                    "counters go on",
                    f"{series[0]}{dict(series[1])} is {value:g} at {evidence.ago(scrape.at)} (life {scrape.life}), was "
                    f"{before[0]:g} at {evidence.ago(before[1].at)} (life {before[1].life})",
                )
            if before is None or value > before[0]:
                highest[series] = value, scrape


def clients_know(evidence: RunEvidence) -> Iterator[Disagreement]:
    """The oracle itself is right: what clients had acknowledged is so in the logs, and both kinds of log agree.

    Partitions of two replicas may lose markers, and say nothing by themselves.
    """
    visible: set[str] = set()
    gone: set[str] = set()
    elsewhere: set[str] = set()
    for place, every in evidence.held.items():
        for ended in every:
            if place[0] == PAIRS:
                elsewhere.update(ended.tokens)
            elif ended.end is not None:
                (visible if ended.committed else gone).update(ended.tokens)
    books = evidence.books
    for what, wrong in (
        ("acknowledged as committed, and not visible", books.committed - visible - elsewhere),
        ("acknowledged as committed, and aborted somewhere", books.committed & gone),
        ("acknowledged as aborted, and visible", books.aborted & visible),
        ("displaced by a new incarnation, and visible", books.displaced & visible),
        ("committed in one partition and aborted in another", visible & gone),
    ):
        if wrong:
            yield Disagreement("oracle", f"{len(wrong)} transactions were {what}: {sorted(wrong)[:5]}")
    seen = Counter(token.rpartition("/")[0] for token in visible)
    perhaps = Counter(token.rpartition("/")[0] for token in elsewhere - visible - gone)
    for transactional_id, history in evidence.histories.items():
        if transactional_id.startswith(BEFORE_COUNTING):
            continue  # its records have no tokens
        committed = sum(transaction.outcome == "committed" for transaction in history.transactions)
        least = seen[transactional_id]
        if not least <= committed <= least + perhaps[transactional_id]:
            text = f"{transactional_id}: {committed} commits in the transaction log, {least} in the data"
            yield Disagreement("oracle", text)
