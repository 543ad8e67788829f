"""Counters of the transaction log over kills of the agent, and what outcomes wait for, on real brokers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import NewTopic

from exporter import catalogue
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.offsets import Isolation, end_offsets, log_end_offsets
from exporter.model import Deadline, TopicPartition
from testkit.agent import AgentProcess
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import Producer, ProducerClass
from tests.e2e.conftest import EACH_VERSION, EnterContext, StartAgent, cluster_of
from tests.e2e.highest_counters import HighestCounters, outcomes_of

KILLS = 4


def _work(producer: Producer, topic: str, stop: Event) -> None:
    while not stop.is_set():
        producer.run(3, topic)
        producer.run(1, topic, commit=False)


def _watch(agent: AgentProcess, shown: HighestCounters, more_than: float) -> None:
    """Scrape until more was committed than that, and look at every scrape."""
    agent.wait_until(lambda seen: (shown.look(seen), shown.committed > more_than)[1])


def test_counters_go_on_over_kills_and_are_never_lower_than_a_scrape_showed(
    kafka_4: KafkaCluster,
    start_agent: StartAgent,
    keep: EnterContext,
    fresh: Callable[[str], str],
    make_producer: ProducerClass,
    tmp_path: Path,
) -> None:
    topic, application = fresh("orders"), fresh("durable")
    kafka_4.create_topic(topic)
    arguments = ("--bootstrap-server", kafka_4.bootstrap, "--state.dir", str(tmp_path))
    agent = start_agent(*arguments, name="agent-0")
    producer = keep(make_producer(kafka_4, f"{application}-1"))
    producer.init()
    stop = Event()
    worker = Thread(target=_work, args=(producer, topic, stop))
    worker.start()
    shown = HighestCounters(application)
    try:
        for life in range(1, KILLS + 1):
            _watch(agent, shown, shown.committed + 20)
            if life == KILLS:
                assert agent.stop() == 0
            else:
                agent.kill()
            agent = start_agent(*arguments, name=f"agent-{life}")
        _watch(agent, shown, shown.committed + 20)
    finally:
        stop.set()
        worker.join()
    truth = {outcome: float(count) for outcome, count in producer.counts.outcomes().items()}
    metrics = agent.wait_until(lambda seen: outcomes_of(shown.look(seen), application) == truth)
    assert metrics.value(catalogue.PRODUCER_INITS_TOTAL, application=application) == 1
    assert metrics.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 0
    count = metrics.value(f"{catalogue.TRANSACTION_COMPLETION_SECONDS}_count", application=application)
    assert count == sum(truth.values())


@pytest.mark.proof
def test_a_state_folder_that_cannot_be_written_costs_a_log_line_and_is_made_up_for(
    kafka_4: KafkaCluster,
    start_agent: StartAgent,
    keep: EnterContext,
    fresh: Callable[[str], str],
    make_producer: ProducerClass,
    tmp_path: Path,
) -> None:
    topic, application = fresh("orders"), fresh("vanished")
    kafka_4.create_topic(topic)
    folder = tmp_path / "state"
    arguments = ("--bootstrap-server", kafka_4.bootstrap, "--state.dir", str(folder))
    agent = start_agent(*arguments, name="agent-0")
    producer = keep(make_producer(kafka_4, f"{application}-1"))
    producer.init()
    shown = HighestCounters(application)

    def commit(times: int) -> None:
        before = shown.committed
        producer.run(times, topic)
        _watch(agent, shown, before + times - 1)

    commit(5)
    for turn in (1, 2):
        shutil.rmtree(folder)  # as an unmounted volume
        folder.write_text("no folder")  # root may write to a read-only one
        commit(5)
        assert "is not writable" in agent.log
        folder.unlink()
        commit(5)
        deadline = Deadline.after(180)
        # The state of stalls is written at its own interval.
        while not list(folder.glob("*/txnlog.json")) or agent.log.count("is written again") < turn:
            assert poll(deadline), agent.log
        commit(5)
    assert agent.log.count("is not writable") == 2
    assert agent.log.count("is written again") == 2
    agent.kill()
    agent = start_agent(*arguments, name="agent-1")
    commit(5)
    metrics = agent.wait_until(lambda seen: shown.look(seen).value(catalogue.SOURCE_UP, source="txnlog") == 1)
    assert outcomes_of(metrics, application)["committed"] == producer.counts.outcomes()["committed"]


@pytest.mark.proof
@pytest.mark.parametrize("version", EACH_VERSION)
def test_the_log_end_is_beyond_the_high_watermark_while_a_follower_is_paused(version: str) -> None:
    """Return what an outcome waits for, on both versions: ListOffsets of the debugging consumer."""
    # A follower that is away for as long would leave the ISR, and the high watermark would go on without it.
    patient = {"broker.session.timeout.ms": "300000", "replica.lag.time.max.ms": "300000"}
    with cluster_of(version, 3, heap_mb=320, properties=patient) as kafka:
        topic = NewTopic("t", 1, 2, config={"min.insync.replicas": "1"})
        admin = kafka.admin()
        admin.create_topics([topic])["t"].result(30)
        producer = ConfluentProducer({"bootstrap.servers": kafka.bootstrap, "acks": 1})
        client = ClusterClient(Properties.parse(kafka.client_properties()))
        try:
            place = TopicPartition("t", 0)

            def ends() -> tuple[int | None, int | None]:
                until = Deadline.after(180)
                metadata = client.metadata(until, ["t"])
                high = end_offsets(client, metadata, [place], Isolation.READ_UNCOMMITTED, until)
                return high.values.get(place), log_end_offsets(client, metadata, [place], until).values.get(place)

            _send(producer, 3)
            until = Deadline.after(180)
            while ends() != (3, 3):
                assert poll(until, 0.2), f"both ends are {ends()}"
            known = client.metadata(Deadline.after(60.0), ["t"]).topics["t"][0]
            follower = next(replica for replica in known.replicas if replica != known.leader)
            kafka.broker(follower).pause()
            _send(producer, 4)
            assert ends() == (3, 7)
            kafka.broker(follower).resume()
            until = Deadline.after(180)
            while ends() != (7, 7):
                assert poll(until, 0.2), f"both ends are {ends()}"
        finally:
            client.close()


def _send(producer: ConfluentProducer, records: int) -> None:
    for _ in range(records):
        producer.produce("t", b"x")
    assert producer.flush(30) == 0
