"""A catch-all jmx_exporter in the broker: what every scrape of it costs the broker."""

from __future__ import annotations

import shutil
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from testkit.cluster import KafkaCluster
from testkit.jars import cache_root, require, say
from testkit.settings import free_ports
from tests.bench.machine import cpu_seconds, run

VERSION = "1.0.1"
"""The newest Java agent on Maven Central; later ones are files of GitHub releases."""

SCRAPE_SECONDS = 180.0
TOOL_SECONDS = 120.0


class BrokerScrape(NamedTuple):
    """One scrape: seconds until its last byte, CPU seconds of the broker meanwhile, bytes."""

    wall: float
    cpu: float
    size: int


def java_agent() -> Path:
    """The jar, from the cache or by Maven."""
    name = f"jmx_prometheus_javaagent-{VERSION}.jar"
    target = cache_root() / "jars" / name
    if not target.exists():
        say(f"fetching jmx_exporter {VERSION} with Maven")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            maven = [require("mvn", "maven"), "--batch-mode", "dependency:copy", f"-DoutputDirectory={folder}"]
            run([*maven, f"-Dartifact=io.prometheus.jmx:jmx_prometheus_javaagent:{VERSION}"], TOOL_SECONDS)
            shutil.move(Path(folder) / name, target)
    return target


def attach(cluster: KafkaCluster) -> int:
    """Load it into the running broker, so that nothing measured before pays for it. The port that it serves on."""
    settings = cluster.folder / "jmx_exporter.yml"
    settings.write_text('rules: [{pattern: ".*"}]\n')
    (port,) = free_ports(1)
    pid = str(cluster.brokers[0].child.pid)
    jcmd = require("jcmd", "openjdk-17-jdk-headless")
    run([jcmd, pid, "JVMTI.agent_load", str(java_agent()), f"127.0.0.1:{port}:{settings}"], TOOL_SECONDS)
    return port


def scrape(cluster: KafkaCluster, port: int) -> BrokerScrape:
    pid = cluster.brokers[0].child.pid
    cpu, wall = cpu_seconds(pid), time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SCRAPE_SECONDS) as answer:
        size = len(answer.read())
    return BrokerScrape(time.monotonic() - wall, cpu_seconds(pid) - cpu, size)
