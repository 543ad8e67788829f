"""A container engine, and a Kafka in a container beside the images that are tried."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.model import Deadline
from testkit.jars import library

ENGINE = os.environ.get("CONTAINER_ENGINE", "podman")
BASE = os.environ.get("CONTAINER_BASE", "")
RUN_SECONDS = 120
SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093
advertised.listeners=PLAINTEXT://kafka:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/tmp/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=8388608
"""


def engine(*words: str | Path, check: bool = True, seconds: float = RUN_SECONDS) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([ENGINE, *words], capture_output=True, text=True, timeout=seconds, check=False)
    assert not check or done.returncode == 0, f"{ENGINE} {' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done


def inspect(name: str) -> dict[str, Any]:
    [found] = json.loads(engine("inspect", name).stdout)
    return dict(found)


@contextmanager
def container(name: str, *words: str | Path) -> Iterator[str]:
    """A container in the background, removed at the end with what it printed where the test failed."""
    engine("run", "--detach", "--name", name, *words)
    try:
        yield name
    except BaseException:
        print(engine("logs", "--tail", "60", name, check=False))
        raise
    finally:
        engine("rm", "--force", "--time", "5", name, check=False)


def port_of(name: str) -> int:
    return int(engine("port", name, "10618/tcp").stdout.splitlines()[0].rpartition(":")[2])


def get(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return None


def wait(what: str, true: Callable[[], Any], seconds: float = 60.0, every: float = 0.2) -> Any:
    """Wait until this gives something, and return it."""
    until = Deadline.after(seconds)
    while not (found := true()):
        assert not until.over, f"not within {seconds:.0f} s: {what}"
        time.sleep(every)
    return found


@dataclass(frozen=True)
class Kafka:
    """A broker that containers of ``network`` reach as kafka:9092."""

    network: str
    name: str

    def produce(self, topic: str, records: int, transactional_id: str) -> None:
        """Write records in transactions of half a second each, by Kafka's own tool."""
        words = ["java", "-Xmx128m", "-cp", "/jars/*", "org.apache.kafka.tools.ProducerPerformance", "--topic", topic]
        words += ["--num-records", str(records), "--throughput", "100", "--record-size", "100"]
        words += ["--transactional-id", transactional_id, "--transaction-duration-ms", "500"]
        engine("exec", self.name, *words, "--producer-props", "bootstrap.servers=kafka:9092", "enable.idempotence=true")


@contextmanager
def kafka(network: str, folder: Path) -> Iterator[Kafka]:
    """Start one: the base image with this machine's Java and the jars that the other tests use, mounted."""
    properties = folder / "server.properties"
    properties.write_text(SERVER)
    java = Path("/usr/lib/jvm")
    mounts = [f"{library()}:/jars:ro", f"{properties}:/server.properties:ro", f"{java}:{java}:ro"]
    mounts += [f"{path}:{path}:ro" for path in Path("/etc").glob("java-*-openjdk")]
    home = (Path(subprocess.check_output(["which", "java"], text=True).strip()).resolve()).parent
    script = (
        "java -Xmx128m -cp '/jars/*' kafka.tools.StorageTool format -t eosTestClusterAAAAAAAAA"
        " -c /server.properties && exec java -Xmx512m -cp '/jars/*' kafka.Kafka /server.properties"
    )
    name = f"{network}-kafka"
    options = ["--network", network, "--network-alias", "kafka", "--env", f"PATH={home}:/usr/local/bin:/usr/bin:/bin"]
    volumes = [word for mount in mounts for word in ("--volume", mount)]
    with container(name, *options, *volumes, BASE, "sh", "-c", script):
        tool = ["java", "-Xmx128m", "-cp", "/jars/*", "org.apache.kafka.tools.TopicCommand"]
        create = [*tool, "--bootstrap-server", "kafka:9092", "--create", "--if-not-exists", "--topic", "orders"]
        wait("the broker", lambda: not engine("exec", name, *create, check=False, seconds=300).returncode, 300)
        yield Kafka(network, name)
