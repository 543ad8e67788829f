"""Tests of what the agent asks of a cluster, asked of real ones: with open transactions, dead brokers and missing
grants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from confluent_kafka import Producer as Plain
from confluent_kafka import TopicPartition as Position

from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.groups import committed_offsets, describe_group_grant, list_groups
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.kafka.requests.transactions import (
    Listing,
    describe_grant,
    describe_producers,
    describe_transactions,
    list_transactions,
)
from exporter.model import Deadline, Reason, TopicPartition
from testkit.cluster import KafkaCluster
from testkit.settings import Security
from testkit.workloads.producers import ProducerClass, RdkafkaProducer
from tests.e2e.conftest import EnterContext
from tests.helpers.offsets import commit_offsets

Fresh = Callable[[str], str]


@contextmanager
def client_of(cluster: KafkaCluster, user: str | None = None) -> Iterator[ClusterClient]:
    client = ClusterClient(Properties.parse(cluster.client_properties(user)))
    try:
        yield client
    finally:
        client.close()


def soon(seconds: float = 20) -> Deadline:
    return Deadline.after(seconds)


def test_an_open_transaction_is_reported_by_all_who_know_it(
    kafka: KafkaCluster, make_producer: ProducerClass, fresh: Fresh, keep: EnterContext
) -> None:
    topic, transactional_id, group = fresh("orders"), fresh("pay"), fresh("group")
    kafka.create_topic(topic, 2)
    producer = keep(make_producer(kafka, transactional_id))
    producer.init()
    producer.begin()
    producer.send(topic, 1, partition=0)
    producer.send_offsets(group, topic, 1, 7)
    producer.commit()
    before = time.time()
    producer.begin()
    producer.send(topic, 3, partition=0)
    producer.flush()
    here = TopicPartition(topic, 0)
    with client_of(kafka) as client:
        metadata = client.metadata(soon())
        stable = end_offsets(client, metadata, [here], Isolation.READ_COMMITTED, soon())
        high = end_offsets(client, metadata, [here], Isolation.READ_UNCOMMITTED, soon())
        described = describe_transactions(client, metadata, [transactional_id, fresh("nobody")], soon())
        listed = list_transactions(client, metadata, soon())
        producers = describe_producers(client, metadata, [here], soon())
        mine = described.values[transactional_id]
        by_producer = list_transactions(client, metadata, soon(), producer_ids=[mine.producer_id])
        assert describe_grant(client, metadata, soon()) is None
        assert describe_group_grant(client, metadata, soon()) is None
        groups = [name for rows in list_groups(client, metadata, soon()).values.values() for name, _ in rows]
        committed = committed_offsets(client, metadata, [group, fresh("nobody")], soon())
        version = client.features(soon()).get("transaction.version")
    for answers in (stable, high, described, listed, producers, by_producer, committed):
        assert (answers.unanswered, answers.faults) == ({}, ())
    # One record and its marker were committed; three records are open.
    assert (stable.values[here], high.values[here]) == (2, 5)
    assert set(described.values) == {transactional_id}
    assert (mine.state, mine.timeout, mine.partitions) == ("Ongoing", 60.0, frozenset({here}))
    assert mine.started is not None
    assert before - 60 < mine.started < time.time() + 60
    mine_listed = Listing(transactional_id, mine.producer_id, "Ongoing")
    assert mine_listed in {item for items in listed.values.values() for item in items}
    assert [item for items in by_producer.values.values() for item in items] == [mine_listed]
    (open_here,) = [state for state in producers.values[here] if state.start_offset is not None]
    assert open_here.start_offset == stable.values[here]
    assert (open_here.producer_id, open_here.producer_epoch) == (mine.producer_id, mine.producer_epoch)
    assert group in groups
    assert committed.values[group] == {TopicPartition(topic, 1): 7}
    assert version == (2 if kafka.version.startswith("4.") else None)


@pytest.mark.proof
def test_each_id_and_each_group_is_asked_of_its_own_coordinator(keep: EnterContext, fresh: Fresh) -> None:
    # A dozen of each: the hashes of half of them are negative, which is where Kafka's arithmetic is easily mistaken.
    ids, groups = ([fresh(f"{number}-{kind}") for number in range(12)] for kind in ("held", "group"))
    with KafkaCluster("4.3.1", 3, heap_mb=384) as kafka:
        kafka.create_topic("orders", 1)
        for transactional_id in ids:
            producer = keep(RdkafkaProducer(kafka, transactional_id, timeout=600.0))
            producer.init()
            producer.begin()
            producer.send("orders", 1)
            producer.flush()
        for group in groups:
            reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
            commit_offsets(reader, [Position("orders", 0, 3)])
            reader.close()
        with client_of(kafka) as client:
            metadata = client.metadata(soon())
            described = describe_transactions(client, metadata, ids, soon())
            listed = list_transactions(client, metadata, soon())
            committed = committed_offsets(client, metadata, groups, soon())
        for answers in (described, listed, committed):
            assert not answers.faults
        assert described.values.keys() == set(ids)
        by_leader = {
            transaction.transactional_id: node for node, found in listed.values.items() for transaction in found
        }
        log = metadata.topics["__transaction_state"]
        assert by_leader == {known_id: log[coordinator_partition(known_id)].leader for known_id in ids}
        assert committed.values == {group: {TopicPartition("orders", 0): 3} for group in groups}


def test_a_topic_that_is_deleted_between_two_calls_is_a_fault_and_keeps_the_others(
    kafka: KafkaCluster, fresh: Fresh
) -> None:
    stays, goes = fresh("stays"), fresh("goes")
    kafka.create_topic(stays)
    kafka.create_topic(goes)
    with client_of(kafka) as client:
        metadata = client.metadata(soon())
        kafka.delete_topic(goes)
        asked = [TopicPartition(stays, 0), TopicPartition(goes, 0)]
        until = Deadline.after(180)
        # The leader forgets the topic a moment after the controller does.
        while (goes, 0) in end_offsets(client, metadata, asked, Isolation.READ_COMMITTED, soon()).values:
            assert not until.over
        for answers in (
            end_offsets(client, metadata, asked, Isolation.READ_COMMITTED, soon()),
            describe_producers(client, metadata, asked, soon()),
        ):
            assert set(answers.values) == {(stays, 0)}
            assert [fault.reason for fault in answers.faults] == [Reason.UNKNOWN_TOPIC]


@pytest.mark.proof
def test_brokers_that_die_hang_and_come_back(keep: EnterContext) -> None:
    cluster = keep(KafkaCluster(brokers=3))
    with client_of(cluster) as client:
        empty = client.metadata(soon())
        # Asking an empty cluster must not make it create its internal topics.
        assert describe_grant(client, empty, soon()) is None
        assert describe_group_grant(client, empty, soon()) is None
        assert describe_transactions(client, empty, ["nobody"], soon()).faults == ()
        assert list_groups(client, empty, soon()).faults == ()
        assert client.metadata(soon()).topics == {}

        cluster.create_topic("alone", 12, **{"min.insync.replicas": "1"})
        asked = [TopicPartition("alone", index) for index in range(12)]
        first = client.metadata(soon())
        assert set(first.brokers) == {1, 2, 3}

        def read(seconds: float = 20) -> tuple[set[TopicPartition], set[Reason]]:
            deadline = soon(seconds)
            metadata = client.metadata(deadline, max_age=60)
            answers = end_offsets(client, metadata, asked, Isolation.READ_COMMITTED, deadline)
            assert set(answers.values) | set(answers.unanswered) == set(asked)
            return set(answers.values), {fault.reason for fault in answers.faults}

        _until(lambda: read() == (set(asked), set()))
        cluster.broker(2).pause()
        began = time.monotonic()
        read(3)
        spent = time.monotonic() - began
        cluster.broker(2).resume()
        _until(lambda: read() == (set(asked), set()))

        cluster.broker(2).kill()
        _until(lambda: read() == (set(asked), set()))  # its partitions have replicas elsewhere
        transactions = list_transactions(client, first, soon())
        assert set(transactions.values) == {1, 3}
        assert [fault.reason for fault in transactions.faults] == [Reason.UNREACHABLE]
        assert "broker 2" in transactions.faults[0].detail

        for broker in cluster.brokers:
            broker.kill()
        with pytest.raises(AskError) as raised:
            client.metadata(soon(3))
        assert raised.value.fault.reason is Reason.UNREACHABLE
        for broker in cluster.brokers:
            broker.start()
        cluster.wait_ready()
        _until(lambda: read() == (set(asked), set()))
    # A deadline is a promise, not a measurement: twice the time would be a hang.
    assert spent < 6


def test_each_missing_grant_is_named_and_costs_only_what_it_covers(keep: EnterContext, fresh: Fresh) -> None:
    cluster = keep(KafkaCluster(security=Security.of("eos")))
    access = cluster.access
    cluster.create_topic("orders")
    plain = Plain({"bootstrap.servers": cluster.bootstrap})
    plain.produce("orders", b"x", partition=0)
    plain.flush()
    producer = keep(RdkafkaProducer(cluster, "pay"))
    producer.init()
    producer.begin()
    producer.send("orders", 1, partition=0)
    producer.send_offsets("group", "orders", 0, 1)
    here = TopicPartition("orders", 0)
    with client_of(cluster) as operator, client_of(cluster, "eos") as client:
        truth = operator.metadata(soon())
        # Without any grant: silence, which the probes tell from emptiness.
        metadata = client.metadata(soon())
        assert metadata.topics == {}
        assert [items for items in list_transactions(client, metadata, soon()).values.values() if items] == []
        fault = describe_grant(client, metadata, soon())
        assert fault is not None
        assert "grant DESCRIBE on TransactionalId:*" in fault.detail
        fault = describe_group_grant(client, metadata, soon())
        assert fault is not None
        assert "grant DESCRIBE on Group:*" in fault.detail
        described = describe_transactions(client, metadata, ["pay"], soon())
        assert [fault.reason for fault in described.faults] == [Reason.AUTHORIZATION]
        assert "grant DESCRIBE on TransactionalId:pay" in described.faults[0].detail
        answer = client.config("topic", "orders", ["min.insync.replicas"], soon())
        assert "grant DESCRIBE_CONFIGS on Topic:orders" in getattr(answer, "detail", "")
        answer = client.config("broker", "1", ["transaction.max.timeout.ms"], soon())
        assert "grant DESCRIBE_CONFIGS on Cluster" in getattr(answer, "detail", "")

        # The internal topic hidden, the ids visible: the coordinator is found without it.
        access.allow("eos", "DESCRIBE", "TransactionalId", "*")
        _until(lambda: describe_grant(client, metadata, soon()) is None)
        described = describe_transactions(client, metadata, ["pay", "nobody"], soon())
        assert set(described.values) == {"pay"}
        assert described.faults == ()
        access.allow("eos", "DESCRIBE", "Group", "*")
        _until(lambda: describe_group_grant(client, metadata, soon()) is None)
        producer.commit()
        _until(lambda: "group" in committed_offsets(client, metadata, ["group"], soon()).values)

        access.allow("eos", "DESCRIBE", "Topic", "orders")
        _until(lambda: set(client.metadata(soon()).topics) == {"orders"})
        metadata = client.metadata(soon())
        assert end_offsets(client, metadata, [here], Isolation.READ_COMMITTED, soon()).faults == ()
        producers = describe_producers(client, metadata, [here], soon())
        assert [fault.reason for fault in producers.faults] == [Reason.AUTHORIZATION]
        assert "grant READ on Topic:orders" in producers.faults[0].detail
        access.allow("eos", "READ", "Topic", "orders")
        _until(lambda: describe_producers(client, metadata, [here], soon()).faults == ())
        assert here in describe_producers(client, truth, [here], soon()).values

    wrong = cluster.client_properties("eos") | {"sasl.password": "wrong"}
    stranger = ClusterClient(Properties.parse(wrong))
    with pytest.raises(AskError) as raised:
        stranger.metadata(soon())
    stranger.close()
    assert raised.value.fault.reason is Reason.AUTHENTICATION
    assert "SCRAM-SHA-512 as eos" in raised.value.fault.detail


def _until(seen: Callable[[], bool], seconds: float = 60) -> None:
    deadline = Deadline.after(seconds)
    while not seen():
        assert not deadline.over, "not seen in time"
        time.sleep(0.2)
