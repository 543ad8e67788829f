"""The whole agent on clusters that do not answer: it serves, reports them, rereads settings and stops."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter import __version__
from exporter.agent.composition import Agent
from exporter.config import ConfigSource
from exporter.core.state import StateInUseError, lock_state
from exporter.journal.facts import Event
from exporter.words import EventKind
from testkit.settings import free_ports
from tests.unit.producers.source.test_librdkafka_posts import body as statistics

DEAD = "127.0.0.1:1"  # tcpmux: no process listens there


class SettingsFile:
    """A settings file that a test rewrites."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.source = ConfigSource(file, {})
        self.external_url = ""

    def write(self, *clusters: str, **others: str) -> None:
        web = f"web: {{listen_address: '127.0.0.1:0', external_url: {self.external_url}}}"
        lines = [web, *(f"{key}: {value}" for key, value in others.items())]
        lines += ["clusters:", *(f"  - {{{cluster}, kafka: {{bootstrap.servers: '{DEAD}'}}}}" for cluster in clusters)]
        self.file.write_text("\n".join(lines))


@pytest.fixture
def settings(tmp_path: Path) -> SettingsFile:
    return SettingsFile(tmp_path / "settings.yml")


@pytest.fixture
def start(settings: SettingsFile) -> Iterator[Callable[[], Agent]]:
    agents: list[Agent] = []

    def start() -> Agent:
        agent = Agent(settings.source.load(), settings.source.load)
        agent.start()
        agents.append(agent)
        return agent

    yield start
    for agent in agents:
        agent.stop()


