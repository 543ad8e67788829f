"""An agent that leaves Kafka itself to another one, as a sidecar does."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.agent.clusters import Clusters
from exporter.config import ConfigSource
from exporter.exposition.render import Exposition
from exporter.model import Clock
from exporter.settings.layers import ConfigError

SETTINGS = """
web: {listen_address: "127.0.0.1:0"}
clusters:
  - {name: prod, watch: WATCH, kafka: {bootstrap.servers: "127.0.0.1:1"}}
connect: [{name: main, rest: ["http://127.0.0.1:1"]}]
"""
ASKING_KAFKA = {"lso", "transactions", "txnlog", "groups", "posture"}


def sources(tmp_path: Path, watch: str) -> set[str]:
    file = tmp_path / "config.yml"
    file.write_text(SETTINGS.replace("WATCH", watch))
    clusters = Clusters(ConfigSource(file, {}).load(), None, Exposition(Clock()), Clock())
    [cluster] = clusters.status()["clusters"]
    return {source["source"] for source in cluster["sources"]}


def test_kafka_is_not_asked_and_the_engines_are(tmp_path: Path) -> None:
    assert ASKING_KAFKA | {"connect"} <= sources(tmp_path, "true")
    beside = sources(tmp_path, "false")
    assert "connect" in beside
    assert beside.isdisjoint(ASKING_KAFKA)


def test_a_cluster_that_is_not_asked_needs_its_name(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text(SETTINGS.replace("WATCH", "false").replace("name: prod, ", ""))
    with pytest.raises(ConfigError, match="watch: false, so it needs the name"):
        ConfigSource(file, {}).load()
