"""Partitions that do not move, as ``stalls.json`` has them over a restart. No I/O.

``{"topic": {"partition": [lso, since, topic id, producer id, start offset, true]}}``: producer id and start offset
where a holder is known, ``since`` in Unix seconds, ``true`` where it is known as Unix time only. Under the key "" the
anchor by which these are dated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from exporter.lso.dating import Anchor, Dated, anchor_document, read_anchor, restored
from exporter.model import TopicPartition

_PARTITION = re.compile("[0-9]{1,10}")


class SavedStall(NamedTuple):
    """State of a partition from an earlier process or an earlier read; ``topic_id`` is "" when it was not known.

    ``who`` is the holder, by producer id and start offset.
    """

    last_stable_offset: int
    since: Dated
    topic_id: str = ""
    who: tuple[int, int] | None = None


def read_stalls(document: Mapping[str, Any], now: Anchor) -> dict[TopicPartition, SavedStall]:
    """The state of an earlier process. An entry that ``stalls_document`` did not write is left out."""
    saved = read_anchor(document.get(""))
    found: dict[TopicPartition, SavedStall] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict) or not topic:
            continue
        for number, value in partitions.items():
            known = _stall(value, saved, now)
            if isinstance(number, str) and _PARTITION.fullmatch(number) and known is not None:
                found[TopicPartition(topic, int(number))] = known
    return found


def stalls_document(stalls: Mapping[TopicPartition, SavedStall], anchor: Anchor) -> dict[str, dict[str, Any]]:
    """The state to save; empty without a stall."""
    document: dict[str, dict[str, Any]] = {}
    for (topic, number), (offset, since, topic_id, who) in stalls.items():
        entry = [offset, round(anchor.unix(since.at), 3), topic_id, *(who or ()), *([True] if since.by_unix else [])]
        document.setdefault(topic, {})[str(number)] = entry
    return {"": anchor_document(anchor), **document} if document else {}


def _stall(value: object, saved: Anchor | None, now: Anchor) -> SavedStall | None:
    match value:
        case [int(offset), float(since) | int(since), *rest] if math.isfinite(since):
            by_unix = rest[-1:] == [True] and isinstance(rest[-1], bool)
            at = restored(float(since), saved, now, by_unix=by_unix)
            rest = rest[:-1] if by_unix else rest
        case _:
            return None
    match rest:
        case [str(topic_id)]:
            return SavedStall(offset, at, topic_id)
        case [str(topic_id), int(producer_id), int(start_offset)]:
            return SavedStall(offset, at, topic_id, (producer_id, start_offset))
    return None
