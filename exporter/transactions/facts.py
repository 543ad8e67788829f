"""Transactions, their coordinators' clock, and who uses them: values that other rooms take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from exporter.model import Fact, TopicPartition
from exporter.transactions.transaction import Transaction
from exporter.words import TransactionState


class OpenTransaction(NamedTuple):
    """A transaction that its coordinator has not completed.

    ``started`` and ``prepared`` are Unix seconds by the clock of ``CoordinatorTime`` (``prepared`` is None while
    ongoing or when not known); ``timeout`` is seconds, None for a two-phase-commit transaction (KIP-939), which never
    times out. While it is prepared, ``partitions`` are those still without a marker when polled, and all of them when
    read from the log. ``stamp_ahead`` is by how many seconds the clock of the coordinator that began it is ahead of
    ``started``. ``scan_behind`` is by how many seconds later than ``timeout`` its present coordinator ends it, by its
    own clock; None while no record of that coordinator shows its clock. ``scan_late`` is by how many seconds rarer than
    every ten it looks for those that timed out.
    """

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    state: TransactionState
    started: float | None
    timeout: float | None
    prepared: float | None
    partitions: frozenset[TopicPartition]
    stamp_ahead: float = 0.0
    scan_behind: float | None = 0.0
    scan_late: float = 0.0

    @property
    def ends(self) -> float | None:
        """When its timeout has passed by the clock of its coordinator; None without one, or while that is not known."""
        return None if self.scan_behind is None else self.due

    @property
    def due(self) -> float | None:
        """As ``ends``, by the coordinators' common clock where that of its own is not known."""
        if self.started is None or self.timeout is None:
            return None
        return self.started + self.timeout + (self.scan_behind or 0.0)


@dataclass(frozen=True, slots=True)
class OpenTransactions(Fact):
    """Every open transaction that the origin has, and whether they are complete.

    ``complete`` is True only when nothing can be missing: the tail of the log is at its end and the state at its start
    was read in full, or every coordinator answered and DESCRIBE on all transactional ids is proven. ``missing`` says in
    words what could not be asked. ``origin`` is ``txnlog`` or ``transactions``. ``as_of`` is the monotonic instant at
    which all of them were known to be open: they may have ended since. It is None while that is not known.
    """

    origin: str
    transactions: tuple[OpenTransaction, ...]
    complete: bool
    missing: tuple[str, ...] = ()
    as_of: float | None = None

    @property
    def of_whole_log(self) -> bool:
        """Whether the agent's tail has read every id of the transaction log."""
        return self.complete and self.origin == "txnlog"

    def without_clock(self) -> Self:
        """The same, where the clocks of the coordinators are not known."""
        return replace(self, transactions=tuple([opened._replace(scan_behind=None) for opened in self.transactions]))


@dataclass(frozen=True, slots=True)
class LoggedTransactions(Fact):
    """The open transactions of the tail, for the source that publishes them: see OpenTransactions.

    ``clock`` has the coordinators' clock beside our monotonic one; ``applications`` are all counted ones, also those
    without an open transaction.
    """

    opened: OpenTransactions
    clock: CoordinatorTime
    applications: frozenset[str] = frozenset()


NOTICEABLE_SECONDS = 5.0
"""Difference of two clocks, in seconds, from which it is reported: its estimate is late by the delay of a record."""


@dataclass(frozen=True, slots=True)
class CoordinatorTime(Fact):
    """The coordinators' clock beside ours, in seconds: that by which all instants are, see ``clock.py``.

    ``ahead`` is by how much ours is ahead of theirs, negative behind: an estimate, too large by the delay of the least
    delayed record; None while it is not known. ``at_most`` is a true upper bound of it, None where nothing was read.
    ``beyond`` is by how much our clock was ahead of our monotonic one then: another distance now means that it was set.
    ``furthest`` is the distance from the clock furthest ahead where the brokers' are apart.
    """

    ahead: float | None = None
    at_most: float | None = None
    beyond: float | None = field(default=None, compare=False)
    furthest: float | None = None

    def beside(self, other: float) -> CoordinatorTime:
        """The same beside a clock of ours that is ``other`` seconds ahead of this one."""
        return CoordinatorTime(
            None if self.ahead is None else self.ahead + other,
            None if self.at_most is None else self.at_most + other,
            other,
            None if self.furthest is None else self.furthest + other,
        )

    @property
    def distance(self) -> float | None:
        """The distance that is shown."""
        return self.ahead if self.furthest is None else self.furthest

    def now(self, wall: float) -> float:
        """The coordinators' time when ours is ``wall``, both Unix seconds. Ages are shown by it."""
        return wall - (self.ahead or 0.0)

    def shown(self, wall: float) -> float:
        """The time by which stalls are dated: the coordinators' where the difference is noticeable, else ours."""
        return self.now(wall) if abs(self.ahead or 0.0) >= NOTICEABLE_SECONDS else wall

    def earliest(self, wall: float) -> float | None:
        """As ``now``, or earlier: the time by which a transaction is late. None without a bound of their clock."""
        return None if self.at_most is None else wall - self.at_most

    def advising(self, wall: float) -> float:
        """The time for next steps: ``now`` where the difference is known, else ``earliest`` if there is one."""
        return wall - self.at_most if self.at_least and self.at_most is not None else self.now(wall)

    @property
    def at_least(self) -> bool:
        """Return whether ``advising`` is only a lower bound of their clock: its difference is not known."""
        return self.ahead is None and self.at_most is not None


