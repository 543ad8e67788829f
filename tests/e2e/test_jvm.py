"""Real JVMs with both agents at once: brokers and producers say the same in every way, and what they did."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter import catalogue
from exporter.brokers import source as brokers
from exporter.http_client import Endpoint
from exporter.jvm.answers import AgentKind, JvmAnswer, JvmTarget
from exporter.jvm.mbeans import MBeanQuery
from exporter.jvm.reader import reader_for
from exporter.model import Deadline, Reason
from exporter.producers.source import producers
from testkit.agent import AgentProcess, Metrics
from testkit.certificates import Authority
from testkit.cluster import KafkaCluster
from testkit.jvm_agents import RULES, SPELLINGS, JvmAgents
from testkit.processes import poll
from testkit.workloads.producers import EndedError, JavaProducer, RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent, in_proof

BROKER = "broker-1"
READ_SECONDS = 30.0
Fresh = Callable[[str], str]


class Jvms:
    """A broker with both agents, and what it takes to ask it."""

    def __init__(self, cluster: KafkaCluster, agents: JvmAgents) -> None:
        self.cluster = cluster
        self.agents = agents

    def jolokia(self, name: str, queries: tuple[MBeanQuery, ...]) -> JvmAnswer:
        return _read(JvmTarget(AgentKind.JOLOKIA, Endpoint(self.agents.jolokia(name))), queries)

    def scrape(self, name: str, queries: tuple[MBeanQuery, ...], spelling: str) -> JvmAnswer:
        """The answer with these rules; the agent rereads them once their file is a second newer."""
        self.agents.use(name, RULES / f"{spelling}.yml")
        until = Deadline.after(180)
        target = JvmTarget(AgentKind.JMX_EXPORTER, Endpoint(self.agents.jmx_exporter(name)), spelling)
        while not (answer := _read(target, queries)).values:
            assert poll(until, 0.3), f"no values in the spelling {spelling}: {answer.faults}"
        return answer


def _read(target: JvmTarget, queries: tuple[MBeanQuery, ...]) -> JvmAnswer:
    return reader_for(target).read(queries, Deadline.after(READ_SECONDS))


@pytest.fixture(scope="module", params=[("4.3.1", "1.0.1"), *in_proof(("3.9.2", "0.20.0"))], ids="-".join)
def jvms(request: pytest.FixtureRequest) -> Iterator[Jvms]:
    """Two generations of Kafka, and of the jmx_exporter: from 1.0 on its counters end in ``_total``."""
    version, jmx_exporter = request.param
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-jvms-"))
    agents = JvmAgents(folder, jmx_exporter=jmx_exporter)
    try:
        with KafkaCluster(version, jvm_options=agents.options, transaction_partitions=4) as cluster:
            yield Jvms(cluster, agents)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settings(tmp_path: Path, cluster: KafkaCluster, **more: Any) -> str:
    """A settings file of this cluster; ``brokers`` belongs to it, all else is at the top level."""
    own = {"name": "prod", "kafka": {"bootstrap.servers": cluster.bootstrap}, "brokers": more.pop("brokers", [])}
    file = tmp_path / "settings.yml"
    file.write_text(yaml.safe_dump({"clusters": [own], **more}))
    return str(file)


UNNAMED = {"confluent": "uncleanable-partitions-count"}
"""The MBean that the rules of a spelling do not name, since its own name has hyphens: its value is absent there."""


def texts(answer: JvmAnswer) -> dict[tuple[str, ...], float | str]:
    """Readings by name, without those that move by themselves on an idle broker."""
    return {
        (reading.mbean.domain, *map(str, sorted(reading.mbean.properties.items())), reading.attribute): reading.value
        for reading in answer.values
        if "partition-load-time" not in reading.attribute and reading.mbean.type != "app-info"
    }


def fence(cluster: KafkaCluster, transactional_id: str, topic: str) -> None:
    with RdkafkaProducer(cluster, transactional_id) as zombie, RdkafkaProducer(cluster, transactional_id) as successor:
        zombie.init()
        zombie.begin()
        zombie.send(topic)
        zombie.flush()
        successor.init()
        with pytest.raises(EndedError):
            zombie.commit()


def test_a_broker_and_a_producer_say_the_same_in_both_ways_and_all_spellings(
    jvms: Jvms, fresh: Fresh, keep: EnterContext
) -> None:
    topic, transactional_id = fresh("orders"), fresh("pay")
    jvms.cluster.create_topic(topic)
    producer = keep(JavaProducer(jvms.cluster, transactional_id, jvm_options=jvms.agents.options))
    producer.init()
    producer.run(3, topic)
    fence(jvms.cluster, fresh("ship"), topic)
    for name, queries in ((BROKER, brokers.QUERIES), (f"java-{transactional_id}", producers.QUERIES)):
        for spelling in SPELLINGS:
            scraped = jvms.scrape(name, queries, spelling)
            asked = jvms.jolokia(name, queries)
            unnamed = UNNAMED.get(spelling, "no such MBean")
            known = {key: value for key, value in texts(asked).items() if not any(unnamed in part for part in key)}
            assert texts(scraped) == known, f"{name} in the spelling {spelling}"
            assert (asked.faults, scraped.faults) == ((), ())
            lost = {missing.attribute for missing in scraped.missing}
            dropped = {"partition-load-time-avg", "partition-load-time-max"}
            assert lost == (dropped if (name, spelling) == (BROKER, "jmx_exporter") else set())


def test_the_rule_that_a_note_gives_shows_what_was_missing(jvms: Jvms, tmp_path: Path) -> None:
    lost = jvms.scrape(BROKER, brokers.QUERIES, "jmx_exporter").missing
    assert lost
    rules = yaml.safe_load((RULES / "jmx_exporter.yml").read_text())
    rules["rules"] = [*(yaml.safe_load(missing.remedy)[0] for missing in lost), *rules["rules"]]
    rules["includeObjectNames"].append(lost[0].kind)
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump(rules, sort_keys=False))
    jvms.agents.use(BROKER, file)
    target = JvmTarget(AgentKind.JMX_EXPORTER, Endpoint(jvms.agents.jmx_exporter(BROKER)))
    until = Deadline.after(180)
    while _read(target, brokers.QUERIES).missing:
        assert poll(until, 0.3), f"with the remedies of the notes, {lost} are still missing"


def test_the_agent_tells_what_brokers_and_producers_did(
    jvms: Jvms, fresh: Fresh, keep: EnterContext, start_agent: StartAgent, tmp_path: Path
) -> None:
    topic, transactional_id = fresh("orders"), fresh("pay")
    jvms.cluster.create_topic(topic)
    producer = keep(JavaProducer(jvms.cluster, transactional_id, jvm_options=jvms.agents.options))
    producer.init()
    file = settings(
        tmp_path,
        jvms.cluster,
        brokers=[{"jolokia": jvms.agents.jolokia(BROKER), "interval": "1s"}],
        producers=[{"jolokia": jvms.agents.jolokia(f"java-{transactional_id}"), "interval": "1s"}],
    )
    agent = start_agent("--config", file)
    client_id = f"producer-{transactional_id}"
    before = agent.wait_until(lambda metrics: _errors(metrics) is not None)
    producer.run(4, topic)
    producer.run(2, topic, commit=False)
    fence(jvms.cluster, fresh("ship"), topic)

    def shown(metrics: Metrics) -> bool:
        ended = _ended(metrics) - _ended(before)
        sent = metrics.value(catalogue.PRODUCER_RECORDS_SENT_TOTAL, client_id=client_id)
        return ended >= 7 and sent is not None and sent >= 6  # each request that a client repeats counts again

    after = agent.wait_until(shown)
    fences = _fences(after) - _fences(before)
    assert fences == 1
    for operation in ("init", "begin", "commit", "abort"):
        spent = after.value(catalogue.PRODUCER_TXN_SECONDS_TOTAL, client_id=client_id, operation=operation)
        assert spent is not None
        assert spent > 0
    assert after.value(catalogue.PRODUCER_TXN_SECONDS_TOTAL, client_id=client_id, operation="send_offsets") == 0
    assert after.value(catalogue.PRODUCER_RECORD_ERRORS_TOTAL, client_id=client_id) == 0
    quantile = after.value(catalogue.BROKER_REQUEST_DURATION_SECONDS, broker="1", request="EndTxn", quantile="0.99")
    assert quantile is not None
    assert 0 < quantile < 30
    version = after.value(catalogue.BROKER_TRANSACTION_VERSION, broker="1")
    assert version == (2 if jvms.cluster.version.startswith("4.") else None)
    up = {sample.labels["source"]: sample.value for sample in after.samples(catalogue.SOURCE_UP)}
    assert (up["brokers"], up["producers"]) == (1, 1)


def _errors(metrics: Metrics) -> float | None:
    return metrics.value(
        catalogue.BROKER_REQUEST_ERRORS_TOTAL, broker="1", request="EndTxn", error="TRANSACTION_ABORTABLE"
    )


def _ended(metrics: Metrics) -> float:
    return metrics.total(catalogue.BROKER_REQUESTS_TOTAL, request="EndTxn")


def _fences(metrics: Metrics) -> float:
    """A zombie gets the error under either name, by the version of its request (KafkaApis)."""
    return sum(
        metrics.total(catalogue.BROKER_REQUEST_ERRORS_TOTAL, request="EndTxn", error=error)
        for error in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    )


def test_a_jolokia_with_tls_and_a_password_answers_who_knows_both_and_says_why_to_all_others(
    tmp_path: Path, fresh: Fresh, clusters: Callable[..., KafkaCluster], keep: EnterContext
) -> None:
    authority, stranger = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    key_store = (authority.issue_pkcs12("jolokia", "key-s3cret"), "key-s3cret")
    agents = JvmAgents(tmp_path, credentials=("eos", "s3cret"), key_store=key_store)
    cluster, transactional_id = clusters("4.3.1"), fresh("pay")
    producer = keep(JavaProducer(cluster, transactional_id, jvm_options=agents.options))
    producer.init()
    url = agents.jolokia(f"java-{transactional_id}")
    refused = {Reason.AUTHENTICATION}
    ours, theirs = Path(authority.certificate), Path(stranger.certificate)
    for password, known, expected in (
        ("s3cret", ours, set()),
        ("wrong", ours, refused),
        ("s3cret", theirs, refused),
        ("s3cret", None, refused),
    ):
        answer = _read(JvmTarget(AgentKind.JOLOKIA, Endpoint(url, "eos", password, ca_file=known)), producers.QUERIES)
        assert {fault.reason for fault in answer.faults} == expected, answer.faults
        assert bool(answer.values) == (not expected)
        assert "s3cret" not in repr(answer.faults)


def test_one_dead_jvm_harms_no_other_and_comes_back(
    fresh: Fresh, keep: EnterContext, start_agent: StartAgent, tmp_path: Path, clusters: Callable[..., KafkaCluster]
) -> None:
    cluster, agents = clusters("4.3.1"), JvmAgents(tmp_path)
    alive, dead = fresh("pay"), fresh("ship")
    producer = keep(JavaProducer(cluster, alive, jvm_options=agents.options))
    producer.init()
    entries = [{"jolokia": agents.jolokia(f"java-{name}"), "interval": "1s"} for name in (alive, dead)]
    agent = start_agent("--config", settings(tmp_path, cluster, producers=entries))
    addresses = [Endpoint(entry["jolokia"]).address for entry in entries]

    def ups(metrics: Metrics) -> list[float | None]:
        return [metrics.value(catalogue.SOURCE_UP, source="producers", target=address) for address in addresses]

    metrics = agent.wait_until(lambda metrics: ups(metrics) == [1, 0])
    assert metrics.value(catalogue.PRODUCER_RECORDS_SENT_TOTAL, client_id=f"producer-{alive}") == 0
    faults = metrics.value(
        catalogue.SOURCE_FAULTS_TOTAL, source="producers", target=addresses[1], reason=Reason.UNREACHABLE
    )
    assert faults is not None
    assert faults >= 1
    keep(JavaProducer(cluster, dead, jvm_options=agents.options)).init()
    agent.wait_until(lambda metrics: ups(metrics) == [1, 1])


@pytest.mark.proof
def test_targets_of_a_file_are_read_once_they_are_written_there(
    fresh: Fresh, keep: EnterContext, start_agent: StartAgent, tmp_path: Path, clusters: Callable[..., KafkaCluster]
) -> None:
    cluster, agents, transactional_id = clusters("4.3.1"), JvmAgents(tmp_path), fresh("pay")
    keep(JavaProducer(cluster, transactional_id, jvm_options=agents.options)).init()
    targets = tmp_path / "targets.json"
    entry = {"jolokia": "http://{target}/jolokia", "file_sd": str(targets), "interval": "1s"}
    agent = start_agent("--config", settings(tmp_path, cluster, producers=[entry]))
    sent = catalogue.PRODUCER_RECORDS_SENT_TOTAL
    assert agent.metrics().samples(sent) == []
    targets.write_text(json.dumps([{"targets": [Endpoint(agents.jolokia(f"java-{transactional_id}")).address]}]))
    agent.wait_until(lambda metrics: metrics.samples(sent, client_id=f"producer-{transactional_id}"))
    targets.write_text("[]")
    agent.wait_until(lambda metrics: not metrics.samples(sent))


def test_a_librdkafka_producer_reports_its_state_itself(
    fresh: Fresh, keep: EnterContext, start_agent: StartAgent, tmp_path: Path, clusters: Callable[..., KafkaCluster]
) -> None:
    cluster, topic, transactional_id = clusters("4.3.1"), fresh("orders"), fresh("checkout")
    cluster.create_topic(topic)
    ingest = {"enabled": True, "expire_after": "5s"}
    agent = start_agent("--config", settings(tmp_path, cluster, ingest=ingest))
    producer = keep(RdkafkaProducer(cluster, transactional_id, report_to=agent.url))
    producer.init()
    producer.begin()
    producer.send(topic)
    state = catalogue.PRODUCER_TXN_STATE
    until = Deadline.after(180)
    while not agent.metrics().samples(state, client_id=transactional_id, state="in_transaction"):
        producer.flush()  # librdkafka gives statistics only while it is polled
        producer.send(topic)
        assert poll(until, 0.2), agent.metrics().samples(state)
    metrics = agent.metrics()
    since = metrics.value(catalogue.PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS, client_id=transactional_id)
    assert since is not None
    assert metrics.samples(catalogue.PRODUCER_IDEMPOTENCE_STATE, client_id=transactional_id, state="assigned")
    producer.kill()
    agent.wait_until(lambda metrics: not metrics.samples(state))


def test_the_door_for_statistics_asks_for_the_token(
    start_agent: StartAgent, tmp_path: Path, clusters: Callable[..., KafkaCluster]
) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    ingest = {"enabled": True, "token_file": str(token)}
    agent = start_agent("--config", settings(tmp_path, clusters("4.3.1"), ingest=ingest))
    good = b'{"client_id": "c", "eos": {"txn_state": "Ready", "idemp_state": "Assigned"}}'
    assert [_post(agent, good, given) for given in ("", "wrong", "t0ken")] == [401, 401, 204]
    assert _post(agent, b"x" * 100_000, "t0ken") == 413
    assert "t0ken" not in agent.log


def test_without_ingest_there_is_no_door(start_agent: StartAgent, clusters: Callable[..., KafkaCluster]) -> None:
    agent = start_agent("--bootstrap-server", clusters("4.3.1").bootstrap)
    assert _post(agent, b"{}", "") == 404


def _post(agent: AgentProcess, body: bytes, token: str) -> int:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{agent.url}/ingest/librdkafka", body, headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
