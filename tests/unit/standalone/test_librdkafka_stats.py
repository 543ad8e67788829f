"""The file for users' applications: it hands over, never blocks, never raises, and imports nothing of ours."""

from __future__ import annotations

import ast
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Empty

import pytest

from exporter.standalone import librdkafka_stats
from exporter.standalone.librdkafka_stats import KEPT, EosStats
from tests.helpers.agent_endpoint import StubEndpoint

STATISTICS = {
    "name": "rdkafka#producer-1",
    "client_id": "rdkafka",
    "type": "producer",
    "ts": 1,
    "time": 2,
    "txmsgs": 3,
    "brokers": {"k1:9092/1": {"name": "secret-host"}},
    "topics": {"secret-topic": {}},
    "eos": {"idemp_state": "Assigned", "txn_state": "Ready", "txn_stateage": 99, "producer_id": 4},
}


Agent = StubEndpoint[dict[str, object]]


@pytest.fixture
def agent() -> Iterator[Agent]:
    with StubEndpoint[dict[str, object]](json.loads) as agent:
        yield agent


def test_it_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(librdkafka_stats.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_fields_that_matter_are_posted_and_no_others(agent: Agent) -> None:
    stats = EosStats(f"{agent.url}/eos/", client_id="checkout", token="t0ken", cluster="prod")
    stats(json.dumps(STATISTICS))
    path, headers, document = agent.posts.get(timeout=10)
    assert path == "/eos/ingest/librdkafka"
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Content-Type"] == "application/json"
    assert document == {
        "name": "rdkafka#producer-1",
        "type": "producer",
        "ts": 1,
        "time": 2,
        "txmsgs": 3,
        "client_id": "checkout",
        "instance": f"{socket.gethostname()}/{os.getpid()}",
        "kafka_cluster": "prod",
        "eos": {"idemp_state": "Assigned", "txn_state": "Ready", "producer_id": 4},
    }
    stats.close()


def test_without_a_name_of_ours_the_client_s_own_is_reported(agent: Agent) -> None:
    stats = EosStats(agent.url)
    stats(json.dumps(STATISTICS))
    assert agent.posts.get(timeout=10)[2]["client_id"] == "rdkafka"
    stats.close()


@pytest.mark.parametrize("odd", ["", "no json", "[]", "null", "{}", '{"eos": 7}', 7, None, b"\xff"])
def test_odd_statistics_neither_raise_nor_stop_it(agent: Agent, odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka_stats, "RETRY_SECONDS", 0.05)
    stats = EosStats(agent.url)
    stats(odd)
    stats(json.dumps(STATISTICS))
    assert agent.posts.get(timeout=10)[2]["txmsgs"] == 3
    stats.close()


def test_while_the_agent_is_away_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = EosStats("http://127.0.0.1:1")
    for _ in range(10 * KEPT):
        stats(json.dumps(STATISTICS))
    assert len(stats._waiting) <= KEPT
    stats.close(0.1)


def test_an_agent_that_refuses_is_no_error_of_the_application_and_is_said_once(
    agent: Agent, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(librdkafka_stats, "RETRY_SECONDS", 0.05)
    caplog.set_level(logging.WARNING, librdkafka_stats.__name__)
    agent.status = 401
    stats = EosStats(agent.url, token="t0ken")
    for _ in range(3):
        stats(json.dumps(STATISTICS))
        agent.posts.get(timeout=10)
    stats.close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "401" in said[0]
    assert "t0ken" not in said[0] + repr(stats)


def test_a_redirect_gets_no_token(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka_stats, "RETRY_SECONDS", 0.05)
    agent.status = 302
    stats = EosStats(agent.url, token="t0ken")
    stats(json.dumps(STATISTICS))
    assert agent.posts.get(timeout=10)[0] == "/ingest/librdkafka"
    stats.close()
    with pytest.raises(Empty):
        agent.posts.get_nowait()


def test_what_waits_at_the_end_of_a_short_program_is_handed_over_by_close(agent: Agent) -> None:
    stats = EosStats(agent.url)
    stats(json.dumps(STATISTICS))
    stats.close(10)
    assert agent.posts.get_nowait()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_it_works_on_after_a_fork(agent: Agent) -> None:
    stats = EosStats(agent.url)
    child = os.fork()
    if child == 0:
        stats(json.dumps(STATISTICS))
        stats.close(10)
        os._exit(0)
    os.waitpid(child, 0)
    assert agent.posts.get(timeout=10)[2]["instance"] == f"{socket.gethostname()}/{child}"
    stats.close()
