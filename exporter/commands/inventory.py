"""``transactions inventory``: which applications write in transactions, where to, and who writes beside them."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from functools import partial
from typing import Any

from exporter.bounds.text import printable, some
from exporter.cluster.cluster import Cluster
from exporter.commands.clusters import opened
from exporter.commands.output import print_json, print_not_asked, print_table, say
from exporter.commands.owners import OwnerOf, configured, owner_of
from exporter.inventory.facts import ApplicationUse, Inventory, WrittenOutside
from exporter.inventory.source import read_inventory
from exporter.kafka.client import AskError
from exporter.model import Deadline
from exporter.status.command_documents import (
    ApplicationUseDocument,
    ClusterInventoryDocument,
    WrittenOutsideDocument,
)
from exporter.transactions.decided.decisions import V2
from exporter.transactions.source.log_range import RangeConsumer

CLEAN, FOUND, UNKNOWN = 0, 1, 2
MOST_NAMES = 3
_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions inventory --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions inventory --config /etc/kafka-eos-exporter.yml --output json

Reads the last hour of __transaction_state, which needs READ on it, and the newest batches of the topics that
transactions write to and groups read, at most 64 KiB of each partition: what was written before is not known. Brokers
do not know which groups read read_committed.

exit codes: 0 nothing is written outside of transactions, as far as was sampled; 1 found; 2 could not be read
"""


def add_to(looks: Any) -> argparse.ArgumentParser:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions inventory``."""
    parser: argparse.ArgumentParser = looks.add_parser(
        "inventory",
        help="applications with their topics, groups, rates, timeouts, client generation and owner",
        description="List the applications that write in transactions, and topics that are also written without one.",
        epilog=_EXAMPLES,
    )
    return parser


def command(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit code."""
    team = owner_of(configured(options))
    documents: list[ClusterInventoryDocument] = []
    codes = set()
    with opened(options) as clusters:
        for cluster, _ in clusters:
            say(f"reading the last hour of the transaction log of {cluster.target} ...")
            try:
                found = read_inventory(
                    cluster, partial(RangeConsumer, cluster.properties), Deadline.after(options.timeout)
                )
            except AskError as error:
                found = Inventory(0.0, (), (), (error.fault.detail,))
            documents.append(_document(cluster, found, team))
            codes.add(_code(found))
            if options.output == "text":
                _print(cluster, found, team, several=len(clusters) > 1)
            print_not_asked(cluster.target, found.missing)
    if options.output == "json":
        print_json({"clusters": documents})
    return FOUND if FOUND in codes else max(codes, default=CLEAN)


def _code(found: Inventory) -> int:
    if any(topic.outside for topic in found.topics):
        return FOUND
    return UNKNOWN if found.missing or any(topic.sampled < topic.partitions for topic in found.topics) else CLEAN


def _document(cluster: Cluster, found: Inventory, team: OwnerOf) -> ClusterInventoryDocument:
    return {
        "kafka_cluster": cluster.name,
        "seconds": found.seconds,
        "applications": [_application(application, found.seconds, team) for application in found.applications],
        "topics": [_topic(topic) for topic in found.topics],
        "not_asked": list(found.missing),
    }


def _application(application: ApplicationUse, seconds: float, team: OwnerOf) -> ApplicationUseDocument:
    return {
        "application": application.application,
        "owner": team(application.application),
        "ids": application.ids,
        "committed": application.committed,
        "aborted": application.aborted,
        "transactions_per_second": _rate(application, seconds),
        "topics": sorted(application.topics),
        "groups": sorted(application.groups),
        "offsets_in_transactions": application.commits_offsets,
        "timeouts_seconds": list(application.timeouts),
        "ids_of_v1": _of_generation(application, v2=False),
        "ids_of_v2": _of_generation(application, v2=True),
    }


def _topic(topic: WrittenOutside) -> WrittenOutsideDocument:
    newest = None if topic.newest is None else datetime.fromtimestamp(topic.newest, UTC)
    return {
        "topic": topic.topic,
        "groups": list(topic.groups),
        "partitions": topic.partitions,
        "partitions_sampled": topic.sampled,
        "batches": topic.batches,
        "batches_outside": topic.outside if topic.sampled else None,
        "producer_ids": list(topic.producer_ids),
        "newest_outside": None if newest is None else newest.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }


def _rate(application: ApplicationUse, seconds: float) -> float:
    return round((application.committed + application.aborted) / seconds, 4) if seconds else 0.0


def _of_generation(application: ApplicationUse, *, v2: bool) -> int:
    return sum(ids for version, ids in application.clients.items() if (version >= V2) is v2)


def _print(cluster: Cluster, found: Inventory, team: OwnerOf, *, several: bool) -> None:
    if several:
        print(printable(f"{cluster.target}:"))
    if found.applications:
        columns = ("application", "owner", "ids", "per second", "aborted", "clients", "timeout", "topics", "groups")
        print_table(columns, (_row(application, found.seconds, team) for application in found.applications))
    elif not found.missing:
        print("no transactions in the last hour")
    for topic in found.topics:
        if topic.outside:
            who = f", by producer ids {', '.join(map(str, topic.producer_ids))}" if topic.producer_ids else ""
            groups = some(topic.groups, MOST_NAMES)
            text = (
                f"{topic.topic}: {topic.outside} of the newest {topic.batches} batches were written without a"
                f" transaction{who}. Groups that read it, also with read_committed, get them at once: {groups}"
            )
            print(printable(text))


def _row(application: ApplicationUse, seconds: float, team: OwnerOf) -> tuple[object, ...]:
    clients = ", ".join(
        f"{count} {word}"
        for word, count in (("V1", _of_generation(application, v2=False)), ("V2", _of_generation(application, v2=True)))
        if count
    )
    timeouts = "-".join(
        f"{limit:g} s" for limit in dict.fromkeys((*application.timeouts[:1], *application.timeouts[-1:]))
    )
    return (
        application.application,
        team(application.application) or "-",
        application.ids,
        f"{_rate(application, seconds):g}",
        application.aborted,
        clients or "?",
        timeouts or "?",
        some(sorted(application.topics), MOST_NAMES),
        some(sorted(application.groups), MOST_NAMES) or ("?" if application.commits_offsets else "-"),
    )
