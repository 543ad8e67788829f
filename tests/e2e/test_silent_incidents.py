"""Incidents of which applications say nothing, made on real brokers: each is in what the agent exposes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer
from kafka.protocol.producer import InitProducerIdRequest

from exporter import catalogue
from exporter.kafka.connection import BrokerConnection
from exporter.kafka.properties.client import Properties
from exporter.model import Deadline
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.jvm_agents import JvmAgents
from testkit.processes import poll
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import StartAgent, in_proof

TOPIC, RESULTS = "orders", "totals"
CALL_SECONDS = 30.0
PRODUCER_FENCED = 90


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, JvmAgents]]:
    agents = JvmAgents(tmp_path_factory.mktemp("jvms"))
    with KafkaCluster("4.3.1", jvm_options=agents.options, transaction_partitions=4) as kafka:
        for topic in (TOPIC, RESULTS):
            kafka.create_topic(topic)
        yield kafka, agents


@pytest.fixture
def agent(watched: tuple[KafkaCluster, JvmAgents], start_agent: StartAgent, tmp_path: Path) -> AgentProcess:
    """Reads the broker's MBeans."""
    return watch(*watched, start_agent, tmp_path)


def watch(kafka: KafkaCluster, agents: JvmAgents, start_agent: StartAgent, tmp_path: Path) -> AgentProcess:
    cluster: dict[str, Any] = {
        "name": "demo",
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "brokers": [{"jolokia": agents.jolokia("broker-1"), "interval": "1s"}],
    }
    config = tmp_path / "eos.json"
    config.write_text(json.dumps({"clusters": [cluster]}))
    started = start_agent("--config", str(config))
    started.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="brokers") == 1)
    return started


def errors(seen: Metrics, request: str, *names: str) -> float:
    return sum(seen.total(catalogue.BROKER_REQUEST_ERRORS_TOTAL, request=request, error=name) for name in names)


# --- Consumer generations ---


@pytest.mark.parametrize("protocol", ["classic", *in_proof("consumer")])
def test_commits_with_the_metadata_of_an_earlier_generation_are_counted_by_their_error(
    watched: tuple[KafkaCluster, JvmAgents], agent: AgentProcess, fresh: Callable[[str], str], protocol: str
) -> None:
    kafka, _ = watched
    group, topic = fresh("billing"), fresh("input")
    kafka.create_topic(topic, 2)
    before = errors(agent.metrics(), "TxnOffsetCommit", *GENERATION)
    first, second = (Consumer(settings(kafka, group, protocol)) for _ in range(2))
    producer = ConfluentProducer({"bootstrap.servers": kafka.bootstrap, "transactional.id": fresh("billing")})
    producer.init_transactions(CALL_SECONDS)
    try:
        wait_for_partitions(topic, first, count=2)
        old = first.consumer_group_metadata()
        wait_for_partitions(topic, first, second, count=1)
        moved = TopicPartition(topic, second.assignment()[0].partition, 5)
        for _ in range(REFUSALS):
            producer.begin_transaction()
            with pytest.raises(KafkaException) as refused:
                producer.send_offsets_to_transaction([moved], old, CALL_SECONDS)
            assert refused.value.args[0].txn_requires_abort()
            producer.abort_transaction(CALL_SECONDS)
        agent.wait_until(lambda seen: errors(seen, "TxnOffsetCommit", *GENERATION) >= before + REFUSALS)
    finally:
        first.close()
        second.close()


GENERATION = ("ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH")
REFUSALS = 11
"""One more than KafkaEosRequestsRefused allows."""


def settings(kafka: KafkaCluster, group: str, protocol: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
    }


def wait_for_partitions(topic: str, *members: Consumer, count: int) -> None:
    """Poll the members of a group until each has so many partitions."""
    members[-1].subscribe([topic])
    until = Deadline.after(CALL_SECONDS * 2)
    while any(len(member.assignment()) != count for member in members):
        assert not until.over
        for member in members:
            member.poll(0.1)


