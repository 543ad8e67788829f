"""``check applications``: how the transactional.ids of a cluster are grouped, and by which rule."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from exporter.applications.applications import Grouping
from exporter.bounds.text import printable
from exporter.cluster import Cluster
from exporter.commands.clusters import read_all
from exporter.commands.output import print_json, print_not_asked, print_table
from exporter.commands.report import ClusterReport
from exporter.commands.settings import add_reading_flags
from exporter.config import ClusterConfig
from exporter.core.documents import document_of
from exporter.kafka.requests.coordinators import ask_coordinators
from exporter.model import Deadline
from exporter.status.command_documents import ApplicationsDocument, GroupedIdsDocument

_EXAMPLES = """\
examples:
  kafka-eos-exporter check applications --bootstrap-server kafka-1:9092
  kafka-eos-exporter check applications --config /etc/kafka-eos-exporter.yml --output json

exit codes: 0 the ids are listed, 2 a cluster could not be asked in full
"""


class GroupedIds(NamedTuple):
    """One application: how many ids each rule assigns to it, and one of these ids."""

    application: str
    kind: str
    rule: str
    ids: int
    example: str


def add_to(checks: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check applications``."""
    parser = checks.add_parser(
        "applications",
        help="how transactional.ids are grouped to applications, and by which rule",
        description="Print how the transactional.ids of a cluster are grouped to applications, and by which rule.",
        epilog=_EXAMPLES,
    )
    add_reading_flags(parser, 30.0, "how long a cluster may take to answer (30s)")
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    reports = read_all(options, _look)
    if options.output == "json":
        print_json({"clusters": [_document(report) for report in reports]})
    else:
        for report in reports:
            _print(report)
    for report in reports:
        print_not_asked(report.cluster.target, report.not_asked)
    return 2 if any(report.not_asked for report in reports) else 0


def _look(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[GroupedIds]:
    asked = ask_coordinators(cluster.client, deadline, lambda _: "", states=())
    found = rows((transactional_id for transactional_id, _ in asked.ids), cluster.grouping)
    return ClusterReport(cluster, tuple(found), tuple(fault.detail for fault in asked.faults))


def rows(ids: Iterable[str], grouping: Grouping) -> list[GroupedIds]:
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


def _document(report: ClusterReport[GroupedIds]) -> ApplicationsDocument:
    return {
        "kafka_cluster": report.cluster.name,
        "applications": [document_of(GroupedIdsDocument, row) for row in report.found],
        "not_asked": list(report.not_asked),
    }


def _print(report: ClusterReport[GroupedIds]) -> None:
    print(f"{printable(report.cluster.target)}:")
    if not report.found:
        print("no transactional.ids")
        return
    cells = ((row.application, row.kind, row.ids, row.rule, row.example) for row in report.found)
    print_table(("application", "kind", "ids", "rule", "example"), cells)
