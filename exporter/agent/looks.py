"""Questions that the endpoint answers by asking one cluster: whether a broker may be stopped, and who writes where.

Each is answered within ``LOOK_SECONDS``, from the facts of the agent's own sources where they have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from exporter.bounds.text import some
from exporter.cluster.cluster import Cluster
from exporter.core.owners import UNOWNED, Owners
from exporter.inventory.facts import Inventory
from exporter.inventory.source import read_inventory
from exporter.journal.query import QueryError
from exporter.kafka.client import AskError
from exporter.model import Deadline, Facts
from exporter.roll.facts import BrokerRoll
from exporter.roll.logged import logged_evidence
from exporter.roll.rules import roll_of
from exporter.roll.source import read_evidence
from exporter.status.inventory_documents import cluster_inventory_document
from exporter.status.look_query import LookQuery, RefusedLookError
from exporter.status.roll_documents import cluster_roll_document
from exporter.transactions.facts import CoordinatorTime
from exporter.transactions.source.log_range import RangeConsumer

if TYPE_CHECKING:
    from exporter.status.command_documents import ClusterInventoryDocument, InventoryOutput, RollOutput

LOOK_SECONDS = 20.0
MOST_RECORDS = 200_000
"""Records of the transaction log that one inventory reads: 2 s of one core."""
MOST_BROKERS = 100
"""Brokers of one answer, each with some hundred rows."""
_QUEUED_KBYTES = 4096
_SHOWN = 10


class LookedAt(NamedTuple):
    """A cluster that is watched, and the facts of its sources."""

    cluster: Cluster
    facts: Facts


class ClusterLooks:
    """``watched`` returns the clusters by name, ``owners`` those of the settings in force. Any thread may ask."""

    def __init__(self, watched: Callable[[], Mapping[str, LookedAt]], owners: Callable[[], Owners]) -> None:
        self._watched, self._owners = watched, owners

    def roll(self, query: LookQuery) -> RollOutput:
        """The document of ``/api/v1/roll``. Raises QueryError."""
        cluster, facts = self._asked(query)
        as_of = cluster.clock.wall()
        time = facts.get(CoordinatorTime) or CoordinatorTime()
        rolls: list[BrokerRoll] = []
        not_asked: list[str] = []
        try:
            logged = logged_evidence(facts, max(as_of, time.advising(as_of)), cluster.clock.monotonic())
            evidence = read_evidence(cluster, logged, Deadline.after(LOOK_SECONDS))
            brokers = sorted(evidence.brokers) if query.broker is None else [query.broker]
            rolls = [roll_of(evidence, broker, query.outage) for broker in brokers[:MOST_BROKERS]]
            if len(brokers) > MOST_BROKERS:
                not_asked = [f"{len(brokers) - MOST_BROKERS} more brokers: ask with broker="]
        except AskError as error:
            not_asked = [error.fault.detail]
        return {"clusters": [cluster_roll_document(cluster.name, query.outage, rolls, not_asked, as_of)]}

    def inventory(self, query: LookQuery) -> InventoryOutput:
        """The document of ``/api/v1/inventory``. Raises QueryError, and RefusedLookError where the log is not read."""
        cluster, _ = self._asked(query)
        as_of = cluster.clock.wall()
        connect = partial(RangeConsumer, cluster.properties, _QUEUED_KBYTES)
        try:
            found = read_inventory(cluster, connect, Deadline.after(LOOK_SECONDS), MOST_RECORDS)
        except AskError as error:
            refused = Inventory(0.0, (), (), (error.fault.detail,))
            raise RefusedLookError({"clusters": [self._inventory(cluster, refused, as_of)]}) from error
        return {"clusters": [self._inventory(cluster, found, as_of)]}

    def _inventory(self, cluster: Cluster, found: Inventory, as_of: float) -> ClusterInventoryDocument:
        return cluster_inventory_document(cluster.name, found, self._team, as_of)

    def _team(self, application: str) -> str:
        owner = self._owners().of("application", application)
        return "" if owner == UNOWNED else owner

    def named(self, query: LookQuery) -> LookQuery:
        """The query with the name of the cluster where there is only one. Raises QueryError for an unknown one."""
        names = self._watched().keys()
        name = next(iter(names)) if query.cluster is None and len(names) == 1 else query.cluster
        if name is None or name not in names:
            raise QueryError(f"cluster is one of {some(sorted(names), _SHOWN)}.")
        return query._replace(cluster=name)

    def _asked(self, query: LookQuery) -> LookedAt:
        named = self.named(query).cluster
        found = self._watched().get(named or "")
        if found is None:  # the settings were reread meanwhile
            raise QueryError("this cluster is no longer watched.")
        return found
