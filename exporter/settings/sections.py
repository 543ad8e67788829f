"""The settings: state, journal, endpoint, log, what is read of one Kafka cluster, and rules of applications.

The text below a key is its row in docs/configuration.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from exporter.settings.reading import Contradiction
from exporter.settings.targets import BrokerJvm
from exporter.settings.values import (
    DEFAULT_PORT,
    LOWER,
    Addresses,
    ApplicationRegex,
    Count,
    Duration,
    Hosts,
    KafkaProperties,
    Name,
    Patterns,
    Prefix,
    Size,
    Url,
    at_least,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StateConfig:
    """State that survives a restart: positions in the transaction log, counters, and the times of stalls."""

    dir: Path | None = None
    """Folder for the state, one for each replica; it is safe to lose. Unset: nothing survives a restart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalConfig:
    """The events of a cluster: on the page, at `/api/v1/events`, and in the report of `incident`. Kept by cluster in
    `state.dir`, without it in memory for a day.
    """

    size: Size = 50 * 1024**2
    """Most bytes of one cluster's journal on disk: the oldest events are dropped."""
    keep: Duration = 30 * 86_400.0
    """How long events are kept."""
    standard_output: bool = False
    """Write every event to standard output as well, as a line of JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointConfig:
    """The HTTP endpoint."""

    listen_address: Addresses = (f":{DEFAULT_PORT}",)
    """One address or a list, such as `["127.0.0.1:10618", "[::1]:10618"]`."""
    config_file: Path | None = None
    """TLS and users in exporter-toolkit's format ([security.md](security.md#the-agents-port)); unset: plain HTTP."""
    allowed_hosts: Hosts = ()
    """Host names by which the endpoint is reached, in addition to those of loopback; `"*"` for all. Unset: only a
    listener on loopback checks host names ([security.md](security.md#the-agents-port))."""
    route_prefix: Prefix = ""
    """Prefix of all paths, such as `/eos`, for a proxy in front."""
    dashboard_url: Url | None = None
    """Base of links from a stall to its dashboard: Grafana's `/d`, such as `https://grafana.example.com/d`."""
    alertmanager_url: Url | None = None
    """Base of links from a stall that silence its alerts, such as `https://alertmanager.example.com`."""
    external_url: Url | None = None
    """Where this agent's page is reached, such as `https://eos.example.com`: a label of
    `kafka_eos_exporter_build_info`, by which the overview dashboard links to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig:
    """The log on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], LOWER] = "info"
    """`debug`, `info`, `warning` or `error`."""
    format: Annotated[Literal["text", "json"], LOWER] = "text"
    """`text`, or `json` with one object for each line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicsConfig:
    """Topics whose LSO is read: regular expressions that may match anywhere in a name. Internal topics are included."""

    include: Patterns = (".*",)
    """Topics to read."""
    exclude: Patterns = ()
    """Topics to leave out, of those that `include` matches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LsoConfig:
    """When the last stable offset (LSO) is read, and when a partition is stalled."""

    interval: Duration = 5.0
    """How often to read the partitions of open transactions, and those whose LSO was behind at the last read."""
    sweep_interval: Duration = 60.0
    """In what time to read all partitions, a part of them at every read."""
    stall_after: Duration = 30.0
    """A partition is stalled when its LSO has not moved for this long while it is below the high watermark."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionsConfig:
    """How often open transactions are read, and the limits of series for each cluster."""

    interval: Duration = 5.0
    """How often to read open transactions from the coordinators."""
    applications: Annotated[int, at_least(1)] = 500
    """Applications with series of their own; the others are counted together as `application="_other"`."""
    open_transactions: Count = 20
    """Open transactions shown by id: those nearest to their timeout. Holders of a stalled partition are shown too."""
    fenced_ids: Count = 20
    """Transactional ids in `kafka_eos_recent_producer_fences`."""
    unclean_ends: Count = 20
    """Transactions in `kafka_eos_last_unclean_end_timestamp_seconds`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupsConfig:
    """Consumer groups whose lag is measured."""

    interval: Duration = 30.0
    """How often to read the groups."""
    include: Patterns = ()
    """Groups to read if the cluster has more than `limit` groups."""
    exclude: Patterns = ()
    """Groups to leave out."""
    limit: Count = 500
    """With at most this many groups, all are read; with more, only those that `include` matches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostureConfig:
    """Checks of the settings that exactly-once depends on."""

    interval: Duration = 300.0
    """How often to check."""
    ignore: tuple[str, ...] = ()
    """Checks to leave out, as `check` or `check:subject`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """One Kafka cluster.

    With ``watch: false``, for a sidecar, the agent reads only JVMs, Connect, Streams, Spark and posted data.
    """

    name: Name = ""
    """Value of the label `kafka_cluster`; unset: the cluster id that Kafka reports. Required with several clusters."""
    watch: bool = True
    """`false`: do not read Kafka itself, because another agent does. Requires `name`."""
    kafka: KafkaProperties
    """Client properties in Java's or librdkafka's spelling, at least `bootstrap.servers` ([security.md](security.md)).
    Any secret has a `.file` form, such as `sasl.password.file`, which is read again at every connection.
    Flags: `--bootstrap-server`, and `--command-config FILE` for the properties file of Kafka's own tools.
    """
    topics: TopicsConfig = TopicsConfig()
    lso: LsoConfig = LsoConfig()
    transactions: TransactionsConfig = TransactionsConfig()
    groups: GroupsConfig = GroupsConfig()
    brokers: tuple[BrokerJvm, ...] = ()
    posture: PostureConfig = PostureConfig()

    def contradictions(self) -> Iterator[Contradiction]:
        if not self.watch and not self.name:
            yield (), "has watch: false, so it needs the name that the agent that watches it gives it"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplicationPattern:
    """A rule that maps transactional ids to an application. The first match is used, before the built-in rules."""

    pattern: ApplicationRegex
    """Regular expression, which may match anywhere in a transactional.id. Its group `application` is the name of the
    application.
    """
