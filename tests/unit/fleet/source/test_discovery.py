"""Where agents are listed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from exporter.fleet.source.discovery import MOST_AGENTS, AgentLists, ListError, agent_list
from exporter.model import Clock
from tests.fakes.fleet_agents import StandInAgents


def listed(*places: object) -> tuple[list[str], list[str]]:
    agents, problems = AgentLists([agent_list(str(place), None, Clock()) for place in places])()
    return [agent.url for agent in agents], list(problems)


def test_a_file_has_a_url_on_each_line(tmp_path: Path) -> None:
    file = tmp_path / "agents.txt"
    file.write_text("# prod\nhttp://eos-1:10618\n\n  https://eos-2/prefix/  # second\nhttp://eos-1:10618/\n")
    assert listed(file) == (["http://eos-1:10618", "https://eos-2/prefix"], [])


def test_a_file_is_read_again_when_it_changes_and_keeps_its_agents_while_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "agents"
    file.write_text("http://a:1\n")
    found = AgentLists([agent_list(str(file), None, Clock())])
    assert [each.url for each in found()[0]] == ["http://a:1"]
    file.write_text("http://a:1\nhttp://b:1\n")
    os.utime(file, (1, 1))
    assert [each.url for each in found()[0]] == ["http://a:1", "http://b:1"]
    file.unlink()
    agents, problems = found()
    assert len(agents) == 2
    assert "No such file" in problems[0]


@pytest.mark.parametrize(
    "line",
    [
        "http://user:secret@eos:1",
        "file:///etc/passwd",
        "ftp://eos",
        "http://",
        "http://eos:99999",
        "http://[::1",
        "http://eos/?a=b",
        "http://eos/\x1b[2J",
        "http://eos/ä",
        "http://" + "e" * 600,
    ],
)
def test_a_line_that_is_no_address_is_left_out_and_its_secret_is_not_shown(tmp_path: Path, line: str) -> None:
    file = tmp_path / "agents"
    file.write_text(f"{line}\nhttp://eos-1:10618\n", encoding="utf-8")
    agents, [problem] = listed(file)
    assert agents == ["http://eos-1:10618"]
    assert "1 left out" in problem
    assert "secret" not in problem


@pytest.mark.parametrize("ending", ["json", "yml"])
def test_file_sd_gives_targets_with_scheme_prefix_and_labels(tmp_path: Path, ending: str) -> None:
    group = {
        "targets": ["eos-1:10618", "eos-2"],
        "labels": {"__scheme__": "https", "__metrics_path__": "/eos/metrics", "owner": "payments"},
    }
    file = tmp_path / f"eos.{ending}"
    file.write_text(json.dumps([group]))
    agents, problems = agent_list(str(file), None, Clock()).read()
    assert [agent.url for agent in agents] == ["https://eos-1:10618/eos", "https://eos-2/eos"]
    assert ([dict(agent.labels) for agent in agents], problems) == ([{"owner": "payments"}] * 2, ())


def test_file_sd_without_an_agent_is_a_problem(tmp_path: Path) -> None:
    assert "lists no agent" in listed(tmp_path / "none.yml")[1][0]


def test_http_sd_is_read_and_keeps_its_agents_while_it_fails() -> None:
    now = [0.0]
    clock = Clock(lambda: now[0], lambda: 0.0)
    with StandInAgents([json.dumps([{"targets": ["eos-1:1"]}]).encode()]) as server:
        found = agent_list(f"{server.urls[0]}/sd?kind=eos", None, clock)
        assert [each.url for each in found.read()[0]] == ["http://eos-1:1"]
        server.replies[0] = b"{}"
        assert found.read()[1] == ()  # not asked again within a minute
        now[0] = 61.0
        agents, problems = found.read()
        assert [agent.url for agent in agents] == ["http://eos-1:1"]
        assert "must be a list" in problems[0]
        assert server.requests[0].startswith("GET /sd?kind=eos ")
        assert len(server.requests) == 2


def test_more_agents_than_are_asked_are_a_problem(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"http://{name}{number}\n" for number in range(MOST_AGENTS)))
    agents, problems = listed(tmp_path / "a", tmp_path / "b")
    assert len(agents) == MOST_AGENTS
    assert problems == [f"{2 * MOST_AGENTS} agents are listed, and {MOST_AGENTS} are asked"]


@pytest.mark.parametrize("place", ["dns+srv:_http._tcp.eos", "ftp://eos/list", "http://user:secret@eos/sd"])
def test_a_place_that_cannot_be_read_is_refused(place: str) -> None:
    with pytest.raises(ListError) as refused:
        agent_list(place, None, Clock())
    assert "secret" not in str(refused.value)
