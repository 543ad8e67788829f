"""The stack that the other end-to-end tests stand on: what it claims to start, break and count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from demo.scenes import PrintedStep, abort_line, torn
from exporter.catalogue import TRANSACTIONS_TOTAL
from exporter.model import Deadline
from testkit import jars
from testkit.agent import AgentError, Metrics
from testkit.cluster import KafkaCluster
from testkit.formatter import transaction_log
from testkit.orphan import make_orphan, repair
from testkit.processes import poll
from testkit.settings import Security
from testkit.workloads.outcome_counts import OutcomeCounts
from testkit.workloads.producers import EndedError, JavaProducer, Producer, ProducerClass, RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent

Fresh = Callable[[str], str]


@pytest.mark.proof
def test_the_books_of_a_producer_are_what_the_log_says(
    kafka: KafkaCluster, make_producer: ProducerClass, fresh: Fresh, keep: EnterContext
) -> None:
    topic, transactional_id = fresh("orders"), fresh("pay")
    kafka.create_topic(topic, 2)
    producer = keep(make_producer(kafka, transactional_id, timeout=2))
    producer.init()
    producer.run(3, topic)
    producer.run(2, topic, commit=False)
    producer.begin()
    producer.commit()  # empty: the coordinator never hears of it
    rival = keep(make_producer(kafka, transactional_id, counts=producer.counts))
    _write_one(producer, topic)
    rival.init()
    with pytest.raises(EndedError):
        producer.commit()
    producer.init()
    _write_one(producer, topic)
    _until_ended_by_the_coordinator(kafka, transactional_id)
    with pytest.raises(EndedError):
        producer.commit()
    producer.init()
    producer.begin()
    producer.send_offsets(fresh("group"), topic, 0, 1)
    producer.commit()

    counts = producer.counts
    assert counts.outcomes() == {"committed": 4, "aborted": 2, "timed_out": 1, "fenced": 1}
    states = Counter(record.state for record in transaction_log(kafka, transactional_id))
    assert states["CompleteCommit"] == counts.committed
    assert states["CompleteAbort"] == counts.aborted + counts.timed_out + counts.fenced
    assert states["Empty"] == counts.inits == 4


def test_a_killed_producer_leaves_its_transaction_open_until_the_next_incarnation(
    kafka_4: KafkaCluster, make_producer: ProducerClass, fresh: Fresh, keep: EnterContext
) -> None:
    topic, transactional_id = fresh("orders"), fresh("crash")
    kafka_4.create_topic(topic)
    counts = OutcomeCounts(transactional_id)
    crashed = make_producer(kafka_4, transactional_id, counts=counts)
    crashed.init()
    _write_one(crashed, topic)
    crashed.kill()
    assert transaction_log(kafka_4, transactional_id)[-1].state == "Ongoing"
    keep(make_producer(kafka_4, transactional_id, counts=counts)).init()
    assert [record.state for record in transaction_log(kafka_4, transactional_id)][-3:] == [
        "PrepareAbort",
        "CompleteAbort",
        "Empty",
    ]
    assert counts.fenced == 1


def test_java_clients_of_4_bump_the_epoch_at_every_transaction_and_librdkafka_does_not(
    kafka_4: KafkaCluster, fresh: Fresh, keep: EnterContext
) -> None:
    topic = fresh("orders")
    kafka_4.create_topic(topic)
    epochs = {}
    for make in (RdkafkaProducer, JavaProducer):
        producer = keep(make(kafka_4, fresh(make.generation)))
        producer.init()
        producer.run(3, topic)
        epochs[make.generation] = transaction_log(kafka_4, producer.transactional_id)[-1].producer_epoch
    assert epochs == {"v1": 0, "v2": 3}


def test_the_log_of_3_9_has_layout_0_and_that_of_4_layout_1(
    kafka: KafkaCluster, fresh: Fresh, keep: EnterContext
) -> None:
    producer = keep(RdkafkaProducer(kafka, fresh("layout")))
    producer.init()
    layouts = {record.layout for record in transaction_log(kafka, producer.transactional_id)}
    assert layouts == {0 if kafka.version.startswith("3.") else 1}


@pytest.mark.proof
def test_an_orphan_hangs_until_it_is_repaired(kafka: KafkaCluster, fresh: Fresh) -> None:
    topic = fresh("ledger")
    kafka.create_topic(topic)
    orphan = make_orphan(kafka, topic)

    def hanging() -> str:
        return kafka.transactions_tool("find-hanging", "--topic", topic, "--max-transaction-timeout", "0").stdout

    assert topic in hanging()
    repair(kafka, orphan)
    assert topic not in hanging()


@pytest.mark.proof
def test_three_brokers_go_on_when_one_is_killed_and_it_comes_back_on_its_port(fresh: Fresh, keep: EnterContext) -> None:
    cluster = keep(KafkaCluster(brokers=3))
    topic = fresh("orders")
    cluster.create_topic(topic, 3)
    producer = keep(RdkafkaProducer(cluster, fresh("pay")))
    producer.init()
    producer.run(3, topic)
    broker = cluster.brokers[0]
    address = broker.address
    broker.kill()
    producer.run(3, topic)
    broker.start()
    cluster.wait_ready()
    producer.run(3, topic)
    assert producer.counts.committed == 9
    assert broker.address == address
    assert broker.running


@pytest.mark.proof
def test_a_paused_broker_is_connected_and_silent(keep: EnterContext) -> None:
    cluster = keep(KafkaCluster())
    cluster.brokers[0].pause()
    with pytest.raises(KafkaException):
        cluster.admin().list_topics(timeout=1)
    cluster.brokers[0].resume()
    assert set(cluster.admin().list_topics(timeout=60).brokers) == {1}


@pytest.mark.proof
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_user_sees_what_it_is_allowed_and_no_more(mechanism: str, keep: EnterContext) -> None:
    cluster = keep(KafkaCluster(security=Security.of("eos", mechanism=mechanism)))
    cluster.create_topic("orders")
    properties = cluster.client_properties("eos")
    client = AdminClient({**properties, "log_level": 0})
    assert "orders" not in client.list_topics(timeout=60).topics
    cluster.access.allow_all_reads("eos")
    assert "orders" in client.list_topics(timeout=60).topics
    cluster.access.revoke("eos", "READ", "Topic", "*")
    cluster.access.revoke("eos", "DESCRIBE_CONFIGS", "Topic", "*")
    assert "orders" not in client.list_topics(timeout=60).topics


@pytest.mark.proof
def test_the_agent_counts_what_a_producer_did_and_stops_cleanly(
    kafka: KafkaCluster, make_producer: ProducerClass, fresh: Fresh, keep: EnterContext, start_agent: StartAgent
) -> None:
    topic, transactional_id = fresh("orders"), fresh("pay")
    kafka.create_topic(topic, 2)
    producer = keep(make_producer(kafka, transactional_id))
    producer.init()
    agent = start_agent("--bootstrap-server", kafka.bootstrap, "--cluster.name", "stack")
    producer.run(5, topic)
    counted = {"kafka_cluster": "stack", "application": transactional_id, "outcome": "committed"}
    agent.wait_until(lambda metrics: metrics.value(TRANSACTIONS_TOTAL, **counted) == producer.counts.committed)
    assert agent.status()["clusters"][0]["name"] == "stack"
    assert agent.stop() == 0
    with pytest.raises(AgentError):
        agent.metrics()


def test_metrics_tell_absent_from_zero_and_refuse_an_ambiguous_question() -> None:
    metrics = Metrics('lag{topic="a",partition="0"} 0\nlag{topic="a",partition="1"} 3\n')
    assert metrics.value("lag", partition="0") == 0
    assert metrics.value("lag", topic="b") is None
    assert metrics.total("lag", topic="a") == 3
    with pytest.raises(AssertionError, match="2 samples"):
        metrics.value("lag", topic="a")


def test_an_abort_line_is_torn_unless_its_transaction_hangs() -> None:
    line = "kafka-transactions.sh --bootstrap-server b:1 abort --topic ledger --partition 0 --start-offset 7"
    hanging, known = PrintedStep("ledger", "hanging", line), PrintedStep("ledger", "open", line)
    assert abort_line([hanging], 7) == line
    assert abort_line([hanging], 8) is None
    assert torn([hanging]) is None
    assert torn([hanging, known]) == line


def test_the_brokers_die_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testkit.cluster"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().startswith("127.0.0.1:")
        brokers = _java_processes_of(tmp_path)
        assert len(brokers) == 1
        owner.send_signal(signal.SIGKILL)
    until = Deadline.after(180)
    while _java_processes_of(tmp_path) and poll(until):
        pass
    assert _java_processes_of(tmp_path) == []


def test_a_missing_maven_is_said_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_java = tmp_path / "bin"
    only_java.mkdir()
    (only_java / "java").symlink_to(jars.require("java", "openjdk-17-jre-headless"))
    monkeypatch.setenv("PATH", str(only_java))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(jars.JarsError, match="apt-get install maven"):
        jars.library()
    assert not list((tmp_path / "cache").rglob("*.jar"))


def _write_one(producer: Producer, topic: str) -> None:
    producer.begin()
    producer.send(topic)
    producer.flush()


def _until_ended_by_the_coordinator(cluster: KafkaCluster, transactional_id: str) -> None:
    until = Deadline.after(180)
    while "CompleteAbort" not in cluster.transactions_tool("describe", "--transactional-id", transactional_id).stdout:
        assert poll(until), "the coordinator did not end the transaction"


def _java_processes_of(folder: Path) -> list[int]:
    """Processes whose command line names this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:  # ended while we looked
            continue
        if command.startswith(b"java") and str(folder).encode() in command:
            found.append(int(process.name))
    return found
