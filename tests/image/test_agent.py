"""The agent's image, confined as far as it goes, beside a real broker on a bridge network."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.image.engine import BASE, Kafka, container, engine, get, inspect, port_of, wait

ROOT = Path(__file__).parents[2]
IMAGE = "kafka-eos-exporter-agent:test"
START_SECONDS = 2.0
STOP_SECONDS = 5.0
MOST_BYTES_BEYOND_THE_BASE = 150_000_000
CONFINED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--memory", "128m")
STATE = "/var/lib/kafka-eos-exporter"
RUN = ("run", f"--state.dir={STATE}", "--cluster.name=prod")


@pytest.fixture
def volume() -> Iterator[str]:
    name = f"eos-state-{os.getpid()}"
    engine("volume", "create", name)
    yield name
    engine("volume", "rm", "--force", name, check=False)


@contextmanager
def agent(broker: Kafka, *options: str, name: str = "") -> Iterator[tuple[str, int]]:
    """An agent on the broker's network: its container's name, and its port on this machine."""
    name = name or f"{broker.network}-agent"
    network = ("--network", broker.network, "--publish", "127.0.0.1::10618")
    with container(name, *CONFINED, *network, *options, IMAGE, *RUN, "--bootstrap-server=kafka:9092"):
        yield name, port_of(name)


def committed(port: int) -> float:
    """Transactions that the agent counted as committed; 0 while it shows none."""
    lines = re.findall(
        r'^kafka_eos_transactions_total\{.*outcome="committed"\} (\S+)$', get(port, "/metrics") or "", re.MULTILINE
    )
    return sum(map(float, lines))


def cpu_seconds(name: str) -> float:
    """Processor time of the container's first process so far."""
    fields = engine("exec", name, "cat", "/proc/1/stat").stdout.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def python(code: str, *options: str) -> str:
    return engine("run", "--rm", *CONFINED, *options, "--entrypoint", "python", IMAGE, "-c", code).stdout.strip()


