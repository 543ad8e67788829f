"""``applications``: how ids are grouped, also where the log may not be read."""

from __future__ import annotations

from exporter.applications.applications import Grouping
from exporter.commands.applications import grouped_ids
from exporter.inventory.applications_in_log import GroupedIds

IDS = ["pay-1", "pay-2", "agent-x2x4-0", "agent-b9k7-0", "agent-t4wq-0", "etl-a-0", "connect-cluster-etl"]


def test_each_application_is_shown_with_the_rule_that_grouped_its_ids() -> None:
    assert grouped_ids(["pay-2", "pay-1", "pay-1", "pay"], Grouping()) == [
        GroupedIds("pay", "producer", "number at the end", 2, "pay-1"),
        GroupedIds("pay", "producer", "the id itself", 1, "pay"),
    ]


def test_a_leader_of_connect_shows_its_tasks_wherever_it_comes_in_the_list() -> None:
    found = {row.example: (row.kind, row.rule) for row in grouped_ids(IDS, Grouping())}
    assert found["etl-a-0"] == ("connect_task", "Connect: group, connector, task")
