"""Which application a transactional.id belongs to.

Ids are unbounded (Streams and Flink make new ones at every start), applications are not: this limits the cardinality of
metrics. User patterns come first, then known groups of Connect, then the forms of ``naming``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from exporter.applications.naming import counted_from_zero, form_of
from exporter.bounds.patterns import BoundedPattern, given_up
from exporter.catalogue import CANARY
from exporter.model import Fault

EMPTY_ID = "_empty"
_CANARY_PREFIX = f"{CANARY}-"
MOST_NOTED = 1000
"""Largest number of applications remembered as not being Streams, and of Connect groups that leaders' ids name."""

# DistributedConfig.transactionalProducerId: the leader of a Connect cluster writes its config topic under this id.
_CONNECT_LEADER = re.compile(r"connect-cluster-(?P<group>.+)", re.DOTALL)
# Worker.taskTransactionalId: <group.id>-<connector>-<task>.
_TASK = re.compile(r"(?P<rest>.+)-\d+", re.DOTALL)
_MAY_BE_FLINK = re.compile(r".+-(?:\d+|[0-9a-f]{32})-\d+", re.DOTALL)


class Application(NamedTuple):
    """The group of a transactional.id; ``kind`` is one of ``catalogue.APPLICATION_KINDS``.

    ``connect`` is the Connect group and ``connector`` the connector's name; "" for other ids.
    """

    name: str
    kind: str
    connect: str = ""
    connector: str = ""


class Grouped(NamedTuple):
    """An application and a description of the rule by which an id belongs to it."""

    application: Application
    rule: str


class Grouping:
    """Maps ids to applications. ``patterns`` are the user's regular expressions with a group named ``application``."""

    def __init__(self, patterns: Sequence[str] = (), connect_groups: Iterable[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self._patterns = tuple(BoundedPattern(pattern, "applications") for pattern in patterns)
        self._connect_groups = set(connect_groups)
        self._group_lengths: tuple[int, ...] = ()  # of these, the longest first
        self._measure_groups()
        self._not_streams: set[str] = set()
        self.learned = 0
        """How often ``learn`` changed what ids mean."""
        self._newest = ("", False)  # what it noted last, and whether that is a group of Connect
        self.of = lru_cache(maxsize=4096)(self._of)  # saves 6 µs for an id that is asked again, 12 with two patterns

    def learn(self, transactional_id: str) -> bool:
        """Note a Connect cluster by its leader's id, and an application whose ids look like Streams' and are not. True
        for a new one.
        """
        leader = _CONNECT_LEADER.fullmatch(transactional_id)
        if leader is not None and leader["group"] not in self._connect_groups:
            if len(self._connect_groups) >= MOST_NOTED:
                return False
            self._connect_groups.add(leader["group"])
            self._measure_groups()
            self._learned(leader["group"], connect=True)
            return True
        name = counted_from_zero(transactional_id)
        if name is None or name in self._not_streams or len(self._not_streams) >= MOST_NOTED:
            return False
        self._not_streams.add(name)
        self._learned(name, connect=False)
        return True

    def may_describe(self, name: str, transactional_id: str) -> bool:
        """Return whether what was noted last may be about an application of this name and one of its ids: a task of the
        group, or the application that is not of Streams. Any client can have something noted, so it costs little for
        all others.
        """
        newest, connect = self._newest
        if not connect:
            return name == newest
        return name.startswith(f"{newest}-") and transactional_id.startswith(f"{name}-")

    def _measure_groups(self) -> None:
        self._group_lengths = tuple(sorted({len(group) for group in self._connect_groups}, reverse=True))

    def _learned(self, newest: str, *, connect: bool) -> None:
        self.learned += 1
        self._newest = newest, connect
        self.of.cache_clear()

    @property
    def connect_groups(self) -> frozenset[str]:
        """The groups of Connect workers that are configured, or whose leader's id was seen."""
        return frozenset(self._connect_groups)

    def given_up(self) -> Iterator[Fault]:
        """Return a fault for each pattern that takes too long on an id that came since the last call: the id belongs to
        the application that its form names.
        """
        return given_up(self._patterns)

    def is_connect_task(self, transactional_id: str) -> bool:
        """Return whether this is of a task of a known Connect group, whatever application a user's pattern says."""
        return self._connect_task(transactional_id) is not None

    @staticmethod
    def may_be_flink(transactional_id: str) -> bool:
        """Return whether by its form an id may be that of a Flink job, whatever application a user's pattern says.

        Flink's KafkaSink makes ``<prefix>-<subtask>-<checkpoint or number>`` (TransactionalIdFactory), the
        FlinkKafkaProducer before it ``<task>-<operator's hash>-<number>``. So may others: a pool of producers whose
        prefix ends in the name of a StatefulSet's pod. Only what its transactions do shows a job (``flink.jobs``).
        """
        return _MAY_BE_FLINK.fullmatch(transactional_id) is not None

    def explain(self, transactional_id: str) -> Grouped:
        """The application of an id, and which rule named it."""
        if not transactional_id:
            return Grouped(Application(EMPTY_ID, "other"), "empty id")
        if transactional_id.startswith(_CANARY_PREFIX):
            return Grouped(Application(CANARY, "canary"), "the canary's own")
        for pattern in self._patterns:
            if (match := pattern.match(transactional_id)) and match["application"]:
                return Grouped(Application(match["application"], "producer"), f"your pattern {pattern.pattern}")
        if leader := _CONNECT_LEADER.fullmatch(transactional_id):
            return Grouped(Application(transactional_id, "connect_leader", leader["group"]), "leader of Connect")
        if task := self._connect_task(transactional_id):
            return Grouped(task, "Connect: group, connector, task")
        form = form_of(transactional_id)
        if form.kind == "streams" and form.name in self._not_streams:
            return Grouped(Application(form.name, "producer"), "UUID")
        return Grouped(Application(form.name, form.kind, form.connect, form.connector), form.rule)

    def _of(self, transactional_id: str) -> Application:
        return self.explain(transactional_id).application

    def _connect_task(self, transactional_id: str) -> Application | None:
        task = _TASK.fullmatch(transactional_id) if self._connect_groups else None
        if task is None:
            return None
        rest = task["rest"]
        # The longest group wins: with the groups `etl` and `etl-eu`, `etl-eu-orders-0` is a task of `etl-eu`. It is not
        # searched for among all groups: any client may name its ids as leaders of Connect do.
        for length in self._group_lengths:
            if length + 1 < len(rest) and rest[length] == "-" and rest[:length] in self._connect_groups:
                return Application(rest, "connect_task", rest[:length], rest[length + 1 :])
        return None
