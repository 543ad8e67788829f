"""JVMs are added and removed by settings and files, without a restart of their cluster's own sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from exporter.agent.client_sources import Clients
from exporter.agent.jvm_sources import JvmReaders
from exporter.agent.receivers import receivers_of
from exporter.cluster import Cluster
from exporter.config import Config, ConfigSource
from exporter.core.runner import Runner
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Clock, Deadline, Snapshot
from exporter.settings.layers import ConfigError


class DroppingSink:
    """A sink that drops everything."""

    def swap(self, snapshots: Mapping[Any, Snapshot]) -> None: ...

    def drop(self, keys: Any) -> None: ...


class NamedSource:
    def __init__(self, name: str) -> None:
        self.name = name


def clusters(*names: str) -> dict[str, Cluster]:
    return {name: cast("Cluster", NamedSource(name)) for name in names}


def config(tmp_path: Path, **settings: Any) -> Config:
    kafka = {"bootstrap.servers": "127.0.0.1:1"}
    brokers = settings.pop("brokers", [])
    file = tmp_path / "settings.yml"
    file.write_text(yaml.safe_dump({"clusters": [{"name": "prod", "kafka": kafka, "brokers": brokers}], **settings}))
    return ConfigSource(file, {}).load()


def read(runner: Runner) -> set[tuple[str, str]]:
    return {(source.source, source.target) for state in runner.states() for source in state.sources}


JOLOKIA = "http://127.0.0.1:1/jolokia"


def test_jvms_of_the_settings_are_read_each_in_a_group_of_its_own(tmp_path: Path) -> None:
    runner = Runner((), DroppingSink())
    clients = Clients(runner, None, Clock())
    clients.apply(
        config(tmp_path, brokers=[{"jolokia": JOLOKIA}], producers=[{"jmx_exporter": "http://127.0.0.1:2/metrics"}]),
        clusters("prod"),
    )
    assert read(runner) == {("brokers", "127.0.0.1:1"), ("producers", "127.0.0.1:2")}
    assert len(runner.states()) == 2


def test_what_did_not_change_is_read_on_and_what_is_gone_is_not(tmp_path: Path) -> None:
    runner = Runner((), DroppingSink())
    clients = Clients(runner, None, Clock())
    here = clusters("prod")
    clients.apply(config(tmp_path, brokers=[{"jolokia": JOLOKIA}, {"jolokia": "http://127.0.0.1:2/"}]), here)
    kept = dict(runner._members)
    clients.apply(config(tmp_path, brokers=[{"jolokia": JOLOKIA}]), here)
    assert read(runner) == {("brokers", "127.0.0.1:1")}
    assert all(kept[key] is member for key, member in runner._members.items())
    clients.apply(config(tmp_path, brokers=[{"jolokia": JOLOKIA, "id": 7}]), here)
    assert not any(kept.get(key) is member for key, member in runner._members.items())


def test_a_cluster_that_was_made_anew_takes_its_jvms_along(tmp_path: Path) -> None:
    runner = Runner((), DroppingSink())
    clients = Clients(runner, None, Clock())
    settings = config(tmp_path, brokers=[{"jolokia": JOLOKIA}])
    clients.apply(settings, clusters("prod"))
    before = dict(runner._members)
    clients.apply(settings, clusters("prod"))
    assert all(before[key] is not member for key, member in runner._members.items())


@pytest.mark.parametrize("source", ["brokers", "producers", "streams"])
def test_targets_of_a_file_come_and_go_with_it(source: str, tmp_path: Path) -> None:
    runner = Runner((), DroppingSink())
    clients = Clients(runner, None, Clock())
    file = tmp_path / "apps.yml"
    settings = config(tmp_path, **{source: [{"jolokia": "http://{target}/jolokia", "file_sd": str(file)}]})
    clients.apply(settings, clusters("prod"))
    assert read(runner) == set()
    file.write_text("- targets: ['127.0.0.1:5', '127.0.0.1:6']")
    clients._follow()
    assert read(runner) == {(source, "127.0.0.1:5"), (source, "127.0.0.1:6")}
    file.write_text("- targets: ['127.0.0.1:6']")
    clients._follow()
    assert read(runner) == {(source, "127.0.0.1:6")}


@pytest.mark.parametrize("address", ["a:99999", "[::::]:1", "[1.2]:80"])
def test_a_target_that_is_no_address_is_a_fault_of_its_own_and_the_others_are_followed(
    address: str, tmp_path: Path
) -> None:
    runner = Runner((), DroppingSink())
    clients = Clients(runner, None, Clock())
    file = tmp_path / "apps.yml"
    sections = {kind: [{"jolokia": "http://{target}/jolokia", "file_sd": str(file)}] for kind in ("brokers", "streams")}
    file.write_text(f"- targets: ['{address}', '127.0.0.1:6']")
    clients.apply(config(tmp_path, **sections), clusters("prod"))
    url = f"http://{address}/jolokia"
    assert read(runner) == {(kind, target) for kind in sections for target in (url, "127.0.0.1:6")}
    with pytest.raises(HttpError, match="http://"):
        ask(Endpoint(url), Deadline.after(1))


def test_workers_of_connect_come_and_go_with_their_file_and_those_that_stay_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    pattern = {"jolokia": "http://{target}/jolokia", "file_sd": str(file)}
    workers = [{"jolokia": JOLOKIA}, pattern]
    [connect] = config(tmp_path, connect=[{"name": "main", "workers": workers}]).connect
    readers = JvmReaders(connect.workers)
    [named] = readers()
    file.write_text('[{"targets": ["127.0.0.1:5", "127.0.0.1:6"]}]')
    first = readers()
    assert [named, *first[1:]] == list(first)
    assert len(first) == 3
    file.write_text('[{"targets": ["127.0.0.1:6", "127.0.0.1:7", "127.0.0.1:8"]}]')
    second = readers()
    assert second[:2] == (named, first[2])
    assert len(second) == 4
    file.unlink()
    assert readers() == (named,)


def test_jvms_are_reported_with_their_cluster(tmp_path: Path) -> None:
    runner = Runner((), DroppingSink())
    (tmp_path / "token").write_text("a token")
    ingest = {"enabled": True, "token_file": str(tmp_path / "token")}
    settings = config(tmp_path, brokers=[{"jolokia": JOLOKIA}], ingest=ingest)
    clients = Clients(runner, receivers_of(settings, Clock()), Clock())
    clients.apply(settings, clusters("prod"))
    (own, *_) = runner.states()
    told = clients.states([own.__class__("prod", own.facts, ()), *runner.states()])
    assert [state.key for state in told] == ["prod"]
    assert {source.source for source in told[0].sources} == {"brokers", "ingest"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"brokers": [{"jolokia": "http://{target}/jolokia"}]}, "no file_sd"),
        ({"brokers": [{"jolokia": JOLOKIA, "file_sd": "x.yml"}]}, "needs {target}"),
        ({"brokers": [{"jolokia": JOLOKIA, "jmx_exporter": JOLOKIA}]}, "either jolokia or jmx_exporter"),
        ({"brokers": [{"jolokia": JOLOKIA, "id": -1}]}, "brokers[0].id"),
        (
            {"streams": [{"jolokia": "http://{target}/jolokia"}]},
            "streams[0]: has {target} in its address but no file_sd",
        ),
        ({"connect": [{"name": "c", "workers": [{"jolokia": JOLOKIA, "file_sd": "x"}]}]}, "connect[0].workers[0]: has"),
        ({"producers": [{"jolokia": "http://eos:s3cret@k1/"}]}, "must not hold credentials"),
        ({"producers": [{"jolokia": JOLOKIA, "cluster": "elsewhere"}]}, "no name of a cluster"),
        ({"producers": [{"jmx_exporter": JOLOKIA, "profile": "mine"}]}, "must be one of"),
        ({"ingest": {"enabled": True}}, "needs token_file"),
        ({"ingest": {"enabled": True, "token_file": "/nowhere"}}, "token_file cannot be read"),
        ({"ingest": {"token": "a", "token_file": "/nowhere"}}, "keep one"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, **settings)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:10618", "[::1]:10618", "localhost:10618"])
def test_on_loopback_no_token_is_needed(tmp_path: Path, address: str) -> None:
    assert config(tmp_path, ingest={"enabled": True}, web={"listen_address": address}).ingest.read_token() == ""


def test_a_token_file_is_read_anew_and_no_token_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    made = config(tmp_path, ingest={"enabled": True, "token_file": str(file)})
    assert made.ingest.read_token() == "first"
    file.write_text("second\n")
    assert made.ingest.read_token() == "second"
    made = config(tmp_path, ingest={"enabled": True, "token": "s3cret"})
    assert "s3cret" not in repr(made) + ConfigSource(tmp_path / "settings.yml", {}).printed()
