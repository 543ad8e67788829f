"""Offsets that a test commits for a group."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from exporter.model import Deadline
from testkit.processes import poll

_NOT_YET = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}


def commit_offsets(consumer: Consumer, positions: Sequence[TopicPartition]) -> None:
    """Commit these offsets once the group has a coordinator: the first commit of a cluster makes
    ``__consumer_offsets``, whose leader may not know yet that it is one. Raises KafkaException.
    """
    until = Deadline.after(60)
    while True:
        try:
            consumer.commit(offsets=list(positions), asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or not poll(until, 0.2):
                raise
        else:
            return
