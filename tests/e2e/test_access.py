"""A user with the five grants sees everything; without one of them the agent says which, and claims nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from exporter import catalogue
from testkit.access import READ_ALL
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.orphan import make_orphan
from testkit.settings import Security
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent

USER = "eos"
STALL_AFTER = 4
PROVEN_SECONDS = 180.0
PROVEN_READS = 11
"""Reads of the LSO, five seconds apart, in which two rounds of a proof would have been made."""
OPTIONS = ("--cluster.name", "secured", "--lso.stall-after", f"{STALL_AFTER}s")
OFTEN = {"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "5s", "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "5s"}

TRANSACTIONAL_IDS = ("DESCRIBE", "TransactionalId", "*")
GROUPS = ("DESCRIBE", "Group", "*")
READ_TOPICS = ("READ", "Topic", "*")


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    with KafkaCluster("4.3.1", security=Security.of(USER)) as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def granted(secured: KafkaCluster) -> Iterator[KafkaCluster]:
    """The five grants before a test, and after it whatever it took is given back."""
    secured.access.allow_all_reads(USER)
    yield secured
    for operation, resource, name in READ_ALL:
        secured.access.revoke(USER, operation, resource, name)


@pytest.fixture
def watch(start_agent: StartAgent, secured: KafkaCluster) -> Callable[[], AgentProcess]:
    """Start an agent as the user."""
    properties = secured.client_properties(USER)
    environment = OFTEN | {
        "KAFKA_EOS_CLUSTERS__0__KAFKA__" + key.upper().replace(".", "_"): value for key, value in properties.items()
    }
    return lambda: start_agent(*OPTIONS, environment=environment)


def _stall(kafka: KafkaCluster, keep: EnterContext, fresh: Callable[[str], str]) -> tuple[str, str]:
    """One partition held by an open transaction, one by an orphan; their topics."""
    held, orphaned = fresh("held"), fresh("orphaned")
    kafka.create_topic(held)
    kafka.create_topic(orphaned)
    make_orphan(kafka, orphaned)
    producer = keep(RdkafkaProducer(kafka, fresh("holder"), timeout=600.0))
    producer.init()
    producer.begin()
    producer.send(held)
    producer.flush()
    return held, orphaned


def _faults(agent: AgentProcess, source: str) -> list[str]:
    sources = agent.status()["clusters"][0]["sources"]
    return [
        fault["detail"] for source_row in sources if source_row["source"] == source for fault in source_row["faults"]
    ]


def _no_abort_anywhere(agent: AgentProcess) -> None:
    for path in ("/", "/api/v1/status", "/metrics"):
        assert " abort --topic" not in agent.get(path).text


def test_the_five_grants_are_enough(
    granted: KafkaCluster, watch: Callable[[], AgentProcess], keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    held, orphaned = _stall(granted, keep, fresh)
    agent = watch()
    metrics = agent.wait_until(
        lambda seen: (
            seen.value(catalogue.LSO_BLOCKER_INFO, topic=orphaned, kind="hanging")
            and seen.value(catalogue.LSO_BLOCKER_INFO, topic=held, kind="open")
        ),
        timeout=PROVEN_SECONDS,
    )
    ups = {sample.labels["source"]: sample.value for sample in metrics.samples(catalogue.SOURCE_UP)}
    assert ups == {"lso": 1, "transactions": 1, "txnlog": 1, "groups": 1, "posture": 1}
    password = granted.client_properties(USER)["sasl.password"]
    for text in (agent.log, agent.get("/").text, agent.get("/metrics").text, agent.get("/api/v1/status").text):
        assert password not in text


@pytest.mark.proof
def test_without_describe_on_transactional_ids_nothing_is_called_hanging(
    granted: KafkaCluster, watch: Callable[[], AgentProcess], keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    held, orphaned = _stall(granted, keep, fresh)
    granted.access.revoke(USER, *TRANSACTIONAL_IDS)
    agent = watch()
    agent.wait_until(lambda seen: seen.samples(catalogue.LSO_BLOCKER_INFO, topic=orphaned))
    metrics = _after_reads(agent, PROVEN_READS)
    kinds = {sample.labels["topic"]: sample.labels["kind"] for sample in metrics.samples(catalogue.LSO_BLOCKER_INFO)}
    assert kinds[orphaned] == "unknown"
    assert kinds[held] in ("open", "unknown")  # open where the last hour of the log shows its begin
    assert metrics.value(catalogue.HANGING_TRANSACTIONS, topic=orphaned) is None
    assert metrics.value(catalogue.SOURCE_UP, source="transactions") == 0
    assert any("DESCRIBE on TransactionalId:*" in detail for detail in _faults(agent, "transactions"))
    _no_abort_anywhere(agent)


def test_without_read_on_topics_the_blocker_is_unknown_and_the_grant_is_named(
    granted: KafkaCluster, watch: Callable[[], AgentProcess], keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    held, orphaned = _stall(granted, keep, fresh)
    granted.access.revoke(USER, *READ_TOPICS)
    granted.access.allow(USER, "DESCRIBE", "Topic", "*")
    granted.access.allow(USER, "READ", "Topic", "__transaction_state")
    try:
        agent = watch()
        agent.wait_until(lambda seen: len(seen.samples(catalogue.LSO_BLOCKER_INFO)) >= 2)
        metrics = _after_reads(agent, 3)
    finally:
        granted.access.revoke(USER, "DESCRIBE", "Topic", "*")
        granted.access.revoke(USER, "READ", "Topic", "__transaction_state")
    for topic in (held, orphaned):
        blockers = metrics.samples(catalogue.LSO_BLOCKER_INFO, topic=topic)
        assert [sample.labels["kind"] for sample in blockers] == ["unknown"]
        assert metrics.value(catalogue.HANGING_TRANSACTIONS, topic=topic) is None
    assert metrics.value(catalogue.SOURCE_UP, source="lso") == 0
    assert metrics.value(catalogue.SOURCE_UP, source="txnlog") == 1
    assert any("READ on Topic:" in detail for detail in _faults(agent, "lso"))
    _no_abort_anywhere(agent)


def test_without_read_on_the_log_polling_serves_the_gauges_and_counters_are_absent(
    granted: KafkaCluster, watch: Callable[[], AgentProcess], keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    held, _ = _stall(granted, keep, fresh)
    granted.access.deny(USER, "READ", "Topic", "__transaction_state")
    try:
        agent = watch()
        metrics = agent.wait_until(
            lambda seen: (
                seen.total(catalogue.TRANSACTIONS_OPEN, state="ongoing") > 0
                and seen.value(catalogue.LSO_BLOCKER_INFO, topic=held, kind="open")
                and seen.value(catalogue.SOURCE_UP, source="txnlog") == 0
            )
        )
        assert metrics.value(catalogue.SOURCE_UP, source="transactions") == 1
        assert metrics.samples(catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS)
        for counter in (
            catalogue.TRANSACTIONS_TOTAL,
            catalogue.PRODUCER_FENCES_TOTAL,
            catalogue.PRODUCER_INITS_TOTAL,
            catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL,
        ):
            assert metrics.samples(counter) == []
        assert any("READ on Topic:__transaction_state" in detail for detail in _faults(agent, "txnlog"))
    finally:
        granted.access.revoke(USER, "READ", "Topic", "__transaction_state", "DENY")
    # Granted after all: the tail takes over by itself.
    agent.wait_until(
        lambda seen: (
            seen.value(catalogue.SOURCE_UP, source="txnlog") == 1 and seen.samples(catalogue.TRANSACTIONS_TOTAL)
        ),
    )


@pytest.mark.proof
def test_without_describe_on_groups_the_log_is_read_and_an_orphan_is_proven(
    granted: KafkaCluster, watch: Callable[[], AgentProcess], keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    held, orphaned = _stall(granted, keep, fresh)
    granted.access.revoke(USER, *GROUPS)
    agent = watch()
    metrics = agent.wait_until(
        lambda seen: (
            seen.value(catalogue.LSO_BLOCKER_INFO, topic=orphaned, kind="hanging")
            and seen.value(catalogue.LSO_BLOCKER_INFO, topic=held, kind="open")
        ),
        timeout=PROVEN_SECONDS,
    )
    assert metrics.value(catalogue.SOURCE_UP, source="txnlog") == 1
    assert _faults(agent, "lso") == []


def test_a_wrong_password_is_reported_and_the_agent_keeps_trying(
    start_agent: StartAgent, granted: KafkaCluster
) -> None:
    properties = granted.client_properties(USER) | {"sasl.password": "not-the-password"}
    environment = {
        "KAFKA_EOS_CLUSTERS__0__KAFKA__" + key.upper().replace(".", "_"): value for key, value in properties.items()
    }
    agent = start_agent(*OPTIONS, environment=environment)
    metrics = agent.wait_until(lambda seen: seen.total(catalogue.SOURCE_FAULTS_TOTAL, reason="authentication") > 0)
    assert all(sample.value == 0 for sample in metrics.samples(catalogue.SOURCE_UP))
    assert "not-the-password" not in agent.log + agent.get("/").text + agent.get("/metrics").text


def _after_reads(agent: AgentProcess, reads: int) -> Metrics:
    """The metrics after this many more whole reads of the LSO: what would be claimed is claimed by then."""
    seen: set[float | None] = set()

    def enough(metrics: Metrics) -> bool:
        duration = metrics.value(catalogue.SOURCE_READ_DURATION_SECONDS, source="lso")
        seen.add(duration)
        return len(seen) > reads

    return agent.wait_until(enough)


@pytest.mark.proof
def test_a_grant_that_was_taken_and_given_back_is_noticed(
    granted: KafkaCluster, watch: Callable[[], AgentProcess], keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    _stall(granted, keep, fresh)
    agent = watch()
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 1)
    granted.access.deny(USER, "READ", "Topic", "__transaction_state")
    try:
        agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 0)
    finally:
        granted.access.revoke(USER, "READ", "Topic", "__transaction_state", "DENY")
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 1)