def test_the_bill_of_materials_lists_all_packages_of_the_image_and_no_others() -> None:
    made = json.loads((ROOT / "build/image/kafka-eos-exporter-agent.cdx.json").read_text())
    listed = {component["purl"].partition("?")[0] for component in made["components"]}
    packages = python(
        "import re\nfrom importlib.metadata import distributions\n"
        "from sys import path\npath.append('/usr/local/lib/python3.11/site-packages')\n"
        "for each in distributions(): print(re.sub('[-_.]+', '-', each.name).lower(), each.version)"
    )
    of_python = {f"pkg:pypi/{name}@{quote(version)}" for name, version in map(str.split, packages.splitlines())}
    assert {package for package in listed if package.startswith("pkg:pypi/")} == of_python
    pinned = re.findall(r"(?m)^([A-Za-z0-9_.-]+)==([^ ;\\]+)", (ROOT / "docker/requirements.txt").read_text())
    assert {f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{version}" for name, version in pinned} <= of_python
    query = ("--entrypoint", "dpkg-query", IMAGE, "--show", "--showformat", "${Package} ${Version} ${Status}\n")
    installed = re.findall(r"(?m)^(\S+) (\S+) install ok installed$", engine("run", "--rm", *query).stdout)
    of_debian = {f"pkg:deb/debian/{name}@{quote(version, safe='')}" for name, version in installed}
    assert len(of_debian) > 50
    assert {package for package in listed if package.startswith("pkg:deb/")} == of_debian


def test_the_image_is_at_most_150_mb_beyond_its_base() -> None:
    assert int(inspect(IMAGE)["Size"]) - int(inspect(BASE)["Size"]) <= MOST_BYTES_BEYOND_THE_BASE


def test_it_runs_as_10618_without_a_capability_on_a_read_only_root() -> None:
    said = python("print(open('/proc/self/status').read())")
    assert re.search(r"^Uid:\s+10618\s+10618\s+10618\s+10618$", said, re.MULTILINE)
    assert re.search(r"^Groups:\s*(10618\s*)?$", said, re.MULTILINE)
    for kind in ("Prm", "Eff", "Bnd", "Amb"):
        assert re.search(rf"^Cap{kind}:\s+0+$", said, re.MULTILINE), kind
    assert re.search(r"^NoNewPrivs:\s+1$", said, re.MULTILINE)
    places = ("/", "/opt/kafka-eos-exporter", "/etc", "/usr/local/lib")
    assert python(f"import os; print([p for p in {places} if os.access(p, os.W_OK)])") == "[]"


def test_it_answers_within_two_seconds_and_ends_within_five() -> None:
    name = f"eos-start-{os.getpid()}"
    words = (*CONFINED, "--publish", "127.0.0.1::10618", IMAGE, *RUN, "--bootstrap-server=127.0.0.1:1")
    with container(name, *words):
        port, began = port_of(name), time.monotonic()
        wait("health", lambda: get(port, "/-/healthy"), 30, 0.05)
        answered = time.monotonic() - began
        used = cpu_seconds(name)
        began = time.monotonic()
        engine("stop", "--time", "20", name)
        stopped = time.monotonic() - began
        assert inspect(name)["State"]["ExitCode"] == 0
    print(f"answered after {answered:.2f} s and {used:.2f} s of processor time, ended after {stopped:.2f} s")
    # On a machine that does other work as well, only its own processor time is what the image answers for.
    assert (used if os.getloadavg()[0] > (os.cpu_count() or 1) else answered) <= START_SECONDS
    assert stopped <= STOP_SECONDS


def test_it_sees_a_real_broker_over_a_bridge_and_keeps_its_counters_on_a_volume(broker: Kafka, volume: str) -> None:
    broker.produce("orders", 300, "orders-1")
    options = ("--volume", f"{volume}:{STATE}")
    with agent(broker, *options) as (name, port):
        wait("readiness", lambda: get(port, "/-/ready"))
        broker.produce("orders", 300, "orders-1")
        seen = wait("committed transactions", lambda: committed(port), 60)
        assert 'kafka_eos_source_up{kafka_cluster="prod",source="lso",target="prod"} 1' in (get(port, "/metrics") or "")
        assert not inspect(name)["State"]["OOMKilled"]
        seen = committed(port)
        engine("stop", "--time", "10", name)
    with agent(broker, *options, name=f"{broker.network}-again") as (_, port):
        wait("counters", lambda: committed(port))
        assert committed(port) >= seen


def test_its_health_check_tells_an_agent_that_serves_from_one_that_does_not(broker: Kafka) -> None:
    image = inspect(IMAGE)
    check = (image.get("Healthcheck") or image["Config"]["Healthcheck"])["Test"]  # podman's place, docker's place
    assert check[0] == "CMD"
    with agent(broker) as (name, port):
        wait("health", lambda: get(port, "/-/healthy"))
        engine("exec", name, *check[1:])
        assert engine("exec", name, *check[1:], "2147483647", check=False).returncode != 0


def test_secrets_are_files_and_show_nowhere(tmp_path: Path) -> None:
    word = "made-up-pass-word"
    secret = tmp_path / "password"
    secret.write_text(word)
    os.chown(secret, 10618, 10618)
    secret.chmod(0o400)
    config = tmp_path / "eos.yml"
    config.write_text(
        "clusters:\n  - name: prod\n    kafka:\n      bootstrap.servers: kafka:9093\n"
        "      security.protocol: SASL_PLAINTEXT\n      sasl.mechanism: SCRAM-SHA-512\n      sasl.username: eos\n"
        "      sasl.password.file: /etc/eos/password\n"
    )
    mounts = ("--volume", f"{secret}:/etc/eos/password:ro", "--volume", f"{config}:/etc/eos/eos.yml:ro")
    run = ("run", "--rm", *CONFINED, *mounts, IMAGE)
    assert engine(*run, "check", "config", "/etc/eos/eos.yml").returncode == 0
    assert word not in engine(*run, "run", "--config", "/etc/eos/eos.yml", "--print-config").stdout
    secret.chmod(0o000)
    refused = engine(*run, "check", "config", "/etc/eos/eos.yml", check=False)
    assert refused.returncode == 1
    assert "password" in refused.stdout + refused.stderr
