"""The answers about a roll, as ``check roll`` prints and ``/api/v1/roll`` serves them: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from exporter.roll.facts import BrokerRoll, RollAnswer, RollReason


class RollRowDocument(TypedDict):
    """One reason, with its evidence."""

    effect: RollAnswer
    """The answer that it demands; `safe` for what is good to know."""
    reason: RollReason
    subject: str
    text: str
    wait_seconds: float | None


class BrokerRollDocument(TypedDict):
    """The answer whether one broker may be stopped."""

    broker: int
    answer: RollAnswer
    wait_seconds: float | None
    """With the answer `wait`."""
    rows: list[RollRowDocument]


class ClusterRollDocument(TypedDict):
    """One cluster."""

    kafka_cluster: str
    as_of_timestamp: float
    """When the cluster was asked: the answers are of that moment."""
    outage_seconds: float
    brokers: list[BrokerRollDocument]
    not_asked: list[str]


class RollOutput(TypedDict):
    """``check roll``, and ``/api/v1/roll``."""

    clusters: list[ClusterRollDocument]


def cluster_roll_document(
    cluster: str, outage: float, rolls: Sequence[BrokerRoll], not_asked: Sequence[str], as_of: float
) -> ClusterRollDocument:
    """The answers of one cluster, as of this instant (Unix seconds); ``outage`` is seconds."""
    return {
        "kafka_cluster": cluster,
        "as_of_timestamp": as_of,
        "outage_seconds": outage,
        "brokers": [_roll_document(roll) for roll in rolls],
        "not_asked": list(not_asked),
    }


def _roll_document(roll: BrokerRoll) -> BrokerRollDocument:
    return {
        "broker": roll.broker,
        "answer": roll.answer,
        "wait_seconds": roll.seconds,
        "rows": [
            {
                "effect": row.effect,
                "reason": row.reason,
                "subject": row.subject,
                "text": row.text,
                "wait_seconds": row.seconds,
            }
            for row in roll.rows
        ],
    }
