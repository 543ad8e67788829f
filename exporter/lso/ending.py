"""The lines that end a transaction: they destroy data, and are written here and nowhere else in the project.

Each takes the evidence that it rests on as its argument. A transaction that its coordinator knows is torn by ``abort``:
seen on Kafka 4.3.1, the client's commit then succeeds, and read_committed consumers see only part of it.
``forceTerminateTransaction`` throws away what was flushed, which may be all that a checkpoint has of it.

Beside each line goes the one to run right before it, which only looks: a page may be minutes old.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.lso.proof import HangingProof, Overdue
from exporter.lso.shell import quoted, transactions_tool

OURS = "kafka-eos-exporter"


class Ending(NamedTuple):
    """A line that ends a transaction, what it costs, and what to ask right before it: a line that only looks, and what
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
    """The line that proves again whether a transaction hangs; ``place`` narrows it to a partition, by its flags.

    Both are words for a shell already.
    """
    return f"{OURS} transactions hanging --bootstrap-server {servers} {place}".rstrip()


def look_for_stalled(servers: str) -> str:
    """The line that names the holders of the stalled partitions, each with its step; ``servers`` is a word already."""
    return f"{OURS} transactions stalled --bootstrap-server {servers}"
