"""A true orphan: an open transaction in a partition's log that no coordinator has, so that no coordinator ends it.

Kafka makes them by itself when a late Produce arrives after its transaction ended (before 3.6, or with verification
off). Here: verification off (``transaction.partition.verification.enable``, KIP-890), then a Produce request of
version 9 with a transactional batch of a producer id that no coordinator ever gave out. Up to version 10 the broker
does not add the partition to a transaction by itself, so it takes the batch as it is; works on 3.9 and 4.3.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from demo.cluster import BrokerNode, KafkaCluster
from demo.processes import poll
from exporter.model import Deadline

_VERIFICATION = "transaction.partition.verification.enable"
_PRODUCE_VERSION = 9
_WAIT_SECONDS = 120.0
_CALL_SECONDS = 5.0


@dataclass(frozen=True)
class Orphan:
    """Where it is, and what ``kafka-transactions.sh find-hanging`` says of it."""

    topic: str
    partition: int
    producer_id: int
    start_offset: int


class OrphanCluster(Protocol):
    """The part of a cluster that planting one needs."""

    def admin(self) -> AdminClient: ...

    def broker(self, node_id: int) -> BrokerNode: ...


class OrphanError(RuntimeError):
    """It could not be made, or not be repaired."""


def make_orphan(
    cluster: OrphanCluster, topic: str, partition: int = 0, *, producer_id: int = 777, transactional_id: str = "ghost"
) -> Orphan:
    """Leave one open transaction of one record in the partition; the broker's setting is as before afterwards."""
    admin = cluster.admin()
    leader = admin.list_topics(topic, timeout=_CALL_SECONDS).topics[topic].partitions[partition].leader
    request = _request(topic, partition, producer_id, transactional_id)
    with _verification_off(admin, leader):
        until = Deadline.after(_WAIT_SECONDS)
        while True:
            error_code, offset = _produce(cluster.broker(leader).node.port or 0, request)
            if error_code == 0:
                return Orphan(topic, partition, producer_id, offset)
            # The setting is applied some moments after it is accepted; until then the batch is refused whole.
            if not poll(until, 0.2):
                raise OrphanError(f"the broker refuses the batch with error {error_code}")


def repair(cluster: KafkaCluster, orphan: Orphan) -> None:
    """End it as an operator would, with ``kafka-transactions.sh abort``."""
    place = ("--topic", orphan.topic, "--partition", str(orphan.partition))
    run = cluster.transactions_tool("abort", *place, "--start-offset", str(orphan.start_offset))
    if run.returncode != 0:
        raise OrphanError(f"kafka-transactions abort failed: {run.stdout}{run.stderr}")


@contextmanager
def _verification_off(admin: AdminClient, broker: int) -> Iterator[None]:
    def alter(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(_VERIFICATION, "false", incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(_CALL_SECONDS)

    alter(AlterConfigOpType.SET)
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE)


def _request(topic: str, partition: int, producer_id: int, transactional_id: str) -> bytes:
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1024,
    )
    batch.append(0, timestamp=round(time.time() * 1000), key=b"0", value=b"never committed", headers=[])
    data = ProduceRequest.TopicProduceData
    records = data.PartitionProduceData(index=partition, records=bytes(batch.build()))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[data(name=topic, partition_data=[records])],
        version=_PRODUCE_VERSION,
    )
    request.with_header(correlation_id=1, client_id="orphan")
    return bytes(request.encode(version=_PRODUCE_VERSION, header=True, framed=True))


def _produce(port: int, request: bytes) -> tuple[int, int]:
    """The error code and base offset that the broker answers with."""
    with socket.create_connection(("127.0.0.1", port), timeout=_CALL_SECONDS) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            response = ProduceResponse.decode(stream.read(size), version=_PRODUCE_VERSION, header=True)
    answer = response.responses[0].partition_responses[0]
    return int(answer.error_code), int(answer.base_offset)
