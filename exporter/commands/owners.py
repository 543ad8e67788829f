"""The team that an application belongs to, by the setting ``owners``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from exporter.bounds.patterns import BoundedPattern
from exporter.commands.settings import config_source
from exporter.config import Config

OwnerOf = Callable[[str], str]
"""The team of an application; "" for none."""


def configured(options: argparse.Namespace) -> Config:
    """The settings that the flags name. With a file, ``--cluster.name`` selects a cluster of it, and is no setting."""
    given = dict(vars(options))
    if "config" in given:
        given.pop("--cluster.name", None)
    return config_source(argparse.Namespace(**given)).load()


def owner_of(config: Config) -> OwnerOf:
    """The first entry whose pattern matches the whole name decides."""
    entries = [
        (entry.team, BoundedPattern(pattern, "owners", whole=True))
        for entry in config.owners
        for pattern in entry.applications
    ]
    return lambda application: next((team for team, pattern in entries if pattern.matches(application)), "")
