"""Tests of what made a live transaction look like a hanging one on real brokers: none of it gives a line that ends it
any more.

A DENY on one transactional.id, a transaction log that may not be described or read. A true orphan is proven in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter import catalogue
from testkit.agent import AgentProcess
from testkit.cluster import KafkaCluster
from testkit.orphan import make_orphan
from testkit.settings import Security
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent
from tests.e2e.ending_lines import LOOKS, QUIET_SECONDS, EndingResult, committed, ends_something, looks, never, run

USER = "eos"
LOG = "__transaction_state"
PROVEN_SECONDS = 180.0


# --- What is denied ---


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    with KafkaCluster(security=Security.of(USER)) as cluster:
        cluster.access.allow_all_reads(USER)
        with RdkafkaProducer(cluster, "first-1") as producer:
            cluster.create_topic("first")
            producer.init()
            producer.run(1, "first")
        yield cluster


@pytest.fixture
def as_user(guarded: KafkaCluster, tmp_path: Path) -> Callable[..., EndingResult]:
    properties = tmp_path / "client.properties"
    lines = (f"{name}={value}\n" for name, value in guarded.client_properties(USER).items())
    properties.write_text("".join(lines))
    return lambda *arguments: run(*arguments, "--command-config", str(properties))


@pytest.fixture
def watch(start_agent: StartAgent, guarded: KafkaCluster) -> Callable[[], AgentProcess]:
    environment = {
        "KAFKA_EOS_CLUSTERS__0__KAFKA__" + key.upper().replace(".", "_"): value
        for key, value in guarded.client_properties(USER).items()
    }
    environment["KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL"] = "5s"
    return lambda: start_agent("--cluster.name", "guarded", "--lso.stall-after", "4s", environment=environment)


def open_transaction(guarded: KafkaCluster, keep: EnterContext, name: str, topic: str) -> RdkafkaProducer:
    guarded.create_topic(topic, 2)
    producer = keep(RdkafkaProducer(guarded, name, timeout=600.0))
    producer.init()
    producer.begin()
    producer.send(topic, 1, 0)
    producer.send(topic, 1, 1)
    producer.flush()
    return producer


def test_an_id_that_is_denied_is_named_by_the_log_and_unknown_without_it(
    guarded: KafkaCluster,
    as_user: Callable[..., EndingResult],
    watch: Callable[[], AgentProcess],
    keep: EnterContext,
    fresh: Callable[[str], str],
) -> None:
    name, topic = fresh("pay"), fresh("orders")
    live = open_transaction(guarded, keep, name, topic)
    guarded.access.deny(USER, "DESCRIBE", "TransactionalId", name)
    try:
        for done in looks(as_user):
            assert not ends_something(done.out, done.err), done
        stalled = as_user(*LOOKS[0], "--output", "json").document["stalled_partitions"]
        assert {(stall["blocker"]["kind"], stall["blocker"]["transactional_id"]) for stall in stalled} == {
            ("open", name)
        }
        guarded.access.deny(USER, "READ", "Topic", LOG)
        for done in looks(as_user, forms=["text"]):
            assert not ends_something(done.out, done.err), done
            assert f"grant READ on Topic:{LOG}" in done.out + done.err
        agent = watch()
        kinds = never(agent, topic, QUIET_SECONDS)
        assert kinds == {"unknown"}
        assert f"grant READ on Topic:{LOG}" in agent.get("/").text
    finally:
        guarded.access.revoke(USER, "DESCRIBE", "TransactionalId", name, "DENY")
        guarded.access.revoke(USER, "READ", "Topic", LOG, "DENY")
    live.commit()
    assert committed(guarded.bootstrap, topic, 2) == 2


@pytest.mark.proof
def test_a_transaction_log_that_may_not_be_described_leaves_a_live_transaction_unknown(
    guarded: KafkaCluster,
    as_user: Callable[..., EndingResult],
    watch: Callable[[], AgentProcess],
    keep: EnterContext,
    fresh: Callable[[str], str],
) -> None:
    name, topic = fresh("pay"), fresh("orders")
    live = open_transaction(guarded, keep, name, topic)
    guarded.access.deny(USER, "DESCRIBE", "Topic", LOG)
    guarded.access.deny(USER, "DESCRIBE", "TransactionalId", name)
    try:
        for done in looks(as_user, forms=["text"]):
            assert not ends_something(done.out, done.err), done
            assert f"Topic:{LOG}" in done.out + done.err
        agent = watch()
        assert never(agent, topic, QUIET_SECONDS) == {"unknown"}
    finally:
        guarded.access.revoke(USER, "DESCRIBE", "Topic", LOG, "DENY")
        guarded.access.revoke(USER, "DESCRIBE", "TransactionalId", name, "DENY")
    live.commit()
    assert committed(guarded.bootstrap, topic, 2) == 2


# --- A true orphan ---


def test_a_true_orphan_is_proven_in_time_with_the_line_that_ends_it(
    guarded: KafkaCluster,
    start_agent: StartAgent,
    fresh: Callable[[str], str],
    record_property: Callable[[str, object], None],
) -> None:
    topic = fresh("ledger")
    guarded.create_topic(topic)
    agent = start_agent(
        "--bootstrap-server", guarded.bootstrap,
        environment={"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "5s"},
    )  # fmt: skip
    orphan = make_orphan(guarded, topic, transactional_id="ghost-1")
    began = time.monotonic()
    agent.wait_until(
        lambda seen: seen.samples(catalogue.LSO_BLOCKER_INFO, topic=topic, kind="hanging"), timeout=PROVEN_SECONDS
    )
    seconds = round(time.monotonic() - began, 1)
    record_property("seconds from the orphan to its proof", seconds)
    print(f"{seconds} s from the orphan to its proof")
    [stalled] = [
        partition for partition in agent.status()["clusters"][0]["stalled_partitions"] if partition["topic"] == topic
    ]
    assert stalled["next_step"]["command"].endswith(
        f" abort --topic {topic} --partition 0 --start-offset {orphan.start_offset}"
    )
    assert "transactions hanging" in stalled["next_step"]["check"]
    proof = stalled["blocker"]["proof"]
    assert proof["last_owner"] == "ghost-1"
    assert f"Producer id {orphan.producer_id} was last that of ghost-1" in stalled["next_step"]["text"]
    assert "its producer id was last that of ghost-1" in agent.get("/").text
    assert proof["coordinators_loaded"] == proof["log_partitions"] == 50
    assert proof["second_round_timestamp"] - proof["first_round_timestamp"] >= 30
