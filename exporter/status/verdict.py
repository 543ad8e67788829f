"""Say in one line what is wrong with all clusters that an agent watches, and with one of them. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.bounds.text import count_of, some
from exporter.catalogue import MARKERS_AUDIT
from exporter.core.durations import format_age
from exporter.model import Reason
from exporter.posture.check import UNMADE_TOPIC

MOST_NAMES = 5
REFUSALS = frozenset({str(Reason.AUTHORIZATION), str(Reason.AUTHENTICATION)})
LEVELS = ("bad", "blind", "warn", "good")
"""Levels of a verdict, the worst first."""


class PageVerdict(NamedTuple):
    """The first line of the page. ``level`` is good, bad, warn, or blind for unknown."""

    level: str
    text: str
    details: tuple[str, ...] = ()


NOBODY = PageVerdict("blind", "No cluster of this name is watched")


def verdict(status: Mapping[str, Any], hidden: int = 0) -> PageVerdict:
    """The most important state; good only where every request was answered. ``hidden`` are the stalled partitions that
    a filter took out of the status.
    """
    clusters = status["clusters"]
    every = [stall for cluster in clusters for stall in cluster["stalled_partitions"]]
    stalled = [stall for stall in every if stall["ignored"] is None]
    ignored = len(every) - len(stalled)
    beside = f" but {count_of(ignored, 'partition')} of topics that are ignored" if ignored else ""
    beside += f" but {count_of(hidden, 'partition')} that the filter hides" if hidden else ""
    blind = tuple(_blind_spots(clusters))
    failures = (*_storms(clusters), *_failures(clusters, status["generated_at_timestamp"]))
    warnings = tuple(_warnings(clusters))
    early = tuple(_early(clusters)) if status["ready"] else ()
    details = (*failures, *warnings, *blind, *early)
    if stalled:
        hanging = sum(stall["blocker"]["kind"] == "hanging" for stall in stalled)
        tail = f", {hanging} by a hanging transaction" if hanging else ""
        unmarked = sum(stall["blocker"]["kind"] == "unmarked" for stall in stalled)
        tail += f", {unmarked} by a committed transaction that lacks its marker" if unmarked else ""
        return PageVerdict("bad", f"{count_of(len(stalled), 'partition')} stalled{tail}", details)
    if failures:
        return PageVerdict("bad", failures[0], details[1:])
    if blind:
        return PageVerdict("blind", "Cannot see everything", (*blind, *warnings, *early))
    if warnings:
        return PageVerdict("warn", warnings[0], details[1:])
    if early:
        return PageVerdict("blind", "Starting: too early to know every stall", early)
    if not status["ready"]:
        return PageVerdict("blind", "Starting: not every source has answered yet")
    down = any(source["up"] is False for cluster in clusters for source in cluster["sources"])
    answers = "every source answers" + (" but those that are ignored" if down else "")
    return PageVerdict("good", "All fine", (f"No partition is stalled{beside}, and {answers}.",))


def _early(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say how long was looked at last stable offsets, while that is too short to know every stall."""
    new = [cluster["known"] for cluster in clusters if is_new(cluster["known"])]
    if new:
        least = min(new, key=lambda known: known["stalls_watched_seconds"])
        looked, after = (format_age(least[key]) for key in ("stalls_watched_seconds", "stall_after_seconds"))
        found = any(cluster["stalled_partitions"] for cluster in clusters)
        known = "More partitions may be stalled" if found else "No partition is known to be stalled"
        yield f"{known}, after {looked} of looking: a stall is known after {after}."


