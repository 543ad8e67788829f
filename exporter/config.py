"""Where the settings come from, and how they become one frozen ``Config``, or every problem at once.

``ConfigSource`` is the only way to a ``Config``, so that no part of the agent meets a setting that was not checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from exporter.settings.addresses import split_address
from exporter.settings.child import ask_child
from exporter.settings.file_text import read_file_text
from exporter.settings.from_document import DocumentError, from_document
from exporter.settings.layers import ENVIRONMENT_PREFIX, ConfigError, Path, Problem, dotted
from exporter.settings.plain import ClusterConfig, Config
from exporter.web_server.config import read_web_config

if TYPE_CHECKING:
    from exporter.settings.root import SettingsReading


@dataclass(frozen=True)
class ConfigSource:
    """Where the settings come from; ``load`` may be called again to read them again.

    ``flags`` are settings by path, as texts, with the flag that each came from. A path ``("clusters", "lso", ...)``
    without a number applies to every cluster. ``serving`` also reads the web-config file: a command that only reads a
    cluster may not be allowed to read the key in it.
    """

    file: FilePath | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    flags: Mapping[Path, tuple[str, object]] = field(default_factory=dict, repr=False)
    serving: bool = False

    def load(self) -> Config:
        """Return the settings, read in this process. Raises ConfigError with every problem found."""
        from exporter.settings.root import document_of  # noqa: PLC0415 -- pydantic and YAML

        config, problems = self._read()
        return self._checked(None if config is None else document_of(config), problems)

    def load_apart(self) -> Config:
        """Return the settings as ``load`` does, read by another process, for one that runs on."""
        file = read_file_text(self.file) if self.file is not None else None
        environ = {name: value for name, value in self.environ.items() if name.startswith(ENVIRONMENT_PREFIX)}
        flags = [(path, flag, value) for path, (flag, value) in self.flags.items()]
        document, problems = ask_child({"kind": "settings", "file": file, "environ": environ, "flags": flags})
        return self._checked(document, problems, apart=True)

    def printed(self) -> str:
        """Return the settings as YAML that can be read back, secrets redacted. Raises ConfigError."""
        from exporter.settings.root import document_of  # noqa: PLC0415 -- as above

        config, problems = self._read()
        self._checked(None if config is None else document_of(config), problems)
        return config.to_yaml() if config is not None else ""

    def _read(self) -> SettingsReading:
        from exporter.settings.root import read_settings  # noqa: PLC0415 -- pydantic and YAML

        return read_settings(read_file_text(self.file) if self.file is not None else None, self.environ, self.flags)

    def _checked(self, document: object, problems: tuple[Problem, ...], *, apart: bool = False) -> Config:
        try:
            config = from_document(Config, document) if document is not None else None
        except DocumentError as error:  # as where the package was replaced under this process
            raise ConfigError([Problem((), f"settings of another version, a restart may help: {error}")]) from None
        if config is not None and config.web.config_file and self.serving:
            problems += read_web_config(config.web.config_file, apart=apart).problems
        if config is None or problems:
            raise ConfigError(problems)
        return config


__all__ = [
    "ClusterConfig",
    "Config",
    "ConfigError",
    "ConfigSource",
    "Problem",
    "dotted",
    "split_address",
]
