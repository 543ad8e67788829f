"""What the posture's source exposes of its checks."""

from __future__ import annotations

import pytest

from exporter import catalogue
from exporter.posture.check import CheckResult
from exporter.posture.evidence import Posture
from exporter.posture.source import PostureSettings, PostureSource
from exporter.transactions.facts import TransactionUse
from tests.fakes.cluster import LOG, OFFSETS, FakeKafka, partitions, read

OLD = TransactionUse(frozenset(), {"pay": {0: 3}, "ship": {2: 1}}, {})


def world_of() -> FakeKafka:
    return FakeKafka(
        topics={LOG: partitions(2), OFFSETS: partitions(1)}, levels={"transaction.version": 2, "metadata.version": 30}
    )


def test_what_no_setting_can_mend_is_information_and_not_a_check_that_failed() -> None:
    world = world_of()
    seen = read(world, PostureSource(world.cluster(), PostureSettings()), OLD)
    assert seen.values(catalogue.POSTURE_INFORMATION) == {("transaction_clients", "pay"): 1}
    clients = {
        labels[1]: value
        for labels, value in seen.values(catalogue.POSTURE_CHECK).items()
        if labels[0] == "transaction_clients"
    }
    assert clients == {"ship": 1}
    posture = seen.facts[Posture]
    assert isinstance(posture, Posture)
    checks = posture.checks
    assert [check.subject for check in checks if check.verdict is CheckResult.INFORMATION] == ["pay"]


def test_information_is_left_out_as_any_check_is() -> None:
    world = world_of()
    source = PostureSource(world.cluster(), PostureSettings(ignore=("transaction_clients:pay",)))
    assert not read(world, source, OLD).values(catalogue.POSTURE_INFORMATION)


# --- Subscriptions of client metrics ---


def telemetry(world: FakeKafka) -> dict[str, CheckResult]:
    source = PostureSource(world.cluster(), PostureSettings(telemetry=True))
    posture = read(world, source).facts[Posture]
    assert isinstance(posture, Posture)
    return {each.subject: each.verdict for each in posture.checks if each.name == "telemetry_subscription"}


@pytest.mark.parametrize(
    ("metrics", "verdict"),
    [
        ("org.apache.kafka.producer.txn.,org.apache.kafka.stream.", CheckResult.PASSED),
        ("org.apache.kafka.producer.txn.commit", CheckResult.PASSED),
        ("org.apache.kafka.", CheckResult.PASSED),
        ("*", CheckResult.PASSED),
        ("", CheckResult.PASSED),
        ("org.apache.kafka.consumer.", CheckResult.FAILED),
    ],
)
def test_a_subscription_asks_for_the_metrics_of_transactions(metrics: str, verdict: CheckResult) -> None:
    world = FakeKafka(telemetry=["eos"], settings={"eos": {"metrics": metrics}})
    assert telemetry(world) == {"prod": verdict}


def test_brokers_with_a_receiver_and_no_subscription_are_a_finding_and_those_without_are_not_judged() -> None:
    assert telemetry(FakeKafka(telemetry=[])) == {"prod": CheckResult.FAILED}
    assert telemetry(FakeKafka(telemetry=None)) == {}


def test_subscriptions_that_are_refused_are_unknown() -> None:
    assert telemetry(FakeKafka(telemetry=["eos"], refuse={"ListConfigResources": 31})) == {"prod": CheckResult.UNKNOWN}
    assert telemetry(FakeKafka(telemetry=["eos"], refuse={"DescribeConfigs": 31})) == {"prod": CheckResult.UNKNOWN}


def test_an_agent_that_takes_no_pushed_metrics_does_not_ask_for_subscriptions() -> None:
    world = FakeKafka(telemetry=[])
    read(world, PostureSource(world.cluster(), PostureSettings()))
    assert not world.requests("ListConfigResources")
