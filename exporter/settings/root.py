"""All settings, from a YAML file, the environment and flags to one document, with every problem at once."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml
from pydantic import SecretStr, ValidationError

from exporter.kafka.properties.client import Properties
from exporter.settings.addresses import DEFAULT_PORT, split_address
from exporter.settings.clients import IngestSection, ProducersSection
from exporter.settings.environment import from_environment
from exporter.settings.file_text import FileText
from exporter.settings.layers import Layer, Path, Problem, Tree, did_you_mean, merged
from exporter.settings.owners import OwnerSection
from exporter.settings.problems import problem_of, shape_of
from exporter.settings.sections import (
    ApplicationSection,
    ClusterSection,
    EndpointSection,
    JournalSection,
    LogSection,
    StateSection,
)
from exporter.settings.targets import AuditsSection, ConnectSection, SparkSection, StreamsSection
from exporter.settings.thresholds import ThresholdSection
from exporter.settings.values import Section
from exporter.settings.yaml_layer import layer_of

Flags = Mapping[Path, tuple[str, object]]
"""Settings by path, as texts, each with its flag."""


class ConfigSection(Section):
    """All settings."""

    state: StateSection = StateSection()
    journal: JournalSection = JournalSection()
    web: EndpointSection = EndpointSection()
    log: LogSection = LogSection()
    clusters: tuple[ClusterSection, ...]
    applications: tuple[ApplicationSection, ...] = ()
    producers: tuple[ProducersSection, ...] = ()
    connect: tuple[ConnectSection, ...] = ()
    streams: tuple[StreamsSection, ...] = ()
    spark: tuple[SparkSection, ...] = ()
    audits: tuple[AuditsSection, ...] = ()
    ingest: IngestSection = IngestSection()
    thresholds: tuple[ThresholdSection, ...] = ()
    owners: tuple[OwnerSection, ...] = ()

    def to_yaml(self) -> str:
        """Return the settings as YAML that can be read back, defaults included and secrets redacted."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=1000)


class SettingsReading(NamedTuple):
    """All settings, None where they are not usable at all, and every problem of them."""

    config: ConfigSection | None
    problems: tuple[Problem, ...]


def read_settings(file: FileText | None, environ: Mapping[str, str], flags: Flags) -> SettingsReading:
    """Read the layers, and check what they come to. Never raises."""
    below = Layer({}, {}) if file is None else layer_of(file)
    environment = from_environment(environ, shape_of(ConfigSection))
    tree = merged(below.tree, environment.tree)
    above = _from_flags(flags, len(tree.get("clusters") or ()))
    tree = merged(tree, above.tree)
    config, found = _checked(tree, {**environment.origins, **above.origins})
    # A file that could not be read gives nothing: a setting that is missing because of that is not reported as well.
    problems = [*below.problems, *environment.problems, *above.problems]
    problems += found if not below.problems else [problem for problem in found if problem.origin]
    return SettingsReading(config, tuple(problems))


def document_of(value: object) -> Any:  # noqa: ANN401 -- a document is anything
    """Return the settings as JSON values, secrets included."""
    match value:
        case Section():
            return {name: document_of(getattr(value, name)) for name in type(value).model_fields}
        case Properties():
            return {"raw": dict(value.raw), "secret_files": dict(value.secret_files)}
        case tuple():
            return [document_of(item) for item in value]
        case dict():
            return {key: document_of(item) for key, item in value.items()}
        case SecretStr():
            return value.get_secret_value()
        case FilePath():
            return str(value)
    return value


def _from_flags(flags: Flags, clusters: int) -> Layer:
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


def _checked(tree: Tree, origins: Mapping[Path, str]) -> tuple[ConfigSection | None, list[Problem]]:
    if not tree.get("clusters"):
        tree = {key: value for key, value in tree.items() if key != "clusters"}
    try:
        config = ConfigSection.model_validate(tree)
    except ValidationError as error:
        return None, [_problem(details, origins) for details in error.errors(include_url=False, include_input=False)]
    return config, [*_name_problems(config.clusters), *_engine_problems(config), *_ingest_problems(config)]


def _name_problems(clusters: Sequence[ClusterSection]) -> Iterator[Problem]:
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


def _engine_problems(config: ConfigSection) -> Iterator[Problem]:
    """A ``cluster`` must be the name of a configured one, and no two Connect clusters may have one name."""
    known = {cluster.name for cluster in config.clusters}
    engines: Mapping[str, Sequence[ProducersSection | ConnectSection | StreamsSection | SparkSection]] = {
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


def _ingest_problems(config: ConfigSection) -> Iterator[Problem]:
    """Any host that reaches the port may post statistics, so from other machines a token is required."""
    if not config.ingest.enabled or (config.ingest.token.get_secret_value() or config.ingest.token_file):
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
    found = problem_of(details, ConfigSection, origins)
    if details["type"] != "missing":
        return found
    if found.path == ("clusters",):
        text = "no cluster is configured: give --bootstrap-server HOST:PORT, or clusters in the file of --config"
        return found._replace(text=text)
    if found.path[-1:] == ("kafka",):
        return found._replace(text="is required, with at least bootstrap.servers")
    return found
