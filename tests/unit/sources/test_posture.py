"""What the posture's source exposes of its checks."""

from __future__ import annotations

from exporter import catalogue
from exporter.model import TransactionUse
from exporter.posture.check import CheckResult
from exporter.posture.evidence import Posture
from exporter.sources.posture import PostureSettings, PostureSource
from tests.fakes.cluster import LOG, OFFSETS, FakeKafka, partitions, read

OLD = TransactionUse(frozenset(), {"pay": {0: 3}, "ship": {2: 1}}, {})


def world_of() -> FakeKafka:
    return FakeKafka(topics={LOG: partitions(2), OFFSETS: partitions(1)}, levels={"transaction.version": 2})


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
