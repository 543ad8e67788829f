"""The journal on a real broker: stalls with holder, end and how, over a kill of the agent, and the report of them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from exporter import catalogue
from exporter.model import Deadline
from testkit.agent import COMMAND, AgentProcess
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent
from tests.helpers.schemas import conform
from tests.unit.journal.test_segments import check_kills

SLACK_SECONDS = 10.0
KILLS = 300


def events(agent: AgentProcess, **filters: str) -> list[dict[str, Any]]:
    """The events of the agent in the order in which they were recorded."""
    answer = agent.get(f"/api/v1/events?{urlencode({'since': '0', 'limit': '1000', **filters})}")
    found: list[dict[str, Any]] = conform("events", json.loads(answer.body))["events"]
    return found


def until(agent: AgentProcess, seen: Callable[[list[dict[str, Any]]], bool], **filters: str) -> list[dict[str, Any]]:
    deadline = Deadline.after(180)
    while not seen(found := events(agent, **filters)):
        assert poll(deadline, 0.5), (found, agent.log)
    return found


def report(*arguments: str) -> dict[str, Any]:
    """Return what ``incident`` prints."""
    done = subprocess.run(
        [str(COMMAND), "incident", *arguments, "--from", "1h", "--format", "json"],
        capture_output=True,
        check=True,
        text=True,
    )
    return conform("incident", json.loads(done.stdout))


def topics(found: list[dict[str, Any]], kind: str) -> set[str]:
    return {held["topic"] for event in found if event["kind"] == kind for held in event["partitions"]}


def test_stalls_are_in_the_journal_with_holder_and_end_and_the_report_has_what_a_kill_hid(
    kafka_4: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    names = {
        how: fresh(how.replace("_", "-")) for how in ("committed", "aborted", "timed_out", "producer_back", "unseen")
    }
    producers = {}
    for how, name in names.items():
        kafka_4.create_topic(name, 1)
        producers[how] = keep(RdkafkaProducer(kafka_4, f"{name}-id", timeout=15.0 if how == "timed_out" else 300.0))
        producers[how].init()
    arguments = (
        *("--bootstrap-server", kafka_4.bootstrap, "--cluster.name", "journal"),
        *("--state.dir", str(tmp_path / "state"), "--lso.stall-after", "3s"),
    )
    agent = start_agent(*arguments, environment={"KAFKA_EOS_JOURNAL__STANDARD_OUTPUT": "true"})
    agent.wait_until(lambda seen: seen.samples(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS))
    began = time.time()
    for how, name in names.items():
        producers[how].begin()
        producers[how].send(name, 5)
        producers[how].flush()
    ours = set(names.values())
    until(agent, lambda found: ours <= topics(found, "stall_begun"))

    ended: dict[str, float] = {}
    producers["committed"].commit()
    ended["committed"] = time.time()
    producers["aborted"].abort()
    ended["aborted"] = time.time()
    keep(RdkafkaProducer(kafka_4, f"{names['producer_back']}-id")).init()
    ended["producer_back"] = time.time()
    until(agent, lambda found: ours - {names["unseen"]} <= topics(found, "stall_ended"))

    # The agent is killed, and does not see an end.
    agent.kill()
    killed = time.time()
    producers["unseen"].commit()
    agent = start_agent(*arguments, name="again")
    until(agent, lambda found: ours <= topics(found, "stall_ended"))

    for found in (report("--agent", agent.url), report("--state-dir", str(tmp_path / "state"))):
        blocked: Mapping[str, dict[str, Any]] = {event["topic"]: event for event in found["blocked"]}
        for how, name in names.items():
            stall = blocked[name]
            assert stall["transactional_id"] == f"{name}-id"
            assert abs(stall["began_timestamp"] - began) < SLACK_SECONDS
            assert stall["records"] == 5
            if how in ended:
                assert stall["how"] == how
                assert abs(stall["ended_timestamp"] - ended[how]) < SLACK_SECONDS
        assert blocked[names["timed_out"]]["how"] == "timed_out"
        assert blocked[names["unseen"]]["how"] in {"committed", "unknown"}
        (gap,) = [gap for gap in found["gaps"] if gap["why"] == "the agent did not run"]
        assert abs(gap["begin_timestamp"] - killed) < SLACK_SECONDS + 5
    assert any(event["kind"] == "timed_out" for event in events(agent, application=f"{names['timed_out']}-id"))
    assert "What happened" in agent.get("/").text
    counted = agent.metrics().total(catalogue.EVENTS_TOTAL, kind="agent_started")
    assert counted == 1


@pytest.mark.proof
def test_what_was_recorded_survives_hundreds_of_kills(tmp_path: Path) -> None:
    check_kills(tmp_path, KILLS)
