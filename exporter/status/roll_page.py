"""The answers about a roll as a page and as sentences: pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exporter.core.durations import format_duration
from exporter.roll.facts import RollAnswer
from exporter.status.html import pieces

if TYPE_CHECKING:
    from exporter.views.rolls import BrokerRollDocument, ClusterRollDocument, RollOutput

_LEVELS = {RollAnswer.NO: "bad", RollAnswer.WAIT: "warn", RollAnswer.UNKNOWN: "blind", RollAnswer.SAFE: "good"}
"""The classes of the style sheet, the worst answer first."""


def roll_page_pieces(found: RollOutput, prefix: str) -> Iterator[bytes]:
    """The page of one cluster, in pieces. It does not load itself anew: each load asks the brokers."""
    (cluster,) = found["clusters"]
    level, headline = verdict_of(cluster)
    return pieces(
        "roll.html",
        prefix,
        refresh=False,
        cluster=cluster,
        level=level,
        headline=headline,
        outage=format_duration(cluster["outage_seconds"]),
        levels=_LEVELS,
        answer_of=answer_of,
    )


def verdict_of(cluster: ClusterRollDocument) -> tuple[str, str]:
    """The level and the headline of all brokers that were asked about."""
    brokers, answers = cluster["brokers"], Counter(roll["answer"] for roll in cluster["brokers"])
    if not brokers:
        return "blind", "It is not known whether a broker may be stopped"
    level = next(level for answer, level in _LEVELS.items() if answers[answer])
    if level == "good" and cluster["not_asked"]:
        level = "blind"
    if len(brokers) == 1:
        return level, f"Broker {brokers[0]['broker']}: {answer_of(brokers[0])}"
    if answers[RollAnswer.SAFE] == len(brokers):
        return level, f"Any one of these {len(brokers)} brokers may be stopped now"
    others = ", ".join(f"{answers[answer]} {answer}" for answer in _LEVELS if answers[answer])
    return level, f"Of {len(brokers)} brokers: {others}"


def answer_of(roll: BrokerRollDocument) -> str:
    """The answer, with how long to wait: ``safe``, ``wait 12s``, ``no``, ``unknown``."""
    if roll["answer"] is not RollAnswer.WAIT:
        return roll["answer"].value
    seconds = roll["wait_seconds"]
    return f"wait {'a little' if seconds is None else format_duration(math.ceil(seconds))}"


def said(roll: BrokerRollDocument) -> str:
    """The answer with its first reason."""
    if roll["answer"] is RollAnswer.SAFE:
        return answer_of(roll)
    row = roll["rows"][0]
    return f"{answer_of(roll)} because {row['subject']}: {row['text']}"
