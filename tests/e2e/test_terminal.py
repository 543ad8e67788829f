"""The terminal commands on real brokers: what they find, what they advise, and how they exit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from testkit.cluster import KafkaCluster
from testkit.orphan import make_orphan
from testkit.settings import Security
from testkit.workloads.producers import ProducerClass, RdkafkaProducer
from tests.e2e.conftest import EACH_VERSION, EnterContext, cluster_of
from tests.e2e.ending_lines import EndingResult, explained, looks
from tests.e2e.ending_lines import command as run

ABORT = "abort --topic"


def look(kafka: KafkaCluster, *words: str) -> EndingResult:
    return run("transactions", *words, "--bootstrap-server", kafka.bootstrap)


@pytest.fixture(params=EACH_VERSION)
def own_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A cluster of its own: these looks see everything that is open on it."""
    with cluster_of(request.param) as cluster:
        yield cluster


def test_a_quiet_cluster_is_clean_for_every_look(own_kafka: KafkaCluster) -> None:
    for words in ([], ["hanging"], ["stalled"], ["recent"]):
        done = look(own_kafka, *words)
        assert (done.code, len(done.out.splitlines())) == (0, 1), done


def test_open_stalled_hanging_and_fenced_are_each_found_with_the_right_step(
    own_kafka: KafkaCluster, keep: EnterContext, make_producer: ProducerClass
) -> None:
    for topic in ("orders", "ledger", "payments"):
        own_kafka.create_topic(topic)
    stuck = keep(make_producer(own_kafka, "stuck-1", timeout=600.0))
    stuck.init()
    stuck.begin()
    stuck.send("orders", 3)
    stuck.flush()
    zombie = keep(make_producer(own_kafka, "pay-3"))
    zombie.init()
    zombie.begin()
    zombie.send("payments")
    zombie.flush()
    heir = keep(make_producer(own_kafka, "pay-3"))
    heir.init()
    orphan = make_orphan(own_kafka, "ledger")

    opened = look(own_kafka)
    assert opened.code == 1
    assert "stuck-1" in opened.out
    [transaction] = look(own_kafka, "--output", "json").document["transactions"]
    assert (transaction["transactional_id"], transaction["state"]) == ("stuck-1", "ongoing")
    assert transaction["timeout_seconds"] == 600
    assert transaction["partitions"] == [{"topic": "orders", "partition": 0}]
    assert transaction["next_step"] is None

    abort_line = (
        f"  kafka-transactions.sh --bootstrap-server {own_kafka.bootstrap} abort --topic ledger --partition 0"
        f" --start-offset {orphan.start_offset}"
    )
    # The coordinator has the open one: its data would be torn by an abort line, so there must be none for it.
    stalled, stalled_json, hanging, _ = looks(partial(look, own_kafka))
    assert stalled.code == 1
    assert [line for line in stalled.out.splitlines() if ABORT in line] == [abort_line]
    assert "forceTerminateTransaction" not in stalled.out, "its timeout is not over"
    assert "read the transaction log of" in stalled.err
    found = stalled_json.document["stalled_partitions"]
    assert {(stall["topic"], stall["blocker"]["kind"], stall["blocker"]["transactional_id"]) for stall in found} == {
        ("orders", "open", "stuck-1"),
        ("ledger", "hanging", ""),
    }

    assert hanging.code == 1
    assert [line for line in hanging.out.splitlines() if ABORT in line] == [abort_line]
    assert "orders" not in hanging.out

    code, record = explained(own_kafka.bootstrap, "ledger", 0, orphan.start_offset)
    assert (code, record["state"], record["transactional_id"]) == (2, "unknown", "ghost")
    assert "transactions hanging --topic ledger --partition 0" in record["missing"][-1]
    code, record = explained(own_kafka.bootstrap, "payments", 0, 0)
    assert (code, record["state"], record["transactional_id"], record["decided"]) == (0, "aborted", "pay-3", "abort")

    recent = look(own_kafka, "recent", "--output", "json")
    assert recent.code == 1
    assert [(end["transactional_id"], end["outcome"]) for end in recent.document["unclean_ends"]] == [
        ("pay-3", "fenced")
    ]


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    with KafkaCluster(security=Security.of("eos")) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("ledger")
        cluster.access.allow_all_reads("eos")
        with RdkafkaProducer(cluster, "first-1") as producer:
            producer.init()
            producer.run(1, "orders")
        yield cluster


@pytest.fixture
def as_user(guarded: KafkaCluster, tmp_path: Path) -> Callable[..., EndingResult]:
    properties = tmp_path / "client.properties"
    lines = (f"{name}={value}\n" for name, value in guarded.client_properties("eos").items())
    properties.write_text("".join(lines))

    def as_user(*arguments: str) -> EndingResult:
        return run(*arguments, "--command-config", str(properties))

    return as_user


@pytest.mark.proof
def test_no_abort_line_appears_anywhere_while_a_grant_is_missing(
    guarded: KafkaCluster, as_user: Callable[..., EndingResult], keep: EnterContext
) -> None:
    stuck = keep(RdkafkaProducer(guarded, "stuck-1", timeout=600.0))
    stuck.init()
    stuck.begin()
    stuck.send("orders", 3)
    stuck.flush()
    make_orphan(guarded, "ledger")
    looks = (["stalled", "--stall-after", "2s"], ["hanging", "--older-than", "1ms"])
    guarded.access.deny("eos", "DESCRIBE", "TransactionalId", "*")
    try:
        for words in looks:
            for output in ("text", "json"):
                done = as_user("transactions", *words, "--output", output)
                assert done.code != 0
                assert "grant DESCRIBE on TransactionalId:*" in done.err + done.out
                assert "kafka-transactions.sh" not in done.out + done.err
        connection = as_user("check", "connection")
        assert connection.code == 1
        assert "grant DESCRIBE on TransactionalId:*" in connection.out
        assert "a DENY on single ids cannot be seen" in connection.out
    finally:
        guarded.access.revoke("eos", "DESCRIBE", "TransactionalId", "*", "DENY")
    assert ABORT in as_user("transactions", "hanging", "--older-than", "1ms").out
    assert as_user("check", "connection").code == 0


def test_without_read_on_the_log_recent_names_the_grant(
    guarded: KafkaCluster, as_user: Callable[..., EndingResult]
) -> None:
    guarded.access.deny("eos", "READ", "Topic", "__transaction_state")
    try:
        done = as_user("transactions", "recent")
        assert (done.code, done.out) == (2, "")
        assert "grant READ on Topic:__transaction_state" in done.err
        assert "transaction log: " in as_user("check", "connection").out
    finally:
        guarded.access.revoke("eos", "READ", "Topic", "__transaction_state", "DENY")


def test_a_wrong_password_is_named_and_never_shown(guarded: KafkaCluster, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    settings = guarded.client_properties("eos") | {"sasl.password": "hunter2"}
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    done = run("transactions", "--command-config", str(properties))
    assert (done.code, done.out) == (2, "")
    assert "SCRAM-SHA-512" in done.err
    assert "hunter2" not in done.err
