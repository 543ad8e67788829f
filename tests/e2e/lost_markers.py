"""Two ways in which a partition loses the commit marker of a transaction whose client is told success."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import Producer
from tests.e2e.conftest import cluster_of

TOPIC = "orders"
LOST, KEPT = 0, 1
"""The partition that loses its marker, on brokers 1 and 2, and the one that gets it, led by broker 3."""
COORDINATOR = 3
NO_LEADER = -1

LoseMarker = Callable[[KafkaCluster, Producer], None]


def cluster(version: str) -> KafkaCluster:
    """Three brokers and a controller of its own, so that two of the brokers may be down at once."""
    properties = {"transaction.state.log.min.isr": "1", "offsets.topic.num.partitions": "1"}
    return cluster_of(version, 3, own_controller=True, heap_mb=384, transaction_partitions=5, properties=properties)


def create_topic(kafka: KafkaCluster) -> None:
    """Create both partitions. Elections of the topic may be unclean."""
    admin = kafka.admin()  # kept until the answer is here: a client that is collected fails its futures
    config = {"unclean.leader.election.enable": "true"}
    placed = [[1, 2], [COORDINATOR, 1]]
    admin.create_topics([NewTopic(TOPIC, 2, replica_assignment=placed, config=config)])[TOPIC].result(30)
    wait_for_leader(kafka, 1)


def dropped(kafka: KafkaCluster, producer: Producer) -> None:
    """Commit while no broker leads the partition: the coordinator passes it over.

    TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue of Kafka 4: "Couldn't find leader endpoint for
    partitions ..., these partitions are likely deleted already and hence can be skipped". Kafka 3.9 waits for a leader.
    """
    kafka.broker(2).stop()
    kafka.broker(1).stop()
    wait_for_leader(kafka, NO_LEADER)
    producer.commit()
    # Only the one that was in sync, so that the next election is a clean one.
    kafka.broker(1).start()
    wait_for_leader(kafka, 1)
    kafka.broker(2).start()
    kafka.wait_ready()


def truncated(kafka: KafkaCluster, producer: Producer) -> None:
    """Commit while one replica is down, which then becomes the leader by an unclean election (KAFKA-20716)."""
    kafka.broker(2).stop()
    producer.commit()
    _wait_for_marker(kafka)  # or its coordinator sends it to the next leader
    kafka.broker(1).stop()
    wait_for_leader(kafka, NO_LEADER)
    kafka.broker(2).start()
    wait_for_leader(kafka, 2)
    kafka.broker(1).start()
    kafka.wait_ready()


def wait_for_leader(kafka: KafkaCluster, leader: int) -> None:
    """Wait until the coordinator's broker knows this leader of the partition."""
    admin = AdminClient({"bootstrap.servers": kafka.broker(COORDINATOR).address, "log_level": 0})
    until = Deadline.after(60)
    while _leader(admin) != leader:
        assert poll(until, 0.1), f"broker {leader} does not lead {TOPIC}-{LOST}"


def _leader(admin: AdminClient) -> int | None:
    """The leader of the partition as this broker knows it; None while it has not heard of the topic."""
    found = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions.get(LOST)
    leader: int | None = None if found is None else found.leader
    return leader


def _wait_for_marker(kafka: KafkaCluster) -> None:
    """Wait until the partition has no open transaction."""
    admin, place, newest = kafka.admin(), TopicPartition(TOPIC, LOST), OffsetSpec.latest()  # type: ignore[no-untyped-call]

    def end(isolation: IsolationLevel) -> int:
        offset: int = admin.list_offsets({place: newest}, isolation_level=isolation)[place].result(30).offset
        return offset

    until = Deadline.after(60)
    while end(IsolationLevel.READ_COMMITTED) != end(IsolationLevel.READ_UNCOMMITTED):
        assert poll(until, 0.1), f"{TOPIC}-{LOST} keeps a transaction open"
