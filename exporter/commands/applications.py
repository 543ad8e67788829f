"""``check applications``: how the transactional.ids of a cluster are grouped, by which rule, and patterns to add."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from exporter.applications.applications import FIXED_RULES, Grouping
from exporter.applications.proposed_patterns import Proposal, propose
from exporter.bounds.text import printable, some
from exporter.cluster import Cluster
from exporter.commands.clusters import read_all
from exporter.commands.output import print_json, print_not_asked, print_table
from exporter.commands.report import ClusterReport
from exporter.commands.settings import add_reading_flags
from exporter.config import ClusterConfig
from exporter.core.documents import document_of
from exporter.kafka.requests.coordinators import ask_coordinators
from exporter.model import Deadline
from exporter.status.command_documents import ApplicationsDocument, GroupedIdsDocument, ProposalDocument

_MOST_MERGED = 5
_EXAMPLES = """\
examples:
  kafka-eos-exporter check applications --bootstrap-server kafka-1:9092
  kafka-eos-exporter check applications --config /etc/kafka-eos-exporter.yml --output json

exit codes: 0 no pattern is proposed, 1 some are, 2 a cluster could not be asked in full (and none is proposed)
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
        help="how transactional.ids are grouped to applications, by which rule, and patterns to add",
        description="Print how the transactional.ids of a cluster are grouped to applications, and by which rule;"
        " propose patterns where the ids of one application look like many applications.",
        epilog=_EXAMPLES,
    )
    add_reading_flags(parser, 30.0, "how long a cluster may take to answer (30s)")
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    reports = read_all(options, _look)
    proposals = {report.cluster.name: proposals_of(report.found) for report in reports}
    if options.output == "json":
        print_json({"clusters": [_document(report, proposals[report.cluster.name]) for report in reports]})
    else:
        for report in reports:
            _print(report, proposals[report.cluster.name])
    for report in reports:
        print_not_asked(report.cluster.target, report.not_asked)
    if any(proposals.values()):
        return 1
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


def proposals_of(found: Sequence[GroupedIds]) -> list[Proposal]:
    """Patterns for the applications that neither a pattern of the settings nor the form of a framework names."""
    return propose([row.application for row in found if not row.rule.startswith(FIXED_RULES)])


def _document(report: ClusterReport[GroupedIds], proposals: Sequence[Proposal]) -> ApplicationsDocument:
    return {
        "kafka_cluster": report.cluster.name,
        "applications": [document_of(GroupedIdsDocument, row) for row in report.found],
        "proposed": [document_of(ProposalDocument, proposal) for proposal in proposals],
        "not_asked": list(report.not_asked),
    }


def _print(report: ClusterReport[GroupedIds], proposals: Sequence[Proposal]) -> None:
    print(f"{printable(report.cluster.target)}:")
    if not report.found:
        print("no transactional.ids")
        return
    cells = ((row.application, row.kind, row.ids, row.rule, row.example) for row in report.found)
    print_table(("application", "kind", "ids", "rule", "example"), cells)
    if not proposals:
        return
    print("\nThese look like one application each. If they are, add to the settings:\napplications:")
    for proposal in proposals:
        print(f"  # {printable(some(proposal.merges, _MOST_MERGED))}")
        print(f"  - pattern: {json.dumps(proposal.pattern)}")
