"""The document of ``/api/v1/fleet``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from typing_extensions import TypedDict

from exporter.core.documents import document_of
from exporter.fleet.facts import AgentReading, FleetAgent, FleetChange, FleetCluster, FleetHolder, FleetView
from exporter.model import Reason
from exporter.status.documents import TopicAndPartition
from exporter.words import BlockerKind, FleetChangeKind, FleetState

Link = Callable[[FleetAgent, str], str]
"""The address of an agent's page for a cluster ("" for all), "" where there is none."""


class FleetHolderDocument(TypedDict):
    """A transaction that holds the last stable offset of partitions, as all agents of the cluster report it."""

    kind: BlockerKind
    """hanging and unmarked only where no other agent says that a coordinator has it."""
    transactional_id: str
    application: str
    owner: str
    producer_id: int | None
    partitions: list[TopicAndPartition]
    """The longest stalled first."""
    since_timestamp: float
    """Of the longest stall, in Unix seconds."""
    seconds: float
    lag_offsets: int
    """Records that wait in all of them."""
    ignored: bool
    """The settings of its agents ignore all its topics."""


class FleetClusterDocument(TypedDict):
    """A cluster, merged of its replicas and shards."""

    name: str
    """The value of kafka_cluster."""
    cluster_id: str
    bootstrap_servers: str
    owner: str
    """The label owner of an agent in the list of agents."""
    state: FleetState
    text: str
    """The fault in one line."""
    details: list[str]
    contradictions: list[str]
    """Statements that cannot be true of all its agents at once."""
    stalls_known: bool
    """true where no holder is missing: every shard has an agent that knows its stalls."""
    stalled_partitions: int
    """Partitions of topics that are ignored included."""
    holders: list[FleetHolderDocument]
    agents: list[str]
    """The agents that watch it, those that answer first."""
    link: str
    """The page of the first of them."""
    shards: int
    missing_shards: list[int]
    as_of: str | None
    as_of_timestamp: float | None
    """When the oldest answer was received that this is made of."""
    stale: bool
    """A part of it is from an agent that does not answer any more: it was so then."""


class FleetAgentDocument(TypedDict):
    """An agent."""

    agent: str
    """Host, port and prefix."""
    url: str
    link: str
    answers: bool | None
    """null before the first request has ended."""
    since: str | None
    since_timestamp: float | None
    """From when it answers, or does not."""
    reason: Reason | None
    detail: str
    """Why it does not answer."""
    version: str
    """That of its last answer; "" before the first."""
    shard: str
    """INDEX/COUNT; "" for an agent without shards."""
    ready: bool | None
    clusters: list[str]
    last_answer: str | None
    last_answer_timestamp: float | None
    age_seconds: float | None
    """Of its last answer."""
    duration_seconds: float | None
    """Of the last request."""
    unreadable_entries: int
    """Entries of its last answer that have another form, and are left out."""


class FleetChangeDocument(TypedDict):
    """Something that changed."""

    at: str | None
    at_timestamp: float
    kind: FleetChangeKind
    cluster: str
    agent: str
    text: str


class FleetDocument(TypedDict):
    """Clusters and agents, the worst first."""

    version: str
    generated_at: str | None
    generated_at_timestamp: float
    state: FleetState
    text: str
    details: list[str]
    clusters: list[FleetClusterDocument]
    agents: list[FleetAgentDocument]
    versions: dict[str, int]
    """Number of agents by version."""
    changes: list[FleetChangeDocument]
    """Of the last hour, as far as this process saw it, the newest first."""
    watched_seconds: float
    """For how long this process has asked."""
    problems: list[str]
    """Why agents could not be listed."""


def fleet_document(
    view: FleetView, changes: Iterable[FleetChange], link: Link, *, version: str, watched: float
) -> FleetDocument:
    """Return the document of a view. ``watched`` is for how many seconds the fleet was asked."""
    return document_of(
        FleetDocument,
        view,
        version=version,
        generated_at_timestamp=view.at,
        clusters=[_cluster(cluster, link, view.at) for cluster in view.clusters],
        agents=[_agent(agent, link) for agent in view.agents],
        changes=[document_of(FleetChangeDocument, change) for change in changes],
        watched_seconds=watched,
    )


def _cluster(cluster: FleetCluster, link: Link, at: float) -> FleetClusterDocument:
    return document_of(
        FleetClusterDocument,
        cluster,
        stalls_known=cluster.knows_stalls,
        stalled_partitions=cluster.stalled,
        holders=[_holder(holder, at) for holder in cluster.holders],
        agents=[agent.name for agent in cluster.agents],
        link=link(cluster.agents[0], cluster.name),
    )


def _holder(holder: FleetHolder, at: float) -> FleetHolderDocument:
    return document_of(FleetHolderDocument, holder, since_timestamp=at - holder.seconds, lag_offsets=holder.lag)


def _agent(reading: AgentReading, link: Link) -> FleetAgentDocument:
    answer, fault = reading.answer, reading.fault
    return document_of(
        FleetAgentDocument,
        reading,
        agent=reading.agent.name,
        url=reading.agent.url,
        link=link(reading.agent, ""),
        answers=False if fault is not None else None if answer is None else True,
        reason=fault.reason if fault is not None else None,
        detail=fault.detail if fault is not None else "",
        version=answer.version if answer else "",
        shard="" if answer is None or answer.shard[1] == 1 else f"{answer.shard[0]}/{answer.shard[1]}",
        ready=answer.ready if answer else None,
        clusters=[cluster.name or cluster.cluster_id or cluster.bootstrap_servers for cluster in answer.clusters]
        if answer
        else [],
        last_answer_timestamp=reading.answered,
        age_seconds=reading.age,
        duration_seconds=reading.took,
        unreadable_entries=answer.odd if answer else 0,
    )
