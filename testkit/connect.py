"""A real distributed Connect cluster on loopback, with exactly-once source support enabled.

``python -m testkit.connect --bootstrap-server HOST:PORT`` starts two workers and keeps them until Ctrl-C.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from exporter.model import Deadline
from testkit import jars
from testkit.processes import Child, JvmOptions, ProcessGroup, java, poll
from testkit.settings import free_ports

START_SECONDS = 240.0
STOP_SECONDS = 15.0
CALL_SECONDS = 30.0
STEP_SOURCE = Path(__file__).parent / "java" / "StepSource.java"
_SERVICES = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


class WorkerCluster(Protocol):
    """The addresses and settings of a cluster that its workers need."""

    version: str

    @property
    def bootstrap(self) -> str: ...


class ConnectError(RuntimeError):
    """A worker did not come up, or refused a call; the text says what."""


class WorkerProcess:
    """One worker. ``start`` brings it back on the same port."""

    def __init__(self, name: str, port: int, argv: Sequence[str], group: ProcessGroup) -> None:
        self.name = name
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._argv = tuple(argv)
        self._group = group
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def child(self) -> Child:
        if self._child is None:
            raise ConnectError(f"{self.name} was never started")
        return self._child

    def start(self) -> None:
        if not self.running:
            self._child = self._group.start(self.name, self._argv)

    def kill(self) -> None:
        """SIGKILL: its tasks move once the group notices, and their transactions are fenced or time out."""
        self.child.kill()

    def stop(self) -> None:
        self.child.stop(Deadline.after(STOP_SECONDS))


class ConnectCluster:
    """Workers of one Connect group on a running Kafka, as a context manager; ``folder`` is theirs."""

    def __init__(
        self,
        brokers: WorkerCluster,
        group_id: str = "etl",
        workers: int = 2,
        *,
        properties: Mapping[str, str] | None = None,
        jvm_options: JvmOptions = lambda _: (),
        heap_mb: int = 256,
    ) -> None:
        self.group_id = group_id
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-eos-connect-"))
        self._plugins = _plugins(brokers.version, self.folder / "plugins")
        self._processes = ProcessGroup(self.folder)
        self.workers = tuple(
            WorkerProcess(
                name, port, self._argv(brokers, name, port, properties or {}, jvm_options, heap_mb), self._processes
            )
            for name, port in zip(
                (f"connect-{group_id}-{number}" for number in range(1, workers + 1)), free_ports(workers), strict=True
            )
        )

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(worker.url for worker in self.workers)

    def transactional_id(self, connector: str, task: int = 0) -> str:
        """The id of an exactly-once source task's producer (Worker.taskTransactionalId)."""
        return f"{self.group_id}-{connector}-{task}"

    def create(self, name: str, config: Mapping[str, object]) -> None:
        """Create a connector, or give it a new configuration, and wait until Connect has taken it."""
        settings = {key: str(value) for key, value in config.items()}
        self.call("PUT", f"/connectors/{name}/config", settings)

    def create_file_source(self, name: str, file: Path, topic: str, **config: object) -> None:
        """Kafka's own file source; keys of ``config`` have ``_`` for ``.``."""
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        kind = "org.apache.kafka.connect.file.FileStreamSourceConnector"
        self.create(name, {"connector.class": kind, "tasks.max": 1, "file": file, "topic": topic, **dotted})

    def create_file_sink(self, name: str, file: Path, topic: str, **config: object) -> None:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        kind = "org.apache.kafka.connect.file.FileStreamSinkConnector"
        self.create(name, {"connector.class": kind, "tasks.max": 1, "file": file, "topics": topic, **dotted})

    def create_step_source(self, name: str, topic: str, tasks: int = 1, **config: object) -> None:
        """Our own source, which counts, can define its own transactions, and fails when a file exists."""
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        self.create(name, {"connector.class": "StepSource", "tasks.max": tasks, "topic": topic, **dotted})

    def restart_worker(self, worker: WorkerProcess, **settings: str) -> None:
        """Stop a worker and start it with other settings (``_`` for ``.``), and wait until it has joined the group."""
        file = self.folder / f"{worker.name}.properties"
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        kept = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in dotted]
        file.write_text("".join(f"{line}\n" for line in (*kept, *(f"{key}={dotted[key]}" for key in dotted))))
        worker.stop()
        worker.start()
        self.wait_ready(Deadline.after(START_SECONDS))

    def delete(self, name: str) -> None:
        self.call("DELETE", f"/connectors/{name}")

    def restart_task(self, connector: str, task: int = 0) -> None:
        self.call("POST", f"/connectors/{connector}/tasks/{task}/restart")

    def task_states(self, connector: str) -> list[str]:
        """The states of a connector's tasks, as REST gives them; none while it is not known yet."""
        try:
            status = self.call("GET", f"/connectors/{connector}/status")
        except ConnectError:
            return []
        return [str(task["state"]) for task in status["tasks"]]

    def wait_tasks(self, connector: str, state: str = "RUNNING", tasks: int = 1, timeout: float = 180.0) -> None:
        """Wait until so many tasks of a connector are in this state. Raises TimeoutError with what they are in."""
        until = Deadline.after(timeout)
        while (states := self.task_states(connector)) != [state] * tasks:
            if not poll(until, 0.1):
                raise TimeoutError(f"the tasks of {connector} are {states}; the log ends with:\n{self.log_tail()}")

    def call(self, method: str, path: str, body: object | None = None) -> Any:  # noqa: ANN401 - whatever JSON it is
        """One call to a worker that runs; repeated while the group rebalances. Raises ConnectError."""
        until = Deadline.after(CALL_SECONDS)
        while True:
            worker = next(worker for worker in self.workers if worker.running)
            status, text = _request(worker.port, method, path, body)
            if status not in {0, http.client.CONFLICT, http.client.INTERNAL_SERVER_ERROR} or not poll(until, 0.2):
                break
        if not 200 <= status < 300:
            raise ConnectError(f"{method} {path}: {status} {text}")
        return json.loads(text) if text else None

    def start(self, deadline: Deadline | None = None) -> Self:
        """Start all workers and wait until each answers. Cleans up after itself when that fails."""
        until = deadline or Deadline.after(START_SECONDS)
        try:
            for worker in self.workers:
                worker.start()
            self.wait_ready(until)
        except BaseException:
            self._processes.close(Deadline.after(0))
            raise
        return self

    def wait_ready(self, deadline: Deadline) -> None:
        """Wait until every worker that runs has joined the group: before that, /connectors does not answer."""
        for worker in self.workers:
            while worker.running and _request(worker.port, "GET", "/connectors", None)[0] != http.client.OK:
                if not poll(deadline, 0.2):
                    raise ConnectError(f"{worker.name} is not ready in time:\n{worker.child.tail()}")
            if worker.child.returncode is not None and worker.child.returncode > 0:
                raise ConnectError(f"{worker.name} ended with code {worker.child.returncode}:\n{worker.child.tail()}")

    def log_tail(self) -> str:
        return "\n".join(worker.child.tail(15) for worker in self.workers)

    def close(self) -> None:
        self._processes.close(Deadline.after(0))
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _argv(
        self,
        brokers: WorkerCluster,
        name: str,
        port: int,
        properties: Mapping[str, str],
        jvm_options: JvmOptions,
        heap_mb: int,
    ) -> list[str]:
        settings = {
            "bootstrap.servers": brokers.bootstrap,
            "group.id": self.group_id,
            "listeners": f"http://127.0.0.1:{port}",
            "rest.advertised.host.name": "127.0.0.1",
            "exactly.once.source.support": "enabled",
            # Plugins are found by their manifests; a scan of the class path would take seconds.
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "1000",
            # Tasks of a worker that went away move at once; the default waits five minutes for it.
            "scheduled.rebalance.max.delay.ms": "0",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "task.shutdown.graceful.timeout.ms": "2000",
            "offset.storage.partitions": "5",
            "status.storage.partitions": "2",
        }
        for kind in ("offset", "config", "status"):
            settings[f"{kind}.storage.topic"] = f"{self.group_id}-connect-{kind}"
            settings[f"{kind}.storage.replication.factor"] = "1"
        settings |= properties
        file = self.folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        library = jars.library(brokers.version)
        argv = java(
            heap_mb, library, "org.apache.kafka.connect.cli.ConnectDistributed", str(file), classes=self._plugins
        )
        return [argv[0], *jvm_options(name), *argv[1:]]


def _plugins(version: str, folder: Path) -> Path:
    """Our connector with the manifest by which Connect finds it."""
    shutil.copytree(jars.classes(version, source=STEP_SOURCE), folder)
    manifest = folder / _SERVICES
    manifest.parent.mkdir(parents=True)
    manifest.write_text("StepSource\n")
    return folder


def _request(port: int, method: str, path: str, body: object | None) -> tuple[int, str]:
    """Status and text of one request; status 0 without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, "no answer"
    finally:
        connection.close()


class _Elsewhere:
    """Brokers of a cluster that runs already."""

    version = jars.DEFAULT_VERSION

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testkit.connect", description="A Connect cluster until Ctrl-C.")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--group", default="etl", help="group.id (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(argv)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        with ConnectCluster(_Elsewhere(options.bootstrap_server), options.group, options.workers) as connect:
            jars.say(f"logs in {connect.folder}; Ctrl-C stops and deletes")
            print(" ".join(connect.urls), flush=True)
            over.wait()
    except (ConnectError, jars.JarsError) as error:
        jars.say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
