"""The inventory as ``transactions inventory`` prints and ``/api/v1/inventory`` serves it: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.durations import instant
from exporter.inventory.applications_in_log import ApplicationUse, Inventory, WrittenOutside
from exporter.transactions.machine.record_fields import V2

if TYPE_CHECKING:
    from exporter.status.command_documents import (
        ApplicationUseDocument,
        ClusterInventoryDocument,
        InventoryOutput,
        WrittenOutsideDocument,
    )

OwnerOf = Callable[[str], str]
"""The team of an application; "" for none."""


class ReadInventory(NamedTuple):
    """The inventory of a cluster, by name, as of this instant (Unix seconds)."""

    cluster: str
    found: Inventory
    as_of: float


def inventory_document(read: Sequence[ReadInventory], team: OwnerOf) -> InventoryOutput:
    """The inventories, one for each cluster."""
    return {"clusters": [_cluster(one.cluster, one.found, team, one.as_of) for one in read]}


def _cluster(cluster: str, found: Inventory, team: OwnerOf, as_of: float) -> ClusterInventoryDocument:
    return {
        "kafka_cluster": cluster,
        "as_of_timestamp": as_of,
        "seconds": found.seconds,
        "applications": [_application(application, found.seconds, team) for application in found.applications],
        "topics": [_topic(topic) for topic in found.topics],
        "not_asked": list(found.missing),
    }


def _application(application: ApplicationUse, seconds: float, team: OwnerOf) -> ApplicationUseDocument:
    ended = application.committed + application.aborted
    return {
        "application": application.application,
        "owner": team(application.application),
        "ids": application.ids,
        "committed": application.committed,
        "aborted": application.aborted,
        "transactions_per_second": round(ended / seconds, 4) if seconds else 0.0,
        "topics": sorted(application.topics),
        "groups": sorted(application.groups),
        "offsets_in_transactions": application.commits_offsets,
        "timeouts_seconds": list(application.timeouts),
        "ids_of_v1": sum(ids for version, ids in application.clients.items() if version < V2),
        "ids_of_v2": sum(ids for version, ids in application.clients.items() if version >= V2),
    }


def _topic(topic: WrittenOutside) -> WrittenOutsideDocument:
    return {
        "topic": topic.topic,
        "groups": list(topic.groups),
        "partitions": topic.partitions,
        "partitions_sampled": topic.sampled,
        "batches": topic.batches,
        "batches_outside": topic.outside if topic.sampled else None,
        "producer_ids": list(topic.producer_ids),
        "newest_outside": instant(topic.newest),
    }
