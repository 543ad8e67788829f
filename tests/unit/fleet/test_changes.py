"""Tests of what changed, from successive views."""

from __future__ import annotations

from exporter.fleet.answer import read_answer
from exporter.fleet.changes import MOST_CHANGES, FleetChanges
from exporter.fleet.facts import AgentReading, FleetAgent
from exporter.fleet.merge import merge
from exporter.model import Fault, Reason
from tests.helpers.fleet_agents import Json, body, cluster, stall, status

AT = 1_790_000_000.0
GONE = Fault(Reason.TIMEOUT, "no answer")


class ViewsInTurn:
    """Notes views of one agent and gives what changed, without the instants."""

    def __init__(self) -> None:
        self.changes = FleetChanges()
        self.at = AT

    def see(self, document: Json | None, *, fault: Fault | None = None, age: float = 1.0, name: str = "eos") -> None:
        self.at += 15
        answer = read_answer(body(document)) if document else None
        agent = FleetAgent(f"http://{name}", {})
        reading = AgentReading(agent, answer, self.at - age, age, fault, self.at - 5, 0.1, stale=age > 45)
        self.changes.note(merge([reading], self.at))

    @property
    def kinds(self) -> list[str]:
        return [change.kind for change in self.changes.last_hour(self.at)]


def test_a_stall_begins_when_its_agent_says_and_ends_when_it_is_gone() -> None:
    views = ViewsInTurn()
    views.see(status(cluster(stalls=[stall(seconds=300.0)])))
    [began] = views.changes.last_hour(views.at)
    assert (began.kind, began.cluster, began.at) == ("stall_began", "prod", views.at - 301)
    assert began.text == "stalled: pay-0 by pay-1 of pay (open)"
    views.see(status(cluster(stalls=[stall(seconds=315.0)])))
    views.see(status(cluster()))
    assert sorted(views.kinds) == ["cluster_state", "stall_began", "stall_ended"]
    ended = next(change for change in views.changes.last_hour(views.at) if change.kind == "stall_ended")
    assert ended.text == "no longer stalled, after 5m 16s: pay-0 by pay-1 of pay (open)"


def test_a_stall_has_not_ended_while_it_is_not_known() -> None:
    views = ViewsInTurn()
    stalled = status(cluster(stalls=[stall()]))
    views.see(stalled)
    views.see(stalled, fault=GONE, age=600.0)
    views.see(status(cluster(known={**cluster()["known"], "stalled_partitions": False})))
    assert "stall_ended" not in views.kinds
    views.see(stalled)
    assert views.kinds.count("stall_began") == 1
    views.see(status(cluster()))
    assert views.kinds.count("stall_ended") == 1


def test_a_stall_that_is_older_than_an_hour_did_not_begin_in_the_last_hour() -> None:
    views = ViewsInTurn()
    views.see(status(cluster(stalls=[stall(seconds=4000.0)])))
    assert views.kinds == []


def test_an_agent_that_goes_comes_back_and_has_another_version_is_said() -> None:
    views = ViewsInTurn()
    views.see(status(cluster()))
    views.see(status(cluster()), fault=GONE)
    views.see(status(cluster(), version="0.3.0"))
    views.see(status(cluster(), version="0.3.0"), name="other")
    assert sorted(views.kinds) == [
        "agent_answers",
        "agent_listed",
        "agent_lost",
        "agent_unlisted",
        "agent_version",
    ]
    texts = {str(change.kind): change.text for change in views.changes.last_hour(views.at)}
    assert texts["agent_lost"] == "does not answer: no answer"
    assert texts["agent_version"] == "version 0.2.0 to 0.3.0"


def test_changes_are_forgotten_after_an_hour_and_are_bounded() -> None:
    views = ViewsInTurn()
    for number in range(MOST_CHANGES + 50):
        views.at = AT
        views.see(status(cluster(stalls=[stall(producer_id=number)] if number % 2 else [])))
    assert len(views.changes.last_hour(views.at)) == MOST_CHANGES
    assert views.changes.last_hour(views.at + 3700) == []
