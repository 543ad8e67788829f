"""The command lines that end a transaction. They destroy data; no other module of the project has them.

Each takes its evidence as an argument. ``abort`` tears a transaction that its coordinator has: on Kafka 4.3.1 the
client's commit then succeeds, and read_committed consumers see only part of it. ``forceTerminateTransaction`` discards
flushed records, which may be the only copy that a checkpoint refers to.

Each line comes with a read-only line to run right before it: a page may be minutes old.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.lso.proof.evidence import HangingProof, Overdue
from exporter.lso.shell import quoted, transactions_tool

OURS = "kafka-eos-exporter"


class Ending(NamedTuple):
    """A line that ends a transaction, what it costs, and the check to run right before it: a read-only line, and what
    it must show.
    """

    command: str
    warning: str
    check: str
    expect: str


def abort_marker(proof: HangingProof, bootstrap_servers: str) -> Ending:
    """Write the missing abort marker of a hanging transaction."""
    topic, partition = proof.held.partition
    place = f"--topic {quoted(topic)} --partition {partition}"
    return Ending(
        f"{transactions_tool(bootstrap_servers)} abort {place} --start-offset {proof.held.start_offset}",
        "Only the records of this one transaction in this one partition are dropped.",
        look_for_hanging(quoted(bootstrap_servers), place),
        "it proves the same again, which takes a little more than 30 s, and prints the same line",
    )


def force_terminate(overdue: Overdue, bootstrap_servers: str) -> Ending:
    """End an overdue transaction at its coordinator, which rolls it back and fences its producer."""
    opened = overdue.opened
    tool = transactions_tool(bootstrap_servers)
    who = quoted(opened.transactional_id)
    return Ending(
        f"{tool} forceTerminateTransaction --transactionalId {who}",
        "This throws away what the transaction has written, and fences its producer. The command needs the tools of"
        " Kafka 4.0 or later: on an older cluster, initialise a producer with the same transactional.id instead, which"
        " fences this one.",
        f"{tool} describe --transactional-id {who}",
        f"it still shows state Ongoing with producer id {opened.producer_id} and epoch {opened.producer_epoch}",
    )


def look_for_hanging(servers: str, place: str = "") -> str:
    """The line that proves again whether a transaction hangs; ``place`` has the flags that limit it to a partition.
    Both arguments are quoted for a shell.
    """
    return f"{OURS} transactions hanging --bootstrap-server {servers} {place}".rstrip()
