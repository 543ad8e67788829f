"""The settings in force: frozen dataclasses, which are made without pydantic and YAML from a checked document.

A class has the keys of a pydantic section of ``root``, where they are described; a test compares both. Those of a
cluster have their defaults here, for its sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Literal

from exporter.bounds.patterns import BoundedPattern
from exporter.catalogue import CANARY
from exporter.core.thresholds import DEFAULTS, Override, Owners, Team, Thresholds
from exporter.http_client import Endpoint
from exporter.jvm.answers import AgentKind, JvmTarget
from exporter.kafka.properties.client import Properties
from exporter.settings.token_file import read_token

TARGET = "{target}"
"""Placeholder in an address; each target of the files of `file_sd` replaces it."""
WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
"""``between`` of a threshold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateConfig:
    """``state``."""

    dir: Path | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalConfig:
    """``journal``; ``keep`` is seconds."""

    size: int
    keep: float
    standard_output: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointConfig:
    """``web``."""

    listen_address: tuple[str, ...]
    config_file: Path | None
    allowed_hosts: tuple[str, ...]
    route_prefix: str
    dashboard_url: str | None
    alertmanager_url: str | None
    external_url: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig:
    """``log``."""

    level: Literal["debug", "info", "warning", "error"]
    format: Literal["text", "json"]


# --- Of a cluster -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicsConfig:
    """``clusters[].topics``."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LsoConfig:
    """``clusters[].lso``, in seconds."""

    interval: float = 5.0
    sweep_interval: float = 60.0
    stall_after: float = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionsConfig:
    """``clusters[].transactions``."""

    interval: float = 5.0
    applications: int = 500
    open_transactions: int = 20
    fenced_ids: int = 20
    unclean_ends: int = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupsConfig:
    """``clusters[].groups``."""

    interval: float = 30.0
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    limit: int = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class PostureConfig:
    """``clusters[].posture``."""

    interval: float = 300.0
    ignore: tuple[str, ...] = ()


# --- Targets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Basic authentication, and the authorities that sign the server's certificate."""

    username: str
    password: str = field(repr=False)
    password_file: Path | None
    ca_file: Path | None

    def endpoint(self, url: str) -> Endpoint:
        """Return the endpoint at ``url``."""
        return Endpoint(url, self.username, self.password, self.password_file, self.ca_file)


@dataclass(frozen=True, kw_only=True, slots=True)
class Jvm(Access):
    """A JVM, by its Jolokia agent or by its jmx_exporter."""

    jolokia: str | None
    jmx_exporter: str | None
    profile: Literal["", "jmx_exporter", "confluent", "default"]

    def target(self) -> JvmTarget:
        """Return what is asked, and how."""
        if self.jolokia is not None:
            return JvmTarget(AgentKind.JOLOKIA, self.endpoint(self.jolokia))
        return JvmTarget(AgentKind.JMX_EXPORTER, self.endpoint(self.jmx_exporter or ""), self.profile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovered(Jvm):
    """A JVM, or those that files list."""

    file_sd: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Broker(Discovered):
    """``clusters[].brokers[]``."""

    interval: float
    id: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Producers(Discovered):
    """``producers[]``."""

    cluster: str
    interval: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Streams(Discovered):
    """``streams[]``."""

    cluster: str
    interval: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Connect(Access):
    """``connect[]``."""

    name: str
    cluster: str
    group_id: str
    rest: tuple[str, ...]
    validate_plugins: bool
    workers: tuple[Discovered, ...]
    interval: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Spark:
    """``spark[]``."""

    event_log: Path | None
    checkpoint: Path | None
    application: str
    query: str
    cluster: str
    interval: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Audits:
    """``audits[]``."""

    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Ingest:
    """``ingest``."""

    enabled: bool
    token: str = field(repr=False)
    token_file: Path | None
    expire_after: float
    clients: int
    memory: int

    @property
    def has_token(self) -> bool:
        """Return whether clients must show one."""
        return bool(self.token) or self.token_file is not None

    def read_token(self) -> str:
        """Return the token, read again from its file; "" when none is required. Raises ValueError."""
        return self.token if self.token_file is None else read_token(self.token_file)


# --- All --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """``clusters[]``."""

    name: str
    watch: bool
    kafka: Properties
    topics: TopicsConfig
    lso: LsoConfig
    transactions: TransactionsConfig
    groups: GroupsConfig
    brokers: tuple[Broker, ...]
    posture: PostureConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplicationPattern:
    """``applications[]``."""

    pattern: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdConfig:
    """``thresholds[]``; a threshold that is not set is None, ``never`` is infinite."""

    kind: Literal["topic", "application", "query", "audit", "connector", "group", "source"]
    pattern: str
    reason: str
    between: str
    ignore: bool
    stall_warning: float | None
    stall_critical: float | None
    fresh_within: float | None
    open_warning: float | None
    completion_critical: float | None
    silent_critical: float | None
    unclean: float | None
    stalled_warning: float | None
    overdue_warning: float | None
    commit_failures: float | None
    lag_warning: float | None
    lag_critical: float | None

    def override(self) -> Override:
        """Return what this entry means."""
        window = None
        if match := WINDOW.fullmatch(self.between):
            hour, minute, until, past = map(int, match.groups())
            window = (time(hour, minute), time(until, past))
        pattern = BoundedPattern(self.pattern, "thresholds", whole=True)
        names = [name for values in DEFAULTS.values() for name in values]
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        return Override(self.kind, pattern, values, self.reason, self.ignore, window)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerConfig:
    """``owners[]``."""

    team: str
    channel: str
    applications: tuple[str, ...]
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    connectors: tuple[str, ...]

    def team_of_agent(self) -> Team:
        """Return what this entry means to the agent."""
        subjects = {
            "application": self.applications,
            "topic": self.topics,
            "group": self.groups,
            "connector": self.connectors,
        }
        patterns = {
            kind: tuple(BoundedPattern(text, "owners", whole=True) for text in texts)
            for kind, texts in subjects.items()
        }
        return Team(self.team, self.channel, patterns)


_CANARY = Override(
    "application",
    BoundedPattern(re.escape(CANARY), "thresholds", whole=True),
    {},
    "the canary's own transactions, aborted and fenced on purpose",
    ignored=True,
)
"""The last of all overrides: the settings may say otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """All settings, checked. Frozen; reloading makes a new one."""

    state: StateConfig
    journal: JournalConfig
    web: EndpointConfig
    log: LogConfig
    clusters: tuple[ClusterConfig, ...]
    applications: tuple[ApplicationPattern, ...]
    producers: tuple[Producers, ...]
    connect: tuple[Connect, ...]
    streams: tuple[Streams, ...]
    spark: tuple[Spark, ...]
    audits: tuple[Audits, ...]
    ingest: Ingest
    thresholds: tuple[ThresholdConfig, ...]
    owners: tuple[OwnerConfig, ...]

    def in_force(self) -> Thresholds:
        """Return the thresholds that these settings mean."""
        return Thresholds((*(entry.override() for entry in self.thresholds), _CANARY))

    def owned(self) -> Owners:
        """Return the teams that these settings name."""
        return Owners(tuple(entry.team_of_agent() for entry in self.owners))
