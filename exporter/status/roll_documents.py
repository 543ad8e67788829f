"""The answers about a roll, as ``check roll`` prints and ``/api/v1/roll`` serves them: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exporter.roll.facts import BrokerRoll

if TYPE_CHECKING:
    from exporter.status.command_documents import BrokerRollDocument, ClusterRollDocument


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
