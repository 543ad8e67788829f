"""Which application a transactional.id belongs to.

Ids are unbounded (Streams and Flink make new ones at every start), applications are not: this keeps the metrics'
cardinality in hand. User patterns come first, then the built-in forms of the frameworks, then the id without its
trailing number or UUID.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

UUID_ID = "_uuid"
EMPTY_ID = "_empty"

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_BARE_UUID = re.compile(_UUID)
# DistributedConfig.transactionalProducerId: the leader of a Connect cluster writes its config topic under this id.
_CONNECT_LEADER = re.compile(r"connect-cluster-(?P<group>.+)", re.DOTALL)
# Worker.taskTransactionalId: <group.id>-<connector>-<task>.
_TASK = re.compile(r"(?P<rest>.+)-\d+", re.DOTALL)
# ActiveTaskCreator: <application.id>-<process UUID>-<thread> (exactly_once_v2); before 3.0 <application.id>-<0_1>.
_STREAMS = re.compile(rf"(?P<application>.+)-(?:{_UUID}-\d+|\d+_\d+)", re.DOTALL)
# Flink's TransactionalIdFactory: <prefix>-<subtask>-<checkpoint>.
_FLINK = re.compile(r"(?P<application>.+)-\d+-\d+", re.DOTALL)
_MAY_BE_FLINK = re.compile(r".+-(?:\d+|[0-9a-f]{32})-\d+", re.DOTALL)
_SUFFIXED = re.compile(rf"(?P<application>.+?)[-._:/#@](?:{_UUID}|\d+)", re.DOTALL)


class Application(NamedTuple):
    """The group of a transactional.id; ``kind`` is one of ``catalogue.APPLICATION_KINDS``.

    ``connect`` is the Connect group and ``connector`` the connector's name; "" for what is not Connect's.
    """

    name: str
    kind: str
    connect: str = ""
    connector: str = ""


class Grouping:
    """Maps ids to applications. ``patterns`` are the user's regular expressions with a group named ``application``."""

    def __init__(self, patterns: Sequence[str] = (), connect_groups: Iterable[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)
        self._connect_groups = set(connect_groups)
        self.of = lru_cache(maxsize=4096)(self._of)

    def learn(self, transactional_id: str) -> bool:
        """Take note of a Connect cluster when its leader's id passes by; True when it is a new one."""
        leader = _CONNECT_LEADER.fullmatch(transactional_id)
        if leader is None or leader["group"] in self._connect_groups:
            return False
        self._connect_groups.add(leader["group"])
        self.of.cache_clear()
        return True

    def is_connect_task(self, transactional_id: str) -> bool:
        """Whether this is the id of a task of a known Connect group, whatever application a user's pattern says."""
        return self._connect_task(transactional_id) is not None

    def may_be_flink(self, transactional_id: str) -> bool:
        """Whether by its form an id may be that of a Flink job, whatever application a user's pattern says.

        Flink's KafkaSink makes ``<prefix>-<subtask>-<checkpoint or number>``, the FlinkKafkaProducer before it
        ``<task>-<operator's hash>-<number>``.
        """
        return self.of(transactional_id).kind == "flink" or _MAY_BE_FLINK.fullmatch(transactional_id) is not None

    def _of(self, transactional_id: str) -> Application:
        if not transactional_id:
            return Application(EMPTY_ID, "other")
        for pattern in self._patterns:
            if (match := pattern.search(transactional_id)) and match["application"]:
                return Application(match["application"], "producer")
        if _BARE_UUID.fullmatch(transactional_id):
            return Application(UUID_ID, "other")
        if leader := _CONNECT_LEADER.fullmatch(transactional_id):
            return Application(transactional_id, "connect_leader", leader["group"])
        return self._connect_task(transactional_id) or _by_form(transactional_id)

    def _connect_task(self, transactional_id: str) -> Application | None:
        task = _TASK.fullmatch(transactional_id) if self._connect_groups else None
        if task is None:
            return None
        # The longest group wins: with the groups `etl` and `etl-eu`, `etl-eu-orders-0` is a task of `etl-eu`.
        for group in sorted(self._connect_groups, key=len, reverse=True):
            if task["rest"].startswith(group + "-") and len(task["rest"]) > len(group) + 1:
                return Application(task["rest"], "connect_task", group, task["rest"][len(group) + 1 :])
        return None


def _by_form(transactional_id: str) -> Application:
    for kind, form in (("streams", _STREAMS), ("flink", _FLINK), ("producer", _SUFFIXED)):
        if match := form.fullmatch(transactional_id):
            return Application(match["application"], kind)
    return Application(transactional_id, "producer")
