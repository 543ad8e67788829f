"""``transactions``: open, hanging and stalled transactions, and those that ended badly.

All requests are read-only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from exporter.cluster import Cluster
from exporter.commands import explain, hanging, recent, stalled
from exporter.commands.clock import coordinators_clock, say_clock, shown_now
from exporter.commands.runner import ClusterReport, ListForm, add_command, fault_texts, run
from exporter.config import ClusterConfig
from exporter.kafka.ask import hidden_topics
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.transactions import ask_coordinators
from exporter.lso.facts import Blocker, Stall
from exporter.lso.next_step import next_step
from exporter.model import Deadline
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.outcome import OVERDUE_SLACK_SECONDS, is_overdue
from exporter.views.command_documents import SeenTransactionDocument
from exporter.views.transactions import open_transaction_document, step_document
from exporter.words import BlockerKind, TransactionState

_ADVICE = "An open transaction is normal until its timeout. `transactions stalled` shows which ones hold readers back."
_EXAMPLES = """\
examples:
  kafka-eos-exporter transactions --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions stalled --bootstrap-server kafka-1:9092 --stall-after 10s
  kafka-eos-exporter transactions hanging --config /etc/kafka-eos-exporter.yml --output json

exit codes: 0 none, 1 found, 2 could not be read
"""


_FORM = ListForm(
    "transactions",
    "no open transactions",
    SeenTransactionDocument,
    # Oldest first. One without a known start comes first: it may be the oldest.
    lambda transaction: transaction["started_timestamp"] or 0.0,
    advice=lambda _: [_ADVICE],
)


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``transactions`` and what is below it."""
    parser = add_command(
        commands,
        "transactions",
        lambda options: run(options, _views, _FORM),
        summary=summary,
        description="List the open transactions, oldest first.",
        examples=_EXAMPLES,
    )
    lists = parser.add_subparsers(title="other lists", metavar="LIST")
    for other in (hanging, stalled, recent, explain):
        other.add_to(lists)


class Seen(NamedTuple):
    """An open transaction, and when it is late the stall of one of its partitions.

    A transaction is late by the later of the two clocks, so that none is missed. ``advised`` is the present that its
    next step uses, a lower bound of the coordinators' clock, so that an error of this machine's clock is not reported
    as a slow coordinator. ``shown`` is the present that its age uses.
    """

    transaction: OpenTransaction
    stall: Stall | None
    shown: float
    advised: float
    or_later: bool


def _views(cluster: Cluster, settings: ClusterConfig, deadline: Deadline) -> ClusterReport[SeenTransactionDocument]:
    return _look(cluster, settings, deadline).of_views(lambda seen: _document(cluster, seen))


def _look(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[Seen]:
    cluster.metadata(deadline, [])
    asked = ask_coordinators(
        cluster.client, deadline, lambda transactional_id: cluster.grouping.of(transactional_id).name
    )
    clock = coordinators_clock(cluster, (transaction.started for transaction in asked.transactions), deadline)
    wall = cluster.clock.wall()
    now, advised = shown_now(clock, wall), clock.advising(wall)
    if asked.transactions:
        say_clock(cluster, clock, wall)
    late = [transaction for transaction in asked.transactions if _is_late(transaction, now)]
    topics = {partition.topic for transaction in late for partition in transaction.partitions}
    metadata = cluster.metadata(deadline, sorted(topics)) if topics else None
    found = (
        Seen(
            transaction,
            _as_stall(transaction, metadata, now) if transaction in late else None,
            now,
            advised,
            clock.at_least,
        )
        for transaction in asked.transactions
    )
    # A broker leaves topics without DESCRIBE out of the partitions of a transaction.
    hidden = hidden_topics(cluster.client, deadline) if asked.transactions else None
    return ClusterReport(cluster, tuple(found), fault_texts((*asked.faults, hidden)))


def _is_late(transaction: OpenTransaction, now: float) -> bool:
    """Return whether its coordinator should have ended it, or its markers should have arrived."""
    if transaction.state is TransactionState.ONGOING:
        return is_overdue(transaction, now)
    return (
        transaction.started is not None
        and now - transaction.started > (transaction.timeout or 0.0) + OVERDUE_SLACK_SECONDS
    )


def _as_stall(transaction: OpenTransaction, metadata: Metadata | None, now: float) -> Stall | None:
    partition = min(transaction.partitions, default=None)
    if partition is None or metadata is None:
        return None
    kind = BlockerKind.OPEN if transaction.state is TransactionState.ONGOING else BlockerKind.COMPLETING
    who = (transaction.transactional_id, transaction.application, transaction.producer_id, transaction.producer_epoch)
    unmarked = transaction.partitions if kind is BlockerKind.COMPLETING else None
    blocker = Blocker(*who, 0, kind, transaction.state, transaction.started, transaction.timeout, unmarked=unmarked)
    return Stall(partition, transaction.started or now, 0, 0, metadata.leader(*partition), blocker)


def _document(cluster: Cluster, seen: Seen) -> SeenTransactionDocument:
    step = None
    if seen.stall is not None:
        step = next_step(seen.stall, cluster.properties.bootstrap_servers, seen.advised, or_later=seen.or_later)
    return {
        **open_transaction_document(seen.transaction, seen.shown),
        "next_step": step_document(step) if step else None,
    }
