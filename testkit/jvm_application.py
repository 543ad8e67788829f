"""A JVM application in a folder of its own, which can be killed and started again."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from exporter.model import Deadline
from testkit.processes import Child, ProcessGroup


class JvmApplication(ABC):
    """A context manager. ``folder`` is deleted at its end."""

    def __init__(self, name: str, folder_prefix: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=folder_prefix))
        self._processes = ProcessGroup(self.folder)
        self._name = name
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"{self._name} was never started")
        return self._child

    @abstractmethod
    def command(self) -> list[str]:
        """The command of the next start."""

    def start(self) -> None:
        self._child = self._processes.start(self._name, self.command())

    def kill(self) -> None:
        """SIGKILL."""
        self.child.kill()

    def close(self) -> None:
        self._processes.close(Deadline.after(0))
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
