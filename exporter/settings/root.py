"""All settings, and how they are read from a YAML file, the environment and flags, with every problem at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from exporter.bounds.patterns import BoundedPattern
from exporter.catalogue import CANARY
from exporter.core.thresholds import Override, Owners, Thresholds
from exporter.settings.environment import from_environment, from_flags
from exporter.settings.file_text import FileText
from exporter.settings.layers import Layer, Path, Problem, did_you_mean, merged
from exporter.settings.reading import Contradiction, ValueForm, read, shape_of
from exporter.settings.sections import (
    ApplicationPattern,
    ClusterConfig,
    EndpointConfig,
    JournalConfig,
    LogConfig,
    StateConfig,
)
from exporter.settings.targets import Audits, Connect, Engines, Ingest, Producers, Spark, Streams
from exporter.settings.thresholds import OwnerConfig, ThresholdConfig
from exporter.settings.values import DEFAULT_PORT, is_loopback, split_address
from exporter.settings.yaml_file import layer_of

Flags = Mapping[Path, tuple[str, object]]
"""Settings by path, as texts, each with its flag."""

_NO_CLUSTER = "no cluster is configured: give --bootstrap-server HOST:PORT, or clusters in the file of --config"
_CANARY = Override(
    "application",
    BoundedPattern(re.escape(CANARY), "thresholds", whole=True),
    {},
    "the canary's own transactions, aborted and fenced on purpose",
    ignored=True,
)
"""The last of all overrides: the settings may say otherwise."""


def _some(clusters: Sequence[ClusterConfig]) -> Sequence[ClusterConfig]:
    if not clusters:
        raise ValueError(_NO_CLUSTER)
    return clusters


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """All settings, checked. Reloading makes a new one."""

    state: StateConfig = field(default_factory=StateConfig)
    journal: JournalConfig = field(default_factory=JournalConfig)
    web: EndpointConfig = field(default_factory=EndpointConfig)
    log: LogConfig = field(default_factory=LogConfig)
    clusters: Annotated[tuple[ClusterConfig, ...], ValueForm(after=_some, missing=_NO_CLUSTER)]
    applications: tuple[ApplicationPattern, ...] = ()
    producers: tuple[Producers, ...] = ()
    connect: tuple[Connect, ...] = ()
    streams: tuple[Streams, ...] = ()
    spark: tuple[Spark, ...] = ()
    audits: tuple[Audits, ...] = ()
    ingest: Ingest = field(default_factory=Ingest)
    thresholds: tuple[ThresholdConfig, ...] = ()
    owners: tuple[OwnerConfig, ...] = ()

    def in_force(self) -> Thresholds:
        """Return the thresholds that these settings mean."""
        return Thresholds((*(entry.override() for entry in self.thresholds), _CANARY))

    def owned(self) -> Owners:
        """Return the teams that these settings name."""
        return Owners(tuple(entry.team_of_agent() for entry in self.owners))

    def engines_on(self, cluster: str) -> Engines:
        """Return the engines on this cluster: those that name it, and those that name none, as with a single one."""
        return Engines(
            connect=tuple(connect for connect in self.connect if connect.cluster in {"", cluster}),
            spark=tuple(spark for spark in self.spark if spark.cluster in {"", cluster}),
            audits=self.audits,
        )

    def contradictions(self) -> Iterator[Contradiction]:
        if len(self.clusters) > 1:
            yield from _names("clusters", self.clusters)
        yield from _names("connect", self.connect)
        yield from self._engines()
        yield from self._ingest()

    def _engines(self) -> Iterator[Contradiction]:
        """A ``cluster`` must be the name of a configured one."""
        known = {cluster.name for cluster in self.clusters}
        for key in ("producers", "connect", "streams", "spark"):
            entries: Sequence[Producers | Connect | Streams | Spark] = getattr(self, key)
            for at, entry in enumerate(entries):
                if not entry.cluster and len(self.clusters) > 1:
                    yield (key, at, "cluster"), "is required when there are several clusters"
                elif entry.cluster and entry.cluster not in known:
                    hint = did_you_mean(entry.cluster, known - {""}) if known - {""} else "give the cluster this name"
                    yield (key, at, "cluster"), f"is no name of a cluster that is configured; {hint}"

    def _ingest(self) -> Iterator[Contradiction]:
        """Any host that reaches the port may post statistics, so from other machines a token is required."""
        if self.ingest.enabled and not self.ingest.has_token:
            for address in self.web.listen_address:
                if not is_loopback(split_address(address)[0]):
                    local = f"or set web.listen_address to 127.0.0.1:{DEFAULT_PORT}"
                    yield ("ingest",), f"needs token_file, as others reach {address}; {local}"
                    return


def _names(key: str, entries: Sequence[ClusterConfig | Connect]) -> Iterator[Contradiction]:
    """Each must have a name of its own."""
    seen: dict[str, int] = {}
    for at, entry in enumerate(entries):
        if not entry.name:
            yield (key, at, "name"), f"is required when there are several {key}"
        elif entry.name in seen:
            yield (key, at, "name"), f"is that of {key}[{seen[entry.name]}] too: give each its own"
        else:
            seen[entry.name] = at


class SettingsReading(NamedTuple):
    """All settings, None where they are not usable at all, and every problem of them."""

    config: Config | None
    problems: tuple[Problem, ...]


def read_settings(file: FileText | None, environ: Mapping[str, str], flags: Flags) -> SettingsReading:
    """Read the layers, and check what they come to. Never raises."""
    below = Layer({}, {}) if file is None else layer_of(file)
    environment = from_environment(environ, shape_of(Config))
    tree = merged(below.tree, environment.tree)
    above = from_flags(flags, len(tree.get("clusters") or ()))
    config, problems = read(Config, merged(tree, above.tree), {**environment.origins, **above.origins})
    # A file that could not be read gives nothing: a setting that is missing because of that is not reported as well.
    if below.problems:
        problems = tuple(problem for problem in problems if problem.origin)
    problems = (*below.problems, *environment.problems, *above.problems, *problems)
    return SettingsReading(config, problems)
