"""The next step for a stalled partition, by the kind of its blocker: pure functions.

The wrong step destroys data. Only ``ending`` has the lines that do, and it requires evidence: a blocker without
evidence gets no line, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple, assert_never

from exporter.bounds.text import some
from exporter.core.durations import format_age
from exporter.core.replication import effective_min_isr
from exporter.flink.facts import FlinkTransaction
from exporter.lso.ending import Ending, abort_marker, force_terminate
from exporter.lso.facts import Blocker, Completion, Stall
from exporter.lso.proof.evidence import Committed, HangingProof, OpenInLog, Overdue
from exporter.lso.shell import shown
from exporter.transactions.decided.fate import Judgement
from exporter.words import BlockerKind, MarkerWait, Precommit, TransactionState

TIMEOUT_SCAN_SECONDS = 10.0
"""How often a coordinator looks for timed-out ones by default, see ``requests.timeout_scans``."""

MEANING = {
    BlockerKind.HANGING: (
        "the transaction log was read to its end twice, and no transactional.id has this transaction open. It never"
        " ends by itself."
    ),
    BlockerKind.OPEN: "its producer has not ended it.",
    BlockerKind.COMPLETING: (
        "its end is decided, and its marker is not in the partition's log yet, or not replicated. It completes by"
        " itself."
    ),
    BlockerKind.UNMARKED: (
        "it was committed, and this partition lacks its commit marker. Its records were promised to readers: the next"
        " commit of its producer on this partition releases them."
    ),
    BlockerKind.UNKNOWN: "it is not known whether a coordinator has this transaction.",
}
"""The meaning of each kind of holder, the same text on the page, in alerts and in commands."""

DO_NOT_END = {
    BlockerKind.COMPLETING: "Leave the transaction alone: ending it by hand at one partition would tear it.",
    BlockerKind.UNMARKED: (
        "Do not end it by hand: its records were committed, and an abort marker would destroy them. So would the next"
        " abort of its producer on this partition: a client's, a timeout's, or a fence's."
    ),
    BlockerKind.UNKNOWN: (
        "Do nothing to the transaction before its kind is known: if it is alive, ending it by hand would tear it."
    ),
}
MAY_BE_FLINK = "By its id it may be of a pool of producers, or of a Flink job: the log does not show which."
CHECK_FIRST = "Ask once more right before it; this only looks"
FLINK_WARNING = (
    "Do not end it by hand: if it is precommitted, the records of a completed checkpoint would be lost, as they are at"
    " its timeout."
)
MAY_BE_FLINK_WARNING = (
    "Do not end it by hand before it is known to be no Flink job's: if it is precommitted, the records of a completed"
    " checkpoint would be lost, as they are at its timeout."
)

_MOST_PARTITIONS = 10


class NextStep(NamedTuple):
    """The step to take: a text, a command to copy (one line) if there is one, and what it costs.

    A command that destroys data comes with ``check``, a read-only line to run right before it, and ``expect``, what
    that line must show.
    """

    text: str
    command: str | None = None
    warning: str | None = None
    check: str | None = None
    expect: str | None = None


def next_step(stall: Stall, bootstrap_servers: str, now: float, *, or_later: bool = False) -> NextStep:
    """The next step for a stalled partition; ``now`` is Unix seconds, ``or_later`` says that it is a lower bound."""
    match stall.blocker.kind:
        case BlockerKind.HANGING:
            return _hanging(stall, bootstrap_servers)
        case BlockerKind.OPEN:
            return _open(stall.blocker, bootstrap_servers, now, or_later=or_later)
        case BlockerKind.COMPLETING:
            return _completing(stall)
        case BlockerKind.UNMARKED:
            return _without_marker(stall)
        case BlockerKind.UNKNOWN:
            return _unknown(stall.blocker)
        case kind:
            assert_never(kind)


def _hanging(stall: Stall, bootstrap_servers: str) -> NextStep:
    proof, blocker = stall.blocker.evidence, stall.blocker
    if not isinstance(proof, HangingProof) or proof.held != (
        stall.partition,
        blocker.producer_id,
        blocker.start_offset,
    ):
        return _unknown(blocker._replace(missing=(*blocker.missing, "there is no proof that it hangs")))
    seen = clock_time(proof.second.wall)
    text = (
        f"Hanging: {MEANING[BlockerKind.HANGING]} {_not_promised(proof.second.judgement)} Seen last at {seen}."
        f"{_last_owner(proof)} Its missing abort marker has to be written to this partition, whose log is not compacted"
        " beyond it until then."
    )
    return _ended(text, abort_marker(proof, bootstrap_servers))


def _last_owner(proof: HangingProof) -> str:
    if not proof.owner:
        return ""
    owner = shown(proof.owner)
    return f" Producer id {proof.held.producer_id} was last that of {owner}, which does not have this transaction open."


def _not_promised(said: Judgement) -> str:
    """The evidence that its records were promised to nobody."""
    if (abort := said.decision) is None:
        return "The log has no decision that its records can belong to."
    return f"The log has the ABORT of {shown(abort.transactional_id)} since {clock_time(abort.decided_at)}."


def _open(blocker: Blocker, bootstrap_servers: str, now: float, *, or_later: bool) -> NextStep:
    text = f"Open: {MEANING[BlockerKind.OPEN]}{_age(blocker.started, now, or_later=or_later)} {_who(blocker)}"
    if blocker.checkpoint is not None:
        return flink_step(blocker, blocker.checkpoint, now)
    if blocker.flink:
        pool = f"Of a pool of producers: restart that instance. {_by_itself(blocker, now)}"
        return NextStep(f"{text} {MAY_BE_FLINK} {pool} {_restart_flink(blocker, now)}", warning=MAY_BE_FLINK_WARNING)
    text = f"{text} {_by_itself(blocker, now)}"
    opened = blocker.evidence
    # Evidence about another incarnation of the id does not count for this one.
    mine = isinstance(opened, OpenInLog) and (opened.transactional_id, opened.producer_id) == (
        blocker.transactional_id,
        blocker.producer_id,
    )
    if not isinstance(opened, OpenInLog) or not mine or not Overdue.holds(opened):
        return NextStep(text)
    return _ended(
        f"{text} What its timeout should have done can be done by hand.",
        force_terminate(Overdue(opened), bootstrap_servers),
    )


def _age(started: float | None, now: float, *, or_later: bool) -> str:
    """How long a transaction is open; since when where nothing in the log came after its begin to date the present."""
    if started is None:
        return ""
    if or_later and now - started < 1:
        return f" It is open since {clock_time(started)} by its coordinator's clock."
    return f" It is open for {'at least ' if or_later else ''}{format_age(now - started)}."


def _ended(text: str, ending: Ending) -> NextStep:
    return NextStep(text, ending.command, ending.warning, ending.check, ending.expect)


def _completing(stall: Stall) -> NextStep:
    blocker = stall.blocker
    decision = {
        TransactionState.PREPARE_COMMIT: "Completing: it is decided to commit it",
        TransactionState.PREPARE_ABORT: "Completing: it is decided to roll it back",
    }.get(blocker.state or TransactionState.ONGOING, "Completing: its end is decided")
    return NextStep(
        f"{decision}. {_waits(stall)}{_unmarked(blocker)} It completes by itself after that.",
        warning=DO_NOT_END[BlockerKind.COMPLETING],
    )


def _waits(stall: Stall) -> str:
    """The state of the partition that waits for its marker, and what to do about it."""
    place, seen = stall.partition, stall.blocker.completion
    if seen is None or seen.wait is MarkerWait.NOT_WRITTEN:
        if stall.leader is None:
            return f"{place} waits for its marker, and which broker leads it is not known: it is not in the metadata."
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
    """Why a write with acks=all fails, "" where it succeeds or that is not known."""
    if seen is None or seen.min_isr is None:
        return ""
    needed = effective_min_isr(seen.min_isr, (*seen.isr, *seen.missing))
    if len(seen.isr) >= needed:
        return ""
    of = f", of {needed} replicas" if needed < seen.min_isr else ""
    return (
        f"Too few replicas are in sync: min.insync.replicas is {seen.min_isr}{of}, in sync: {_brokers(seen.isr)}. "
        f"Bring back {_brokers(seen.missing)}."
    )


def _unmarked(blocker: Blocker) -> str:
    if not blocker.unmarked:
        return ""
    return f" The coordinator waits for the markers of {some(sorted(blocker.unmarked), _MOST_PARTITIONS)}."


def _brokers(ids: Collection[int]) -> str:
    return ", ".join(f"broker {node}" for node in sorted(set(ids))) or "none"


def _without_marker(stall: Stall) -> NextStep:
    """Advise on a committed transaction, which is never ended by hand: there is no line, and what would release it is
    said.
    """
    blocker, place = stall.blocker, stall.partition
    evidence = blocker.evidence
    text = f"Unmarked: {MEANING[BlockerKind.UNMARKED]}"
    if isinstance(evidence, Committed) and evidence.held.partition == place:
        text = f"Unmarked: {_commit(evidence)} {_siblings(evidence)}"
    waiting = f"Readers of committed records get nothing of {place} from offset {stall.last_stable_offset} on."
    who = shown(blocker.transactional_id) if blocker.transactional_id else f"the producer with id {blocker.producer_id}"
    return NextStep(
        f"{text} {waiting} Its records are released by the next commit of the same producer id on this partition:"
        f" let {who} write to it and commit. Where that application is gone, another client of the same"
        f" transactional.id can commit one record there. {_GONE.format(place=place, offset=blocker.start_offset)}",
        warning=DO_NOT_END[BlockerKind.UNMARKED],
    )


_GONE = (
    "That works while the coordinator gives this id the same producer id. Where it does not (the id has expired, or its"
    " epochs are used up), copy the records of {place} from offset {offset} on out with a read_uncommitted consumer"
    " before anything else."
)


def _commit(evidence: Committed) -> str:
    decision, place = evidence.decision, evidence.held.partition
    return (
        f"the transaction log has the COMMIT of {shown(decision.transactional_id)} since"
        f" {clock_time(decision.decided_at)}, its client was told so, and {place} lacks the commit marker,"
        f" seen last at {clock_time(evidence.seen)}."
    )


def _siblings(evidence: Committed) -> str:
    """The other partitions of the transaction, by what was read of their markers."""
    sides = (("with their marker", evidence.marked), ("without it", evidence.unmarked))
    told = [f"{what}: {some(sorted(places), _MOST_PARTITIONS)}" for what, places in sides if places]
    return f"Its other partitions, {'; '.join(told)}." if told else ""


def _unknown(blocker: Blocker) -> NextStep:
    missing = "; ".join(blocker.missing) or "nothing says what"
    return NextStep(
        f"Unknown: {MEANING[BlockerKind.UNKNOWN]} What is missing: {missing}."
        " Mend that first: the kind, and the right step, follow by themselves.",
        warning=DO_NOT_END[BlockerKind.UNKNOWN],
    )


def _who(blocker: Blocker) -> str:
    if not blocker.transactional_id:
        return f"Find and stop the producer with id {blocker.producer_id}."
    return (
        f"Find the instance of {shown(blocker.application)} with transactional.id {shown(blocker.transactional_id)},"
        " and let it finish or stop it."
    )


def _restart_flink(blocker: Blocker, now: float) -> str:
    """The step if it is a Flink job's: a precommitted transaction is committed when the job starts."""
    if blocker.started is None or blocker.timeout is None:
        when = "before the transaction times out"
    elif now <= (ends := blocker.started + blocker.timeout + (blocker.scan_behind or 0.0)):
        when = f"before {clock_time(ends)}, when it times out"
    else:
        when = "now, and look whether records of that checkpoint are missing"
    return (
        f"Of a Flink job: it may be precommitted, and is committed when the job starts from its last checkpoint {when}."
    )


