"""JVMs that can be asked: a Jolokia and a jmx_exporter in any process of the stack, side by side.

    agents = JvmAgents(folder)
    with KafkaCluster(jvm_options=agents.options) as cluster:
        agents.jolokia("broker-1"), agents.jmx_exporter("broker-1")

The rule files reproduce the public spellings; ``use`` changes from one to another while the JVM runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from testkit import jars
from testkit.settings import free_ports

RULES = Path(__file__).parents[1] / "demo" / "jmx_rules"
SPELLINGS = ("jmx_exporter", "confluent", "default")

_TO_STDERR = "org.jolokia.server.core.service.impl.JulLogHandler"


class _Ports(NamedTuple):
    jolokia: int
    jmx_exporter: int


class JvmAgents:
    """Gives every process that asks its two agents. ``folder`` takes the rule files that the agents watch.

    ``credentials`` are user and password of every Jolokia; without, it lets anybody in, on loopback. ``key_store`` is a
    PKCS#12 file and its password, for TLS. ``jmx_exporter`` is the version of that one.
    """

    def __init__(
        self,
        folder: Path,
        spelling: str = "jmx_exporter",
        credentials: tuple[str, str] | None = None,
        key_store: tuple[str, str] | None = None,
        jmx_exporter: str = jars.JMX_EXPORTER,
    ) -> None:
        library = jars.agents(jmx_exporter)
        self._jolokia = next(library.glob("jolokia-agent-jvm-*.jar"))
        self._jmx_exporter = next(library.glob("jmx_prometheus_javaagent-*.jar"))
        self._folder = folder
        self._spelling = spelling
        self._credentials = credentials
        self._key_store = key_store
        self._ports: dict[str, _Ports] = {}

    @property
    def options(self) -> Callable[[str], Sequence[str]]:
        """The JVM's options for the process of this name; each process gets ports of its own."""
        return self._options

    def jolokia(self, name: str) -> str:
        """Its address; known before the process starts."""
        scheme = "https" if self._key_store else "http"
        return f"{scheme}://127.0.0.1:{self._ports_of(name).jolokia}/jolokia"

    def jmx_exporter(self, name: str) -> str:
        """Its address; known before the process starts."""
        return f"http://127.0.0.1:{self._ports_of(name).jmx_exporter}/metrics"

    def use(self, name: str, rules: Path) -> None:
        """Change the rules of a process: its jmx_exporter rereads a file that is newer at the next scrape."""
        shutil.copyfile(rules, self._rules(name))

    def _options(self, name: str) -> Sequence[str]:
        ports = self._ports_of(name)
        jolokia = f"port={ports.jolokia},host=127.0.0.1,logHandlerClass={_TO_STDERR}"
        if self._credentials:
            jolokia += ",user={},password={}".format(*self._credentials)
        if self._key_store:
            jolokia += ",protocol=https,keyStoreType=PKCS12,keystore={},keystorePassword={}".format(*self._key_store)
        return (
            f"-javaagent:{self._jolokia}={jolokia}",
            f"-javaagent:{self._jmx_exporter}=127.0.0.1:{ports.jmx_exporter}:{self._rules(name)}",
        )

    def _ports_of(self, name: str) -> _Ports:
        if name not in self._ports:
            self._ports[name] = _Ports(*free_ports(2))
            self.use(name, RULES / f"{self._spelling}.yml")
        return self._ports[name]

    def _rules(self, name: str) -> Path:
        return self._folder / f"{name}-rules.yml"
