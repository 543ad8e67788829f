"""What to do about a stalled partition, by what its coordinator says of the transaction that holds it: pure functions.

The wrong step destroys data: ended at one partition while its coordinator still knows it, a transaction is torn (seen
on Kafka 4.3.1: the client's commit then succeeded, and read_committed readers saw only part of it). The command that
does so is written in ``_hanging`` alone, and nothing else in the project spells it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple, assert_never

from exporter.core.durations import format_age
from exporter.model import Blocker, BlockerKind, Completion, MarkerWait, Stall, TransactionState

TIMEOUT_SCAN_SECONDS = 10.0
"""transaction.abort.timed.out.transaction.cleanup.interval.ms: how often a coordinator looks for timed-out ones."""

_MOST_PARTITIONS = 10


class NextStep(NamedTuple):
    """What to do: for a person to read, a command to copy (one line) if there is one, and what it costs."""

    text: str
    command: str | None = None
    warning: str | None = None


def next_step(stall: Stall, bootstrap_servers: str, now: float) -> NextStep:
    """The next step for a stalled partition; ``now`` is Unix seconds."""
    match stall.blocker.kind:
        case BlockerKind.HANGING:
            return _hanging(stall, bootstrap_servers)
        case BlockerKind.OPEN:
            return _open(stall.blocker, bootstrap_servers, now)
        case BlockerKind.COMPLETING:
            return _completing(stall)
        case BlockerKind.UNKNOWN:
            return _unknown(stall.blocker)
        case kind:
            assert_never(kind)


def _hanging(stall: Stall, bootstrap_servers: str) -> NextStep:
    topic, partition = stall.partition
    command = (
        f"{_tool(bootstrap_servers)} abort --topic {quoted(topic)} --partition {partition}"
        f" --start-offset {stall.blocker.start_offset}"
    )
    text = (
        "Hanging: every coordinator was asked, and none knows this transaction. It never ends by itself. "
        "Write its missing abort marker to this partition:"
    )
    return NextStep(text, command, "Only the records of this one transaction in this one partition are dropped.")


def _open(blocker: Blocker, bootstrap_servers: str, now: float) -> NextStep:
    text = (
        f"Open: its producer has not ended it{_age(blocker.started, now)}. {_who(blocker)} {_by_itself(blocker, now)}"
    )
    if not blocker.transactional_id:
        return NextStep(text)
    command = (
        f"{_tool(bootstrap_servers)} forceTerminateTransaction --transactionalId {quoted(blocker.transactional_id)}"
    )
    warning = (
        "This throws away what the transaction has written, and fences its producer; a Flink job may still want to"
        " commit it from a checkpoint. The command needs the tools of Kafka 4.0 or later: on an older cluster,"
        " initialise a producer with the same transactional.id instead, which fences this one."
    )
    return NextStep(text, command, warning)


def _completing(stall: Stall) -> NextStep:
    blocker = stall.blocker
    decision = {
        TransactionState.PREPARE_COMMIT: "Completing: it is decided to commit it",
        TransactionState.PREPARE_ABORT: "Completing: it is decided to roll it back",
    }.get(blocker.state or TransactionState.ONGOING, "Completing: its end is decided")
    return NextStep(
        f"{decision}. {_waits(stall)}{_unmarked(blocker)} It completes by itself after that.",
        warning="Leave the transaction alone: ending it by hand at one partition would tear it.",
    )


def _waits(stall: Stall) -> str:
    """What is seen of the partition that waits for its marker, and what to do about it."""
    place, seen = stall.partition, stall.blocker.completion
    if seen is None or seen.wait is MarkerWait.NOT_WRITTEN:
        if stall.leader is None:
            return f"{place} waits for its marker and has no leader: start a broker that holds it."
        refused = _too_few_in_sync(seen)
        look = refused or "Look whether that broker is up and can be reached by the transaction coordinator."
        return f"The log of {place} lacks the marker; it is led by broker {stall.leader}. {look}"
    if seen.wait is MarkerWait.LEADER_AWAY:
        return f"{place} waits for its marker and has no leader: start {_brokers((*seen.isr, *seen.missing))}."
    if refused := _too_few_in_sync(seen):
        more = refused
    elif seen.missing:
        more = f"In sync: {_brokers(seen.isr)}. Not in sync: {_brokers(seen.missing)}. Bring back what is missing."
    else:
        more = f"In sync are {_brokers(seen.isr)}: look which of them does not follow."
    return f"The marker is in the log of {place} at broker {seen.leader} and is not replicated. {more}"


def _too_few_in_sync(seen: Completion | None) -> str:
    """Why acks=all cannot be had, "" where it can or that is not known."""
    if seen is None or seen.min_isr is None or len(seen.isr) >= seen.min_isr:
        return ""
    return (
        f"Too few replicas are in sync: min.insync.replicas is {seen.min_isr}, in sync: {_brokers(seen.isr)}."
        f" Bring back {_brokers(seen.missing)}."
    )


def _unmarked(blocker: Blocker) -> str:
    if not blocker.unmarked:
        return ""
    named = ", ".join(map(str, sorted(blocker.unmarked)[:_MOST_PARTITIONS]))
    more = f" and {len(blocker.unmarked) - _MOST_PARTITIONS} more" if len(blocker.unmarked) > _MOST_PARTITIONS else ""
    return f" The coordinator waits for the markers of {named}{more}."


def _brokers(ids: Collection[int]) -> str:
    return ", ".join(f"broker {each}" for each in sorted(set(ids))) or "none"


def _unknown(blocker: Blocker) -> NextStep:
    missing = "; ".join(blocker.missing) or "nothing says what could not be asked"
    return NextStep(
        f"Unknown: it cannot be told whether a coordinator knows this transaction. Could not be asked: {missing}."
        " Mend that first: the kind, and the right step, follow by themselves.",
        warning="Do nothing to the transaction before its kind is known: if it is alive, that would tear it.",
    )


def _who(blocker: Blocker) -> str:
    if not blocker.transactional_id:
        return f"Find and stop the producer with id {blocker.producer_id}."
    return (
        f"Find the instance of {shown(blocker.application)} with transactional.id {shown(blocker.transactional_id)},"
        " and let it finish or stop it."
    )


def _by_itself(blocker: Blocker, now: float) -> str:
    """When the coordinator ends it: at its timeout, seen by a scan every ten seconds (KIP-98)."""
    if blocker.timeout is None:
        return "It never times out (two-phase commit, or its timeout is not known)."
    if blocker.started is None:
        return f"The coordinator ends it {format_age(blocker.timeout)} after it began."
    ends = blocker.started + blocker.timeout
    if now <= ends + TIMEOUT_SCAN_SECONDS:
        left = format_age(ends + TIMEOUT_SCAN_SECONDS - now)
        return f"The coordinator ends it by itself at {clock_time(ends)} or up to 10 s later, in at most {left}."
    late = format_age(now - ends)
    return (
        f"The coordinator should have ended it at {clock_time(ends)}, {late} ago, and did not: look at the broker that"
        " coordinates it."
    )


def _age(started: float | None, now: float) -> str:
    return "" if started is None else f" for {format_age(now - started)}"


def _tool(bootstrap_servers: str) -> str:
    return f"kafka-transactions.sh --bootstrap-server {quoted(bootstrap_servers)}"


def clock_time(instant: float) -> str:
    """An instant (Unix seconds) for a person: ``2026-11-21 14:03:27 UTC``."""
    try:
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # a record may carry any timestamp
        return "an impossible time"


def shown(name: str) -> str:
    """A name as it is, unless it holds what a terminal would act on."""
    return name if name.isprintable() else quoted(name)


def quoted(argument: str) -> str:
    """One word for a POSIX shell, on one line; ids are whatever their users made of them.

    What does not print (a line break, a mark that turns the direction of text) is written as an escape of bash's
    ``$'...'``, so that a line to copy is what it looks like.
    """
    if argument.isprintable():
        return shlex.quote(argument)
    return "$'" + "".join(_ansi_c(character) for character in argument) + "'"


def _ansi_c(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x80 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
