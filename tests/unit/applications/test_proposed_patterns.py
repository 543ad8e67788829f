"""Patterns proposed where ids of one application look like many applications."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from exporter.applications.applications import Grouping
from exporter.applications.proposed_patterns import LONGEST, propose

PODS = ["agent-x2x4z", "agent-b9k7c", "agent-tmw4q"]


def test_pods_of_a_daemon_set_are_proposed_as_one_application() -> None:
    (proposal,) = propose([*PODS, "pay", "totals"])
    assert proposal.application == "agent"
    assert proposal.merges == tuple(sorted(PODS))
    grouping = Grouping([proposal.pattern])
    assert {grouping.of(f"{pod}-0").name for pod in PODS} == {"agent"}
    assert grouping.of("agents-x2x4z").name == "agents-x2x4z"


def test_what_differs_in_the_middle_is_proposed_with_what_follows() -> None:
    (proposal,) = propose([f"tx-{number}-orders" for number in range(4)])
    grouping = Grouping([proposal.pattern])
    assert grouping.of("tx-17-orders-3").name == "tx"
    assert grouping.of("tx-17-returns-3").name == "tx-17-returns"


def test_names_that_differ_in_a_word_are_left_alone() -> None:
    assert propose(["pay-orders", "pay-returns", "pay-refunds"]) == []


def test_two_alike_are_left_alone() -> None:
    assert propose(PODS[:2]) == []


def test_an_endless_name_is_left_alone() -> None:
    assert propose([f"{'a-' * LONGEST}{number}" for number in range(9)]) == []


@given(st.lists(st.text("ab1-.(*[\\^$", min_size=1, max_size=9), max_size=30))
def test_every_proposal_is_a_pattern_that_names_what_it_merges(names: list[str]) -> None:
    for proposal in propose(names):
        pattern = re.compile(proposal.pattern)
        for merge in proposal.merges:
            match = pattern.search(merge)
            assert match is not None
            assert match["application"] == proposal.application
