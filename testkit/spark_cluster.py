"""A standalone Spark cluster on loopback, of pyspark's own distribution: a master, and workers of one core each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

from exporter.model import Deadline
from testkit.processes import Child, ProcessGroup, poll
from testkit.settings import free_ports

HOME = Path(pyspark.__file__).parent
HERE = "127.0.0.1"
START_SECONDS = 240.0


class StandaloneSpark:
    """The cluster's processes, each worker in a folder of its own; ``memory`` is what a worker has for executors."""

    def __init__(self, processes: ProcessGroup, folder: Path, workers: int = 2, memory: str = "1g") -> None:
        self._processes, self._folder = processes, folder
        port, *pages = free_ports(2 + workers)
        self.master = f"spark://{HERE}:{port}"
        self.environment = {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": HERE,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "128m",
        }
        where = ["--host", HERE, "--webui-port"]
        self._start("master", "master.Master", *where, str(pages[0]), "--port", str(port))
        for number, page in enumerate(pages[1:]):
            own = ["--cores", "1", "--memory", memory, "--work-dir", str(folder / f"worker-{number}")]
            worker = self._start(f"worker-{number}", "worker.Worker", *where, str(page), *own, self.master)
            until = Deadline.after(START_SECONDS)
            while "Successfully registered with master" not in worker.tail(100):
                if not worker.running or not poll(until):
                    raise RuntimeError(f"a worker did not start:\n{worker.tail()}")

    def executors(self) -> set[str]:
        """The workers that ran an executor, by their folders."""
        return {path.parents[2].name for path in self._folder.glob("worker-*/app-*/*/stderr")}

    def _start(self, name: str, program: str, *arguments: str) -> Child:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", *arguments]
        return self._processes.start(name, command, environment=self.environment)


def conf_flags(conf: Mapping[str, str]) -> list[str]:
    """Spark's settings as flags of our commands."""
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
