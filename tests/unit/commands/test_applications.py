"""``check applications``: how ids are grouped, and what is proposed."""

from __future__ import annotations

from exporter.applications.applications import Grouping
from exporter.commands.applications import GroupedIds, proposals_of, rows

IDS = ["pay-1", "pay-2", "agent-x2x4z-0", "agent-b9k7c-0", "agent-tmw4q-0", "etl-a-0", "connect-cluster-etl"]


def test_each_application_is_shown_with_the_rule_that_grouped_its_ids() -> None:
    assert rows(["pay-2", "pay-1", "pay-1", "pay"], Grouping()) == [
        GroupedIds("pay", "producer", "number at the end", 2, "pay-1"),
        GroupedIds("pay", "producer", "the id itself", 1, "pay"),
    ]


def test_a_leader_of_connect_shows_its_tasks_wherever_it_comes_in_the_list() -> None:
    found = {row.example: (row.kind, row.rule) for row in rows(IDS, Grouping())}
    assert found["etl-a-0"] == ("connect_task", "Connect: group, connector, task")


def test_the_proposed_pattern_groups_what_it_was_proposed_for() -> None:
    (proposal,) = proposals_of(rows(IDS, Grouping()))
    again = rows(IDS, Grouping([proposal.pattern]))
    assert {row.application: row.ids for row in again}["agent"] == 3
    assert proposals_of(again) == []


def test_applications_of_frameworks_are_never_proposed_to_be_one() -> None:
    uuid = "6f1d2c3e-0b1a-4c5d-8e9f-001122334455"
    assert proposals_of(rows([f"totals-v{number}-{uuid}-1" for number in range(5)], Grouping())) == []
