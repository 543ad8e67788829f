"""The lag of a read_committed group in records, beside that in offsets: what ends a transaction is no record."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from exporter import catalogue
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent
from tests.helpers.offsets import commit_offsets

OFTEN = {"KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "2s", "KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "500ms"}


def commit(kafka: KafkaCluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    try:
        commit_offsets(consumer, [TopicPartition(topic, 0, offset)])
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


def test_the_age_of_withheld_records_is_how_late_a_read_committed_consumer_gets_them(
    kafka: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic = fresh("late")
    kafka.create_topic(topic, 1)
    agent = start_agent("--bootstrap-server", kafka.bootstrap, environment=OFTEN)
    holder, behind = keep(RdkafkaProducer(kafka, fresh("slow"))), keep(RdkafkaProducer(kafka, fresh("fast")))
    for producer in (holder, behind):
        producer.init()
        producer.begin()
        producer.send(topic)
        producer.flush()
    behind.commit()
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": fresh("reader"), "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)  # librdkafka reads committed records by default
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        age = catalogue.TOPIC_WITHHELD_RECORD_AGE_SECONDS
        seen = agent.wait_until(lambda now: (now.value(age, topic=topic) or 0) > 4)
        assert consumer.poll(0.5) is None
        holder.commit()
        message = consumer.poll(60.0)
        received = time.time()
        assert message is not None
        assert message.offset() == 0
        written = message.timestamp()[1] / 1000
        read = seen.value(catalogue.SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS, source="lso")
        withheld = seen.value(age, topic=topic)
        assert read is not None
        assert withheld is not None
        assert abs(withheld - (read - written)) <= 1
        assert withheld <= received - written + 0.1
    finally:
        consumer.close()
    agent.wait_until(lambda now: now.value(age, topic=topic) == 0)
