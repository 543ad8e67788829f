"""The sections of the settings: state, endpoint, logging, and what is read of one Kafka cluster.

The text below a key is its row in docs/configuration.md.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from exporter.settings.addresses import DEFAULT_PORT
from exporter.settings.clients import BrokerSection
from exporter.settings.plain import GroupsConfig, LsoConfig, PostureConfig, TopicsConfig, TransactionsConfig
from exporter.settings.targets import Url
from exporter.settings.values import (
    Addresses,
    ApplicationRegex,
    Count,
    Duration,
    Hosts,
    KafkaProperties,
    Lower,
    Patterns,
    Prefix,
    Section,
    Size,
    wrong,
)

# The defaults of what is read of a cluster.
_TOPICS, _LSO, _TRANSACTIONS = TopicsConfig(), LsoConfig(), TransactionsConfig()
_GROUPS, _POSTURE = GroupsConfig(), PostureConfig()


class StateSection(Section):
    """State that survives a restart: positions in the transaction log, counters, and the times of stalls."""

    dir: FilePath | None = None
    """Folder for the state, one for each replica; it is safe to lose. Unset: nothing survives a restart."""


class JournalSection(Section):
    """The events of a cluster: on the page, at `/api/v1/events`, and in the report of `incident`. Kept by cluster in
    `state.dir`, without it in memory for a day.
    """

    size: Size = 50 * 1024**2
    """Most bytes of one cluster's journal on disk: the oldest events are dropped."""
    keep: Duration = 30 * 86_400.0
    """How long events are kept."""
    standard_output: bool = False
    """Write every event to standard output as well, as a line of JSON."""


class EndpointSection(Section):
    """The HTTP endpoint."""

    listen_address: Addresses = (f":{DEFAULT_PORT}",)
    """One address or a list, such as `["127.0.0.1:10618", "[::1]:10618"]`."""
    config_file: FilePath | None = None
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


class LogSection(Section):
    """The log on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Lower] = "info"
    """`debug`, `info`, `warning` or `error`."""
    format: Annotated[Literal["text", "json"], Lower] = "text"
    """`text`, or `json` with one object for each line."""


class TopicsSection(Section):
    """Topics whose LSO is read: regular expressions that may match anywhere in a name. Internal topics are included."""

    include: Patterns = _TOPICS.include
    """Topics to read."""
    exclude: Patterns = _TOPICS.exclude
    """Topics to leave out, of those that `include` matches."""


class LsoSection(Section):
    """When the last stable offset (LSO) is read, and when a partition is stalled."""

    interval: Duration = _LSO.interval
    """How often to read the partitions of open transactions, and those whose LSO was behind at the last read."""
    sweep_interval: Duration = _LSO.sweep_interval
    """In what time to read all partitions, a part of them at every read."""
    stall_after: Duration = _LSO.stall_after
    """A partition is stalled when its LSO has not moved for this long while it is below the high watermark."""


class TransactionsSection(Section):
    """How often open transactions are read, and the limits of series for each cluster."""

    interval: Duration = _TRANSACTIONS.interval
    """How often to read open transactions from the coordinators."""
    applications: Annotated[int, Field(ge=1)] = _TRANSACTIONS.applications
    """Applications with series of their own; the others are counted together as `application="_other"`."""
    open_transactions: Count = _TRANSACTIONS.open_transactions
    """Open transactions shown by id: those nearest to their timeout. Holders of a stalled partition are shown too."""
    fenced_ids: Count = _TRANSACTIONS.fenced_ids
    """Transactional ids in `kafka_eos_recent_producer_fences`."""
    unclean_ends: Count = _TRANSACTIONS.unclean_ends
    """Transactions in `kafka_eos_last_unclean_end_timestamp_seconds`."""


class GroupsSection(Section):
    """Consumer groups whose lag is measured."""

    interval: Duration = _GROUPS.interval
    """How often to read the groups."""
    include: Patterns = _GROUPS.include
    """Groups to read if the cluster has more than `limit` groups."""
    exclude: Patterns = _GROUPS.exclude
    """Groups to leave out."""
    limit: Count = _GROUPS.limit
    """With at most this many groups, all are read; with more, only those that `include` matches."""


class PostureSection(Section):
    """Checks of the settings that exactly-once depends on."""

    interval: Duration = _POSTURE.interval
    """How often to check."""
    ignore: tuple[str, ...] = _POSTURE.ignore
    """Checks to leave out, as `check` or `check:subject`."""


class ClusterSection(Section):
    """One Kafka cluster.

    With ``watch: false``, for a sidecar, the agent reads only JVMs, Connect, Streams, Spark and posted data.
    """

    name: Annotated[str, Field(max_length=200)] = ""
    """Value of the label `kafka_cluster`; unset: the cluster id that Kafka reports. Required with several clusters."""
    watch: bool = True
    """`false`: do not read Kafka itself, because another agent does. Requires `name`."""
    kafka: KafkaProperties
    """Client properties in Java's or librdkafka's spelling, at least `bootstrap.servers` ([security.md](security.md)).
    Any secret has a `.file` form, such as `sasl.password.file`, which is read again at every connection.
    Flags: `--bootstrap-server`, and `--command-config FILE` for the properties file of Kafka's own tools.
    """
    topics: TopicsSection = TopicsSection()
    lso: LsoSection = LsoSection()
    transactions: TransactionsSection = TransactionsSection()
    groups: GroupsSection = GroupsSection()
    brokers: tuple[BrokerSection, ...] = ()
    posture: PostureSection = PostureSection()

    @model_validator(mode="after")
    def _named_if_not_asked(self) -> ClusterSection:
        if not self.watch and not self.name:
            raise wrong("has watch: false, so it needs the name that the agent that watches it gives it")
        return self


class ApplicationSection(Section):
    """A rule that maps transactional ids to an application. The first match is used, before the built-in rules."""

    pattern: ApplicationRegex
    """Regular expression, which may match anywhere in a transactional.id. Its group `application` is the name of the
    application.
    """