def _storms(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for transactional.ids with a fence storm."""
    storms = [storm for cluster in clusters if cluster["last_hour"] for storm in cluster["last_hour"]["fence_storms"]]
    if storms:
        worst = max(storms, key=lambda storm: (storm["fences"], storm["transactional_id"]))
        more = f" and {len(storms) - 1} more" if len(storms) > 1 else ""
        yield f"Fence storm: {worst['transactional_id']}{more}, fenced {worst['fences']} times in 10 minutes"


def _warnings(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Conditions that may be intended, a line for each kind: applications that stopped, settings."""
    applications = [
        application
        for cluster in clusters
        if cluster["last_hour"]
        for application in cluster["last_hour"]["applications"]
    ]
    if stopped := sorted(
        application["application"] for application in applications if application["stopped_minutes"] is not None
    ):
        verb = "has" if len(stopped) == 1 else "have"
        yield f"{count_of(len(stopped), 'application')} {verb} stopped committing: {some(stopped, MOST_NAMES)}"
    if failed := sum(check["name"] != UNMADE_TOPIC for check in _failed_checks(clusters)):
        yield f"{count_of(failed, 'check')} of the settings {'fails' if failed == 1 else 'fail'}"


def _failed_checks(clusters: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (check for cluster in clusters if cluster["posture"] for check in cluster["posture"]["failed"])


_AN = {"abort": "an abort", "commit": "a commit"}


def _failures(clusters: Sequence[Mapping[str, Any]], now: float) -> Iterator[str]:
    """Internal topics that cannot be made, torn transactions, and failures of engines and audits: a line for each."""
    for cluster in clusters:
        for check in _failed_checks([cluster]):
            if check["name"] == UNMADE_TOPIC:
                yield f"{cluster['name'] or cluster['bootstrap_servers']}: {check['found']}"
    torn = [marker for cluster in clusters for marker in cluster["torn_markers"] or ()]
    if torn:
        first = torn[-1]
        what = "no marker" if first["found"] == "nothing" else f"the marker of {_AN[first['found']]}"
        more = f", and {len(torn) - 1} more" if len(torn) > 1 else ""
        yield (
            f"Torn: {first['transactional_id']} was decided {first['decided'].upper()}, and"
            f" {first['topic']}-{first['partition']} has {what}{more}"
            f" (audit markers, {format_age(max(0.0, now - first['audited_timestamp']))} ago)"
        )
    if failed := sum(len(connect["failed"]) for cluster in clusters for connect in cluster["connect"]):
        yield f"Failed in Connect, connectors and tasks: {failed}"
    if failed := sum(query["state"] == "failed" for cluster in clusters for query in cluster["spark"]):
        yield f"Failed queries of Spark: {failed}"
    audits = [audit for cluster in clusters for audit in cluster["audits"] if audit["audit"] != MARKERS_AUDIT]
    if found := sum(audit["verdict"] == "findings" for audit in audits):
        yield f"Audits with findings: {found}"


def _blind_spots(clusters: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for cluster in clusters:
        name = cluster["name"] or cluster["bootstrap_servers"]
        asked = [source for source in cluster["sources"] if source["ignored"] is None]
        refused = {source["source"] for source in asked if any(f["reason"] in REFUSALS for f in source["faults"])}
        if refused:
            verb = "is" if len(refused) == 1 else "are"
            yield f"{name}: {', '.join(sorted(refused))} {verb} refused: a grant or a password is missing"
        down = sorted({source["source"] for source in asked if source["up"] is False} - refused)
        if down:
            yield f"{name}: {', '.join(down)} {'does' if len(down) == 1 else 'do'} not answer in full"
        unknown = cluster["posture"]["unknown"] if cluster["posture"] else ()
        yield from (f"{name}: {check['error']}" for check in unknown if check["name"] == UNMADE_TOPIC)
        if not cluster["known"]["stalled_partitions"] and any(
            source["up"] is not None for source in cluster["sources"]
        ):
            yield f"{name}: whether a partition is stalled is not known"


def is_new(known: Mapping[str, Any]) -> bool:
    """Return whether the agent has not read last stable offsets for long enough to know every stall."""
    looked = known["stalls_watched_seconds"]
    return looked is not None and looked < known["stall_after_seconds"]


class ClusterVerdict(NamedTuple):
    """One cluster in the table of clusters. ``text`` is what is wrong in one line, ``others`` how many more lines."""

    name: str
    level: str
    text: str
    others: int
    stalled: int | None
    """Stalled partitions that are not ignored; None where they are not known."""
    brokers: int | None


def by_cluster(status: Mapping[str, Any]) -> list[tuple[ClusterVerdict, Mapping[str, Any]]]:
    """Return the clusters with their verdicts: by level, the one with most stalled partitions first, then by name."""
    found = [(_cluster_verdict(status, cluster), cluster) for cluster in status["clusters"]]
    return sorted(found, key=lambda row: (LEVELS.index(row[0].level), -(row[0].stalled or 0), row[0].name))


def _cluster_verdict(status: Mapping[str, Any], cluster: Mapping[str, Any]) -> ClusterVerdict:
    ready = all(source["up"] is not None for source in cluster["sources"])
    found = verdict({**status, "clusters": [cluster], "ready": ready})
    lines = [found.text, *found.details]
    if found.level == "blind" and found.details:
        lines = [
            detail.removeprefix(f"{cluster['name'] or cluster['bootstrap_servers']}: ") for detail in found.details
        ]
    elif found.level == "good":
        lines = [found.text]
    return ClusterVerdict(
        cluster["name"],
        found.level,
        lines[0],
        len(lines) - 1,
        sum(stall["ignored"] is None for stall in cluster["stalled_partitions"])
        if cluster["known"]["stalled_partitions"]
        else None,
        cluster["brokers"],
    )
