"""Values of the fleet: an agent's answer reduced to what is shown, and clusters merged of several answers. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.model import Fault, TopicPartition
from exporter.words import BlockerKind, FleetChangeKind, FleetState


class FleetAgent(NamedTuple):
    """An agent that is listed. ``url`` has its route prefix and no slash at the end; ``owner`` is "" for none."""

    url: str
    labels: Mapping[str, str]

    @property
    def name(self) -> str:
        """The URL without its scheme: what pages and labels show."""
        return self.url.partition("://")[2]


class FleetStall(NamedTuple):
    """A stalled partition. ``seconds`` is its age when the answer was made, ``lag`` the records that wait."""

    partition: TopicPartition
    seconds: float
    lag: int
    kind: BlockerKind
    transactional_id: str
    application: str
    producer_id: int | None
    ignored: bool
    owner: str


class FleetSourceState(NamedTuple):
    """A source of an agent. ``refused`` is whether a grant or a password is missing."""

    source: str
    target: str
    up: bool | None
    ignored: bool
    refused: bool


class FleetTorn(NamedTuple):
    """A partition that lacks the marker of a transaction's decision."""

    transactional_id: str
    partition: TopicPartition
    decided: str
    found: str


class AnsweredCluster(NamedTuple):
    """A cluster as one agent has it. ``left_out`` counts stalled partitions beyond what is kept."""

    name: str
    cluster_id: str
    bootstrap_servers: str
    knows_stalls: bool
    watched_seconds: float | None
    stall_after: float | None
    stalls: tuple[FleetStall, ...]
    left_out: int
    sources: tuple[FleetSourceState, ...]
    torn: tuple[FleetTorn, ...]
    storms: Mapping[str, int]
    """Fences in ten minutes, by transactional.id."""
    stopped: tuple[str, ...]
    """Applications that stopped committing."""
    failed_checks: tuple[tuple[str, str], ...]
    failed_tasks: tuple[tuple[str, str, str], ...]
    """Connect, connector, task ("" for the connector itself)."""
    failed_queries: tuple[tuple[str, str], ...]
    audits_with_findings: tuple[str, ...]


class AgentAnswer(NamedTuple):
    """The status of an agent. ``shard`` is its index and count; ``odd`` counts entries of another form."""

    version: str
    ready: bool
    shard: tuple[int, int]
    clusters: tuple[AnsweredCluster, ...]
    odd: int
    size: int
    """Bytes that it takes in memory, about."""


class AgentReading(NamedTuple):
    """The last answer or fault of an agent. ``since`` and ``answered`` are Unix seconds by the fleet's clock.

    ``fault`` is that of the last request, None after an answer; ``since`` is when requests began to fail or to be
    answered. ``age`` is how old the last answer is in seconds, and ``took`` how long it took.
    """

    agent: FleetAgent
    answer: AgentAnswer | None
    answered: float | None
    age: float | None
    fault: Fault | None
    since: float | None
    took: float | None
    stale: bool
    """True where the answer is too old to be shown as the present."""


Dispute = tuple[str, ...]
"""A partition, and the agents that disagree about it."""


class FleetHolder(NamedTuple):
    """A transaction with the partitions that it holds; ``seconds`` is the age of the oldest stall, ``lag`` a sum."""

    kind: BlockerKind
    transactional_id: str
    application: str
    producer_id: int | None
    partitions: tuple[TopicPartition, ...]
    """In order, the longest stalled first."""
    seconds: float
    lag: int
    ignored: bool
    owner: str

    @property
    def key(self) -> tuple[object, ...]:
        """The identity while it holds: the producer id as in the alerts, or the partition."""
        return (self.producer_id,) if self.producer_id is not None else self.partitions[:1]


class FleetCluster(NamedTuple):
    """A cluster, merged of all agents that watch it."""

    name: str
    cluster_id: str
    bootstrap_servers: str
    state: FleetState
    text: str
    """The fault in one line."""
    details: tuple[str, ...]
    contradictions: tuple[str, ...]
    disputes: frozenset[Dispute]
    """Where agents disagree, which they also do for a moment when something changes."""
    knows_stalls: bool
    holders: tuple[FleetHolder, ...]
    stalled: int
    """Stalled partitions, those that are ignored and those beyond what is kept included."""
    agents: tuple[FleetAgent, ...]
    """Agents that answer come first."""
    shards: int
    missing_shards: tuple[int, ...]
    as_of: float | None
    """Unix time of the oldest answer that it is made of."""
    stale: bool
    """A part of it is from an agent that does not answer any more."""
    owner: str


class FleetView(NamedTuple):
    """The whole fleet: clusters and agents, the worst first."""

    at: float
    state: FleetState
    text: str
    details: tuple[str, ...]
    clusters: tuple[FleetCluster, ...]
    agents: tuple[AgentReading, ...]
    versions: Mapping[str, int]
    """Number of agents by version, the most frequent first."""
    problems: tuple[str, ...]
    """Why a list of agents could not be read."""


class FleetChange(NamedTuple):
    """Something that changed. ``at`` is Unix seconds, ``cluster`` and ``agent`` are "" where it is not about one."""

    at: float
    kind: FleetChangeKind
    cluster: str
    agent: str
    text: str