def get(agent: Agent, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    json_type = {} if body is None else {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{agent.ports[0]}{path}"
    request = urllib.request.Request(url, body, json_type, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310 -- ours
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def until(condition: Callable[[], bool]) -> None:
    while not condition():  # the test's own time limit ends this
        time.sleep(0.02)


def clusters(agent: Agent) -> dict[str, Any]:
    return {cluster["name"]: cluster for cluster in json.loads(get(agent, "/api/v1/status")[1])["clusters"]}


def test_the_address_of_the_page_is_a_label_of_the_build(settings: SettingsFile, start: Callable[[], Agent]) -> None:
    settings.write("name: prod")
    assert 'external_url=""' in get(start(), "/metrics")[1]
    settings.external_url = "https://eos.example.com"
    settings.write("name: prod")
    assert 'external_url="https://eos.example.com"' in get(start(), "/metrics")[1]


def test_a_cluster_that_is_down_is_said_everywhere_and_makes_nothing_unready(
    settings: SettingsFile, start: Callable[[], Agent]
) -> None:
    settings.write("name: prod")
    agent = start()
    until(lambda: get(agent, "/-/ready")[0] == 200)
    until(lambda: 'source_up{kafka_cluster="prod",source="lso",target="prod"} 0.0' in get(agent, "/metrics")[1])
    metrics = get(agent, "/metrics")[1]
    assert f'kafka_eos_exporter_build_info{{version="{__version__}",' in metrics
    assert "process_cpu_seconds_total " in metrics
    assert 'reason="unreachable"} 0.0' not in [line for line in metrics.splitlines() if 'source="lso"' in line][-1]
    assert "kafka_eos_topic_lso_lag_offsets" not in metrics
    assert {source["up"] for source in clusters(agent)["prod"]["sources"]} == {False}
    assert "Cannot see everything" in get(agent, "/")[1]


def test_a_reload_keeps_what_did_not_change_drops_what_went_and_reads_what_came(
    settings: SettingsFile, start: Callable[[], Agent]
) -> None:
    settings.write("name: stays", "name: goes")
    agent = start()
    until(lambda: "goes" in get(agent, "/metrics")[1])
    workers = agent._clusters._runner._members["stays"].workers
    settings.write("name: stays", "name: comes")
    assert get(agent, "/-/reload", "POST") == (200, "Reloaded.\n")
    assert agent._clusters._runner._members["stays"].workers is workers
    assert list(clusters(agent)) == ["stays", "comes"]
    until(lambda: 'kafka_cluster="comes"' in get(agent, "/metrics")[1])
    assert 'kafka_cluster="goes"' not in get(agent, "/metrics")[1]


def test_whatever_is_written_after_state_dir_vanished_locks_it_again(
    settings: SettingsFile, start: Callable[[], Agent], tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    settings.write("name: a", state=f"{{dir: {folder}}}")
    watched = start()._clusters
    journal = watched.journals._by_key["a"].journal
    journal.open("id-1")
    for write in (
        lambda: watched._state.save("id-1", "x", {"a": 1}),
        lambda: journal.record([Event(EventKind.AGENT_STARTED, 1.0, "key", "")], 1.0),
    ):
        shutil.rmtree(folder)
        write()
        assert (folder / "id-1").is_dir()
        with pytest.raises(StateInUseError):
            lock_state(folder)


def test_a_cluster_that_a_reload_removed_leaves_its_state_to_another_name(
    settings: SettingsFile, start: Callable[[], Agent], tmp_path: Path
) -> None:
    state = f"{{dir: {tmp_path / 'state'}}}"
    settings.write("name: a", "name: b", state=state)
    agent = start()
    folders = agent._clusters._state
    assert [folders.claim("id-1", name) for name in "ab"] == ["a", "a"]
    settings.write("name: b", state=state)
    assert get(agent, "/-/reload", "POST")[0] == 200
    assert folders.claim("id-1", "b") == "b"


def test_a_changed_cluster_is_read_anew(settings: SettingsFile, start: Callable[[], Agent]) -> None:
    settings.write("name: prod")
    agent = start()
    workers = agent._clusters._runner._members["prod"].workers
    settings.write("name: prod, lso: {stall_after: 7s}")
    agent.reload()
    assert agent._clusters._runner._members["prod"].workers is not workers
    assert all(worker.join(20) for worker in workers)


def test_a_reload_names_the_settings_that_it_does_not_change(
    settings: SettingsFile, start: Callable[[], Agent], caplog: pytest.LogCaptureFixture
) -> None:
    settings.write("name: prod")
    agent = start()
    settings.write("name: prod", thresholds="[{kind: topic, pattern: x, reason: why, ignore: true}]")
    with caplog.at_level("WARNING"):
        agent.reload()
        assert "at the next start only" not in caplog.text
        settings.write("name: prod", journal="{size: 60MiB}")
        agent.reload()
    assert "journal and ingest take effect at the next start only" in caplog.text


def test_what_is_posted_may_name_a_cluster_that_a_reload_added_and_not_one_that_it_removed(
    settings: SettingsFile, start: Callable[[], Agent]
) -> None:
    settings.write("name: stays", "name: goes", ingest="{enabled: true}")
    agent = start()
    settings.write("name: stays", "name: comes", ingest="{enabled: true}")
    assert agent.reload() == []
    posts = {name: statistics(kafka_cluster=name) for name in ("stays", "comes", "goes")}
    answers = {name: get(agent, "/ingest/librdkafka", "POST", post)[0] for name, post in posts.items()}
    assert answers == {"stays": 204, "comes": 204, "goes": 400}


def test_refused_settings_are_reported_and_the_old_ones_stay(
    settings: SettingsFile, start: Callable[[], Agent]
) -> None:
    settings.write("name: prod")
    agent = start()
    workers = agent._clusters._runner._members["prod"].workers
    settings.write("name: prod, lso: {stall_after: soon}", nonsense="1")
    status, text = get(agent, "/-/reload", "POST")
    assert status == 400
    assert "stall_after" in text
    assert "nonsense" in text
    assert agent._clusters._runner._members["prod"].workers is workers
    settings.write("name: prod")
    assert get(agent, "/-/reload", "POST")[0] == 200
    assert agent._clusters._runner._members["prod"].workers is workers


@pytest.mark.parametrize(
    ("module", "others"),
    [
        ("engine_sources", {"audits": "[{path: DIRECTORY}]"}),
        ("jvm_sources", {"producers": "[{jolokia: 'http://127.0.0.1:1/jolokia'}]"}),
    ],
)
def test_settings_that_need_what_cannot_be_imported_are_refused_and_the_old_ones_stay(
    settings: SettingsFile,
    start: Callable[[], Agent],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    others: dict[str, str],
) -> None:
    settings.write("name: prod")
    agent = start()
    workers = agent._clusters._runner._members["prod"].workers
    journals = dict(agent._clusters.journals._by_key)
    monkeypatch.setitem(sys.modules, f"exporter.agent.{module}", None)  # as after the package was replaced
    monkeypatch.delattr(f"exporter.agent.{module}", raising=False)  # where another test has imported it
    settings.write("name: stays", **{key: text.replace("DIRECTORY", str(tmp_path)) for key, text in others.items()})
    status, text = get(agent, "/-/reload", "POST")
    assert status == 400
    assert module in text
    assert agent._clusters._runner._members["prod"].workers is workers
    assert agent._clusters.journals._by_key == journals
    settings.write("name: prod")
    assert get(agent, "/-/reload", "POST")[0] == 200
    assert agent._clusters._runner._members["prod"].workers is workers


# --- As a process -----------------------------------------------------------------------------------------------------


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "exporter", "run", "--bootstrap-server", DEAD, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_sigterm_ends_it_cleanly_and_sighup_rereads() -> None:
    port = free_ports(1)[0]
    agent = run("--web.listen-address", f"127.0.0.1:{port}")
    try:
        until(lambda: is_listening(port))
        os.kill(agent.pid, signal.SIGHUP)
        assert agent.stderr is not None
        assert any("settings reread: 1 cluster(s) as before" in line for line in agent.stderr)
        os.kill(agent.pid, signal.SIGTERM)
        output, log = agent.communicate(timeout=5)
    finally:
        agent.kill()
    assert agent.returncode == 0
    assert output == ""
    assert "msg=stopped" in log


def test_sighup_rereads_the_thresholds_and_what_is_ignored_shows_at_once(tmp_path: Path) -> None:
    port, file = free_ports(1)[0], tmp_path / "settings.yml"

    def ignore(reason: str) -> None:
        entry = f"{{kind: source, pattern: 'lso/.*', ignore: true, reason: {reason}}}"
        cluster = f"{{name: prod, lso: {{interval: 1s}}, kafka: {{bootstrap.servers: '{DEAD}'}}}}"
        web = f"web: {{listen_address: '127.0.0.1:{port}'}}"
        file.write_text(f"{web}\nclusters: [{cluster}]\nthresholds: [{entry}]\n")

    def shown(reason: str) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as response:
            text = response.read().decode()
        series = re.findall(r"kafka_eos_ignored_info\{(.*)\} 1", text)
        return series == [f'kafka_cluster="prod",kind="source",subject="lso/prod",reason="{reason}"']

    ignore("first")
    command = [sys.executable, "-m", "exporter", "run", "--config", str(file)]
    agent = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until(lambda: is_listening(port))
        until(lambda: shown("first"))
        ignore("second")
        os.kill(agent.pid, signal.SIGHUP)
        until(lambda: shown("second"))
        agent.terminate()
        assert agent.wait(10) == 0
    finally:
        agent.kill()
        agent.wait()


def test_a_port_in_use_is_one_clear_line_and_exit_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        agent = run("--web.listen-address", address)
        output, log = agent.communicate(timeout=20)
    assert agent.returncode == 2
    assert output == ""
    assert f"cannot listen on {address}: address already in use" in log
    assert len(log.splitlines()) == 1
