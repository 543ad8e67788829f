"""``transactions``: what is open, what hangs, what is stalled, what ended badly, seen from a terminal.

Every look is read-only and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from exporter.commands import hanging, recent, stalled
from exporter.commands.clusters import duration, look_at_all
from exporter.commands.report import Form, Look, show
from exporter.commands.settings import add_cluster_flags
from exporter.config import Cluster as ClusterConfig
from exporter.durations import format_age, format_duration
from exporter.kafka.coordinators import ask_coordinators
from exporter.model import Deadline, OpenTransaction
from exporter.sources.cluster import Cluster
from exporter.status import open_transaction_document

_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions stalled --bootstrap-server kafka-1:9092 --stall-after 10s
  kafka-eos-exporter transactions hanging --config /etc/kafka-eos-exporter.yml --output json

exit codes: 0 none, 1 found, 2 could not look
"""


def add_to(commands: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions`` and what is below it."""
    parser = commands.add_parser(
        "transactions",
        help="open, hanging and stalled transactions, and how the last ones ended",
        description="List the open transactions, oldest first.",
        epilog=_EXAMPLES,
    )
    _add_flags(parser)
    parser.set_defaults(command=_open, timeout=30.0, output="text")
    looks = parser.add_subparsers(title="other looks", metavar="LOOK")
    for look in (hanging, stalled, recent):
        child = look.add_to(looks)
        _add_flags(child)
        child.set_defaults(command=look.command)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_cluster_flags(parser)
    parser.add_argument(
        "--output", choices=("text", "json"), default=argparse.SUPPRESS, help="tables for people, JSON for programs"
    )
    parser.add_argument(
        "--timeout",
        type=duration,
        default=argparse.SUPPRESS,
        metavar="DURATION",
        help="how long a cluster may take to answer (30s)",
    )


def _open(options: argparse.Namespace) -> int:
    looks = look_at_all(options, _look)
    now = time.time()
    form: Form[OpenTransaction] = Form(
        "transactions",
        "no open transactions",
        ("application", "transactional.id", "pid", "epoch", "state", "age", "timeout", "partitions"),
        lambda each: _row(each, now),
        lambda _, each: open_transaction_document(each, now),
        # Oldest first; one whose start is not known may be older than all.
        lambda each: each.started or 0.0,
    )
    return show(options, looks, form)


def _look(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> Look[OpenTransaction]:
    cluster.metadata(deadline, [])
    asked = ask_coordinators(cluster.client, deadline, lambda each: cluster.grouping.of(each).name)
    return Look(cluster, asked.transactions, tuple(fault.detail for fault in asked.faults))


def _row(each: OpenTransaction, now: float) -> tuple[object, ...]:
    return (
        each.application,
        each.transactional_id,
        each.producer_id,
        each.producer_epoch,
        each.state.value,
        "?" if each.started is None else format_age(now - each.started),
        "none" if each.timeout is None else format_duration(each.timeout),
        len(each.partitions),
    )
