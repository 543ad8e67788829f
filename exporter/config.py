"""Where the settings come from, and how they become one frozen ``Config``, or every problem at once.

``ConfigSource`` is the only way to a ``Config``, so that no part of the agent meets a setting that was not checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from exporter.settings.file_text import read_file_text
from exporter.settings.layers import ConfigError, Path, Problem, dotted
from exporter.settings.reading import written
from exporter.settings.root import Config, Flags, read_settings
from exporter.settings.sections import ClusterConfig
from exporter.settings.values import split_address
from exporter.web_server.config import read_web_config


@dataclass(frozen=True)
class ConfigSource:
    """Where the settings come from; ``load`` may be called again to read them again.

    ``flags`` are settings by path, as texts, with the flag that each came from. A path ``("clusters", "lso", ...)``
    without a number applies to every cluster. ``serving`` also reads the web-config file: a command that only reads a
    cluster may not be allowed to read the key in it.
    """

    file: FilePath | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    flags: Flags = field(default_factory=dict, repr=False)
    serving: bool = False

    def load(self) -> Config:
        """Return the settings. Raises ConfigError with every problem found."""
        file = read_file_text(self.file) if self.file is not None else None
        config, problems = read_settings(file, self.environ, self.flags)
        if config is not None and config.web.config_file and self.serving:
            problems += read_web_config(config.web.config_file).problems
        if config is None or problems:
            raise ConfigError(problems)
        return config

    def printed(self) -> str:
        """Return the settings as YAML that can be read back, secrets redacted. Raises ConfigError."""
        return yaml.safe_dump(written(self.load()), sort_keys=False, allow_unicode=True, width=1000)


__all__ = [
    "ClusterConfig",
    "Config",
    "ConfigError",
    "ConfigSource",
    "Path",
    "Problem",
    "dotted",
    "split_address",
]
