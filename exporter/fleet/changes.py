"""Changes of the last hour, from successive views of the fleet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from exporter.bounds.text import cut
from exporter.core.durations import format_age
from exporter.fleet.facts import AgentReading, FleetChange, FleetCluster, FleetHolder, FleetView
from exporter.words import FleetChangeKind, FleetState

HOUR = 3600.0
MOST_CHANGES = 500
"""Changes that are kept, the newest."""
MOST_HOLDERS = 10_000
"""Holders of a cluster that are remembered while it is not known whether they ended."""
LONGEST_CHANGE = 500
"""Characters of a change's text."""

_Cluster = tuple[str, str]


class FleetChanges:
    """Compares each view with the one before. For one thread."""

    def __init__(self) -> None:
        self._changes: deque[FleetChange] = deque(maxlen=MOST_CHANGES)
        self._holders: dict[_Cluster, dict[tuple[object, ...], FleetHolder]] = {}
        self._states: dict[_Cluster, FleetState] = {}
        self._agents: dict[str, tuple[bool, str]] | None = None

    def note(self, view: FleetView) -> None:
        """Note what the view has that the one before has not."""
        found = [*self._of_agents(view)]
        for cluster in view.clusters:
            found += self._of_holders(cluster, view.at)
            found += self._of_state(cluster, view.at)
        known = {(member.name, member.cluster_id) for member in view.clusters}
        self._holders = {key: holder for key, holder in self._holders.items() if key in known}
        self._states = {key: state for key, state in self._states.items() if key in known}
        self._changes.extend(change._replace(text=cut(change.text, LONGEST_CHANGE)) for change in found)

    def last_hour(self, at: float) -> list[FleetChange]:
        """Return the changes of the hour before ``at``, newest first."""
        found = [change for change in self._changes if at - HOUR <= change.at]
        return sorted(found, key=lambda change: change.at, reverse=True)

    def _of_holders(self, cluster: FleetCluster, at: float) -> Iterator[FleetChange]:
        """Yield stalls that began, and those that ended: what is not known any more has not ended."""
        key = cluster.name, cluster.cluster_id
        before = self._holders.setdefault(key, {})
        found = {holder.key: holder for holder in cluster.holders}
        for place, holder in found.items():
            if place not in before:
                since = at - holder.seconds
                if since >= at - HOUR:
                    yield FleetChange(since, FleetChangeKind.STALL_BEGAN, cluster.name, "", f"stalled: {_who(holder)}")
            before[place] = holder
        if cluster.stale or not cluster.knows_stalls:
            if len(before) > MOST_HOLDERS:
                self._holders[key] = found
            return
        for place in before.keys() - found.keys():
            holder = before.pop(place)
            text = f"no longer stalled, after {format_age(holder.seconds)}: {_who(holder)}"
            yield FleetChange(at, FleetChangeKind.STALL_ENDED, cluster.name, "", text)

    def _of_state(self, cluster: FleetCluster, at: float) -> Iterator[FleetChange]:
        key = cluster.name, cluster.cluster_id
        before = self._states.get(key)
        self._states[key] = cluster.state
        if before is not None and before is not cluster.state:
            text = f"{before} to {cluster.state}: {cluster.text}"
            yield FleetChange(at, FleetChangeKind.CLUSTER_STATE, cluster.name, "", text)

    def _of_agents(self, view: FleetView) -> Iterator[FleetChange]:
        before, first = self._agents or {}, self._agents is None
        found = {
            reading.agent.name: (reading.fault is None, reading.answer.version if reading.answer else "")
            for reading in view.agents
        }
        for reading in view.agents:
            name = reading.agent.name
            if name not in before:
                if not first:
                    yield FleetChange(view.at, FleetChangeKind.AGENT_LISTED, "", name, "listed")
            else:
                yield from _of_agent(reading, *before[name], view.at)
        for name in before.keys() - found.keys():
            yield FleetChange(view.at, FleetChangeKind.AGENT_UNLISTED, "", name, "no longer listed")
        self._agents = found


def _of_agent(reading: AgentReading, answered: bool, version: str, at: float) -> Iterator[FleetChange]:
    name, fault = reading.agent.name, reading.fault
    when = reading.since if reading.since is not None else at
    if answered and fault is not None:
        yield FleetChange(when, FleetChangeKind.AGENT_LOST, "", name, f"does not answer: {fault.detail}")
    elif not answered and fault is None:
        yield FleetChange(when, FleetChangeKind.AGENT_ANSWERS, "", name, "answers again")
    if version and reading.answer and reading.answer.version != version:
        text = f"version {version} to {reading.answer.version}"
        yield FleetChange(at, FleetChangeKind.AGENT_VERSION, "", name, text)


def _who(holder: FleetHolder) -> str:
    more = f" and {len(holder.partitions) - 1} more" if len(holder.partitions) > 1 else ""
    by = f" by {holder.transactional_id}" if holder.transactional_id else ""
    of = f" of {holder.application}" if holder.application else ""
    return f"{holder.partitions[0]}{more}{by}{of} ({holder.kind})"
