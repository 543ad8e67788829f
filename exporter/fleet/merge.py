"""Merges the answers of agents to clusters, by the rules of the alerts. Pure functions.

Agents of one ``kafka_cluster`` and cluster id are replicas or shards of one another. A stall that several report is
one: its earliest beginning counts, and its holder is hanging or unmarked only while no other agent says that a
coordinator has it (``alerts/lso.py``). Shards are a union. What no agent of a shard knows is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from exporter.bounds.text import count_of, some
from exporter.core.durations import format_age
from exporter.fleet.facts import (
    AgentReading,
    AnsweredCluster,
    Dispute,
    FleetCluster,
    FleetHolder,
    FleetSourceState,
    FleetStall,
    FleetView,
)
from exporter.model import Reason, TopicPartition
from exporter.status.verdict import verdict
from exporter.words import BlockerKind, FleetState

MOST_NAMED = 5
"""Clusters, agents and shards that a line names; the others are counted."""
OLD_STALL_SECONDS = 120.0
"""Age from which all replicas that know every stall must report the same one."""
MOST_DISPUTES = 20
"""Disputes of a shard that are followed."""
_SURER = (BlockerKind.COMPLETING, BlockerKind.OPEN, BlockerKind.UNMARKED, BlockerKind.HANGING, BlockerKind.UNKNOWN)
"""Kinds of a holder: the first that any agent reports counts."""
_RANK = {state: place for place, state in enumerate(FleetState)}


class _ClusterMember(NamedTuple):
    """An agent's answer about one cluster."""

    reading: AgentReading
    cluster: AnsweredCluster
    shard: tuple[int, int]
    ready: bool

    @property
    def seconds(self) -> float:
        """Age of the answer."""
        return self.reading.age or 0.0


class _MergedStall(NamedTuple):
    """A stalled partition of all replicas; ``kinds`` is what each agent says."""

    stall: FleetStall
    kinds: tuple[tuple[str, BlockerKind], ...]


def merge(
    readings: Sequence[AgentReading], at: float, problems: Sequence[str] = (), lasting: Container[Dispute] = ()
) -> FleetView:
    """Return the fleet at ``at`` (Unix seconds). ``problems`` is why a list of agents could not be read.

    Answers are of different instants, so agents that disagree contradict each other only once that lasts: ``lasting``
    are the disputes of earlier views that do.
    """
    groups = _by_cluster(readings)
    clusters = sorted((_cluster(members, groups, lasting) for members in groups.values()), key=_worst_first)
    versions = Counter(reading.answer.version for reading in readings if reading.answer and not reading.stale)
    state, text, details = _fleet_verdict(clusters, readings, problems)
    return FleetView(
        at=at,
        state=state,
        text=text,
        details=details,
        clusters=tuple(clusters),
        agents=tuple(
            sorted(
                readings, key=lambda reading: (reading.fault is None, reading.answered is not None, reading.agent.url)
            )
        ),
        versions=dict(versions.most_common()),
        problems=tuple(problems),
    )


# --- Clusters ---------------------------------------------------------------------------------------------------------

_Key = tuple[str, str]


def _by_cluster(readings: Iterable[AgentReading]) -> dict[_Key, list[_ClusterMember]]:
    """Answers by name and cluster id. One without an id belongs to the only cluster of its name, if there is one."""
    members = [
        _ClusterMember(reading, cluster, reading.answer.shard, reading.answer.ready)
        for reading in readings
        if reading.answer
        for cluster in reading.answer.clusters
    ]
    ids: dict[str, set[str]] = {}
    for member in members:
        ids.setdefault(_name(member.cluster), set()).add(member.cluster.cluster_id)
    groups: dict[_Key, list[_ClusterMember]] = {}
    for member in members:
        name, cluster_id = _name(member.cluster), member.cluster.cluster_id
        known = ids[name] - {""}
        if not cluster_id and len(known) == 1:
            [cluster_id] = known
        groups.setdefault((name, cluster_id), []).append(member)
    return groups


