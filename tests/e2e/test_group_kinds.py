"""Groups of the newer protocols on a real broker: their members."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer

from exporter import catalogue
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.processes import java
from testkit.streams import StreamsApp
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent

MEMBERS = catalogue.GROUP_MEMBERS
VERSION = "4.3.1"
SHARE = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
WAIT_SECONDS = 240.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(VERSION, properties=SHARE) as running:
        yield running


def _poll(consumer: Consumer, stop: threading.Event) -> None:
    while not stop.is_set():
        consumer.poll(0.2)


def test_members_are_counted_by_kind(
    kafka: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    topic, share, group = fresh("orders"), fresh("workers"), fresh("readers")
    kafka.create_topic(topic, 2)
    producer = keep(RdkafkaProducer(kafka, fresh("pay")))
    producer.init()
    producer.run(3, topic)
    reading = java(
        128,
        jars.library(VERSION),
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--group", share),
        log_level="error",
    )
    kafka.processes.start(f"share-{share}", reading)
    streams = keep(StreamsApp(kafka, fresh("count"), topic, settings={"group.protocol": "streams"}))
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    stop = threading.Event()
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        polling = threading.Thread(target=_poll, args=(consumer, stop))
        polling.start()
        try:
            agent = start_agent(
                *("--bootstrap-server", kafka.bootstrap, "--cluster.name", "e2e"),
                environment={
                    "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "2s",
                },
            )
            seen = agent.wait_until(
                lambda seen: (
                    seen.value(MEMBERS, group=share, kind="share") == 1
                    and seen.value(MEMBERS, group=group, kind="consumer") == 1
                    and seen.value(MEMBERS, group=streams.application_id, kind="streams") == 2
                ),
                timeout=WAIT_SECONDS,
            )
            assert seen.value(catalogue.SOURCE_UP, source="groups") == 1
        finally:
            stop.set()
            polling.join()
