"""Which application an id belongs to: the table of the contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue
from exporter.applications.applications import MOST_NOTED, Application, Grouping
from tests.helpers.calls import calls_of
from tests.helpers.strategies import names

UUID = "6f1d2c3e-0b1a-4c5d-8e9f-001122334455"


@pytest.mark.parametrize(
    ("transactional_id", "application"),
    [
        ("pay-3", Application("pay", "producer")),
        ("pay", Application("pay", "producer")),
        ("connect-cluster-etl", Application("connect-cluster-etl", "connect_leader", "etl")),
        ("etl-orders-source-0", Application("etl-orders-source", "connect_task", "etl", "orders-source")),
        (f"totals-{UUID}-2", Application("totals", "streams")),
        ("totals-0_3", Application("totals", "streams")),
        ("flinkjob-0-1234", Application("flinkjob", "producer")),
        ("tx-group.orders.3", Application("tx-group.orders", "producer")),
        (f"tx-{UUID}", Application("tx", "producer")),
        (UUID, Application("_uuid", "other")),
        (UUID.upper(), Application("_uuid", "other")),
        ("", Application("_empty", "other")),
        ("-3", Application("-3", "producer")),
        ("42", Application("42", "producer")),
        ("other-orders-source-0", Application("other-orders-source", "producer")),
        ("zahlung-ü-7", Application("zahlung-ü", "producer")),
    ],
)
def test_the_contracts_table(transactional_id: str, application: Application) -> None:
    assert Grouping(connect_groups=["etl"]).of(transactional_id) == application


def test_a_users_pattern_comes_first() -> None:
    grouping = Grouping(["^(?P<application>billing)-.*"])
    assert grouping.of(f"billing-{UUID}-2").name == "billing"
    assert grouping.of("pay-3").name == "pay"


def test_an_id_that_a_pattern_takes_too_long_for_has_the_application_of_its_form() -> None:
    grouping = Grouping(["^(?P<application>(a|a)*)$", "^(?P<application>billing)-.*"])
    slow = "a" * 32_000 + "-7"
    assert grouping.of(slow).name == "a" * 32_000
    assert grouping.of("billing-7").name == "billing"
    (fault,) = grouping.given_up()
    assert fault.detail.startswith("applications: '^(?P<application>(a|a)*)$' takes too long on 'aaa")
    assert list(grouping.given_up()) == []


def test_a_connect_group_is_learned_from_its_leader_and_its_tasks_are_known_from_then_on() -> None:
    grouping = Grouping()
    assert grouping.of("etl-orders-0").kind == "producer"
    assert grouping.learn("connect-cluster-etl")
    assert not grouping.learn("connect-cluster-etl")
    assert not grouping.learn("pay-3")
    assert grouping.of("etl-orders-0") == Application("etl-orders", "connect_task", "etl", "orders")


def test_of_two_connect_groups_the_longer_name_wins() -> None:
    grouping = Grouping(connect_groups=["etl", "etl-eu"])
    assert grouping.of("etl-eu-orders-0").connect == "etl-eu"
    assert grouping.of("etl-us-orders-0").connect == "etl"


@given(
    st.sets(st.text("ab-", min_size=1, max_size=4), max_size=8),
    st.text("ab-", min_size=1, max_size=12),
    st.integers(0, 9),
)
def test_the_group_of_a_task_is_the_longest_that_begins_it(groups: set[str], rest: str, task: int) -> None:
    found = Grouping(connect_groups=groups).of(f"{rest}-{task}")
    begins = [group for group in groups if rest.startswith(f"{group}-") and rest != f"{group}-"]
    if not begins:
        assert found.kind != "connect_task"
    else:
        group = max(begins, key=len)
        assert found == Application(rest, "connect_task", group, rest.removeprefix(f"{group}-"))


def test_clients_that_name_their_ids_as_leaders_of_connect_do_not_make_others_expensive() -> None:
    grouping = Grouping()
    learned = sum(grouping.learn(f"connect-cluster-{number}-{'x' * (number % 7)}") for number in range(3 * MOST_NOTED))
    assert learned == len(grouping.connect_groups) == MOST_NOTED
    found = calls_of(lambda: grouping.is_connect_task("orders-sink-7"))
    assert sum(found.values()) <= 3


def test_ids_that_count_from_zero_after_a_uuid_show_that_the_others_are_no_threads_of_streams() -> None:
    grouping = Grouping()
    assert grouping.of(f"tx-{UUID}-1").kind == "streams"
    assert grouping.learn(f"tx-{UUID}-0")
    assert not grouping.learn(f"tx-{UUID}-0")
    assert grouping.of(f"tx-{UUID}-1") == Application("tx", "producer")
    assert grouping.of(f"totals-{UUID}-1").kind == "streams"


def test_the_rule_that_grouped_an_id_is_named() -> None:
    grouping = Grouping(["^(?P<application>billing)-.*"], ["etl"])
    rules = {
        text: grouping.explain(text).rule for text in ("billing-3", "", "etl-orders-0", "connect-cluster-a", "x-1")
    }
    assert rules == {
        "billing-3": "your pattern ^(?P<application>billing)-.*",
        "": "empty id",
        "etl-orders-0": "Connect: group, connector, task",
        "connect-cluster-a": "leader of Connect",
        "x-1": "number at the end",
    }


@given(names)
def test_every_id_has_a_name_and_a_kind_of_the_closed_list(transactional_id: str) -> None:
    application = Grouping(connect_groups=["etl"]).of(transactional_id)
    assert application.name
    assert application.kind in catalogue.APPLICATION_KINDS


@given(names, st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_instances_of_one_application_share_it(prefix: str, one: int, other: int) -> None:
    grouping = Grouping()
    assert grouping.of(f"{prefix}x-{one}").name == grouping.of(f"{prefix}x-{other}").name


def test_the_canarys_ids_are_one_application_whatever_the_users_patterns_say() -> None:
    grouping = Grouping([r"(?P<application>kafka).*"])
    assert grouping.of("kafka-eos-canary-17") == Application(catalogue.CANARY, "canary")
    assert grouping.of("kafka-eos-canaries-1").name == "kafka"
