"""Whether transactions of an id belong to a Connect task, and what workers answer about their configuration."""

from __future__ import annotations

import json

import pytest

from exporter.connect.exactly_once import counts_for
from exporter.connect.facts import ConnectState
from exporter.connect.preflight import PluginAnswer, PluginSupport, read_answer
from exporter.connect.rest import Connector, Task
from exporter.connect.workers import QUERIES, SOURCE_TASK, leader_is_transactional, transactional_tasks
from exporter.jvm.answers import JvmAnswer, MBeanValue
from exporter.jvm.mbeans import MBean
from tests.fakes.recordings import RECORDINGS, jolokia_answer

GROUPS = frozenset({"etl", "etl-eu"})


def state(group: str, connector: str, *, transactional: bool | None = None) -> ConnectState:
    known = {} if transactional is None else {(connector, "0"): transactional}
    tasks = (Task(connector, "0", "running"),)
    connectors = (Connector(connector, "source", tasks=tasks),)
    return ConnectState(group, connectors, True, group_id=group, transactional=known)


@pytest.mark.parametrize(
    ("ours", "theirs", "counted"),
    [
        (None, None, False),
        (False, None, False),
        (False, True, False),
        (True, False, True),
        (True, None, False),  # both may write under it
        (True, True, False),  # both do, and fence each other
    ],
)
def test_transactions_of_an_id_of_two_tasks_are_of_the_one_that_writes_in_transactions(
    ours: bool | None, theirs: bool | None, counted: bool
) -> None:
    mine = state("etl", "eu-stock", transactional=ours)
    both = (mine, state("etl-eu", "stock", transactional=theirs))
    assert counts_for("eu-stock", "0", mine, both, GROUPS) is counted


def test_transactions_of_an_id_of_one_task_are_that_tasks() -> None:
    mine = state("etl", "eu-stock")
    assert counts_for("eu-stock", "0", mine, (mine, state("etl-eu", "else")), GROUPS)
    assert not counts_for("eu-stock", "0", mine, (mine,), GROUPS), "the other group's connectors are not known"


def recorded(number: int) -> JvmAnswer:
    return jolokia_answer((RECORDINGS / "connect" / f"worker-{number}.json").read_text(), QUERIES)


def test_transaction_sizes_without_a_value_show_an_exactly_once_task() -> None:
    assert transactional_tasks([recorded(1), recorded(2)]) == {
        ("orders-source", "0"): True,
        ("steps", "0"): True,
        ("crash", "0"): True,
        ("orders-interval", "0"): True,
        ("steps", "1"): True,
    }


def _polled(*, exhaustive: bool, failed: bool = False) -> JvmAnswer:
    mbean = MBean("kafka.connect", {"type": "source-task-metrics", "connector": "orders", "task": "0"})
    query = next(each for each in QUERIES if each.pattern == SOURCE_TASK)
    value = MBeanValue(mbean, "source-record-poll-total", 1.0)
    return JvmAnswer((value,), failed=(query,) if failed else (), exhaustive=exhaustive)


def test_their_absence_is_a_no_only_where_every_attribute_is_answered() -> None:
    assert transactional_tasks([_polled(exhaustive=True)]) == {("orders", "0"): False}
    assert transactional_tasks([_polled(exhaustive=False)]) == {}
    assert transactional_tasks([_polled(exhaustive=True, failed=True)]) == {}


def test_a_leader_with_a_transactional_producer_is_preparing_or_enabled() -> None:
    mbean = MBean("kafka.producer", {"type": "producer-metrics", "client-id": "etl-configs-leader"})
    leader = JvmAnswer((MBeanValue(mbean, "txn-init-time-ns-total", 5.0),), exhaustive=True)
    silent = JvmAnswer(exhaustive=True)
    assert leader_is_transactional([silent, leader], "etl") is True
    assert leader_is_transactional([silent, silent], "etl") is False
    assert leader_is_transactional([silent, JvmAnswer()], "etl") is None
    assert leader_is_transactional([leader], "") is None
    assert leader_is_transactional([], "etl") is None


def _answer(*errors: str, name: str = "exactly.once.support") -> bytes:
    return json.dumps(
        {"name": "x", "configs": [{"definition": {}, "value": {"name": name, "errors": errors}}]}
    ).encode()


OFF = "This worker does not have exactly-once source support enabled."
NO = "The connector does not support exactly-once semantics with the provided configuration."
MUTE = "The connector does not implement the API required for preflight validation of exactly-once source support."


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (_answer(), PluginAnswer(True, PluginSupport.SUPPORTED)),
        (_answer(OFF), PluginAnswer(False, PluginSupport.SUPPORTED)),
        (_answer(OFF, NO), PluginAnswer(False, PluginSupport.UNSUPPORTED)),
        (_answer(MUTE), PluginAnswer(True, PluginSupport.UNKNOWN)),
        (_answer("Something new."), PluginAnswer(True, PluginSupport.UNKNOWN)),
        (_answer(name="tasks.max"), None),
        (b"<html>", None),
        (b"[]", None),
        (b'{"configs": 3}', None),
        (b'{"configs": [null]}', None),
        (b'{"configs": [{"value": {"name": "exactly.once.support", "errors": null}}]}', None),
    ],
)
def test_what_a_worker_answers_to_a_plugin_that_requires_exactly_once(body: bytes, answer: PluginAnswer | None) -> None:
    assert read_answer(body) == answer
