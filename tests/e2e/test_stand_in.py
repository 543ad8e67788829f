"""The stand-in for brokers of the bench, beside a real broker: equal requests get equal answers, where these do not
name the broker, its producers or its instants.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer as Plain
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from exporter.kafka.properties.accepted import broker_address
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import RdkafkaProducer
from tests.bench.stand_in import END, HELD, PER_TOPIC, StandIn
from tests.e2e.conftest import EnterContext

TOPIC = "t-0"
"""As the stand-in names its first topic: partition 0 is held."""


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    broker = StandIn(PER_TOPIC, 1)
    broker.brokers = ((1, "127.0.0.1", broker.port),)
    yield broker
    broker.close()


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    with socket.create_connection(broker_address(address), timeout=20) as connection:
        yield connection


def answer(address: str, request: Any, version: int) -> bytes:
    """The answer after its length and correlation id."""
    request.API_VERSION = version
    request.with_header(correlation_id=7, client_id="bench")
    with connected(address) as connection, connection.makefile("rb") as stream:
        connection.sendall(request.encode(framed=True, header=True))
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    assert frame[:4] == (7).to_bytes(4, "big")
    return frame[4:]


def offsets_of(isolation: int, partitions: int) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    row = topic.ListOffsetsPartition
    rows = [row(partition_index=number, current_leader_epoch=0, timestamp=-1) for number in range(partitions)]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic(name=TOPIC, partitions=rows)])


def offset_rows(body: bytes, version: int) -> list[tuple[int, int, int, int, int]]:
    """Partition, error, timestamp, offset and leader epoch."""
    (topic,) = ListOffsetsResponse.decode(io.BytesIO(body[1:]), version=version).topics
    assert topic.name == TOPIC
    return sorted(
        (partition.partition_index, partition.error_code, partition.timestamp, partition.offset, partition.leader_epoch)
        for partition in topic.partitions
    )


def test_the_stand_in_answers_as_a_broker_does(kafka: KafkaCluster, stand_in: StandIn, keep: EnterContext) -> None:
    kafka.create_topic(TOPIC, PER_TOPIC)
    writer = Plain(kafka.client_properties())
    for partition, count in ((0, HELD), (1, END)):
        for _ in range(count):
            writer.produce(TOPIC, b"x", partition=partition)
    assert writer.flush(30) == 0
    producer = keep(RdkafkaProducer(kafka, "stand-in"))
    producer.init()
    producer.begin()
    producer.send(TOPIC, END - HELD, partition=0)
    producer.flush()
    addresses = (kafka.bootstrap, stand_in.address)

    # In the versions that the stand-in speaks. Kafka 4 answers in another order than it is asked in.
    for version in (6, 7):
        for isolation in (0, 1):
            real, made = (answer(address, offsets_of(isolation, 2), version) for address in addresses)
            assert len(made) == len(real), (version, isolation)
            assert offset_rows(made, version) == offset_rows(real, version), (version, isolation)

    rows = DescribeProducersRequest.TopicRequest
    described = []
    for address in addresses:
        asked = DescribeProducersRequest(topics=[rows(name=TOPIC, partition_indexes=[0, 1])])
        body = io.BytesIO(answer(address, asked, 0)[1:])  # after the tagged fields of the header
        (topic,) = DescribeProducersResponse.decode(body, version=0).topics
        described.append(
            [
                (row.partition_index, row.error_code, [held.current_txn_start_offset for held in row.active_producers])
                for row in topic.partitions
            ]
        )
    assert described[0][0] == described[1][0] == (0, 0, [HELD])
    # A broker lists producers without a transaction, too; the stand-in has none.
    assert [group[2] for group in described[1]] == [[HELD], []]
    assert all(start == -1 for start in described[0][1][2])

    listed = []
    for address in addresses:
        body = io.BytesIO(
            answer(address, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]), 8)
        )
        metadata = MetadataResponse.decode(body, version=8)
        (found,) = metadata.topics
        partitions = sorted((row.partition_index, row.error_code, row.leader_id) for row in found.partitions)
        listed.append((found.name, found.error_code, found.is_internal, partitions))
    assert listed[0] == listed[1]
