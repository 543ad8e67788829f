"""``check roll``: whether a broker may be stopped now, and what its stop would cost transactions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from exporter.bounds.text import printable
from exporter.cluster import Cluster
from exporter.commands.clock import coordinators_clock, shown_now
from exporter.commands.clusters import opened
from exporter.commands.log_hour import NOT_IN_TIME, read_hour
from exporter.commands.output import print_json, print_not_asked, say
from exporter.commands.report import fault_texts
from exporter.commands.settings import add_duration_flag, add_reading_flags
from exporter.kafka.client import AskError
from exporter.kafka.requests.coordinators import ask_coordinators
from exporter.model import Deadline
from exporter.roll.coordination import NO_HOUR, LoggedEvidence, logged_evidence
from exporter.roll.facts import BrokerRoll, RollAnswer, RollEvidence
from exporter.roll.partitions import roll_of
from exporter.roll.source import read_evidence
from exporter.status.command_documents import ClusterRollDocument
from exporter.status.roll_documents import cluster_roll_document
from exporter.status.roll_page import said
from exporter.transactions.facts import LoggedTransactions

SAFE, NOT_SAFE, UNKNOWN = 0, 1, 2
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
    parser = checks.add_parser(
        "roll",
        help="whether a broker may be stopped now: replicas, open transactions, markers, Flink, groups",
        description="Say whether a broker may be stopped now without harm to transactions: safe, wait, or no, and why.",
        epilog=_EXAMPLES,
    )
    add_reading_flags(parser, 60.0, "how long a cluster may take to answer (60s)")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--broker", type=int, metavar="ID", help="the broker that is to be stopped")
    which.add_argument("--all", action="store_true", help="every broker, each as if it were the next one")
    add_duration_flag(parser, "--outage", 60.0, "how long the broker will be away (60s)")
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    documents: list[ClusterRollDocument] = []
    answers: set[RollAnswer] = set()
    with opened(options) as clusters:
        for cluster, _ in clusters:
            rolls: Sequence[BrokerRoll] = ()
            not_asked: tuple[str, ...] = ()
            as_of = cluster.clock.wall()
            try:
                evidence = look(cluster, Deadline.after(options.timeout))
                brokers = sorted(evidence.brokers) if options.all else [options.broker]
                rolls = [roll_of(evidence, broker, options.outage) for broker in brokers]
            except AskError as error:
                not_asked = (error.fault.detail,)
            answers |= {roll.answer for roll in rolls} | ({RollAnswer.UNKNOWN} if not_asked else set())
            documents.append(cluster_roll_document(cluster.name, options.outage, rolls, not_asked, as_of))
            if options.output == "text":
                _print(cluster, documents[-1], several=len(clusters) > 1)
            print_not_asked(cluster.target, not_asked)
    if options.output == "json":
        print_json({"clusters": documents})
    if answers & {RollAnswer.WAIT, RollAnswer.NO}:
        return NOT_SAFE
    return SAFE if answers == {RollAnswer.SAFE} else UNKNOWN


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
