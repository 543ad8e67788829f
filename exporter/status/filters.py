"""Filters of the status page, ``/?cluster=prod&application=billing&owner=payments&q=orders``, where each key but the
last may be repeated; and of its document, ``/api/v1/status?without=open_transactions,unclean_ends``.

``topic=`` filters what happened only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

from exporter.core.thresholds import UNOWNED, Owners
from exporter.journal.query import EventQuery

MOST_NAMES = 20
_KEYS = ("cluster", "application", "topic", "owner")
MOST_CHARACTERS = 4000
MOST_SEARCHED = 250
"""Characters that are searched for: a topic has 249 at most."""
NO_OWNERS = Owners()
LONG_LISTS = frozenset({"open_transactions", "unclean_ends", "unclean_ids"})
"""Lists of a cluster that a reader of the document can leave out."""


class Filter(NamedTuple):
    """Names of clusters, applications and owners, and of topics of events; an empty set is all of them. ``search`` is a
    part of the name of a topic, a group, a transactional.id or an application, whatever its case.
    """

    clusters: frozenset[str] = frozenset()
    applications: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    search: str = ""

    @classmethod
    def parse(cls, query: str) -> Filter:
        """Return the filter of a URL's query. Other keys, and names beyond the limits, are ignored."""
        try:
            given = parse_qs(query[:MOST_CHARACTERS], max_num_fields=4 * MOST_NAMES)
        except ValueError:
            return cls()
        clusters, applications, topics, owners = (frozenset(given.get(key, ())[:MOST_NAMES]) for key in _KEYS)
        return cls(clusters, applications, topics, owners, given.get("q", [""])[0].strip()[:MOST_SEARCHED])

    def query(self, **more: str) -> str:
        """Return the query of a link that keeps the filter: "" or a question mark and what follows it."""
        pairs = [(key, name) for key, names in zip(_KEYS, self[:-1], strict=True) for name in sorted(names)]
        pairs += [("q", self.search)] if self.search else []
        pairs += list(more.items())
        return f"?{urlencode(pairs)}" if pairs else ""

    @property
    def of_applications(self) -> bool:
        """Return whether it leaves out applications."""
        return bool(self.applications or self.owners or self.search)

    def applied(self, status: Mapping[str, Any], owners: Owners = NO_OWNERS) -> dict[str, Any]:
        """Return the filtered status. Sources, Connect, Spark and posture are filtered by cluster only."""
        clusters = [
            self._of_applications(cluster, owners)
            for cluster in status["clusters"]
            if not self.clusters or cluster["name"] in self.clusters
        ]
        return {**status, "clusters": clusters}

    def names(self) -> list[str]:
        """Return what is shown, as texts such as ``cluster prod``."""
        shown = [
            f"{key} {name}{' in what happened' if key == 'topic' else ''}"
            for key, names in zip(_KEYS, self[:-1], strict=True)
            for name in sorted(names)
        ]
        searched = f"topics, groups, ids and applications with “{self.search}” in their names"
        return [*shown, searched] if self.search else shown

    def events(self) -> EventQuery:
        """Return the query of the events that the filter shows."""
        return EventQuery(self.clusters, self.applications, self.topics, self.owners)

    def _of_applications(self, cluster: Mapping[str, Any], owners: Owners) -> dict[str, Any]:
        if not self.of_applications:
            return dict(cluster)

        wanted = self.search.casefold()

        def named(*names: str) -> bool:
            return not wanted or any(wanted in name.casefold() for name in names)

        def mine(name: str, *others: str) -> bool:
            chosen = not self.applications or name in self.applications
            return (
                named(name, *others) and chosen and (not self.owners or owners.of("application", name) in self.owners)
            )

        def concerns(stall: Mapping[str, Any]) -> bool:
            application = stall["blocker"]["application"]
            blocked = stall["blocked_groups"] or ()
            groups = (*stall["waiting_groups"], *(group["group"] for group in blocked))
            # Any group, of any owner, may be among those that are not listed.
            unlisted = (stall["blocked_group_count"] or 0) > len(blocked)
            if not unlisted and not named(stall["topic"], stall["blocker"]["transactional_id"], application, *groups):
                return False
            # A stall with an unknown holder may belong to any application, and so to any owner.
            if not application or mine(application, self.search):
                return True
            if self.applications and application not in self.applications:
                return False
            others = {*(group["owner"] for group in blocked), owners.of("topic", stall["topic"])} - {UNOWNED}
            return unlisted or not self.owners.isdisjoint(others)

        def opened(transaction: Mapping[str, Any]) -> bool:
            # Not all its partitions are listed: any topic may be among the others.
            others = transaction["partition_count"] > len(transaction["partitions"])
            topics = (partition["topic"] for partition in transaction["partitions"])
            unlisted = (self.search,) if others else ()
            return mine(transaction["application"], transaction["transactional_id"], *topics, *unlisted)

        hour = cluster["last_hour"]
        return {
            **cluster,
            "stalled_partitions": [partition for partition in cluster["stalled_partitions"] if concerns(partition)],
            "open_transactions": [row for row in cluster["open_transactions"] if opened(row)],
            "ignored": [
                subject
                for subject in cluster["ignored"]
                if subject["kind"] != "application" or mine(subject["subject"])
            ],
            "unclean_ends": [
                end for end in cluster["unclean_ends"] if mine(end["application"], end["transactional_id"])
            ],
            "unclean_ids": [
                unclean
                for unclean in cluster["unclean_ids"]
                if mine(unclean["application"], unclean["transactional_id"])
            ],
            "last_hour": hour
            and {
                **hour,
                "applications": [a for a in hour["applications"] if mine(a["application"])],
                "fence_storms": [
                    storm for storm in hour["fence_storms"] if mine(storm["application"], storm["transactional_id"])
                ],
            },
        }


EVERYTHING = Filter()


def hidden(whole: Mapping[str, Any], shown: Mapping[str, Any]) -> int:
    """Return how many stalled partitions of a status are not in the filtered one."""
    every, left = (
        sum(len(cluster["stalled_partitions"]) for cluster in status["clusters"]) for status in (whole, shown)
    )
    return every - left


def lists_left_out(query: str) -> frozenset[str]:
    """Return the lists that ``without`` in a URL's query names; other names are ignored."""
    try:
        given = parse_qs(query[:MOST_CHARACTERS], max_num_fields=2 * MOST_NAMES).get("without", ())
    except ValueError:
        return frozenset()
    return LONG_LISTS.intersection(name for names in given for name in names.split(","))


def without(status: Mapping[str, Any], lists: frozenset[str]) -> Mapping[str, Any]:
    """Return the status whose clusters do not have these lists: a list that is absent is not empty."""
    if not lists:
        return status
    clusters = [{key: value for key, value in cluster.items() if key not in lists} for cluster in status["clusters"]]
    return {**status, "clusters": clusters}
