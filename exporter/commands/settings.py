"""From flags to settings: the flags that commands share, and where each goes in the config."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from exporter.bounds.properties_text import parse_properties
from exporter.core.durations import LONGEST_DURATION, parse_duration
from exporter.model import CommandError
from exporter.settings.file_text import read_file_text
from exporter.settings.layers import Path as SettingPath

if TYPE_CHECKING:
    from exporter.config import ConfigSource


class UsageError(CommandError):
    """The command line cannot be used. The text is one line with what to do instead."""


class Flag(NamedTuple):
    """A flag that sets one setting; ``repeat`` for one that may be given several times."""

    name: str
    path: SettingPath
    metavar: str
    help: str
    repeat: bool = False


CLUSTER = (
    Flag("--bootstrap-server", ("clusters", "kafka", "bootstrap.servers"), "HOST:PORT", "brokers to start from"),
    Flag("--cluster.name", ("clusters", "name"), "NAME", "name of the cluster; for a command: which one of --config"),
)
RUN = (
    Flag(
        "--web.listen-address", ("web", "listen_address"), "ADDRESS:PORT", "where to serve (:10618); repeatable", True
    ),
    Flag("--web.config.file", ("web", "config_file"), "FILE", "TLS and users, in exporter-toolkit's format"),
    Flag(
        "--web.allowed-hosts",
        ("web", "allowed_hosts"),
        "HOST",
        "host name of the endpoint, in addition to those of loopback; repeatable",
        True,
    ),
    Flag("--web.route-prefix", ("web", "route_prefix"), "PATH", "prefix of all paths, for a proxy in front"),
    Flag("--state.dir", ("state", "dir"), "DIR", "folder for what survives a restart; unset: nothing survives"),
    Flag(
        "--lso.stall-after",
        ("clusters", "lso", "stall_after"),
        "DURATION",
        "how long an LSO must not move to be stalled (30s)",
    ),
    Flag("--log.level", ("log", "level"), "LEVEL", "debug, info, warning or error (info)"),
    Flag("--log.format", ("log", "format"), "FORMAT", "text or json (text)"),
)
SERVING = tuple(flag for flag in RUN if flag.name.startswith(("--web.", "--log.")))
"""The flags among them of every command that serves."""


def add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    """Flags that are not given set no attribute, so that a subcommand does not overwrite flags of its parent."""
    for flag in flags:
        parser.add_argument(
            flag.name,
            dest=flag.name,
            metavar=flag.metavar,
            help=flag.help,
            action="append" if flag.repeat else "store",
            default=argparse.SUPPRESS,
        )


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Which cluster: every command that reads one takes these."""
    add_flags(parser, CLUSTER)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML settings, for several clusters", default=argparse.SUPPRESS
    )
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="Kafka client properties (security.protocol=..., as Kafka's own tools take them)",
        default=argparse.SUPPRESS,
    )


def config_source(options: argparse.Namespace) -> ConfigSource:
    """Return the sources of the settings. Raises UsageError when a properties file cannot be read."""
    # Checking settings takes YAML: `--help` and `--version` do without.
    from exporter.config import ConfigSource  # noqa: PLC0415

    given = vars(options)
    flags: dict[SettingPath, tuple[str, object]] = {}
    if "command_config" in given:
        for key, value in _read_properties(given["command_config"]).items():
            flags["clusters", "kafka", key] = ("--command-config", value)
    for flag in (*CLUSTER, *RUN):
        if flag.name in given:
            flags[flag.path] = (flag.name, given[flag.name])
    return ConfigSource(given.get("config"), os.environ, flags)


def _read_properties(file: Path) -> dict[str, str]:
    read = read_file_text(file)
    if read.problem:
        raise UsageError(f"--command-config {file}: {read.problem}")
    return {entry.name: entry.value for entry in parse_properties(read.text) if entry.name}


def add_reading_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of a command that reads clusters: which ones, and the form of the result."""
    add_cluster_flags(parser)
    parser.add_argument(
        "--output", choices=("text", "json"), default=argparse.SUPPRESS, help="for people (text), or for programs"
    )


def add_duration_flag(parser: argparse._ActionsContainer, name: str, default: float | str | None, text: str) -> None:
    """A flag whose value is a duration, in seconds once it is parsed."""
    parser.add_argument(name, type=duration, default=default, metavar="DURATION", help=text)


def duration(text: str) -> float:
    """A flag's duration in seconds, for argparse."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
    if seconds > LONGEST_DURATION:
        raise argparse.ArgumentTypeError(f"{text!r} must be 100y or less")
    return seconds
