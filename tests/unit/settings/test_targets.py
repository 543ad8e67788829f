"""Settings of Connect and Kafka Streams: what they mean, what is wrong with them, and that no password shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.agent.engine_sources import engine_sources
from exporter.config import Config, ConfigSource
from exporter.jvm.answers import AgentKind
from exporter.settings.layers import ConfigError
from exporter.settings.targets import MOST_TOKEN_BYTES, read_token

ONE = "clusters: [{name: prod, kafka: {bootstrap.servers: 'k1:9092'}}]\n"
TWO = "clusters: [{name: a, kafka: {bootstrap.servers: 'a:1'}}, {name: b, kafka: {bootstrap.servers: 'b:1'}}]\n"


def load(folder: Path, text: str) -> Config:
    file = folder / "config.yml"
    file.write_text(text)
    return ConfigSource(file, {}).load()


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(folder, text)
    return [str(problem) for problem in raised.value.problems]


def test_a_connect_cluster_by_both_ways_with_credentials(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        ONE
        + """
connect:
  - name: main
    group_id: etl
    rest: "http://c1:8083/"
    username: eos
    password: sesame
    workers: [{jolokia: "http://c1:8778/jolokia"}, {jmx_exporter: "https://c2:9404/metrics", ca_file: /etc/ca.pem}]
""",
    )
    (connect,) = config.connect
    assert connect.rest == ("http://c1:8083",)
    assert connect.endpoint(connect.rest[0]).password == "sesame"
    assert [worker.target().way for worker in connect.workers] == [AgentKind.JOLOKIA, AgentKind.JMX_EXPORTER]
    assert connect.workers[1].target().endpoint.ca_file == Path("/etc/ca.pem")
    assert "sesame" not in ConfigSource(tmp_path / "config.yml", {}).printed()
    assert "sesame" not in repr(config)


def test_every_problem_is_reported_with_its_path_and_without_the_secret(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        ONE
        + """
connect:
  - {name: main, rest: ["http://eos:sesame@c1:8083"]}
  - {name: second}
  - {name: third, workers: [{}]}
  - {name: fourth, rest: "c1:8083"}
streams: [{jolokia: "http://s1/j", jmx_exporter: "http://s1/m"}, {jolokia: "http://s1/j", password: sesame}]
""",
    )
    assert not any("sesame" in text for text in found)
    assert [text.split(":")[0] for text in found] == [
        "connect[0].rest[0]",
        "connect[1]",
        "connect[2].workers[0]",
        "connect[3].rest[0]",
        "streams[0]",
        "streams[1]",
    ]


def test_two_connects_of_one_name_are_refused(tmp_path: Path) -> None:
    text = ONE + 'connect: [{name: main, rest: "http://c1:1"}, {name: main, rest: "http://c2:1"}]'
    assert problems(tmp_path, text) == ["connect[1].name: is that of connect[0] too: give each its own"]


def test_with_several_clusters_an_engine_names_its_own(tmp_path: Path) -> None:
    text = TWO + 'connect: [{name: main, rest: "http://c1:1"}]\nstreams: [{jolokia: "http://s1/j", cluster: c}]'
    assert problems(tmp_path, text) == [
        "connect[0].cluster: is required when there are several clusters",
        "streams[0].cluster: is no name of a cluster that is configured; known here: a, b",
    ]


def test_engines_go_to_their_cluster(tmp_path: Path) -> None:
    config = load(tmp_path, TWO + 'connect: [{name: main, cluster: b, group_id: etl, rest: "http://c1:1"}]')
    assert not config.engines_on("a").connect
    assert config.engines_on("b").connect_groups == ("etl",)


def test_every_engine_becomes_a_source_with_its_target(tmp_path: Path) -> None:
    config = load(tmp_path, ONE + 'connect: [{name: main, rest: "http://c1:1", interval: 30s}]')
    sources = engine_sources(None, config.engines_on("prod"))  # type: ignore[arg-type] # not asked before a read
    assert [(source.name, source.target, source.interval) for source in sources] == [
        ("connect", "main", 30.0),
    ]


def test_the_token_in_a_pipe_or_a_huge_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    huge.write_bytes(b"x" * (MOST_TOKEN_BYTES + 1))
    for file, why in ((pipe, "is no regular file"), (huge, "is larger than 64 kB")):
        with pytest.raises(ValueError, match=f"token_file cannot be read: {why}"):
            read_token(file)