# --- CONCURRENT_TRANSACTIONS ---


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, JvmAgents]]:
    """Two brokers; a topic needs both, the transaction log one."""
    agents = JvmAgents(tmp_path_factory.mktemp("jvms"))
    properties = {"transaction.state.log.min.isr": "1"}
    with KafkaCluster("4.3.1", 2, jvm_options=agents.options, properties=properties, transaction_partitions=4) as kafka:
        kafka.create_topic(TOPIC, min_insync_replicas="2")
        kafka.create_topic(RESULTS, min_insync_replicas="1")
        yield kafka, agents


def test_an_id_that_waits_for_its_own_transaction_shows_in_concurrent_transactions(
    pair: tuple[KafkaCluster, JvmAgents], start_agent: StartAgent, tmp_path: Path
) -> None:
    kafka, agents = pair
    producer = ConfluentProducer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "ship-1"})
    producer.init_transactions(CALL_SECONDS)
    producer.begin_transaction()
    producer.produce(TOPIC, b"first")
    producer.flush(CALL_SECONDS)
    kafka.broker(2).stop()  # its partition takes no marker without a second replica
    producer.commit_transaction(CALL_SECONDS)
    agent = watch(kafka, agents, start_agent, tmp_path)
    before = agent.metrics()
    producer.begin_transaction()
    producer.produce(RESULTS, b"second")

    def is_refused(seen: Metrics) -> bool:
        refused, ended = (
            seen.total(metric, **labels) - before.total(metric, **labels)
            for metric, labels in (
                (catalogue.BROKER_REQUEST_ERRORS_TOTAL, {"error": "CONCURRENT_TRANSACTIONS"}),
                (catalogue.BROKER_REQUESTS_TOTAL, {"request": "EndTxn"}),
            )
        )
        producer.poll(0.0)
        return refused > 20 and refused > 10 * ended

    agent.wait_until(is_refused)
    kafka.broker(2).start()
    producer.commit_transaction(CALL_SECONDS * 3)


# --- A fence that is none ---


def test_a_producer_that_asks_again_after_a_failover_is_refused_and_no_fence_is_counted(
    watched: tuple[KafkaCluster, JvmAgents], agent: AgentProcess, fresh: Callable[[str], str]
) -> None:
    """The answer to InitProducerId is lost with its coordinator; the next one refuses the same request (KAFKA-20310).

    The log does not keep the epoch before (TransactionMetadata.lastProducerEpoch), by which a coordinator knows a
    request that is made again.
    """
    kafka, _ = watched
    name = fresh("pay")
    with RdkafkaProducer(kafka, fresh("first")) as producer:
        producer.init()  # the log is there from now on
    first = init(kafka, name)
    raised = init(kafka, name, first.producer_id, first.producer_epoch)
    again = init(kafka, name, first.producer_id, first.producer_epoch)
    assert (raised.error_code, again.error_code) == (0, 0)
    assert (again.producer_id, again.producer_epoch) == (raised.producer_id, raised.producer_epoch)
    kafka.broker(1).stop()
    kafka.broker(1).start()
    kafka.wait_ready()
    refused = init(kafka, name, first.producer_id, first.producer_epoch)
    assert refused.error_code == PRODUCER_FENCED
    seen = agent.wait_until(lambda metrics: errors(metrics, "InitProducerId", "PRODUCER_FENCED") >= 1)
    assert not seen.total(catalogue.PRODUCER_FENCES_TOTAL, application=name), "told as refused, and as no fence"


def init(kafka: KafkaCluster, name: str, producer_id: int = -1, epoch: int = -1) -> Any:
    """The answer to InitProducerId once the coordinator is there."""
    properties = Properties.parse({"bootstrap.servers": kafka.bootstrap})
    address = ("127.0.0.1", kafka.broker(1).node.port or 0)
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch, version=4
    )
    until = Deadline.after(CALL_SECONDS * 2)
    with closing(BrokerConnection("broker 1", address, properties, None)) as connection:
        connection.open(until)
        while (answer := connection.call(request, until)).error_code not in {0, PRODUCER_FENCED}:
            assert poll(until, 0.2), f"error {answer.error_code}"
        return answer
