"""The applications of a cluster as ``applications`` prints and ``/api/v1/inventory`` serves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

from typing_extensions import TypedDict

from exporter.bounds.text import some
from exporter.core.documents import document_of
from exporter.core.durations import instant
from exporter.inventory.applications_in_log import ApplicationUse, Inventory, WrittenOutside
from exporter.transactions.transaction import V2
from exporter.views.columns import View, ViewColumn, label, number

MOST_NAMES = 3


class GroupedIdsDocument(TypedDict):
    """The ids that one rule assigns to an application."""

    kind: str
    rule: str
    ids: int
    example: str


def _clients(application: View) -> str:
    generations = (("V1", application["ids_of_v1"]), ("V2", application["ids_of_v2"]))
    return ", ".join(f"{count} {word}" for word, count in generations if count) or "?"


def _timeouts(limits: Sequence[float]) -> str:
    return "-".join(f"{limit:g} s" for limit in dict.fromkeys((*limits[:1], *limits[-1:]))) or "?"


def _groups(application: View) -> str:
    return some(application["groups"], MOST_NAMES) or ("?" if application["offsets_in_transactions"] else "-")


def _rules(rules: Sequence[View] | None) -> list[str]:
    return [f"{rule['ids']} by {rule['rule']} ({rule['kind']}), such as {rule['example']}" for rule in rules or ()]


class ApplicationUseDocument(TypedDict):
    """An application that writes in transactions."""

    application: Annotated[str, label("application")]
    owner: Annotated[str, ViewColumn("owner", lambda owner: owner or "-")]
    """"" where no entry of ``owners`` has it."""
    ids: Annotated[int, number("ids")]
    """In the part of the log that was read."""
    transactions_per_second: Annotated[float, ViewColumn("per second", lambda rate: f"{rate:g}", number=True)]
    committed: int
    """At least: compaction takes records of the log."""
    aborted: Annotated[int, number("aborted")]
    ids_of_v1: Annotated[int, ViewColumn("clients", _clients, whole=True)]
    """Ids whose client speaks a protocol of before Transactions V2, or did not write."""
    ids_of_v2: int
    timeouts_seconds: Annotated[list[float], ViewColumn("timeout", _timeouts)]
    topics: Annotated[list[str], ViewColumn("topics", lambda topics: some(topics, MOST_NAMES))]
    groups: Annotated[list[str], ViewColumn("groups", _groups, whole=True)]
    """Groups whose offsets it commits in transactions, as far as the newest commits show."""
    offsets_in_transactions: bool
    rules: Annotated[list[GroupedIdsDocument] | None, ViewColumn("ids by rule", _rules)]
    """All its ids by the rule that assigns them to it; null where the coordinators were not asked."""


class WrittenOutsideDocument(TypedDict):
    """A topic that transactions write to and groups read, by its newest batches."""

    topic: str
    groups: list[str]
    """Groups with committed offsets; brokers do not know which of them read read_committed."""
    partitions: int
    partitions_sampled: int
    batches: int
    batches_outside: int | None
    """Batches written without a transaction; null where none could be read. 0 says nothing of what was not sampled."""
    producer_ids: list[int]
    """Of these batches, where their producer is idempotent; ten of a partition at most."""
    newest_outside: str | None


class InventorySection(TypedDict):
    """One cluster."""

    as_of_timestamp: float
    seconds: float
    """The part of the log that was read."""
    applications: list[ApplicationUseDocument]
    topics: list[WrittenOutsideDocument]
    not_asked: list[str]


class ClusterInventoryDocument(InventorySection):
    """One cluster, with its name."""

    kafka_cluster: str


class InventoryOutput(TypedDict):
    """``applications``, and ``/api/v1/inventory``."""

    clusters: list[ClusterInventoryDocument]


OwnerOf = Callable[[str], str]
"""The team of an application; "" for none."""
_UNUSED = ApplicationUse("", 0, 0, 0, frozenset(), (), {}, commits_offsets=False)


class ReadInventory(NamedTuple):
    """The inventory of a cluster, by name, as of this instant (Unix seconds)."""

    cluster: str
    found: Inventory
    as_of: float


def inventory_document(read: Sequence[ReadInventory], team: OwnerOf) -> InventoryOutput:
    """The inventories, one for each cluster."""
    return {
        "clusters": [{"kafka_cluster": one.cluster, **inventory_section(one.found, team, one.as_of)} for one in read]
    }


def inventory_section(found: Inventory, team: OwnerOf, as_of: float) -> InventorySection:
    """The inventory of one cluster: applications by the log, then those of which only ids are known."""
    used = {application.application for application in found.applications}
    idle = dict.fromkeys(ids.application for ids in found.grouped or () if ids.application not in used)
    applications = (*found.applications, *(_UNUSED._replace(application=name) for name in idle))
    return {
        "as_of_timestamp": as_of,
        "seconds": found.seconds,
        "applications": [_application(application, found, team) for application in applications],
        "topics": [_topic(topic) for topic in found.topics],
        "not_asked": list(found.missing),
    }


def _application(application: ApplicationUse, found: Inventory, team: OwnerOf) -> ApplicationUseDocument:
    ended = application.committed + application.aborted
    rules = [ids for ids in found.grouped or () if ids.application == application.application]
    return {
        "application": application.application,
        "owner": team(application.application),
        "ids": application.ids,
        "transactions_per_second": round(ended / found.seconds, 4) if found.seconds else 0.0,
        "committed": application.committed,
        "aborted": application.aborted,
        "ids_of_v1": sum(ids for version, ids in application.clients.items() if version < V2),
        "ids_of_v2": sum(ids for version, ids in application.clients.items() if version >= V2),
        "timeouts_seconds": list(application.timeouts),
        "topics": sorted(application.topics),
        "groups": sorted(application.groups),
        "offsets_in_transactions": application.commits_offsets,
        "rules": None if found.grouped is None else [document_of(GroupedIdsDocument, ids) for ids in rules],
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
