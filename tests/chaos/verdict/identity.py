"""Another cluster at the same addresses: nothing of it is told under the name of the first one, and the fault is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.chaos.agent import AgentScrape
from tests.chaos.evidence import RunEvidence, claims_of
from tests.chaos.verdict.counts import told_outcomes
from tests.chaos.verdict.values import Disagreement

NOTICED_SECONDS = 60.0
LOG_SOURCES = {"txnlog", "transactions"}


def nothing_of_another_cluster(evidence: RunEvidence) -> Iterator[Disagreement]:
    """While another cluster answers, counts are those from before or absent, no stall is told, and a fault says why."""
    if not evidence.elsewhere:
        return
    first, *later = evidence.elsewhere
    before = told_outcomes(first)
    for scrape in later:
        told = told_outcomes(scrape)
        if told and told != before:
            mixed = {key: (before[key], told[key]) for key in before | told if before[key] != told[key]}
            yield Disagreement("another cluster", f"counts at {evidence.ago(scrape.at)}: {mixed}", "counts")
        if scrape.at > first.at + NOTICED_SECONDS and (stalls := [claim.place for claim in claims_of(scrape)]):
            yield Disagreement("another cluster", f"stalls at {evidence.ago(scrape.at)}: {stalls}", "stalls")
    late = [scrape for scrape in later if scrape.at > first.at + NOTICED_SECONDS]
    if not late or any("identity" not in _reasons(scrape) for scrape in late):
        yield Disagreement("another cluster", f"no fault says so in each of {len(late)} scrapes")


def _reasons(scrape: AgentScrape) -> set[str]:
    clusters: list[dict[str, Any]] = (scrape.status or {}).get("clusters", [])
    return {
        fault["reason"]
        for cluster in clusters
        for source in cluster["sources"]
        if source["source"] in LOG_SOURCES
        for fault in source["faults"]
    }