@dataclass(frozen=True, slots=True)
class ReleaseTimes(Fact):
    """When the last finished transaction in a partition completed: Unix seconds of log time."""

    ended: Mapping[TopicPartition, float]


@dataclass(frozen=True, slots=True)
class KnownIds(Fact):
    """How many transactional ids are in each partition of ``__transaction_state``, by application."""

    by_partition: Mapping[int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class TaskCommits(Fact):
    """Committed transactions of exactly-once Connect source tasks, by their transactional ids, counted from the log.

    Ids of the Connect groups that are configured or whose leader is in the log, which are ``groups``; 0 for a task
    without a commit yet.
    """

    by_id: Mapping[str, int]
    groups: frozenset[str] = frozenset()


class UncleanId(NamedTuple):
    """A transactional.id with unclean ends of one outcome in the last hour of the log: the newest, and how many.

    ``first`` is Unix seconds of the minute of the first one.
    """

    newest: Transaction
    ends: int
    first: float


@dataclass(frozen=True, slots=True)
class UncleanEnds(Fact):
    """The latest transactions of the last hour of the log that did not end by their client's own commit or abort,
    newest first; all of them by id, most first.

    ``of_other_ids`` is the number of ends of ids that are not in ``ids``, because there are too many.
    """

    ends: tuple[Transaction, ...]
    ids: tuple[UncleanId, ...] = ()
    of_other_ids: int = 0


class ExpiredId(NamedTuple):
    """A transactional.id that its coordinator removed, idle for transactional.id.expiration.ms; Unix seconds."""

    transactional_id: str
    application: str
    expired: float


@dataclass(frozen=True, slots=True)
class ExpiredIds(Fact):
    """The ids that expired in the last hour of the log and were not initialised since, newest first.

    ``others`` is how many more there are, as too many are listed.
    """

    ids: tuple[ExpiredId, ...]
    others: int = 0


class ConnectTaskId(NamedTuple):
    """An id of a Connect task in the log: whether it has a record of the last hour, and its timeout in seconds."""

    recent: bool
    timeout: float | None


@dataclass(frozen=True, slots=True)
class TransactionsElsewhere(Fact):
    """The brokers list transactions and have no topic ``__transaction_state``, as those of Redpanda do."""


@dataclass(frozen=True, slots=True)
class LogRefused(Fact):
    """The transaction log has been out of reach since this process began: it is refused, or there is none."""


class OffsetPartitions(NamedTuple):
    """Partitions of ``__consumer_offsets``, and topics, that so many transactions of an application named together."""

    transactions: int
    partitions: frozenset[int]
    topics: frozenset[str] = frozenset()


class RepeatedInits(NamedTuple):
    """InitProducerId of so many ids of an application over ``seconds``, and its transactions in that time."""

    inits: int
    ids: int
    transactions: int
    seconds: float


class IdLife(NamedTuple):
    """When a transactional.id appeared, None where it was there before, and its last use: Unix seconds of log time.

    The last use of an id whose transaction was aborted is the begin of that transaction.
    """

    transactional_id: str
    first: float | None
    last: float


class IdChanges(NamedTuple):
    """The ids of an application that got several new ones, the latest used first, as they were at ``at``.

    ``returned`` is the latest instant at which an id that was known was initialised again, None without one.
    """

    ids: tuple[IdLife, ...]
    at: float
    returned: float | None = None


class CommitDurations(NamedTuple):
    """How long an application's committed transactions were open, since they are counted. ``within`` is the bound of
    the histogram's bucket in seconds below which 999 of 1000 were; None above the last bound.
    """

    transactions: int
    within: float | None


class ApplicationTimeouts(NamedTuple):
    """The transaction timeouts of the ids of an application in the last hour: seconds, None without any that ends.

    ``two_phase`` counts the ids without a timeout, which take part in two-phase commit (KIP-939).
    """

    shortest: float | None
    longest: float | None
    two_phase: int = 0


@dataclass(frozen=True, slots=True)
class TransactionUse(Fact):
    """Who uses transactions, from the last hour of the log.

    ``topics`` were written to, ``clients`` counts ids by application and by the transaction version that their client
    speaks, ``connect_ids`` are the ids of Connect's tasks, ``connect_groups`` the groups of workers that are known.
    ``new_applications`` appeared in that hour, None while those before are not known. ``offset_partitions`` has by
    application the partitions of ``__consumer_offsets`` that its transactions named since the log is read.
    ``id_changes`` has the applications that got new ids again and again in the last day, ``repeated_inits`` those that
    initialise the same ids again and again. ``durations``, ``timeouts`` and ``pauses``, the longest one in seconds
    between two transactions, are by application.
    """

    topics: frozenset[str]
    clients: Mapping[str, Mapping[int, int]]
    connect_ids: Mapping[str, ConnectTaskId]
    connect_groups: frozenset[str] = frozenset()
    new_applications: int | None = None
    offset_partitions: Mapping[str, OffsetPartitions] = field(default_factory=dict)
    id_changes: Mapping[str, IdChanges] = field(default_factory=dict)
    repeated_inits: Mapping[str, RepeatedInits] = field(default_factory=dict)
    pauses: Mapping[str, float] = field(default_factory=dict)
    durations: Mapping[str, CommitDurations] = field(default_factory=dict)
    timeouts: Mapping[str, ApplicationTimeouts] = field(default_factory=dict)