def _name(cluster: AnsweredCluster) -> str:
    """The value of ``kafka_cluster``; before it is known, where the agent connects to."""
    return cluster.name or cluster.cluster_id or cluster.bootstrap_servers


def _cluster(
    members: list[_ClusterMember], groups: Mapping[_Key, list[_ClusterMember]], lasting: Container[Dispute]
) -> FleetCluster:
    members.sort(key=lambda member: (member.reading.stale, member.reading.agent.url))
    shards = _used_by_shard(members)
    used = [member for of_shard in shards.values() for member in of_shard]
    count = max(member.shard[1] for member in members)
    missing = tuple(index for index in range(count) if index not in shards)
    stale = any(member.reading.stale for member in used)
    merged = _stalls(used)
    holders = _holders(merged.values())
    disputes = dict((*islice(_kinds_differ(merged.values()), MOST_DISPUTES), *_not_seen(shards.values())))
    said = [text for dispute, text in disputes.items() if dispute in lasting]
    contradictions = (*_contradictions(members, groups), *said[:1])
    knows = not missing and all(any(member.cluster.knows_stalls for member in of_shard) for of_shard in shards.values())
    state, text, details = _verdict(shards, merged.values(), knows=knows)
    notes = [*contradictions]
    if missing:
        names = some([f"{index}/{count}" for index in missing], MOST_NAMED)
        notes.append(f"No agent that answers has shard {names}: its part of the cluster is not known")
    if stale:
        age = format_age(max(min(member.seconds for member in of_shard) for of_shard in shards.values()))
        text, details = f"No agent answers for {age}. Before: {text}", (*notes, *details)
        state = max(state, FleetState.BLIND, key=_rank)
    elif notes and _rank(state) < _rank(FleetState.BLIND):
        state, text, details = FleetState.BLIND, notes[0], (*notes[1:], text, *details)
    else:
        details = (*notes, *details)
    first = used[0].cluster
    answered = [max(member.reading.answered or 0.0 for member in of_shard) for of_shard in shards.values()]
    return FleetCluster(
        name=_name(first),
        cluster_id=next((member.cluster.cluster_id for member in used if member.cluster.cluster_id), ""),
        bootstrap_servers=first.bootstrap_servers,
        state=state,
        text=text,
        details=details,
        contradictions=contradictions,
        disputes=frozenset(disputes),
        knows_stalls=knows,
        holders=holders,
        stalled=len(merged) + sum(max(member.cluster.left_out for member in of_shard) for of_shard in shards.values()),
        agents=tuple({member.reading.agent.url: member.reading.agent for member in members}.values()),
        shards=count,
        missing_shards=missing,
        as_of=min(answered),
        stale=stale,
        owner=next((owner for member in members if (owner := member.reading.agent.labels.get("owner"))), ""),
    )


def _used_by_shard(members: Sequence[_ClusterMember]) -> dict[int, list[_ClusterMember]]:
    """The answers that count, by shard: an old one only where no agent of the shard answers."""
    found: dict[int, list[_ClusterMember]] = {}
    for member in members:  # those that answer first
        of_shard = found.setdefault(member.shard[0], [])
        if not of_shard or member.reading.stale == of_shard[0].reading.stale:
            of_shard.append(member)
    return found


# --- Stalls -----------------------------------------------------------------------------------------------------------


def _stalls(members: Sequence[_ClusterMember]) -> dict[TopicPartition, _MergedStall]:
    """Stalled partitions of all replicas and shards: the earliest beginning, the most records, the surest kind."""
    kinds: dict[object, BlockerKind] = {}
    for member in members:
        for stall in member.cluster.stalls:
            holder = _holder_of(stall)
            kinds[holder] = min(kinds.get(holder, BlockerKind.UNKNOWN), stall.kind, key=_SURER.index)
    found: dict[TopicPartition, _MergedStall] = {}
    for member in members:
        for stall in member.cluster.stalls:
            aged = stall._replace(seconds=stall.seconds + member.seconds, kind=kinds[_holder_of(stall)])
            says = (member.reading.agent.name, stall.kind)
            before = found.get(stall.partition)
            found[stall.partition] = _MergedStall(aged, (says,)) if before is None else _together(before, aged, says)
    return found


