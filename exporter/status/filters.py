"""Filters of the status page, ``/?cluster=prod&application=billing``, where each key may be repeated; and of its
document, ``/api/v1/status?without=open_transactions,unclean_ends``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

MOST_NAMES = 20
MOST_CHARACTERS = 4000
LONG_LISTS = frozenset({"open_transactions", "unclean_ends", "unclean_ids"})
"""Lists of a cluster that a reader of the document can leave out."""


class Filter(NamedTuple):
    """Names of clusters and applications; an empty set is all of them."""

    clusters: frozenset[str] = frozenset()
    applications: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, query: str) -> Filter:
        """Return the filter of a URL's query. Other keys, and names beyond the limits, are ignored."""
        try:
            given = parse_qs(query[:MOST_CHARACTERS], max_num_fields=2 * MOST_NAMES)
        except ValueError:
            return cls()
        return cls(
            frozenset(given.get("cluster", ())[:MOST_NAMES]), frozenset(given.get("application", ())[:MOST_NAMES])
        )

    def query(self, **more: str) -> str:
        """Return the query of a link that keeps the filter: "" or a question mark and what follows it."""
        pairs = [("cluster", name) for name in sorted(self.clusters)]
        pairs += [("application", name) for name in sorted(self.applications)]
        pairs += list(more.items())
        return f"?{urlencode(pairs)}" if pairs else ""

    def applied(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return the filtered status. Sources, Connect, Spark and posture are filtered by cluster only."""
        clusters = [
            self._of_applications(each)
            for each in status["clusters"]
            if not self.clusters or each["name"] in self.clusters
        ]
        return {**status, "clusters": clusters}

    def hidden(self, status: Mapping[str, Any]) -> int:
        """Return how many stalled partitions of the status the filter hides."""
        shown = sum(len(each["stalled_partitions"]) for each in self.applied(status)["clusters"])
        return sum(len(each["stalled_partitions"]) for each in status["clusters"]) - shown

    def _of_applications(self, cluster: Mapping[str, Any]) -> dict[str, Any]:
        if not self.applications:
            return dict(cluster)

        def mine(name: str | None) -> bool:
            # A stall with an unknown holder may belong to any application: every filter shows it.
            return name is None or name in self.applications

        hour = cluster["last_hour"]
        return {
            **cluster,
            "stalled_partitions": [
                s for s in cluster["stalled_partitions"] if mine(s["blocker"]["application"] or None)
            ],
            "open_transactions": [t for t in cluster["open_transactions"] if mine(t["application"])],
            "ignored": [each for each in cluster["ignored"] if each["kind"] != "application" or mine(each["subject"])],
            "unclean_ends": [end for end in cluster["unclean_ends"] if mine(end["application"])],
            "unclean_ids": [each for each in cluster["unclean_ids"] if mine(each["application"])],
            "last_hour": hour
            and {
                **hour,
                "applications": [a for a in hour["applications"] if mine(a["application"])],
                "fence_storms": [storm for storm in hour["fence_storms"] if mine(storm["application"])],
            },
        }


EVERYTHING = Filter()


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
    clusters = [{key: each for key, each in cluster.items() if key not in lists} for cluster in status["clusters"]]
    return {**status, "clusters": clusters}
