"""The agent within 256 MB, while something that it reads is hostile: its page, its status and its end."""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.hostile.process import MEMORY_MB, SECONDS, ConfinedAgent, Hostile, folders, hostile_servers, settings


@pytest.fixture(scope="module")
def hostile() -> Iterator[int]:
    with hostile_servers() as port:
        yield port


def post_without_end(agent: ConfinedAgent, rounds: int = 300) -> int:
    """As many of the largest documents as are taken at once; returns how many were taken."""
    taken = 0
    example = {f"{at}": at for at in range(30)}
    for at in range(rounds):
        findings = [{"kind": "duplicate", "topic": "t", "count": 1, "examples": [example] * 100}]
        head = {"audit": f"a{at}", "finished_at": 1.7e9, "verdict": "unknown", "topics": {"t": {"verdict": "unknown"}}}
        offsets = {f"t{at}": {str(number): number + 100_000 * at for number in range(3500)}}
        source = {"description": "KafkaV2[x]", "endOffset": offsets, "numInputRows": 1}
        progress = {
            "batchId": 1,
            "timestamp": "2026-11-21T00:00:00Z",
            "durationMs": {"addBatch": 1},
            "sources": [source],
        }
        query = {"id": f"q{at}", "application": "x", "state": "running", "progress": progress}
        for path, document in (("audit", {**head, "findings": findings}), ("spark", query)):
            with suppress(urllib.error.HTTPError):
                agent.page(f"/ingest/{path}", json.dumps(document).encode())
                taken += 1
    return taken


# Each attack, and what of the settings it needs.
ATTACKS = {
    "keys": "producers",
    "lists": "producers",
    "spaces": "producers",
    "gzip": "producers",
    "series": "producers",
    "newlines": "producers",
    "connect": "connect",
    "folders": "spark",
    "posted": "ingest",
}
JVMS_OF_EACH_KIND = 3
"""When all attack at once."""


@contextmanager
def attacked(config: Path) -> Iterator[ConfinedAgent]:
    """An agent that answers and stops in order after what is done to it here, in the memory that it may have."""
    Hostile.asked.clear()
    agent = ConfinedAgent(config)
    try:
        yield agent
        agent.page("/")
        json.loads(agent.page("/api/v1/status"))
        print(f"{agent.peak_mb:.0f} MB, in a cgroup: {agent.group is not None}")
        assert agent.peak_mb < MEMORY_MB
    finally:
        code = agent.stop()
    assert code == 0, agent.log[-3000:]
    assert "Traceback" not in agent.log


@pytest.mark.proof  # one after the other what the test below has at once
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_ends_the_agent_in_256_mb(attack: str, tmp_path: Path, hostile: int) -> None:
    folders(tmp_path)
    config = settings(tmp_path, hostile)
    document = json.loads(config.read_text())
    document["producers"] = [
        producer for producer in document["producers"] if any(attack in str(way) for way in producer.values())
    ]
    for key in ("producers", "connect", "spark", "audits"):
        if key != ATTACKS[attack] and not (attack == "folders" and key == "audits"):
            del document[key]
    config.write_text(json.dumps(document))
    with attacked(config) as agent:
        if attack == "posted":
            assert post_without_end(agent) > 100
            _until(agent, lambda: 'kafka_eos_ingest_dropped_total{sender="queries"}' in agent.page())
        elif attack == "folders":
            _until(
                agent,
                lambda: 'kafka_eos_source_read_duration_seconds{kafka_cluster="prod",source="spark"' in agent.page(),
            )
        else:
            _until(agent, lambda: Hostile.asked.count(attack) > 2)


@pytest.mark.proof
def test_all_attacks_at_once_do_not_end_the_agent_in_256_mb(tmp_path: Path, hostile: int) -> None:
    folders(tmp_path)
    config = settings(tmp_path, hostile)
    document = json.loads(config.read_text())
    named = [producer for producer in document["producers"] if "file_sd" not in producer]
    for number, jvm in enumerate(named * (JVMS_OF_EACH_KIND - 1)):
        text = json.dumps(jvm).replace("127.0.0.1", f"127.0.1.{number + 1}")  # a target of its own
        document["producers"].append(json.loads(text))
    config.write_text(json.dumps(document))
    with attacked(config) as agent:
        assert post_without_end(agent, 150) > 100
        _until(
            agent,
            lambda: all(Hostile.asked.count(name) > JVMS_OF_EACH_KIND for name in Hostile.bodies if name != "connect"),
        )
        _until(agent, lambda: Hostile.asked.count("connect") > 1)
        assert "kafka_eos_exporter_build_info" in agent.page()


def _until(agent: ConfinedAgent, met: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not met():
        assert agent.process.poll() is None, agent.log[-3000:]
        assert time.monotonic() < end, agent.page()
        time.sleep(0.2)
