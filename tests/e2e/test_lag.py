"""The lag of a read_committed group in records, beside that in offsets: what ends a transaction is no record."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from demo.cluster import KafkaCluster
from demo.workloads.producers import RdkafkaProducer
from exporter import catalogue
from tests.e2e.conftest import EnterContext, StartAgent

OFTEN = {"KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "2s"}


def commit(kafka: KafkaCluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def test_a_group_that_has_read_all_lags_by_no_record_and_aborted_ones_do_not_count(
    kafka: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("lag"), fresh("reader")
    kafka.create_topic(topic, 1)
    producer = keep(RdkafkaProducer(kafka, fresh("writer")))
    producer.init()
    for count, end in ((5, producer.commit), (4, producer.abort), (3, producer.commit)):
        producer.begin()
        producer.send(topic, count)
        producer.flush()  # an abort purges what was not sent
        end()
    # 0 to 4, a commit; 6 to 9, an abort; 11 to 13, a commit.
    agent = start_agent("--bootstrap-server", kafka.bootstrap, environment=OFTEN)
    offsets, records = catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS, catalogue.GROUP_READ_COMMITTED_LAG_RECORDS
    for committed, lag in ((14, 0), (12, 2), (6, 3), (3, 5), (0, 8)):
        commit(kafka, group, topic, committed)
        seen = agent.wait_until(lambda now: now.value(offsets, group=group) == 15 - committed)  # noqa: B023
        assert seen.value(records, group=group, topic=topic) == lag