def flink_step(blocker: Blocker, found: FlinkTransaction, now: float) -> NextStep:
    """The next step for an open transaction of a job that is known to be Flink's. It never ends the transaction."""
    who = found.id
    job = f"Flink job {shown(who.prefix)}, subtask {who.subtask}"
    if found.interval is not None:
        job += f", with a checkpoint every {format_age(found.interval)}"
    seen = {
        Precommit.PROVEN: (
            f"Precommitted at {clock_time(found.since or now)}: the subtask has taken its next transactional.id. Its"
            " records belong to a checkpoint; the job commits them when that is complete, or when it starts from it."
        ),
        Precommit.LIKELY: "Likely precommitted: it is open past a checkpoint of its job.",
        Precommit.NO: "Not known to be precommitted: the job commits it at its next checkpoint.",
    }[found.precommit]
    if found.committing:
        seen += " The checkpoint was completed: another subtask has committed it."
    left = _left_behind(blocker, found)
    text = f"Open: {job}. {seen} {left or _before_the_deadline(blocker, found.deadline, now)}"
    return NextStep(text, warning=FLINK_WARNING)


def _left_behind(blocker: Blocker, found: FlinkTransaction) -> str:
    """Describe a transaction that its job has passed by: "" while two of its checkpoints have not been committed since.

    A start of the job does not end what it does not own any more: the pool of a subtask that a downscale took away, or
    what a later attempt of the same checkpoint replaced (flink-connector-kafka#314).
    """
    if blocker.started is None or found.interval is None or found.last_commit is None or found.committing:
        return ""
    if found.last_commit <= max(blocker.started, found.since or 0.0) + 2 * found.interval:
        return ""
    ends = (
        "It has no timeout" if found.deadline is None else f"It is aborted at its timeout, {clock_time(found.deadline)}"
    )
    return (
        f"The job runs, and committed later checkpoints, the last at {clock_time(found.last_commit)}: this is a"
        " transaction that an earlier start left, as after a downscale, and another start need not end it"
        f" (flink-connector-kafka#314). {ends}; records that the job wrote again since are in its later transactions."
        " Look in its log whether it was restored from a checkpoint before this transaction; only then nothing is lost."
    )


