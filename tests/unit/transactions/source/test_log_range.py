"""Tests of a bounded read of the transaction log by librdkafka."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Consumer, KafkaError

from exporter.kafka.properties.client import Properties
from exporter.transactions.source.log_range import RangeConsumer
from tests.helpers.cluster import FakeMessage


class ConsumerWithoutGroup:
    """Reports, as librdkafka does, that the group may not be described."""

    def consume(self, limit: int, seconds: float) -> list[FakeMessage]:
        return [FakeMessage(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), 0, -1001)]


def test_a_read_without_the_grant_on_groups_is_not_refused() -> None:
    reader = RangeConsumer(Properties.parse({"bootstrap.servers": "127.0.0.1:1"}))
    reader.close()
    reader._consumer = cast("Consumer", ConsumerWithoutGroup())
    assert reader.poll(500, 0.5) == []
