"""``check roll``: whether a broker may be stopped now, and what its stop would cost transactions."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from exporter.bounds.text import printable
from exporter.cluster import Cluster
from exporter.commands.clock import coordinators_clock, shown_now
from exporter.commands.log_hour import NOT_IN_TIME, read_hour
from exporter.commands.output import say
from exporter.commands.runner import CLEAN, FOUND, UNKNOWN, ClusterReport, SectionForm, add_command, fault_texts, run
from exporter.commands.settings import add_duration_flag
from exporter.config import ClusterConfig
from exporter.kafka.requests.transactions import ask_coordinators
from exporter.model import Deadline
from exporter.roll.coordination import NO_HOUR, LoggedEvidence, logged_evidence
from exporter.roll.facts import BrokerRoll, RollAnswer, RollEvidence
from exporter.roll.partitions import roll_of
from exporter.roll.source import read_evidence
from exporter.status.roll_page import said
from exporter.transactions.facts import LoggedTransactions
from exporter.views.rolls import ClusterRollDocument, cluster_roll_document

_EXAMPLES = """\
examples:
  kafka-eos-exporter check roll --bootstrap-server kafka-1:9092 --broker 3
  kafka-eos-exporter check roll --bootstrap-server kafka-1:9092 --all --outage 90s
  kafka-eos-exporter check roll --config /etc/kafka-eos-exporter.yml --broker 3 --output json

Looks at the transaction log, __consumer_offsets and the topics that transactions wrote to in the last hour. The answer
is of this moment, for one broker: ask again before the next one. The controllers' quorum is not looked at.

exit codes: 0 safe, 1 wait or no, 2 not known: something could not be read (and nothing speaks against it)
"""


def add_to(checks: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check roll``."""
    parser = add_command(
        checks,
        "roll",
        _command,
        summary="whether a broker may be stopped now: replicas, open transactions, markers",
        description="Say whether a broker may be stopped now without harm to transactions: safe, wait, or no, and why.",
        examples=_EXAMPLES,
        timeout=60.0,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--broker", type=int, metavar="ID", help="the broker that is to be stopped")
    which.add_argument("--all", action="store_true", help="every broker, each as if it were the next one")
    add_duration_flag(parser, "--outage", 60.0, "how long the broker will be away (60s)")


def _command(options: argparse.Namespace) -> int:
    def read(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[BrokerRoll]:
        evidence = look(cluster, deadline)
        brokers = sorted(evidence.brokers) if options.all else [options.broker]
        return ClusterReport(cluster, tuple(roll_of(evidence, broker, options.outage) for broker in brokers))

    def section(report: ClusterReport[BrokerRoll]) -> ClusterRollDocument:
        return cluster_roll_document(report.cluster.name, options.outage, report.found, report.not_asked, report.as_of)

    def text(report: ClusterReport[BrokerRoll], several: bool) -> None:
        _print(report.cluster, section(report), several=several)

    return run(options, read, SectionForm(section, text, _code))


def _code(report: ClusterReport[BrokerRoll]) -> int:
    answers = {roll.answer for roll in report.found}
    if answers & {RollAnswer.WAIT, RollAnswer.NO}:
        return FOUND
    return CLEAN if answers == {RollAnswer.SAFE} else UNKNOWN


def look(cluster: Cluster, deadline: Deadline) -> RollEvidence:
    """The evidence of one cluster: the last hour of the log first, then the replicas as they are. Raises AskError."""
    cluster.metadata(deadline, [])
    say(f"reading the last hour of the transaction log of {cluster.target} ...")
    return read_evidence(cluster, _logged(cluster, deadline.within(deadline.remaining() / 2)), deadline)


def _logged(cluster: Cluster, deadline: Deadline) -> LoggedEvidence:
    """The transactions by the log; by the coordinators where it is not readable, without the topics of ended ones."""
    facts, faults, _ = read_hour(cluster, deadline)
    logged = facts.get(LoggedTransactions)
    if logged is None or not logged.opened.complete:
        grouping = cluster.grouping
        asked = ask_coordinators(cluster.client, deadline, lambda transactional_id: grouping.of(transactional_id).name)
        transactions, missing = asked.transactions, fault_texts(asked.faults)
    else:
        transactions, missing = logged.opened.transactions, ()
    if logged is None:
        faults = tuple(f"{NO_HOUR}{text}" for text in faults or (NOT_IN_TIME,))
    clock = coordinators_clock(cluster, (transaction.started for transaction in transactions), deadline)
    now = shown_now(clock, cluster.clock.wall())
    evidence = logged_evidence(facts, now, cluster.clock.monotonic())
    return replace(evidence, opened=transactions, missing=tuple(dict.fromkeys((*faults, *missing))))


def _print(cluster: Cluster, document: ClusterRollDocument, *, several: bool) -> None:
    where = f"{cluster.name}, " if several else ""
    for roll in document["brokers"]:
        print(printable(f"{where}broker {roll['broker']}: {said(roll)}"))
        for row in roll["rows"]:
            effect = "note" if row["effect"] is RollAnswer.SAFE else row["effect"].value
            print(printable(f"  {effect:<7}  {row['subject']}: {row['text']}"))
