"""The settings of the agent: a YAML file, the environment and flags to one frozen ``Config``, or every problem at once.

``ConfigSource.load`` is the only way to a ``Config``, so that no part of the agent meets a setting that was not
checked. Secrets live in ``exporter.kafka.properties.client.Properties`` alone, which redacts itself.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml
from pydantic import ValidationError

from exporter.bounds.patterns import BoundedPattern
from exporter.catalogue import CANARY
from exporter.core.owners import Owners
from exporter.core.thresholds import Override, Thresholds
from exporter.settings.clients import Ingest, Producers
from exporter.settings.environment import from_environment
from exporter.settings.layers import ConfigError, Layer, Path, Problem, Tree, did_you_mean, dotted, merged
from exporter.settings.owners import OwnerConfig
from exporter.settings.problems import problem_of, shape_of
from exporter.settings.sections import ApplicationPattern, ClusterConfig, EndpointConfig, LogConfig, StateConfig
from exporter.settings.targets import Audits, Connect, Spark, Streams
from exporter.settings.thresholds import ThresholdConfig
from exporter.settings.values import DEFAULT_PORT, Section, Sharding, split_address
from exporter.settings.yaml_layer import from_yaml
from exporter.web_server.config import read_web_config

# --- The settings -----------------------------------------------------------------------------------------------------


class Config(Section):
    """All settings, checked. Frozen; reloading makes a new one."""

    state: StateConfig = StateConfig()
    web: EndpointConfig = EndpointConfig()
    log: LogConfig = LogConfig()
    shard: Sharding = Sharding()
    clusters: tuple[ClusterConfig, ...]
    applications: tuple[ApplicationPattern, ...] = ()
    producers: tuple[Producers, ...] = ()
    connect: tuple[Connect, ...] = ()
    streams: tuple[Streams, ...] = ()
    spark: tuple[Spark, ...] = ()
    audits: tuple[Audits, ...] = ()
    ingest: Ingest = Ingest()
    thresholds: tuple[ThresholdConfig, ...] = ()
    owners: tuple[OwnerConfig, ...] = ()

    def in_force(self) -> Thresholds:
        """Return the thresholds that these settings mean."""
        return Thresholds((*(each.override() for each in self.thresholds), _CANARY))

    def owned(self) -> Owners:
        """Return the teams that these settings name."""
        return Owners(tuple(each.team_of_agent() for each in self.owners))

    def to_yaml(self) -> str:
        """The settings as YAML that can be read back, defaults included and secrets redacted."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=1000)


_CANARY = Override(
    "application",
    BoundedPattern(re.escape(CANARY), "thresholds", whole=True),
    {},
    "the canary's own transactions, aborted and fenced on purpose",
    ignored=True,
)
"""The last of all overrides: the settings may say otherwise."""


# --- Loading and checking ---------------------------------------------------------------------------------------------


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
        """The settings. Raises ConfigError with every problem found."""
        below = self._from_file()
        environment = from_environment(self.environ, shape_of(Config))
        tree = merged(below.tree, environment.tree)
        flags = _from_flags(self.flags, len(tree.get("clusters") or ()))
        tree = merged(tree, flags.tree)
        origins = {**environment.origins, **flags.origins}
        problems = [*below.problems, *environment.problems, *flags.problems]
        config, found = _checked(tree, origins)
        # A file that could not be read gives nothing: a setting that is missing because of that is not reported as
        # well.
        problems += found if not below.problems else [problem for problem in found if problem.origin]
        if config is not None and config.web.config_file and self.serving:
            problems += read_web_config(config.web.config_file).problems
        if config is None or problems:
            raise ConfigError(problems)
        return config

    def _from_file(self) -> Layer:
        if self.file is None:
            return Layer({}, {})
        try:
            text = self.file.read_text(encoding="utf-8-sig")
        except OSError as error:
            return Layer({}, {}, (Problem((), f"cannot be read: {error.strerror}", str(self.file)),))
        except UnicodeDecodeError:
            return Layer({}, {}, (Problem((), "is no UTF-8 text", str(self.file)),))
        return from_yaml(text, str(self.file))


