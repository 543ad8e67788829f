"""Filters of the status page: ``/?cluster=prod&application=billing&owner=payments``; each key may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

from exporter.core.owners import UNOWNED, Owners

MOST_NAMES = 20
MOST_CHARACTERS = 4000
NO_OWNERS = Owners()


class Filter(NamedTuple):
    """Names of clusters, applications and owners; an empty set is all of them."""

    clusters: frozenset[str] = frozenset()
    applications: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, query: str) -> Filter:
        """Return the filter of a URL's query. Other keys, and names beyond the limits, are ignored."""
        try:
            given = parse_qs(query[:MOST_CHARACTERS], max_num_fields=3 * MOST_NAMES)
        except ValueError:
            return cls()
        return cls(*(frozenset(given.get(key, ())[:MOST_NAMES]) for key in ("cluster", "application", "owner")))

    def query(self, **more: str) -> str:
        """Return the query of a link that keeps the filter: "" or a question mark and what follows it."""
        pairs = [("cluster", name) for name in sorted(self.clusters)]
        pairs += [("application", name) for name in sorted(self.applications)]
        pairs += [("owner", name) for name in sorted(self.owners)]
        pairs += list(more.items())
        return f"?{urlencode(pairs)}" if pairs else ""

    @property
    def of_applications(self) -> bool:
        """Return whether it leaves out applications."""
        return bool(self.applications or self.owners)

    def applied(self, status: Mapping[str, Any], owners: Owners = NO_OWNERS) -> dict[str, Any]:
        """Return the filtered status. Sources, Connect, Spark and posture are filtered by cluster only."""
        clusters = [
            self._of_applications(each, owners)
            for each in status["clusters"]
            if not self.clusters or each["name"] in self.clusters
        ]
        return {**status, "clusters": clusters}

    def hidden(self, status: Mapping[str, Any], owners: Owners = NO_OWNERS) -> int:
        """Return how many stalled partitions of the status the filter hides."""
        shown = sum(len(each["stalled_partitions"]) for each in self.applied(status, owners)["clusters"])
        return sum(len(each["stalled_partitions"]) for each in status["clusters"]) - shown

    def _of_applications(self, cluster: Mapping[str, Any], owners: Owners) -> dict[str, Any]:
        if not self.of_applications:
            return dict(cluster)

        def mine(name: str) -> bool:
            named = not self.applications or name in self.applications
            return named and (not self.owners or owners.of("application", name) in self.owners)

        def concerns(stall: Mapping[str, Any]) -> bool:
            # A stall with an unknown holder may belong to any application: every filter shows it.
            application = stall["blocker"]["application"]
            if not application or mine(application):
                return True
            if self.applications and application not in self.applications:
                return False
            readers = {each["owner"] for each in stall["blocked_groups"] or ()}
            others = {*readers, owners.of("topic", stall["topic"])} - {UNOWNED}
            return not self.owners.isdisjoint(others)

        hour = cluster["last_hour"]
        return {
            **cluster,
            "stalled_partitions": [each for each in cluster["stalled_partitions"] if concerns(each)],
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
