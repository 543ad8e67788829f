"""Untouched Java clients push their metrics to brokers with our receiver, which forwards them to the agent: no agent in
their JVMs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter import catalogue
from testkit import jars
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.settings import free_ports
from testkit.streams import StreamsApp
from testkit.workloads.producers import JavaProducer
from tests.e2e.conftest import EnterContext, StartAgent, in_proof

Fresh = Callable[[str], str]
TOKEN = "t0ken"
REPORTERS = {"4.3.1": "kafka.eos.telemetry.TelemetryReporter", "3.9.2": "kafka.eos.telemetry.TelemetryReporter37"}
INTERVAL_MS = 1000
SUBSCRIPTION = (
    "org.apache.kafka.producer.txn.",
    "org.apache.kafka.producer.record.send.total",
    "org.apache.kafka.stream.client.state",
    "org.apache.kafka.stream.thread.commit.",
    "org.apache.kafka.stream.thread.thread.state",
    "org.apache.kafka.stream.state.updater.active.",
)


class Pushing:
    """A broker with our receiver, and the address to which it forwards."""

    def __init__(self, cluster: KafkaCluster, port: int, token_file: Path) -> None:
        self.cluster = cluster
        self.port = port
        self.token_file = token_file

    def subscribe(self) -> None:
        """As docs/engines.md has it."""
        arguments = ("--alter", "--name", "eos", "--interval", str(INTERVAL_MS), "--metrics", ",".join(SUBSCRIPTION))
        done = self.cluster.tool("org.apache.kafka.tools.ClientMetricsCommand", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", params=["4.3.1", *in_proof("3.9.2")])
def pushing(request: pytest.FixtureRequest) -> Iterator[Pushing]:
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-telemetry-"))
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    properties = {
        "metric.reporters": f"org.apache.kafka.common.metrics.JmxReporter,{REPORTERS[request.param]}",
        "kafka.eos.telemetry.url": f"http://127.0.0.1:{port}/v1/metrics",
        "kafka.eos.telemetry.token.file": str(token_file),
    }
    try:
        cluster = KafkaCluster(request.param, properties=properties, transaction_partitions=4, plugin=jars.telemetry())
        with cluster:
            found = Pushing(cluster, port, token_file)
            found.subscribe()
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def agent(pushing: Pushing, start_agent: StartAgent, tmp_path: Path) -> AgentProcess:
    settings = {
        "clusters": [{"name": "demo", "kafka": {"bootstrap.servers": pushing.cluster.bootstrap}}],
        "ingest": {"enabled": True, "token_file": str(pushing.token_file)},
    }
    file = tmp_path / "config.yml"
    file.write_text(json.dumps(settings))
    return start_agent("--config", str(file), port=pushing.port)


def commits(metrics: Metrics, client_id: str) -> float:
    return metrics.total(catalogue.PRODUCER_TXN_SECONDS_TOTAL, client_id=client_id, operation="commit")


def test_a_producer_that_knows_nothing_of_it_shows_its_transactions(
    pushing: Pushing, agent: AgentProcess, fresh: Fresh, keep: EnterContext
) -> None:
    topic, transactional_id, client_id = fresh("orders"), fresh("pay"), fresh("büro/1")
    pushing.cluster.create_topic(topic)
    producer = keep(JavaProducer(pushing.cluster, transactional_id, settings={"client.id": client_id}))
    producer.init()
    producer.run(3, topic)
    first = agent.wait_until(lambda metrics: commits(metrics, client_id) > 0)
    (info,) = first.samples(catalogue.TELEMETRY_CLIENT_INFO, client_id=client_id)
    assert info.labels["kafka_cluster"] == "demo"
    assert info.labels["software_name"] == "apache-kafka-java"
    assert info.labels["software_version"] == pushing.cluster.version
    assert info.labels["transactional_id"] == transactional_id
    assert info.labels["principal"] == "User:ANONYMOUS"
    assert info.labels["address"] == "127.0.0.1"
    assert info.labels["target"] == info.labels["client_instance_id"] != ""
    own = {"client_id": client_id, "target": info.labels["target"]}

    def sent(metrics: Metrics) -> float:
        """Return what is sent again, after an answer that allows it, is counted again
        (Sender.updateProduceRequestMetrics).
        """
        return metrics.value(catalogue.PRODUCER_RECORDS_SENT_TOTAL, **own) or 0.0

    before_sent = sent(agent.wait_until(lambda metrics: sent(metrics) >= 3))
    before = commits(first, client_id)
    producer.run(2, topic)
    later = agent.wait_until(lambda metrics: sent(metrics) >= before_sent + 2)
    assert commits(later, client_id) > before
    assert later.value(catalogue.TELEMETRY_POINTS_TOTAL, result="refused") == 0


def test_a_streams_application_shows_its_threads_as_one_target(
    pushing: Pushing, agent: AgentProcess, fresh: Fresh
) -> None:
    if pushing.cluster.version.startswith("3."):
        pytest.skip("Kafka Streams pushes since 4.0 (KIP-1076)")
    topic = fresh("words")
    pushing.cluster.create_topic(topic, 2)
    with StreamsApp(pushing.cluster, fresh("count"), topic) as app:
        metrics = agent.wait_until(
            lambda metrics: (
                metrics.samples(catalogue.STREAMS_THREAD_STATE, state="running")
                and metrics.samples(catalogue.STREAMS_CLIENT_STATE, state="running")
                and metrics.samples(catalogue.STREAMS_THREAD_COMMITS_TOTAL)
            ),
        )
        assert app.child.running
    families = (catalogue.STREAMS_THREAD_STATE, catalogue.STREAMS_CLIENT_STATE, catalogue.STREAMS_THREAD_COMMITS_TOTAL)
    targets = {sample.labels["target"] for family in families for sample in metrics.samples(family)}
    assert len(targets) == 1, targets
    (client,) = metrics.samples(catalogue.STREAMS_CLIENT_STATE)
    assert client.labels["client_id"] == f"{app.application_id}-{targets.pop()}"
