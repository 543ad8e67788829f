"""Keeps the web-config current: checks whether the file or one that it names has changed, and rereads it.

exporter-toolkit reads the file at every request. Here a thread does, once a second: a slow disk delays no request, and
a file that is invalid for a moment, as while it is being written, changes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from exporter.core.files import FileStamp
from exporter.settings.layers import ConfigError, Problem
from exporter.web_server.config import WebConfig, WebConfigReading, read_web_config

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0

_Stamps = tuple[FileStamp | None, ...]


class WebFile:
    """The web-config file at ``path``; None is plain HTTP without authentication. Any thread may read ``config``."""

    def __init__(self, path: Path | None) -> None:
        """Read the file. Raises ConfigError with every problem."""
        self._path = path
        self._closed = threading.Event()
        self._reading = threading.Lock()  # guards rereading
        self._files: tuple[Path, ...] = ()
        self._stamps: _Stamps = ()
        self.config = WebConfig()
        if path is not None:
            reading = self._read(path)
            if reading.config is None:
                raise ConfigError(reading.problems)
            self.config = reading.config

    def start(self) -> None:
        """Log what is in force, and watch the file in the background."""
        if self._path is None:
            return
        log.info("web config in force: TLS %s, %d user(s)", "on" if self.config.tls else "off", len(self.config.users))
        for note in self.config.notes:
            log.warning("%s", note)
        threading.Thread(target=self._look_after, name="web config", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def reread(self) -> Sequence[str]:
        """Reread it. Returns its problems; with problems the earlier configuration stays in force."""
        if self._path is None:
            return []
        with self._reading:
            reading = self._read(self._path)
            problems = [*reading.problems]
            if reading.config is not None:
                problems += self._opened(reading.config)
            if reading.config is None or problems:
                texts = list(map(str, problems))
                log.warning("the web config was refused, the old one stays: %s", "; ".join(texts))
                return texts
            self.config = reading.config
            log.info(
                "web config reread: TLS %s, %d user(s)", "on" if self.config.tls else "off", len(self.config.users)
            )
            return []

    def changed(self) -> bool:
        """Return whether any of the files has changed since it was read."""
        return self._stamps != _stamps(self._files)

    def _read(self, path: Path) -> WebConfigReading:
        before = _stamps((path,))
        reading = read_web_config(path)
        # Taken before and after: a file that changes during the read is read again.
        after = _stamps(reading.files)
        self._files, self._stamps = reading.files, after if after[:1] == before else ()
        return reading

    def _opened(self, new: WebConfig) -> Sequence[Problem]:
        """A file that is empty for a moment must not switch authentication off."""
        origin = str(self._path)
        problems = []
        if self.config.tls and not new.tls:
            problems.append(Problem(("tls_server_config",), "is gone: TLS is switched off by a restart only", origin))
        if self.config.users and not new.users:
            problems.append(Problem(("basic_auth_users",), "is gone: users are switched off by a restart only", origin))
        return problems

    def _look_after(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            if self.changed():
                self.reread()


def _stamps(files: Sequence[Path]) -> _Stamps:
    """Values that change when a file is written or, as Kubernetes does, replaced behind a link."""
    return tuple(map(FileStamp.at, files))
