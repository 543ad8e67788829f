"""Questions that the endpoint answers by asking one cluster: may a broker be stopped, which applications write where.

Each is answered within ``ANSWER_SECONDS``, from the facts of the agent's own sources where they have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from exporter.bounds.text import some
from exporter.cluster import Cluster
from exporter.core.thresholds import UNOWNED, Owners
from exporter.inventory.applications_in_log import Inventory
from exporter.inventory.source import read_inventory
from exporter.journal.query import QueryError
from exporter.kafka.client import AskError
from exporter.model import Deadline, Facts
from exporter.roll.coordination import logged_evidence
from exporter.roll.facts import BrokerRoll
from exporter.roll.partitions import roll_of
from exporter.roll.source import read_evidence
from exporter.status.query_pages import ClusterQuery, RefusedQueryError
from exporter.transactions.facts import CoordinatorTime
from exporter.transactions.source.log_range import RangeConsumer
from exporter.views.applications import ReadInventory, inventory_document
from exporter.views.rolls import cluster_roll_document

if TYPE_CHECKING:
    from exporter.views.applications import InventoryOutput
    from exporter.views.rolls import RollOutput

ANSWER_SECONDS = 20.0
MOST_RECORDS = 200_000
"""Records of the transaction log that one inventory reads: 2 s of one core."""
MOST_BROKERS = 100
"""Brokers of one answer, each with some hundred rows."""
MOST_INVENTORIES = 10
"""Clusters of one answer; a further one is asked for by its name."""
_QUEUED_KBYTES = 4096
_SHOWN = 10


class WatchedCluster(NamedTuple):
    """A cluster that is watched, and the facts of its sources."""

    cluster: Cluster
    facts: Facts


class ClusterAnswers:
    """``watched`` returns the clusters by name, ``owners`` those of the settings in force. Any thread may ask."""

    def __init__(self, watched: Callable[[], Mapping[str, WatchedCluster]], owners: Callable[[], Owners]) -> None:
        self._watched, self._owners = watched, owners

    def roll(self, query: ClusterQuery) -> RollOutput:
        """The document of ``/api/v1/roll``. Raises QueryError."""
        cluster, facts = self._asked(query)
        as_of = cluster.clock.wall()
        time = facts.get(CoordinatorTime) or CoordinatorTime()
        rolls: list[BrokerRoll] = []
        not_asked: list[str] = []
        try:
            logged = logged_evidence(facts, max(as_of, time.advising(as_of)), cluster.clock.monotonic())
            evidence = read_evidence(cluster, logged, Deadline.after(ANSWER_SECONDS))
            brokers = sorted(evidence.brokers) if query.broker is None else [query.broker]
            rolls = [roll_of(evidence, broker, query.outage) for broker in brokers[:MOST_BROKERS]]
            if len(brokers) > MOST_BROKERS:
                not_asked = [f"{len(brokers) - MOST_BROKERS} more brokers: ask with broker="]
        except AskError as error:
            not_asked = [error.fault.detail]
        return {"clusters": [cluster_roll_document(cluster.name, query.outage, rolls, not_asked, as_of)]}

    def inventory(self, query: ClusterQuery) -> InventoryOutput:
        """The document of ``/api/v1/inventory``: of all clusters where none is named. Raises QueryError, and
        RefusedQueryError where the log of one is not read.
        """
        named = self.named(query).cluster
        every = self._watched()
        asked = [cluster for name, cluster in every.items() if named in {None, name}]
        deadline = Deadline.after(ANSWER_SECONDS)
        read: list[ReadInventory] = []
        refused = False
        for cluster, _ in asked[:MOST_INVENTORIES]:
            as_of = cluster.clock.wall()
            connect = partial(RangeConsumer, cluster.properties, _QUEUED_KBYTES)
            # One that does not answer leaves time for those after it.
            share = deadline.within(deadline.remaining() / (min(len(asked), MOST_INVENTORIES) - len(read)))
            try:
                found = read_inventory(cluster, connect, share, MOST_RECORDS)
            except AskError as error:
                found, refused = Inventory(0.0, (), (), (error.fault.detail,)), True
            read.append(ReadInventory(cluster.name, found, as_of))
        for cluster, _ in asked[MOST_INVENTORIES:]:
            left_out = Inventory(0.0, (), (), ("too many clusters for one answer: ask with cluster=",))
            read.append(ReadInventory(cluster.name, left_out, cluster.clock.wall()))
        document = inventory_document(read, self._team)
        if refused:
            raise RefusedQueryError(document)
        return document

    def _team(self, application: str) -> str:
        owner = self._owners().of("application", application)
        return "" if owner == UNOWNED else owner

    def named(self, query: ClusterQuery) -> ClusterQuery:
        """The query with the name of the cluster where there is only one. Raises QueryError for an unknown one."""
        names = self._watched().keys()
        if not names or query.cluster not in {None, *names}:
            raise _unknown(names)
        return query._replace(cluster=next(iter(names))) if len(names) == 1 else query

    def _asked(self, query: ClusterQuery) -> WatchedCluster:
        watched = self._watched()
        found = watched.get(self.named(query).cluster or "")
        if found is None:
            raise _unknown(watched)
        return found


def _unknown(names: Iterable[str]) -> QueryError:
    return QueryError(f"cluster is one of {some(sorted(names), _SHOWN)}.")
