"""``transactions inventory``: which applications write in transactions, where to, and who writes beside them."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from exporter.bounds.text import printable, some
from exporter.cluster import Cluster
from exporter.commands.clusters import configured, opened, owner_of
from exporter.commands.output import print_json, print_not_asked, print_table, say
from exporter.commands.report import CLEAN, FOUND, UNKNOWN
from exporter.inventory.applications_in_log import Inventory
from exporter.inventory.source import read_inventory
from exporter.kafka.client import AskError
from exporter.model import Deadline
from exporter.status.command_documents import ApplicationUseDocument, ClusterInventoryDocument
from exporter.status.inventory_documents import ReadInventory, inventory_document
from exporter.transactions.source.log_range import RangeConsumer

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
    read: list[ReadInventory] = []
    codes = set()
    with opened(options) as clusters:
        for cluster, _ in clusters:
            say(f"reading the last hour of the transaction log of {cluster.target} ...")
            as_of = cluster.clock.wall()
            try:
                found = read_inventory(
                    cluster, partial(RangeConsumer, cluster.properties), Deadline.after(options.timeout)
                )
            except AskError as error:
                found = Inventory(0.0, (), (), (error.fault.detail,))
            read.append(ReadInventory(cluster.name, found, as_of))
            codes.add(_code(found))
            if options.output == "text":
                (document,) = inventory_document(read[-1:], team)["clusters"]
                _print(cluster, document, several=len(clusters) > 1)
            print_not_asked(cluster.target, found.missing)
    if options.output == "json":
        print_json(inventory_document(read, team))
    return FOUND if FOUND in codes else max(codes, default=CLEAN)


def _code(found: Inventory) -> int:
    if any(topic.outside for topic in found.topics):
        return FOUND
    return UNKNOWN if found.missing or any(topic.sampled < topic.partitions for topic in found.topics) else CLEAN


def _print(cluster: Cluster, document: ClusterInventoryDocument, *, several: bool) -> None:
    if several:
        print(printable(f"{cluster.target}:"))
    if document["applications"]:
        columns = ("application", "owner", "ids", "per second", "aborted", "clients", "timeout", "topics", "groups")
        print_table(columns, map(_row, document["applications"]))
    elif not document["not_asked"]:
        print("no transactions in the last hour")
    for topic in document["topics"]:
        if topic["batches_outside"]:
            who = f", by producer ids {', '.join(map(str, ids))}" if (ids := topic["producer_ids"]) else ""
            text = (
                f"{topic['topic']}: {topic['batches_outside']} of the newest {topic['batches']} batches were written"
                f" without a transaction{who}. Groups that read it get them like committed ones, also with"
                f" read_committed: {some(topic['groups'], MOST_NAMES)}"
            )
            print(printable(text))


def _row(application: ApplicationUseDocument) -> tuple[object, ...]:
    generations = (("V1", application["ids_of_v1"]), ("V2", application["ids_of_v2"]))
    clients = ", ".join(f"{count} {word}" for word, count in generations if count)
    limits = application["timeouts_seconds"]
    timeouts = "-".join(f"{limit:g} s" for limit in dict.fromkeys((*limits[:1], *limits[-1:])))
    unknown = "?" if application["offsets_in_transactions"] else "-"
    return (
        application["application"],
        application["owner"] or "-",
        application["ids"],
        f"{application['transactions_per_second']:g}",
        application["aborted"],
        clients or "?",
        timeouts or "?",
        some(application["topics"], MOST_NAMES),
        some(application["groups"], MOST_NAMES) or unknown,
    )
