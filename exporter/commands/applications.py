"""``applications``: the applications of a cluster: how their transactional.ids are grouped, and what they write.

All requests are read-only.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

from exporter.applications.applications import Grouping
from exporter.bounds.text import printable, some
from exporter.cluster import Cluster
from exporter.commands.clusters import configured, owner_of
from exporter.commands.output import say
from exporter.commands.runner import (
    CLEAN,
    FOUND,
    UNKNOWN,
    ClusterReport,
    SectionForm,
    add_command,
    fault_texts,
    print_views,
    run,
)
from exporter.config import ClusterConfig
from exporter.inventory.applications_in_log import GroupedIds, Inventory
from exporter.inventory.source import read_inventory
from exporter.kafka.client import AskError
from exporter.kafka.requests.transactions import ask_coordinators
from exporter.model import Deadline
from exporter.transactions.source.log_range import RangeConsumer
from exporter.views.applications import ApplicationUseDocument, InventorySection, inventory_section

MOST_NAMES = 3
_NOTHING = Inventory(0.0, (), (), ())
_EXAMPLES = """\
examples:
  kafka-eos-exporter applications --bootstrap-server kafka-1:9092
  kafka-eos-exporter applications --config /etc/kafka-eos-exporter.yml --output json

Reads the transactional.ids that coordinators list, the last hour of __transaction_state, which needs READ on it, and
the newest batches of the topics that transactions write to and groups read, at most 64 KiB of each partition: what was
written before is not known. Brokers do not know which groups read read_committed.

exit codes: 0 nothing is written outside of transactions, as far as was sampled; 1 found; 2 could not be read
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``applications``."""
    add_command(
        commands,
        "applications",
        _command,
        summary=summary,
        description="List the applications that write in transactions: the rule that groups their ids, topics, groups,"
        " rates, timeouts, clients and owners; and topics that are also written without a transaction.",
        examples=_EXAMPLES,
    )


def _command(options: argparse.Namespace) -> int:
    team = owner_of(configured(options))

    def section(report: ClusterReport[Inventory]) -> InventorySection:
        found = report.found[0] if report.found else _NOTHING._replace(missing=report.not_asked)
        return inventory_section(found, team, report.as_of)

    def text(report: ClusterReport[Inventory], several: bool) -> None:
        if report.found:
            _print(report.cluster, section(report), several=several)

    return run(options, _read, SectionForm(section, text, _code))


def _read(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[Inventory]:
    """The ids first: how they are grouped is known also where the log may not be read."""
    asked = ask_coordinators(cluster.client, deadline, lambda _: "", states=())
    grouped = tuple(grouped_ids((transactional_id for transactional_id, _ in asked.ids), cluster.grouping))
    say(f"reading the last hour of the transaction log of {cluster.target} ...")
    try:
        found = read_inventory(cluster, partial(RangeConsumer, cluster.properties), deadline)
    except AskError as error:
        found = _NOTHING._replace(missing=(error.fault.detail,))
    missing = tuple(dict.fromkeys((*fault_texts(asked.faults), *found.missing)))
    return ClusterReport(cluster, (found._replace(grouped=grouped, missing=missing),), missing)


def grouped_ids(ids: Iterable[str], grouping: Grouping) -> list[GroupedIds]:
    """One row for each application and rule, most ids first. ``ids`` may be in any order."""
    every = sorted(set(ids))
    for transactional_id in every:  # ids of Connect's leaders identify the ids of its tasks
        grouping.learn(transactional_id)
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for transactional_id in every:
        application, rule = grouping.explain(transactional_id)
        found[application.name, application.kind, rule].append(transactional_id)
    listed = (GroupedIds(*key, len(members), members[0]) for key, members in found.items())
    return sorted(listed, key=lambda row: (-row.ids, row.application, row.rule))


def _code(report: ClusterReport[Inventory]) -> int:
    topics = [topic for found in report.found for topic in found.topics]
    if any(topic.outside for topic in topics):
        return FOUND
    return UNKNOWN if report.not_asked or any(topic.sampled < topic.partitions for topic in topics) else CLEAN


def _print(cluster: Cluster, document: InventorySection, *, several: bool) -> None:
    if several:
        print(printable(f"{cluster.target}:"))
    if document["applications"]:
        print_views(ApplicationUseDocument, [("", application) for application in document["applications"]])
    elif not document["not_asked"]:
        print("no transactional.ids, and no transactions in the last hour")
    for topic in document["topics"]:
        if topic["batches_outside"]:
            who = f", by producer ids {', '.join(map(str, ids))}" if (ids := topic["producer_ids"]) else ""
            text = (
                f"{topic['topic']}: {topic['batches_outside']} of the newest {topic['batches']} batches were written"
                f" without a transaction{who}. Groups that read it get them like committed ones, also with"
                f" read_committed: {some(topic['groups'], MOST_NAMES)}"
            )
            print(printable(text))