def _holder_of(stall: FleetStall) -> object:
    return stall.producer_id if stall.producer_id is not None else stall.partition


def _together(before: _MergedStall, other: FleetStall, says: tuple[str, BlockerKind]) -> _MergedStall:
    one = before.stall
    named = one if _SURER.index(one.kind) <= _SURER.index(other.kind) and one.transactional_id else other
    stall = named._replace(
        seconds=max(one.seconds, other.seconds),
        lag=max(one.lag, other.lag),
        kind=min(one.kind, other.kind, key=_SURER.index),
        transactional_id=named.transactional_id or one.transactional_id,
        application=named.application or one.application or other.application,
        ignored=one.ignored and other.ignored,
        owner=one.owner or other.owner,
    )
    return _MergedStall(stall, (*before.kinds, says))


def _holders(merged: Iterable[_MergedStall]) -> tuple[FleetHolder, ...]:
    """A row for each holder, the longest stalled first and what is ignored last."""
    groups: dict[object, list[FleetStall]] = {}
    for merged_stall in merged:
        groups.setdefault(_holder_of(merged_stall.stall), []).append(merged_stall.stall)
    holders = []
    for stalls in groups.values():
        stalls.sort(key=lambda stall: (-stall.seconds, stall.partition))
        first = stalls[0]
        holders.append(
            FleetHolder(
                kind=first.kind,
                transactional_id=first.transactional_id,
                application=first.application,
                producer_id=first.producer_id,
                partitions=tuple(stall.partition for stall in stalls),
                seconds=first.seconds,
                lag=sum(stall.lag for stall in stalls),
                ignored=all(stall.ignored for stall in stalls),
                owner=next((stall.owner for stall in stalls if stall.owner), ""),
            )
        )
    return tuple(sorted(holders, key=lambda holder: (holder.ignored, -holder.seconds, holder.partitions)))


# --- What agents contradict -------------------------------------------------------------------------------------------


def _contradictions(members: Sequence[_ClusterMember], groups: Mapping[_Key, list[_ClusterMember]]) -> Iterator[str]:
    """Yield a line for each setting that differs between agents of one cluster."""
    name, cluster_id = _name(members[0].cluster), members[0].cluster.cluster_id
    others = [key for key in groups if key[0] == name and key[1] not in {"", cluster_id}]
    if cluster_id and others:
        who = _agent(groups[others[0]])
        yield f"Two clusters are named {name}: {who} has cluster id {others[0][1]}; alerts take them for one"
    others = [key for key in groups if key[0] != name and cluster_id and key[1] == cluster_id]
    if others:
        yield f"{_agent(groups[others[0]])} names this cluster {others[0][0]}: alerts take it for another one"
    counts = sorted({member.shard[1] for member in members if not member.reading.stale})
    if len(counts) > 1:
        yield f"Agents were started with different numbers of shards: {', '.join(map(str, counts))}"


def _kinds_differ(merged: Iterable[_MergedStall]) -> Iterator[tuple[Dispute, str]]:
    """Yield where one agent says that nobody has the transaction, and another one that somebody has."""
    for partition, kinds in ((merged_stall.stall.partition, merged_stall.kinds) for merged_stall in merged):
        said = {kind: agent for agent, kind in kinds if kind is not BlockerKind.UNKNOWN}
        if len(said) > 1 and {BlockerKind.HANGING, BlockerKind.UNMARKED} & said.keys():
            texts = " and ".join(f"{said[kind]} says {kind}" for kind in sorted(said, key=_SURER.index))
            yield (str(partition), *said.values()), f"Agents contradict each other about {partition}: {texts}"


