"""Agents that are asked: answers, refusals, and whatever else may be at an address."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from exporter.fleet.facts import AgentReading, FleetAgent
from exporter.fleet.source import agents as module
from exporter.fleet.source.agents import AgentCredentials, FleetAgents
from exporter.http_client import HttpError
from exporter.model import Clock
from tests.helpers.fleet_agents import (
    Reply,
    StandInAgents,
    body,
    cluster,
    endless,
    hang,
    redirects,
    stall,
    status,
    trickle,
)

FINE = body(status(cluster()))


def asking(urls: Sequence[str], *, interval: float = 15.0, timeout: float = 1.0) -> FleetAgents:
    listed = [FleetAgent(url, {}) for url in urls]
    agents = FleetAgents(lambda: (listed, ()), AgentCredentials(), interval, timeout, Clock())
    agents.refresh()
    return agents


def wait_for(found: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not happen"
        threading.Event().wait(0.02)


def status_line(line: str) -> Reply:
    async def answer(_: object, writer: object) -> None:
        writer.write(f"HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n".encode())  # type: ignore[attr-defined]

    return answer


def packed(content: bytes) -> Reply:
    async def answer(_: object, writer: object) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)  # type: ignore[attr-defined]

    return answer


@pytest.mark.parametrize(
    ("reply", "reason", "detail"),
    [
        (hang, "timeout", "did not answer in full before the deadline"),
        (trickle, "timeout", "did not answer in full before the deadline"),
        (endless, "malformed", "answered with more than 16 MB"),
        (packed(gzip.compress(b" " * 40_000_000)), "malformed", "answered with more than 16 MB"),
        (packed(b"no gzip"), "malformed", "the answer is not the gzip"),
        (redirects("file:///etc/passwd"), "malformed", "redirects are not followed"),
        (redirects("http://169.254.169.254/latest"), "malformed", "redirects are not followed"),
        (status_line("401 Unauthorized"), "authentication", "set username and password"),
        (status_line("403 Forbidden"), "authorization", "does not let us in"),
        (status_line("503 Busy \x1b[2J"), "unreachable", "answered 503"),
        (b"<html>not an agent</html>", "malformed", "is no JSON"),
        (b'{"clusters": 5}', "malformed", "is no status of an agent"),
        (b"[" * 2_000_000, "malformed", "larger than is read"),
    ],
)
def test_an_agent_that_hangs_or_lies_costs_only_its_own_row(reply: Reply, reason: str, detail: str) -> None:
    with StandInAgents([FINE, reply, FINE]) as server:
        agents = asking(server.urls, timeout=1.5)
        agents.ask_all()
        first, bad, last = agents.readings()
        agents.close()
    assert bad.fault is not None
    assert (bad.fault.reason, bad.answer) == (reason, None)
    assert detail in bad.fault.detail
    assert "without=" not in bad.fault.detail
    assert first.answer
    assert last.answer
    assert (first.fault, last.fault) == (None, None)


def test_agents_that_hang_do_not_delay_those_that_answer() -> None:
    """Forty hang for as long as they may; the other two are asked again at every interval meanwhile."""
    with StandInAgents([FINE, *[hang] * 40, FINE]) as server:
        agents = asking(server.urls, interval=0.2, timeout=1.5)
        agents.ask_due()
        wait_for(lambda: sum(reading.fault is not None for reading in agents.readings()) == 40)
        before = len(server.requests)
        began = time.monotonic()

        def answers() -> int:
            return sum("GET" in request for request in server.requests[before:])

        def rounds() -> bool:
            agents.ask_due()
            return sum(reading.age is not None and reading.age < 1.0 for reading in agents.readings()) == 2 and (
                time.monotonic() - began > 2
            )

        wait_for(rounds)
        agents.close()
        assert answers() > 10


def test_the_last_answer_stays_with_its_age_and_why_and_since_when_there_is_none_after_it() -> None:
    now = [1000.0]
    clock = Clock(lambda: now[0], lambda: now[0] + 1e9)
    with StandInAgents([FINE]) as server:
        agents = FleetAgents(lambda: ([FleetAgent(server.urls[0], {})], ()), AgentCredentials(), 15.0, 60.0, clock)
        agents.refresh()
        agents.ask_all()
        server.replies[0] = b"{}"
        now[0] = 1040.0
        agents.ask_all()
        [found] = agents.readings()
        assert (found.age, found.stale, found.since) == (40.0, False, 1e9 + 1040)
        now[0] = 1050.0
        agents.ask_all()
        [found] = agents.readings()
        assert (found.age, found.stale, found.since, found.answered) == (50.0, True, 1e9 + 1040, 1e9 + 1000)
        assert found.answer
        server.replies[0] = FINE
        agents.ask_all()
        [found] = agents.readings()
        assert (found.age, found.stale, found.fault, found.since) == (0.0, False, None, 1e9 + 1050)
        agents.close()


def test_an_agent_that_is_no_longer_listed_is_forgotten_and_a_new_one_is_asked() -> None:
    with StandInAgents([FINE, FINE]) as server:
        listed = [FleetAgent(server.urls[0], {})]
        agents = FleetAgents(lambda: (listed, ("a problem",)), AgentCredentials(), 15.0, 5.0, Clock())
        agents.refresh()
        agents.ask_all()
        listed[:] = [FleetAgent(server.urls[1], {"owner": "me"})]
        agents.refresh()
        [found] = agents.readings()
        assert (found.agent.url, found.answer, found.agent.labels) == (server.urls[1], None, {"owner": "me"})
        assert agents.problems == ("a problem",)
        assert agents.ask_due() > 0
        wait_for(lambda: agents.readings()[0].answer is not None)
        agents.close()


def test_the_token_is_read_at_every_request_and_sent(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with StandInAgents([FINE]) as server:
        agents = FleetAgents(
            lambda: ([FleetAgent(server.urls[0], {})], ()), AgentCredentials(token_file=token), 15.0, 5.0, Clock()
        )
        agents.refresh()
        agents.ask_all()
        token.write_text("second")
        agents.ask_all()
        token.unlink()
        agents.ask_all()
        agents.close()
        assert ["Bearer first" in server.requests[0], "Bearer second" in server.requests[1]] == [True, True]
        assert len(server.requests) == 2
        fault = agents.readings()[0].fault
        assert fault
        assert fault.reason == "authentication"


@pytest.mark.parametrize("content", [b"two lines\nsecret", b"a b", b"\xff", b"x" * 70_000, b"\n"])
def test_a_token_that_cannot_be_sent_is_a_fault_that_does_not_quote_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(HttpError) as found:
        AgentCredentials(token_file=file).endpoint("http://eos")
    assert "secret" not in str(found.value)


def test_answers_together_are_bounded_and_the_largest_loses_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    large = body(status(cluster(stalls=[stall(partition=number) for number in range(800)])))
    small = body(status(cluster("small", stalls=[stall(partition=number) for number in range(20)])))
    monkeypatch.setattr(module, "KEPT_BYTES", 100_000)
    with StandInAgents([large, small]) as server:
        agents = asking(server.urls, timeout=30.0)
        agents.ask_all()
        found: list[AgentReading] = agents.readings()
        agents.close()
    counts = [
        (len(reading.answer.clusters[0].stalls), reading.answer.clusters[0].left_out)
        for reading in found
        if reading.answer
    ]
    assert counts == [(200, 600), (20, 0)]


def test_the_largest_answer_is_a_fault_once_it_has_no_stalls_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    torn = [
        {"decided": "commit", "found": "nothing", "transactional_id": f"id-{number}", "topic": "t", "partition": 0}
        for number in range(400)
    ]
    large = body(status(cluster(stalls=[stall()], torn_markers=torn)))
    small = body(status(cluster("small", stalls=[stall(partition=number) for number in range(20)])))
    monkeypatch.setattr(module, "KEPT_BYTES", 100_000)
    with StandInAgents([large, small]) as server:
        agents = asking(server.urls, timeout=30.0)
        agents.ask_all()
        [first, _] = agents.readings()
        agents.ask_all()
        [again, kept] = agents.readings()
        agents.close()
    assert (first.answer, first.answered, again.answer) == (None, None, None)
    assert first.fault is not None
    assert first.fault.detail == "/api/v1/status is too large to be kept beside those of the other agents"
    assert (again.fault, again.since) == (first.fault, first.since)
    assert kept.answer is not None
    assert len(kept.answer.clusters[0].stalls) == 20
