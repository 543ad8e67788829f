"""Tests of what the agent imports while it runs with one cluster."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from exporter.config import ConfigSource
from exporter.agent.composition import Agent
flags = {("clusters", "kafka", "bootstrap.servers"): ("--bootstrap-server", "127.0.0.1:1"),
         ("web", "listen_address"): ("--web.listen-address", "127.0.0.1:0")}
source = ConfigSource(None, {}, flags, serving=True)
agent = Agent(source.load(), source.load)
agent.start()
assert agent.reload() == []
print(*sys.modules)
sys.stdout.flush()
agent.stop()
"""
NOT_RESIDENT = (
    "pydantic", "pydantic_core", "jinja2", "requests", "urllib3", "rich", "bcrypt", "cryptography",
    "google.protobuf", "opentelemetry", "grafanalib", "prometheus_client.parser", "prometheus_client.exposition",
    "kafka.admin", "kafka.consumer", "kafka.producer", "kafka.net.manager",
)  # fmt: skip


def test_a_running_agent_has_not_imported_what_it_does_not_use() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    modules = set(ended.stdout.split())
    assert "exporter.lso.source.lso" in modules
    assert [name for name in NOT_RESIDENT if name in modules] == []
