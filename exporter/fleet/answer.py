"""An agent's status document, reduced to what the fleet shows. The document is foreign: any bytes give an answer or an
AnswerError.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from exporter.bounds.json_text import JsonError, parse_json
from exporter.bounds.text import cut
from exporter.core.shard import MOST as MOST_SHARDS
from exporter.fleet.facts import AgentAnswer, AnsweredCluster, FleetSourceState, FleetStall, FleetTorn
from exporter.model import Reason, TopicPartition
from exporter.words import BlockerKind

MOST_CLUSTERS = 200
"""Clusters of one agent that are kept."""
MOST_STALLS = 10_000
"""Stalled partitions of one agent that are kept; the others are counted."""
MOST_ENTRIES = 500
"""Entries that are kept of any other list of a cluster."""
LONGEST_TEXT = 300
"""Characters of a text that are kept: names of topics and groups have at most 249."""
LONGEST_ID = 1000
"""Characters of a transactional.id that are kept; a longer one is cut."""
STALL_BYTES = 400
"""Memory of a stall without its texts."""
_GREATEST_NUMBER = 2.0**63
_REFUSALS = frozenset({str(Reason.AUTHORIZATION), str(Reason.AUTHENTICATION)})

T = TypeVar("T")


class AnswerError(ValueError):
    """The bytes are no status document. The text is the end of a sentence."""


class _OddError(Exception):
    """An entry that has not the form of the status document."""


def read_answer(content: bytes) -> AgentAnswer:
    """Return what is kept of a status document. Raises AnswerError."""
    try:
        return _AnswerReader().answer(parse_json(content))
    except JsonError as error:
        raise AnswerError(str(error)) from None


class _AnswerReader:
    """Reads one document. Entries of another form are counted and left out."""

    def __init__(self) -> None:
        self._odd = 0
        self._texts: dict[str, str] = {}  # one object for equal texts: a holder's id is in each of its stalls

    def answer(self, document: object) -> AgentAnswer:
        if not isinstance(document, dict) or not isinstance(document.get("clusters"), list):
            raise AnswerError("is no status of an agent")
        try:
            version = self._text(document, "version")
            ready = document.get("ready") is True
            shard = _shard(document.get("shard"))
        except _OddError:
            raise AnswerError("is no status of an agent: version or shard has another form") from None
        clusters = tuple(self._entries(document, "clusters", self._cluster, MOST_CLUSTERS))
        return AgentAnswer(version, ready, shard, clusters, self._odd, size_of(clusters))

    def _cluster(self, found: dict[str, Any]) -> AnsweredCluster:
        known = _mapping(found, "known")
        before, listed = self._odd, found.get("stalled_partitions")
        stalls = tuple(self._entries(found, "stalled_partitions", self._stall, MOST_STALLS))
        hour, posture = found.get("last_hour") or {}, found.get("posture") or {}
        if not isinstance(hour, dict) or not isinstance(posture, dict):
            raise _OddError
        return AnsweredCluster(
            name=self._text(found, "name"),
            cluster_id=self._text(found, "cluster_id"),
            bootstrap_servers=self._text(found, "bootstrap_servers"),
            # What is left out may be a stall.
            knows_stalls=known.get("stalled_partitions") is True and self._odd == before,
            watched_seconds=_number_or_none(known, "stalls_watched_seconds"),
            stall_after=_number_or_none(known, "stall_after_seconds"),
            stalls=stalls,
            left_out=max(0, len(listed) - MOST_STALLS) if isinstance(listed, list) else 0,
            sources=tuple(self._entries(found, "sources", self._source)),
            torn=tuple(self._entries(found, "torn_markers", self._torn)),
            storms=dict(self._entries(hour, "fence_storms", self._storm)),
            stopped=tuple(filter(None, self._entries(hour, "applications", self._stopped))),
            failed_checks=tuple(self._entries(posture, "failed", self._check)),
            failed_tasks=tuple(task for tasks in self._entries(found, "connect", self._tasks) for task in tasks),
            failed_queries=tuple(filter(None, self._entries(found, "spark", self._query))),
            audits_with_findings=tuple(filter(None, self._entries(found, "audits", self._audit))),
        )

    def _stall(self, found: dict[str, Any]) -> FleetStall:
        blocker = _mapping(found, "blocker")
        producer_id = blocker.get("producer_id")
        if producer_id is not None and (type(producer_id) is not int or abs(producer_id) >= _GREATEST_NUMBER):
            raise _OddError
        kind = self._text(blocker, "kind")
        return FleetStall(
            partition=self._partition(found),
            seconds=_number(found, "seconds"),
            lag=int(_number(found, "lag_offsets")),
            # A later version may have further kinds.
            kind=BlockerKind(kind) if kind in BlockerKind.values() else BlockerKind.UNKNOWN,
            transactional_id=self._text(blocker, "transactional_id", LONGEST_ID),
            application=self._text(blocker, "application"),
            producer_id=producer_id,
            ignored=found.get("ignored") is not None,
            owner=self._text(found, "owner"),
        )

    def _source(self, found: dict[str, Any]) -> FleetSourceState:
        up = found.get("up")
        if up is not None and not isinstance(up, bool):
            raise _OddError
        faults = found.get("faults")
        refused = isinstance(faults, list) and any(
            isinstance(fault, dict) and self._text(fault, "reason") in _REFUSALS for fault in faults[:MOST_ENTRIES]
        )
        ignored = found.get("ignored") is not None
        return FleetSourceState(self._text(found, "source"), self._text(found, "target"), up, ignored, refused)

    def _torn(self, found: dict[str, Any]) -> FleetTorn:
        words = self._text(found, "decided"), self._text(found, "found")
        if words[0] not in {"commit", "abort"} or words[1] not in {"nothing", "commit", "abort"}:
            raise _OddError
        return FleetTorn(self._text(found, "transactional_id", LONGEST_ID), self._partition(found), *words)

    def _storm(self, found: dict[str, Any]) -> tuple[str, int]:
        return self._text(found, "transactional_id", LONGEST_ID), int(_number(found, "fences"))

    def _stopped(self, found: dict[str, Any]) -> str:
        return "" if found.get("stopped_minutes") is None else self._text(found, "application")

    def _check(self, found: dict[str, Any]) -> tuple[str, str]:
        return self._text(found, "name"), self._text(found, "subject")

    def _tasks(self, found: dict[str, Any]) -> list[tuple[str, str, str]]:
        name = self._text(found, "name")

        def task(failed: dict[str, Any]) -> tuple[str, str, str]:
            return name, self._text(failed, "connector"), self._text(failed, "task")

        return list(self._entries(found, "failed", task))

    def _query(self, found: dict[str, Any]) -> tuple[str, str] | None:
        failed = found.get("state") == "failed"
        return (self._text(found, "application"), self._text(found, "query")) if failed else None

    def _audit(self, found: dict[str, Any]) -> str:
        return self._text(found, "audit") if found.get("verdict") == "findings" else ""

    def _partition(self, found: dict[str, Any]) -> TopicPartition:
        return TopicPartition(self._text(found, "topic"), int(_number(found, "partition")))

    def _text(self, found: dict[str, Any], key: str, most: int = LONGEST_TEXT) -> str:
        """The text of a key, "" where it is null or missing."""
        value = found.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise _OddError
        text = cut(value, most)
        return self._texts.setdefault(text, text)

    def _entries(
        self, found: dict[str, Any], key: str, read: Callable[[dict[str, Any]], T], most: int = MOST_ENTRIES
    ) -> Iterator[T]:
        """Yield the entries of a list that have the form, at most so many. A missing list has none."""
        listed = found.get(key)
        if listed is None:
            return
        if not isinstance(listed, list):
            self._odd += 1
            return
        for entry in listed[:most]:
            try:
                yield read(_object(entry))
            except _OddError:
                self._odd += 1


def size_of(clusters: tuple[AnsweredCluster, ...]) -> int:
    """Bytes that clusters of one answer take in memory, about. Equal texts are one object."""
    texts = sum(map(sys.getsizeof, set(_texts(clusters))))
    return texts + STALL_BYTES * sum(map(_weight, clusters))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
    elif isinstance(value, tuple):
        for part in value:
            yield from _texts(part)


def _weight(cluster: AnsweredCluster) -> int:
    """Number of entries that a cluster takes of the limit."""
    lists = (cluster.stalls, cluster.sources, cluster.torn, cluster.storms, cluster.stopped, cluster.failed_checks)
    return 4 + sum(map(len, lists)) + len(cluster.failed_tasks) + len(cluster.failed_queries)


def _shard(found: object) -> tuple[int, int]:
    """Index and count; one of one for an agent without shards."""
    if found is None:
        return 0, 1
    if not isinstance(found, dict):
        raise _OddError
    index, count = int(_number(found, "index")), int(_number(found, "count"))
    if not 0 <= index < count <= MOST_SHARDS:
        raise _OddError
    return index, count


def _mapping(found: dict[str, Any], key: str) -> dict[str, Any]:
    return _object(found.get(key))


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _OddError
    return value


def _number(found: dict[str, Any], key: str) -> float:
    """A number from 0."""
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _OddError
    if not math.isfinite(value) or not 0 <= value < _GREATEST_NUMBER:
        raise _OddError
    return value


def _number_or_none(found: dict[str, Any], key: str) -> float | None:
    return None if found.get(key) is None else _number(found, key)
