"""What happened to ids: new ones by application, which is evidence of ids that change at every start; ids that are
initialised again and again, a producer for each transaction or a client that restarts; and ids that expired. No I/O.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from exporter.applications.applications import EMPTY_ID, Grouping
from exporter.applications.naming import form_of
from exporter.flink.jobs import Jobs
from exporter.transactions.facts import ExpiredId, ExpiredIds, IdChanges, IdLife, RepeatedInits
from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.records import Status

DAY = 86_400.0
LEAST_NEW = 3
"""Fewest new ids of an application before its ids are looked at."""
MOST_NEW = 50
"""New ids that are remembered of an application."""
THINNED_SECONDS = 2.0
"""Where more are new, those that appear closer together are thinned out: at ten ids a second, 50 are of 100 seconds."""
MOST_APPLICATIONS = 1000
"""Applications whose new ids are remembered."""
MOST_IDS = 200
"""Ids of an application in a result."""
_BY_DESIGN = frozenset({"streams", "connect_leader", "connect_task", "canary"})
_SPARK = "Spark application id"


class NewIds:
    """When ids appeared that no coordinator had before, and when ids that were known were initialised again.

    Unix seconds of log time. Not saved: a restart of the agent begins anew.
    """

    def __init__(self, grouping: Grouping, jobs: Jobs) -> None:
        self._grouping = grouping
        self._jobs = jobs
        self._first: dict[str, deque[tuple[str, float]]] = {}
        self._returned: dict[str, float] = {}

    def appeared(self, entry: Entry) -> None:
        """Note an id that is new. What an engine makes anew by design is left out."""
        known = self._first.get(entry.application)
        if known is None and len(self._first) >= MOST_APPLICATIONS:
            return
        if changes_by_design(self._grouping, entry.transactional_id):
            return
        if known is None:
            known = self._first[entry.application] = deque(maxlen=MOST_NEW)
        if len(known) == MOST_NEW and known[-1][1] - known[-2][1] < THINNED_SECONDS:
            known.pop()
        known.append((entry.transactional_id, entry.record_ms / 1000))

    def initialised(self, entry: Entry) -> None:
        """Note an InitProducerId. That of an id that has just appeared is its first, and no return."""
        known = self._first.get(entry.application)
        instant = entry.record_ms / 1000
        if known and (entry.transactional_id, instant) not in known:
            self._returned[entry.application] = instant

    def changes(self, entries_of: Callable[[Container[str]], Iterable[Entry]], log_now: float) -> dict[str, IdChanges]:
        """The changes of the ids of each application with ``LEAST_NEW`` new ones in the last day. ``entries_of`` gives
        the ids of applications. Those of Flink jobs are left out: a job is known by its third commit, so before its
        ids are evidence.
        """
        for application, known in list(self._first.items()):
            while known and known[0][1] < log_now - DAY:
                known.popleft()
            if not known:
                del self._first[application]
                self._returned.pop(application, None)
        first = {name: dict(known) for name, known in self._first.items() if len(known) >= LEAST_NEW}
        lives: dict[str, list[IdLife]] = {name: [] for name in first}
        for entry in entries_of(first.keys()) if first else ():
            found = lives[entry.application]
            if entry.offset >= 0 and not self._jobs.is_job(entry.transactional_id):
                found.append(_life(entry, first[entry.application], log_now))
                if len(found) >= 2 * MOST_IDS:  # an application may have a million
                    found[:] = _newest(found)
        return {
            name: IdChanges(_newest(found), log_now, self._returned.get(name)) for name, found in lives.items() if found
        }


def changes_by_design(grouping: Grouping, transactional_id: str) -> bool:
    """Return whether the engine that made this id makes new ones at its starts, or fences by something else.

    Streams (StreamsProducer: the process id), Spark's application ids, Connect's tasks (new with a new connector), the
    canary. An id does not show whether it is Flink's.
    """
    application, rule = grouping.explain(transactional_id)
    form = form_of(transactional_id)
    return (
        application.kind in _BY_DESIGN
        or _SPARK in rule
        or application.name == EMPTY_ID
        or grouping.is_connect_task(transactional_id)
        or form.kind in _BY_DESIGN
        or _SPARK in form.rule
    )


def _life(entry: Entry, first: Mapping[str, float], log_now: float) -> IdLife:
    if entry.open:
        last = log_now
    elif entry.status == Status.COMPLETE_ABORT and entry.start_ms >= 0:
        last = entry.begun_ms / 1000  # the abort may be the coordinator's, long after the client was gone
    else:
        last = entry.record_ms / 1000
    return IdLife(entry.transactional_id, first.get(entry.transactional_id), last)


def _newest(lives: list[IdLife]) -> tuple[IdLife, ...]:
    """Those whose appearance is known, and the latest used of the others."""
    chosen = sorted(lives, key=lambda life: (life.first is None, -life.last, life.transactional_id))[:MOST_IDS]
    return tuple(sorted(chosen, key=lambda life: (-life.last, life.transactional_id)))


WINDOW = 600.0
"""Seconds for which an InitProducerId is remembered."""
MOST_INITS = 100
"""Of one application: those of more are of a shorter time."""
LEAST_INITS = 20
LEAST_SPAN = 60.0
"""So many inits over at least so many seconds are judged. A pod that crashes is started 7 times in 10 minutes."""
LEAST_EACH = 5.0
"""Inits of one id: at a start of many instances each has one or two."""
MOST_TRANSACTIONS = 3.0
"""Transactions for each init, above which producers are used again."""


class _Init(NamedTuple):
    at: float
    transactional_id: str
    transactions: int


class RecentInits:
    """The newest InitProducerId of each application: Unix seconds of log time. A restart of the agent begins anew."""

    def __init__(self) -> None:
        self._by_application: dict[str, deque[_Init]] = {}

    def note(self, entry: Entry, transactions: int) -> None:
        """Note an InitProducerId, with how many transactions of the application were counted before it."""
        known = self._by_application.get(entry.application)
        if known is None:
            if len(self._by_application) >= MOST_APPLICATIONS:
                return
            known = self._by_application[entry.application] = deque(maxlen=MOST_INITS)
        known.append(_Init(entry.record_ms / 1000, entry.transactional_id, transactions))

    def repeated(self, log_now: float, transactions: Mapping[str, int]) -> dict[str, RepeatedInits]:
        """The applications with so many inits for their transactions that producers are not used again.

        ``transactions`` are counted until now, by application.
        """
        found = {}
        for name, known in list(self._by_application.items()):
            while known and known[0].at < log_now - WINDOW:
                known.popleft()
            if not known:
                del self._by_application[name]
                continue
            span = log_now - known[0].at
            ended = transactions.get(name, 0) - known[0].transactions
            ids = len({init.transactional_id for init in known})
            enough = len(known) >= LEAST_INITS and span >= LEAST_SPAN and len(known) >= LEAST_EACH * ids
            if enough and ended <= MOST_TRANSACTIONS * len(known):
                found[name] = RepeatedInits(len(known), ids, ended, span)
        return found


HOUR = 3600.0
MOST_LISTED = 200
MOST_KEPT = 20_000
"""Ids that are kept: of a log that drops more in an hour, the newest are counted."""


class RecentlyExpired:
    """The ids by their names, in the order of the log."""

    def __init__(self, application_of: Callable[[str], str]) -> None:
        self._application_of = application_of
        self._kept: dict[str, float] = {}

    def note(self, transactional_id: str, expired: float) -> None:
        """Note that an id expired, Unix seconds of log time."""
        self._kept.pop(transactional_id, None)
        self._kept[transactional_id] = expired
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def initialised(self, transactional_id: str) -> None:
        """Note that a producer took an id again: nobody needs to be told of it."""
        if self._kept:
            self._kept.pop(transactional_id, None)

    def last_hour(self, log_now: float) -> ExpiredIds:
        """The ids of the hour before this instant, newest first."""
        self._drop(log_now)
        newest = sorted(self._kept.items(), key=lambda row: -row[1])[:MOST_LISTED]
        listed = tuple(ExpiredId(name, self._application_of(name), expired) for name, expired in newest)
        return ExpiredIds(listed, len(self._kept) - len(listed))

    def by_application(self, log_now: float) -> Counter[str]:
        """How many of each application."""
        self._drop(log_now)
        return Counter(map(self._application_of, self._kept))

    def _drop(self, log_now: float) -> None:
        for name in [name for name, expired in self._kept.items() if expired < log_now - HOUR]:
            del self._kept[name]
