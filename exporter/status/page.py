"""The status page: the document of ``/api/v1/status`` as HTML that needs no script and no other host."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from exporter.core.thresholds import UNOWNED, Owners
from exporter.journal.query import topics_of
from exporter.lso.next_step import CHECK_FIRST
from exporter.status.curves import curve
from exporter.status.filters import EVERYTHING, NO_OWNERS, Filter, hidden
from exporter.status.html import pieces
from exporter.status.verdict import NOBODY, by_cluster, is_new, verdict
from exporter.transactions.facts import NOTICEABLE_SECONDS
from exporter.views import documents
from exporter.views.columns import page_columns

MOST_CLUSTERS = 3
"""Clusters in full below the table of clusters."""
MOST = {
    "details": 5, "events": 50, "stalls": 100, "open": 50, "ends": 50, "failed": 50, "audits": 50, "sources": 100,
    "findings": 5, "names": 5, "applications": 50, "names_of_a_holder": 12,
}  # fmt: skip
"""Entries of each list of the page."""

Events = Sequence[Mapping[str, Any]]


def page_pieces(
    status: Mapping[str, Any],
    prefix: str = "",
    *,
    refresh: bool = True,
    shown: Filter = EVERYTHING,
    happened: Events | None = None,
    owners: Owners = NO_OWNERS,
    rolls: bool = False,
) -> Iterator[bytes]:
    """The page in pieces. ``prefix`` goes before every link; with ``refresh`` it loads itself anew every ten seconds.

    Several clusters are a table, the worst first; the first ``MOST_CLUSTERS`` of them follow in full.
    ``happened`` are the events in memory, the newest first; None where none are kept.
    With ``rolls`` each cluster has a link to the page on stopping brokers.
    With a filter the whole page, with its headline, is of the filtered status, and names the filter.
    """
    whole = {**status, "clusters": [_with_stalls(cluster) for cluster in status["clusters"]]}
    status = shown.applied(whole, owners)
    hidden_stalls = hidden(whole, status)
    rows = by_cluster(status)
    return pieces(
        "status.html",
        prefix,
        refresh=refresh,
        status=status,
        verdict=NOBODY if shown.clusters and not status["clusters"] else verdict(status, hidden_stalls),
        shown=shown,
        everything=EVERYTHING,
        shown_names=shown.names(),
        rows=[row for row, _ in rows],
        clusters=[cluster for _, cluster in rows[:MOST_CLUSTERS]],
        hidden_stalls=hidden_stalls,
        happened=None if happened is None else shown_events(happened, shown),
        event_place=event_place,
        curve=curve,
        by_holder=by_holder,
        views=documents,
        columns=page_columns,
        is_new=is_new,
        by_reason=by_reason,
        filter_of=lambda **name: Filter(
            frozenset({name["cluster"]} if "cluster" in name else shown.clusters),
            frozenset({name["application"]} if "application" in name else ()),
            frozenset({name["topic"]} if "topic" in name else ()),
            frozenset({name["owner"]} if "owner" in name else ()),
        ).query(),
        blocked_groups=blocked_groups,
        anchors=anchors,
        most=MOST,
        check_first=CHECK_FIRST,
        noticeable_distance=NOTICEABLE_SECONDS,
        failing_first=_failing_first,
        unowned=UNOWNED,
        rolls=rolls,
    )


def _with_stalls(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster, with each stall made once although it is looked at several times."""
    return {**cluster, "stalled_partitions": list(cluster["stalled_partitions"])}


def _failing_first(sources: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The sources in their order; those that do not answer first where not all are shown."""
    return sources if len(sources) <= MOST["sources"] else sorted(sources, key=lambda source: source["up"] is True)


def by_holder(stalls: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the stalls grouped by transaction, in the order of the first of each.

    Stalls with a line to copy, which is for one partition, and stalls with an unknown holder are groups of one. What is
    ignored comes last.
    """
    holders: dict[object, list[Mapping[str, Any]]] = {}
    for stall in sorted(stalls, key=lambda stall: stall.get("ignored") is not None):
        blocker = stall["blocker"]
        alone = stall["next_step"]["command"] or blocker["producer_id"] is None
        who = (blocker["kind"], blocker["transactional_id"], blocker["producer_id"], blocker["producer_epoch"])
        holders.setdefault((stall["topic"], stall["partition"]) if alone else who, []).append(stall)
    return list(holders.values())


def shown_events(happened: Events, shown: Filter) -> list[Mapping[str, Any]]:
    """Return the newest events that the filter shows."""
    query = shown.events()
    return list(itertools.islice((event for event in happened if query.matches(event)), MOST["events"]))


def event_place(event: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the topic to filter by, and the partitions of an event as a text."""
    subject, held = event["subject"], event["partitions"]
    topics = sorted(topics_of(event))
    first = f"{held[0]['topic']}-{held[0]['partition']}" if held else subject.get("topic", "")
    if "partition" in subject and not held:
        first = f"{first}-{subject['partition']}"
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return topics[0] if len(topics) == 1 else None, f"{first}{more}"


def anchors(cards: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return the id of each card, "" where a card before it has it: the links of its stalls lead there."""
    names = [card[0]["links"]["page"].partition("#")[2] for card in cards]
    return ["" if name in names[:place] else name for place, name in enumerate(names)]


def blocked_groups(stalls: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, str]] | None:
    """Return the groups that wait for the partitions of a card, worst first: name, withheld offsets and owner.

    None where the groups of none of the partitions were read.
    """
    known = [stall["blocked_groups"] for stall in stalls if stall["blocked_groups"] is not None]
    found: dict[tuple[str, str], int] = {}
    for group in (group for groups in known for group in groups):
        who = (group["group"], group["owner"])
        found[who] = found.get(who, 0) + group["blocked_offsets"]
    worst = sorted(found.items(), key=lambda group: (-group[1], group[0]))
    return [(name, offsets, owner) for (name, owner), offsets in worst] if known else None


def by_reason(ignored: Sequence[Mapping[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return the names of ignored subjects by kind and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for subject in ignored:
        found.setdefault((subject["kind"], subject["reason"]), []).append(subject["subject"])
    return found