def _not_seen(shards: Iterable[Sequence[_ClusterMember]]) -> Iterator[tuple[Dispute, str]]:
    """Yield old stalls that another replica, which knows every stall, does not have."""
    for replicas in shards:
        sure = [replica for replica in replicas if _knows_old_stalls(replica.cluster) and not replica.cluster.left_out]
        reports = Counter(stall.partition for replica in sure for stall in replica.cluster.stalls)
        old = (
            (stall, member)
            for member in sure
            for stall in member.cluster.stalls
            if stall.seconds >= OLD_STALL_SECONDS and reports[stall.partition] < len(sure)
        )
        for stall, member in islice(old, MOST_DISPUTES):
            partition, name = stall.partition, member.reading.agent.name
            other = next(
                replica for replica in sure if all(stall.partition != partition for stall in replica.cluster.stalls)
            )
            theirs = other.reading.agent.name
            text = f"{name} says that {partition} is stalled for {format_age(stall.seconds)}, {theirs} does not"
            yield (str(partition), name, theirs), f"Agents contradict each other: {text}"


def _knows_old_stalls(cluster: AnsweredCluster) -> bool:
    watched, after = cluster.watched_seconds, cluster.stall_after
    return cluster.knows_stalls and watched is not None and after is not None and watched >= OLD_STALL_SECONDS + after


# --- Verdicts ---------------------------------------------------------------------------------------------------------


def _verdict(
    shards: Mapping[int, Sequence[_ClusterMember]], merged: Iterable[_MergedStall], *, knows: bool
) -> tuple[FleetState, str, tuple[str, ...]]:
    """State, line and details of a cluster, by the rule of the agent's own page."""
    used = [member for of_shard in shards.values() for member in of_shard]
    clusters = [member.cluster for member in used]
    newest = min((max(of_shard, key=_watched) for of_shard in shards.values()), key=_watched).cluster
    storms: dict[str, int] = {}
    for cluster in clusters:
        for transactional_id, fences in cluster.storms.items():
            storms[transactional_id] = max(fences, storms.get(transactional_id, 0))
    status: dict[str, Any] = {
        "stalled_partitions": [
            {"ignored": "" if merged_stall.stall.ignored else None, "blocker": {"kind": merged_stall.stall.kind}}
            for merged_stall in merged
        ],
        "known": {
            "stalled_partitions": knows,
            "stalls_watched_seconds": newest.watched_seconds if newest.stall_after is not None else None,
            "stall_after_seconds": newest.stall_after,
        },
        "name": _name(clusters[0]),
        "bootstrap_servers": "",
        "sources": list(map(_source, _sources(clusters))),
        "last_hour": {
            "fence_storms": [
                {"transactional_id": transactional_id, "fences": fences} for transactional_id, fences in storms.items()
            ],
            "applications": [
                {"application": application, "stopped_minutes": 0}
                for application in {a for c in clusters for a in c.stopped}
            ],
        },
        "posture": {"failed": {check for cluster in clusters for check in cluster.failed_checks}},
        "torn_markers": [
            {**torn._asdict(), "topic": torn.partition.topic, "partition": torn.partition.partition}
            for torn in sorted({torn for cluster in clusters for torn in cluster.torn})
        ],
        "connect": [{"failed": {task for cluster in clusters for task in cluster.failed_tasks}}],
        "spark": [{"state": "failed"} for _ in {query for cluster in clusters for query in cluster.failed_queries}],
        "audits": [{"verdict": "findings"} for _ in {a for c in clusters for a in c.audits_with_findings}],
    }
    ready = all(any(member.ready for member in of_shard) for of_shard in shards.values())
    found = verdict({"clusters": [status], "shard": None, "ready": ready})
    name = f"{_name(clusters[0])}: "
    details = tuple(detail.removeprefix(name) for detail in found.details)
    if found.text == "Cannot see everything" and details:  # its first detail says what
        return FleetState(found.level), details[0], details[1:]
    return FleetState(found.level), found.text, details if found.level != FleetState.GOOD else ()


