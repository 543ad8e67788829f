"""Render a fleet's document for the terminal: tables of rich, with as many rows as the terminal has lines for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from exporter.commands.top_view import TableSection, screen
from exporter.core.durations import format_age
from exporter.fleet.page import worst_holders
from exporter.lso.next_step import clock_time

if TYPE_CHECKING:
    from rich.console import RenderableType


def fleet_view(fleet: Mapping[str, Any], height: int) -> RenderableType:
    """Return the whole screen: headline, clusters, stalls, changes and agents, in ``height`` lines."""
    head = f"kafka-eos-exporter fleet {fleet['version']}  {clock_time(fleet['generated_at_timestamp'])}"
    urgent, others = [_clusters(fleet), _stalls(fleet)], [_agents(fleet["agents"]), _changes(fleet)]
    return screen((head, fleet["text"], *fleet["details"]), fleet["state"], urgent, others, height)


def _clusters(fleet: Mapping[str, Any]) -> TableSection:
    rows = [
        (
            cluster["name"],
            cluster["state"],
            _stalled(cluster),
            str(len(cluster["agents"])),
            cluster["owner"],
            f"{format_age(fleet['generated_at_timestamp'] - cluster['as_of_timestamp'])} ago",
            cluster["text"],
        )
        for cluster in fleet["clusters"]
    ]
    return TableSection(
        f"clusters: {len(rows)}", ("cluster", "state", "stalled", "agents", "owner", "as of", "what"), rows
    )


def _stalled(cluster: Mapping[str, Any]) -> str:
    number = cluster["stalled_partitions"]
    if cluster["stale"]:
        return f"{number} then"
    return str(number) if cluster["stalls_known"] else f"{number}+" if number else "?"


def _stalls(fleet: Mapping[str, Any]) -> TableSection:
    rows = []
    for cluster, holder in worst_holders(fleet["clusters"]):
        first, more = holder["partitions"][0], len(holder["partitions"]) - 1
        place = f"{first['topic']}-{first['partition']}{f' +{more}' if more else ''}"
        kind = holder["kind"] + (", ignored" if holder["ignored"] else "") + (", then" if cluster["stale"] else "")
        age, who = format_age(holder["seconds"]), holder["transactional_id"] or "?"
        rows.append((cluster["name"], place, kind, age, str(holder["lag_offsets"]), who, holder["application"] or "?"))
    columns = ("cluster", "partition", "kind", "stalled", "waiting", "transactional.id", "application")
    return TableSection(f"holders of stalled partitions: {len(rows)}", columns, rows)


def _agents(agents: Sequence[Mapping[str, Any]]) -> TableSection:
    rows = [
        (
            agent["agent"],
            "?" if agent["answers"] is None else "yes" if agent["answers"] else "no",
            agent["version"] or "?",
            agent["shard"],
            "never" if agent["age_seconds"] is None else f"{format_age(agent['age_seconds'])} ago",
            f"since {clock_time(agent['since_timestamp'])}: {agent['detail']}" if agent["answers"] is False else "",
        )
        for agent in agents
    ]
    silent = sum(agent["answers"] is False for agent in agents)
    title = f"agents: {len(rows)}, {silent} of them do not answer"
    return TableSection(title, ("agent", "answers", "version", "shard", "last answer", "why"), rows)


def _changes(fleet: Mapping[str, Any]) -> TableSection:
    rows = [
        (clock_time(change["at_timestamp"]), change["cluster"] or change["agent"], change["text"])
        for change in fleet["changes"]
    ]
    return TableSection(f"changed in the last hour: {len(rows)}", ("when", "cluster or agent", "what"), rows)
