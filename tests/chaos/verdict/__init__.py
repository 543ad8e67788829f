"""The rules that must hold, each as a function from the evidence to the disagreements, with what proves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.chaos.evidence import RunEvidence
from tests.chaos.verdict import counts, identity, journal, promises, service, stalls
from tests.chaos.verdict.values import Disagreement

RULES: tuple[Callable[[RunEvidence], Iterator[Disagreement]], ...] = (
    promises.no_line_for_what_is_promised,
    promises.nothing_promised_is_lost,
    counts.outcomes,
    counts.counters_go_on,
    counts.clients_know,
    stalls.no_stall_invented,
    stalls.no_stall_missed,
    stalls.holders,
    stalls.hanging,
    stalls.orphans_found,
    journal.journal_stalls,
    journal.journal_ends,
    journal.journal_torn,
    service.answers,
    service.sources_down,
    service.overdue,
    service.at_rest,
    identity.nothing_of_another_cluster,
)
OF_LOST_LOGS = (
    promises.no_line_for_what_is_promised,
    promises.nothing_promised_is_lost,
    counts.outcomes_of_lost_logs,
    counts.counters_go_on,
    stalls.no_stall_missed,
    service.answers,
    service.sources_down,
    service.at_rest,
)
"""Of these the truth is known although logs lost records."""


def judge(evidence: RunEvidence) -> list[Disagreement]:
    """All disagreements, each at its first sight."""
    found: dict[object, Disagreement] = {}
    for rule in OF_LOST_LOGS if evidence.mode.unclean else RULES:
        for disagreement in rule(evidence):
            found.setdefault(
                (disagreement.rule, disagreement.text if disagreement.about is None else disagreement.about),
                disagreement,
            )
    return list(found.values())