def _watched(member: _ClusterMember) -> float:
    return member.cluster.watched_seconds or 0.0


def _sources(clusters: Iterable[AnsweredCluster]) -> Iterator[FleetSourceState]:
    """Yield each source of each target once: up only if it is for all agents, ignored if it is for one."""
    found: dict[tuple[str, str], FleetSourceState] = {}
    for cluster in clusters:
        for source in cluster.sources:
            before = found.get((source.source, source.target), source)
            up = False if False in {before.up, source.up} else None if None in {before.up, source.up} else True
            found[source.source, source.target] = source._replace(
                up=up, ignored=before.ignored or source.ignored, refused=before.refused or source.refused
            )
    yield from found.values()


def _source(source: FleetSourceState) -> dict[str, Any]:
    faults = [{"reason": Reason.AUTHORIZATION}] if source.refused else []
    return {
        "source": source.source,
        "up": source.up,
        "ignored": "" if source.ignored else None,
        "faults": faults,
    }


def _fleet_verdict(
    clusters: Sequence[FleetCluster], readings: Sequence[AgentReading], problems: Sequence[str]
) -> tuple[FleetState, str, tuple[str, ...]]:
    silent = [reading for reading in readings if reading.fault is not None]
    lines = [f"{cluster.name}: {cluster.text}" for cluster in clusters if cluster.state is not FleetState.GOOD]
    unseen = [*problems, *_silent(silent)]
    details = (*lines[:MOST_NAMED], *_more(len(lines) - MOST_NAMED, "cluster"), *unseen)
    if bad := sum(cluster.state is FleetState.BAD for cluster in clusters):
        return FleetState.BAD, f"{bad} of {count_of(len(clusters), 'cluster')} {_verb(bad)} attention", details
    if not readings:
        return FleetState.BLIND, "No agent is listed", tuple(problems)
    if unseen or any(cluster.state is FleetState.BLIND for cluster in clusters):
        return FleetState.BLIND, "Cannot see everything", details
    if all(reading.answer is None for reading in readings):
        return FleetState.BLIND, "Starting: no agent has answered yet", ()
    if warned := sum(cluster.state is FleetState.WARN for cluster in clusters):
        return FleetState.WARN, f"Something to look at in {count_of(warned, 'cluster')}", details
    waiting = sum(reading.answer is None for reading in readings)
    if waiting:
        return FleetState.BLIND, f"Starting: {count_of(waiting, 'agent')} {_have(waiting)} not answered yet", details
    ignored = sum(cluster.stalled for cluster in clusters)
    beside = f" but {count_of(ignored, 'partition')} of topics that are ignored" if ignored else ""
    known = f"No partition of {count_of(len(clusters), 'cluster')} is stalled{beside}, and"
    return FleetState.GOOD, "All fine", (f"{known} {count_of(len(readings), 'agent')} answered.",)


def _silent(silent: Sequence[AgentReading]) -> Iterator[str]:
    if silent:
        names = some([reading.agent.name for reading in silent], MOST_NAMED)
        yield f"{count_of(len(silent), 'agent')} {'does' if len(silent) == 1 else 'do'} not answer: {names}"


def _more(number: int, noun: str) -> Iterator[str]:
    if number > 0:
        yield f"and {count_of(number, noun)} more"


def _verb(number: int) -> str:
    return "needs" if number == 1 else "need"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _agent(members: Sequence[_ClusterMember]) -> str:
    return members[0].reading.agent.name


def _rank(state: FleetState) -> int:
    return _RANK[state]


def _worst_first(cluster: FleetCluster) -> tuple[object, ...]:
    """Sort key: the state, how many partitions are stalled, the name."""
    return -_rank(cluster.state), -sum(not holder.ignored for holder in cluster.holders), -cluster.stalled, cluster.name