def _before_the_deadline(blocker: Blocker, deadline: float | None, now: float) -> str:
    """Advise what to do before it times out, which loses the precommitted records."""
    if deadline is None:
        return "It has no timeout: start the job from its last checkpoint."
    if now > deadline:
        return (
            f"Its timeout passed at {clock_time(deadline)}, {format_age(now - deadline)} ago: start the job from its"
            " last checkpoint now, and look whether records of that checkpoint are missing."
        )
    return (
        f"Start the job from its last checkpoint before {clock_time(deadline)}, in {format_age(deadline - now)}: then"
        f" the transaction {shown(blocker.transactional_id)} times out, and what is precommitted is lost. If the job"
        " cannot be started, nothing extends that time: say to the owner of the data that the records of this"
        " transaction will be missing."
    )


def _by_itself(blocker: Blocker, now: float) -> str:
    """When the coordinator ends it: at its timeout, seen by a scan every ten seconds, or as the broker has it set."""
    if blocker.timeout is None:
        return "Its timeout is not known, or it has none, as in two-phase commit: then it never ends by itself."
    if blocker.started is None:
        return f"The coordinator ends it {format_age(blocker.timeout)} after it began."
    if blocker.scan_behind is None:
        return f"The coordinator ends it {format_age(blocker.timeout)} after it began; its clock is not known yet."
    ends = blocker.started + blocker.timeout + blocker.scan_behind
    scan = TIMEOUT_SCAN_SECONDS + blocker.scan_late
    if now <= ends + scan:
        left = format_age(ends + scan - now)
        return f"The coordinator ends it by itself at {clock_time(ends)} or up to {scan:g} s later, in at most {left}."
    late = format_age(now - ends)
    return (
        f"The coordinator should have ended it at {clock_time(ends)}, {late} ago, and did not: look at the broker that"
        " coordinates it."
    )


def clock_time(instant: float) -> str:
    """An instant (Unix seconds) for a person: ``2026-11-21 14:03:27 UTC``."""
    try:
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # a record may carry any timestamp
        return "an impossible time"