def _from_flags(flags: Mapping[Path, tuple[str, object]], clusters: int) -> Layer:
    tree: Tree = {}
    origins: dict[Path, str] = {}
    problems: list[Problem] = []
    for path, (flag, value) in flags.items():
        if path[0] != "clusters":
            targets = [path]
        elif clusters > 1 and path[1:2] in {("name",), ("kafka",)}:
            problems.append(Problem((), f"means one cluster, and {clusters} are configured: set it in the file", flag))
            continue
        else:
            targets = [("clusters", at, *path[1:]) for at in range(max(1, clusters))]
        for target in targets:
            origins[target] = flag
            tree = merged(tree, _tree(target, value))
    return Layer(tree, origins, tuple(problems))


def _tree(path: Path, value: object) -> Any:  # noqa: ANN401 -- a tree of settings is anything
    for step in reversed(path):
        value = [*([None] * step), value] if isinstance(step, int) else {step: value}
    return value


def _checked(tree: Tree, origins: Mapping[Path, str]) -> tuple[Config | None, list[Problem]]:
    if not tree.get("clusters"):
        tree = {key: value for key, value in tree.items() if key != "clusters"}
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        return None, [_problem(details, origins) for details in error.errors(include_url=False, include_input=False)]
    return config, [*_name_problems(config.clusters), *_engine_problems(config), *_ingest_problems(config)]


def _name_problems(clusters: Sequence[ClusterConfig]) -> Iterator[Problem]:
    if len(clusters) < 2:
        return
    seen: dict[str, int] = {}
    for at, cluster in enumerate(clusters):
        if not cluster.name:
            yield Problem(("clusters", at, "name"), "is required when there are several clusters")
        elif cluster.name in seen:
            yield Problem(("clusters", at, "name"), f"is that of clusters[{seen[cluster.name]}] too: give each its own")
        else:
            seen[cluster.name] = at


def _engine_problems(config: Config) -> Iterator[Problem]:
    """A ``cluster`` must be the name of a configured one, and no two Connect clusters may have one name."""
    known = {cluster.name for cluster in config.clusters}
    engines: Mapping[str, Sequence[Producers | Connect | Streams | Spark]] = {
        "producers": config.producers,
        "connect": config.connect,
        "streams": config.streams,
        "spark": config.spark,
    }
    for key, entries in engines.items():
        for at, entry in enumerate(entries):
            if not entry.cluster and len(config.clusters) > 1:
                yield Problem((key, at, "cluster"), "is required when there are several clusters")
            elif entry.cluster and entry.cluster not in known:
                hint = did_you_mean(entry.cluster, known - {""}) if known - {""} else "give the cluster this name"
                yield Problem((key, at, "cluster"), f"is no name of a cluster that is configured; {hint}")
    seen: dict[str, int] = {}
    for at, connect in enumerate(config.connect):
        if connect.name in seen:
            yield Problem(("connect", at, "name"), f"is that of connect[{seen[connect.name]}] too: give each its own")
        else:
            seen[connect.name] = at


def _ingest_problems(config: Config) -> Iterator[Problem]:
    """Any host that reaches the port may post statistics, so from other machines a token is required."""
    if not config.ingest.enabled or config.ingest.has_token:
        return
    for address in config.web.listen_address:
        if not _is_loopback(split_address(address)[0]):
            text = f"needs token_file, as others reach {address}; or set web.listen_address to 127.0.0.1:{DEFAULT_PORT}"
            yield Problem(("ingest",), text)
            return


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _problem(details: Any, origins: Mapping[Path, str]) -> Problem:  # noqa: ANN401 -- pydantic's ErrorDetails
    found = problem_of(details, Config, origins)
    if details["type"] != "missing":
        return found
    if found.path == ("clusters",):
        text = "no cluster is configured: give --bootstrap-server HOST:PORT, or clusters in the file of --config"
        return found._replace(text=text)
    if found.path[-1:] == ("kafka",):
        return found._replace(text="is required, with at least bootstrap.servers")
    return found


__all__ = ["ClusterConfig", "Config", "ConfigError", "ConfigSource", "Problem", "dotted", "split_address"]
