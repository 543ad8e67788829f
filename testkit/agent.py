"""The agent as its users run it: the installed command in a process of its own, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import signal
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

from exporter.model import Deadline, Metric
from testkit.processes import Child, ProcessGroup, poll
from testkit.settings import free_ports

COMMAND = Path(sysconfig.get_path("scripts")) / "kafka-eos-exporter"
READY_SECONDS = 120.0
STOP_SECONDS = 10.0
CALL_SECONDS = 30.0
WAIT_SECONDS = 180.0
"""For a state to be seen, on a machine that does other work: what is awaited comes in seconds, or not at all."""
_END_OF_NAME = re.compile("[{ ]")


class AgentError(RuntimeError):
    """The agent ended by itself; the text has its exit code and the end of its log."""


class MetricSample(NamedTuple):
    """One line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float

    def __str__(self) -> str:
        return f"{self.name}{{{_joined(self.labels)}}} {self.value:g}"


def _joined(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))


class Metrics:
    """One scrape. Names are rows of the catalogue or sample names (``..._bucket``); labels match as a subset."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines: dict[str, list[str]] = {}
        self._read: dict[str, list[MetricSample]] = {}
        self._asked: dict[str, tuple[str, list[MetricSample]]] = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                self._lines.setdefault(_END_OF_NAME.split(line, 1)[0], []).append(line)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._lines)

    def _of(self, name: str) -> list[MetricSample]:
        """The samples of this name. Only these are parsed: a page has hundreds, and waits read several in a second."""
        if name not in self._read:
            families = text_string_to_metric_families("\n".join(self._lines.get(name, ())) + "\n")
            self._read[name] = [
                MetricSample(sample.name, sample.labels, sample.value)
                for family in families
                for sample in family.samples
            ]
        return self._read[name]

    def samples(self, name: Metric | str, **labels: str) -> list[MetricSample]:
        """The samples of this name that have these labels."""
        wanted = labels.items()
        found = [sample for sample in self._of(str(name)) if wanted <= sample.labels.items()]
        self._asked[f"{name}{{{_joined(labels)}}}"] = (str(name), found)
        return found

    def value(self, name: Metric | str, **labels: str) -> float | None:
        """The value of the one sample that has these labels; None when it is absent. Raises on several."""
        found = self.samples(name, **labels)
        if len(found) > 1:
            raise AssertionError(f"{len(found)} samples of {name} have {labels}: {', '.join(map(str, found))}")
        return found[0].value if found else None

    def total(self, name: Metric | str, **labels: str) -> float:
        """The sum over all samples that have these labels; 0 when there are none."""
        return sum(sample.value for sample in self.samples(name, **labels))

    def answers(self) -> str:
        """Return what was asked of this scrape and what it has: a line each, then all samples of those names."""
        lines = [
            f"  {asked}: {'; '.join(map(str, found[:6])) or 'absent'}" for asked, (_, found) in self._asked.items()
        ]
        names = sorted({name for name, _ in self._asked.values()} | {"kafka_eos_source_up"})
        samples = [str(sample) for name in names for sample in self._of(name)]
        return "\n".join(["asked of /metrics:", *lines, "all samples of these metrics, and source_up:", *samples])


class HttpAnswer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class AgentProcess:
    """``kafka-eos-exporter run`` with these arguments, on a free port unless one is given.

    A context manager; ``stop`` sends SIGTERM and gives the exit code. The process belongs to ``processes``.
    """

    def __init__(
        self,
        processes: ProcessGroup,
        *arguments: str,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        name: str = "agent",
        command: Sequence[str] = (str(COMMAND),),
    ) -> None:
        self.port = port or free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        argv = [*command, "run", *arguments, "--web.listen-address", f"127.0.0.1:{self.port}"]
        self._child = processes.start(name, argv, environment=environment)

    @property
    def child(self) -> Child:
        return self._child

    @property
    def log(self) -> str:
        """All that it wrote so far."""
        return self._child.log.read_text(errors="replace")

    def get(self, path: str, *, method: str = "GET", **headers: str) -> HttpAnswer:
        """One request. Header names with ``_`` for ``-``. Raises OSError without answer, AgentError when it ended."""
        if not self._child.running:
            raise AgentError(f"the agent ended with code {self._child.returncode}; its log:\n{self._child.tail()}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS)
        try:
            connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
            response = connection.getresponse()
            return HttpAnswer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def metrics(self) -> Metrics:
        return Metrics(self.get("/metrics").text)

    def status(self) -> Any:  # noqa: ANN401 - whatever JSON it is
        """Read /api/v1/status."""
        return json.loads(self.get("/api/v1/status").body)

    def wait_ready(self, timeout: float = READY_SECONDS) -> Self:
        """Wait until /-/ready says 200. Raises TimeoutError, with the agent's log, or AgentError when it ended."""
        until = Deadline.after(timeout)
        while not self._is_ready():
            if not poll(until, 0.05):
                raise TimeoutError(f"the agent is not ready; its log ends with:\n{self._child.tail()}")
        return self

    def wait_until(self, what: Callable[[Metrics], object], timeout: float = WAIT_SECONDS) -> Metrics:
        """Scrape until ``what`` is true of the metrics, and return those.

        Raises TimeoutError with what was asked of the last scrape, what it had instead, and where the agent's log is.
        """
        until = Deadline.after(timeout)
        while True:
            metrics = self.metrics()
            if what(metrics):
                return metrics
            if not poll(until, 0.25):
                log = f"{self._child.log.name}, among the logs of servers, ends with:\n{self._child.tail(15)}"
                raise TimeoutError(f"not seen in {timeout:g} s; {metrics.answers()}\n{log}")

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._child.stop(Deadline.after(STOP_SECONDS))

    def kill(self) -> None:
        self._child.kill()

    def reload(self) -> None:
        """SIGHUP."""
        self._child.signal(signal.SIGHUP)

    def __enter__(self) -> Self:
        try:
            return self.wait_ready()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _is_ready(self) -> bool:
        try:
            return self.get("/-/ready").status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
