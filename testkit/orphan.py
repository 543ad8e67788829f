"""A true orphan: an open transaction in a partition's log that no coordinator has, so that no coordinator ends it.

Kafka makes them by itself when a late Produce arrives after its transaction ended (before 3.6, or with verification
off). Here: verification off (``transaction.partition.verification.enable``, KIP-890), then a Produce request of
version 9 with a transactional batch of a producer id that has no transaction. Up to version 10 the broker
does not add the partition to a transaction by itself, so it takes the batch as it is; works on 3.9 and 4.3.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from exporter.model import Deadline
from testkit.cluster import BrokerNode, KafkaCluster
from testkit.processes import poll

_VERIFICATION = "transaction.partition.verification.enable"
_PRODUCE_VERSION = 9
_INIT_VERSION = 4
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


def make_orphan(cluster: OrphanCluster, topic: str, partition: int = 0, *, transactional_id: str = "ghost") -> Orphan:
    """Leave one open transaction of one record in the partition; the broker's setting is as before afterwards."""
    admin = cluster.admin()
    found = admin.list_topics(topic, timeout=_CALL_SECONDS)
    leader = found.topics[topic].partitions[partition].leader
    producer_id, epoch = _init(cluster, sorted(found.brokers), transactional_id)
    request = _request(topic, partition, producer_id, epoch, transactional_id)
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


def _init(cluster: OrphanCluster, brokers: Sequence[int], transactional_id: str) -> tuple[int, int]:
    """A producer id of this transactional.id with its epoch, from its coordinator."""
    first = cluster.broker(brokers[0]).address
    producer = Producer({"bootstrap.servers": first, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(_WAIT_SECONDS)  # makes the transaction log, if there is none
    until = Deadline.after(_WAIT_SECONDS)
    while True:
        code = -1
        for broker in brokers:
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
                version=_INIT_VERSION,
            )
            answer = _ask(cluster.broker(broker).node.port or 0, request, _INIT_VERSION, InitProducerIdResponse)
            if (code := answer.error_code) == 0:
                return int(answer.producer_id), int(answer.producer_epoch)
        if not poll(until, 0.2):
            raise OrphanError(f"no broker gives {transactional_id!r} a producer id: error {code}")


def _request(topic: str, partition: int, producer_id: int, epoch: int, transactional_id: str) -> ProduceRequest:
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        batch_size=1024,
    )
    batch.append(0, timestamp=round(time.time() * 1000), key=b"0", value=b"never committed", headers=[])
    data = ProduceRequest.TopicProduceData
    records = data.PartitionProduceData(index=partition, records=bytes(batch.build()))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[data(name=topic, partition_data=[records])],
        version=_PRODUCE_VERSION,
    )


def _produce(port: int, request: ProduceRequest) -> tuple[int, int]:
    """The error code and base offset that the broker answers with."""
    response = _ask(port, request, _PRODUCE_VERSION, ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    return int(answer.error_code), int(answer.base_offset)


def _ask(port: int, request: Any, version: int, response: Any) -> Any:  # noqa: ANN401 -- kafka-python's classes
    request.with_header(correlation_id=1, client_id="orphan")
    with socket.create_connection(("127.0.0.1", port), timeout=_CALL_SECONDS) as connection:
        connection.sendall(bytes(request.encode(version=version, header=True, framed=True)))
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return response.decode(stream.read(size), version=version, header=True)
