"""The agent's image, carried out without an engine, and the agent in it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.model import Deadline
from testkit.processes import poll
from testkit.settings import free_ports
from tests.container.dockerfile import stages
from tests.container.engine import RootLayer, base, build

ROOT = Path(__file__).parents[2]
STAGES = stages((ROOT / "Dockerfile").read_text())
REVISION = "0123456789abcdef0123456789abcdef01234567"
WRITABLE = ("/tmp", "/var/lib/kafka-eos-exporter")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RootLayer]:
    folder = tmp_path_factory.mktemp("image")
    python = next((Path(sys.prefix) / "lib").glob("python3*/site-packages"))
    layers = {"": base(folder / "base", python)}
    for name in ("build", "runtime", "agent"):
        stage = STAGES[name]
        below = layers.get(stage.base, layers[""])
        layers[name] = build(stage, below, layers, folder / name, ROOT, {"REVISION": REVISION})
    yield layers["agent"]
    shutil.rmtree(folder)


def entered(image: RootLayer, *words: str) -> tuple[list[str], dict[str, str]]:
    return image.command(words, image.environment, user="10618:10618", writable=WRITABLE)


def inside(image: RootLayer, *words: str) -> subprocess.CompletedProcess[str]:
    command, environment = entered(image, *words)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


class ServedAgent(NamedTuple):
    """An agent that runs: its port and its process."""

    port: int
    process: int


@pytest.fixture(scope="module")
def port(served: ServedAgent) -> int:
    return served.port


@pytest.fixture(scope="module")
def served(image: RootLayer) -> Iterator[ServedAgent]:
    """An agent in the image, with no Kafka to be found; stopped as an engine does it."""
    [number] = free_ports(1)
    stage = STAGES["agent"]
    words = [*STAGES["runtime"].last("ENTRYPOINT").words, *stage.last("CMD").words]
    command, environment = entered(
        image, *words, "--bootstrap-server=127.0.0.1:1", f"--web.listen-address=127.0.0.1:{number}"
    )
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = Deadline.after(90)
            while not answers(number) and process.poll() is None and poll(until, 0.1):
                pass
            yield ServedAgent(number, process.pid)
        finally:
            process.send_signal(signal.Signals[stage.last("STOPSIGNAL").value])
            code = process.wait(60)
    assert code == 0


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/healthy", timeout=5):
            return True
    except OSError:
        return False


def test_the_command_in_the_image_knows_its_version_and_revision(image: RootLayer) -> None:
    assert f"revision: {REVISION[:12]}" in inside(image, "kafka-eos-exporter", "--version").stdout


def test_the_root_is_read_only_and_the_user_is_nobody(image: RootLayer) -> None:
    assert inside(image, "sh", "-c", "id -u; id -G").stdout.split() == ["10618", "10618"]
    for place in ("/opt/kafka-eos-exporter", "/usr/local/lib", "/etc"):
        assert "Read-only" in inside(image, "touch", f"{place}/x").stderr
    for place in WRITABLE:
        assert inside(image, "touch", f"{place}/x").returncode == 0


def test_nothing_is_compiled_at_a_start_nor_by_a_health_check(image: RootLayer) -> None:
    code = (
        "import os, sys, urllib.request; from exporter import cli; cli.parser(['run']);"
        "import exporter.agent.composition, exporter.agent.clusters;"
        "specs = [module.__spec__ for module in sys.modules.values() if getattr(module, '__spec__', None)];"
        "cached = {each.name: os.path.exists(each.cached) for each in specs if each.cached};"
        "print(len(cached) > 500, [name for name, is_there in cached.items() if not is_there])"
    )
    assert inside(image, "python", "-c", code).stdout.strip() == "True []"


def test_there_is_no_installer_in_the_image(image: RootLayer) -> None:
    for module in ("pip", "ensurepip", "setuptools"):
        for python in ("/usr/local/bin/python", "python"):
            assert "No module named" in inside(image, python, "-m", module).stderr


def test_the_agent_serves_from_a_read_only_root(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    assert f'revision="{REVISION[:12]}"' in page
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/runbooks", timeout=10) as answer:
        assert "/runbooks/KafkaEosLsoStalled" in answer.read().decode()


def test_the_healthcheck_tells_a_process_that_serves_from_another(image: RootLayer, served: ServedAgent) -> None:
    words = json.loads(STAGES["agent"].last("HEALTHCHECK").value.partition("CMD ")[2])
    assert inside(image, *words, str(served.process)).returncode == 0
    assert inside(image, *words, "2147483647").returncode != 0
