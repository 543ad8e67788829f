"""Where agents are listed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.fleet.source.discovery import MOST_AGENTS, POLL_SECONDS, AgentLists, ListError, agent_list, srv_list
from exporter.model import Clock
from tests.helpers.dns_server import DnsServer
from tests.helpers.fleet_agents import StandInAgents


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
    assert [agent.url for agent in found()[0]] == ["http://a:1"]
    file.write_text("http://a:1\nhttp://b:1\n")
    os.utime(file, (1, 1))
    assert [agent.url for agent in found()[0]] == ["http://a:1", "http://b:1"]
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
        "http://eos/?token=secret",
        "HTTP://user:secret@eos:1",
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
        assert [agent.url for agent in found.read()[0]] == ["http://eos-1:1"]
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
        (tmp_path / name).write_text("".join(f"http://{name}{number}\n" for number in range(2 * MOST_AGENTS)))
    for files in ([tmp_path / "a"], [tmp_path / "a", tmp_path / "b"]):
        agents, problems = listed(*files)
        assert len(agents) == MOST_AGENTS
        assert problems == [f"more than {MOST_AGENTS} agents are listed, and {MOST_AGENTS} of them are asked"]


def test_a_target_of_http_sd_that_cannot_be_read_is_a_problem() -> None:
    with StandInAgents([json.dumps([{"targets": ["eos-1:1", "eos 2"]}]).encode()]) as server:
        agents, [problem] = agent_list(server.urls[0], None, Clock()).read()
    assert [agent.url for agent in agents] == ["http://eos-1:1"]
    assert "1 left out; the first is a target that is no host:port: 'eos 2'" in problem


@pytest.mark.parametrize(
    "place",
    [
        "dns+srv:_http._tcp.eos",
        "dns+srv://",
        "dns+srv://a..b",
        "dns+srv://u:p@eos",
        "dns+a://eos",
        "dns+srv://eos?a",
        "ftp://eos/list",
        "http://user:secret@eos/sd",
        "HTTPS://user:secret@eos/sd",
        "dns+srv://user:secret@eos",
        "ftp://user:secret@eos/list",
    ],
)
def test_a_place_that_cannot_be_read_is_refused(place: str) -> None:
    with pytest.raises(ListError) as refused:
        agent_list(place, None, Clock())
    assert "secret" not in str(refused.value)


NAME = "_http._tcp.eos.example.com."
PLACE = "dns+srv://_http._tcp.eos.example.com"


@pytest.fixture
def names() -> Iterator[DnsServer]:
    with DnsServer().serving() as server:
        yield server


@pytest.mark.parametrize(
    ("place", "urls"),
    [
        (PLACE, ["http://eos-1.example.com:10618", "http://eos-2.example.com:10619"]),
        (
            "dns+srv+https://_http._tcp.eos.example.com./eos/",
            ["https://eos-1.example.com:10618/eos", "https://eos-2.example.com:10619/eos"],
        ),
    ],
)
def test_srv_records_give_every_target_with_its_port(names: DnsServer, place: str, urls: list[str]) -> None:
    names.records[NAME] = ["10 5 10619 eos-2.example.com.", "0 0 10618 eos-1.example.com."]
    agents, problems = srv_list(place, Clock(), names.resolver).read()
    assert ([agent.url for agent in agents], problems) == (urls, ())


def test_more_srv_records_than_a_datagram_has_are_read_over_tcp(names: DnsServer) -> None:
    names.records[NAME] = [f"0 0 10618 eos-{number}.example.com." for number in range(200)]
    agents, problems = srv_list(PLACE, Clock(), names.resolver).read()
    assert (len(agents), problems) == (200, ())


def test_srv_records_are_asked_for_once_a_minute_and_kept_while_the_name_is_gone(names: DnsServer) -> None:
    now = [0.0]
    found = srv_list(PLACE, Clock(monotonic=lambda: now[0]), names.resolver)
    names.records[NAME] = ["0 0 10618 eos-1."]
    assert [agent.url for agent in found.read()[0]] == ["http://eos-1:10618"]
    names.records[NAME] = ["0 0 10618 eos-2."]
    assert [agent.url for agent in found.read()[0]] == ["http://eos-1:10618"]
    assert names.asked == 1
    now[0] += POLL_SECONDS
    assert [agent.url for agent in found.read()[0]] == ["http://eos-2:10618"]
    del names.records[NAME]
    now[0] += POLL_SECONDS
    agents, [problem] = found.read()
    assert [agent.url for agent in agents] == ["http://eos-2:10618"]
    assert problem.startswith(f"{PLACE}: ")
    assert "does not exist" in problem
    names.records[NAME] = ["0 0 0 ."]  # RFC 2782: decidedly no service
    now[0] += POLL_SECONDS
    assert found.read() == ((), ())


def test_a_name_server_that_does_not_answer_is_a_problem(names: DnsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.fleet.source.srv.DNS_TIMEOUT", 0.3)
    names.silent = True
    agents, [problem] = srv_list(PLACE, Clock(), names.resolver).read()
    assert agents == ()
    assert "timed out" in problem or "lifetime expired" in problem
