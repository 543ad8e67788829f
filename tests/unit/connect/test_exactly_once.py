"""Whether transactions of an id belong to a Connect task, and what workers answer about their configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.connect.exactly_once import LoggedIds, counts_for, other_readings, source_evidence
from exporter.connect.facts import ConnectState
from exporter.connect.preflight import PluginAnswer, PluginSupport, read_answer
from exporter.connect.rest import Connector, Task
from exporter.connect.workers import QUERIES, SOURCE_TASK, leader_is_transactional, transactional_tasks
from exporter.jvm.answers import JvmAnswer, MBeanValue
from exporter.jvm.mbeans import MBean
from exporter.transactions.facts import ConnectTaskId
from tests.helpers.recordings import RECORDINGS, jolokia_answer

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


@given(st.sets(st.text("ab-", min_size=1, max_size=4), max_size=8), st.text("ab-", min_size=1, max_size=12))
def test_another_reading_of_an_id_is_a_task_of_each_group_that_begins_it(groups: set[str], rest: str) -> None:
    name = f"{rest}-0"
    found = other_readings(name, state("a", "b"), (), frozenset(groups))
    begins = [group for group in sorted(groups - {"a"}) if name.startswith(f"{group}-")]
    connectors = {begin: name.removeprefix(f"{begin}-").rpartition("-")[0] for begin in begins}
    assert found == tuple(f"task 0 of connector {of} of group {group}" for group, of in connectors.items() if of)


class Walked(tuple[Connector, ...]):
    """Connectors that count how often somebody goes through all of them."""

    __slots__ = ()

    walks: ClassVar[int] = 0

    def __iter__(self) -> Iterator[Connector]:
        Walked.walks += 1
        return super().__iter__()


class Groups(frozenset[str]):
    """Groups through which nobody goes."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all groups are gone through")

    __or__ = __ror__ = __iter__  # type: ignore[assignment]


def test_the_evidence_of_a_task_is_found_without_a_pass_over_all_tasks() -> None:
    connectors = Walked(state("etl", f"c{number}").connectors[0] for number in range(50))
    mine = ConnectState("etl", connectors, True, group_id="etl", workers={"other:8083": False})
    Walked.walks = 0
    log = LoggedIds({"etl-c7-0": ConnectTaskId(True, None)}, Groups({"etl", "etl-c7", "other"}))
    for number in range(50):
        source_evidence(connectors[number], mine, (mine,), log)
        counts_for(f"c{number}", "0", mine, (mine,), log.groups)
    assert not Walked.walks


def test_the_groups_that_begin_an_id_are_looked_up_once_for_all_tasks_of_a_connector() -> None:
    class Counted(frozenset[str]):
        looks: ClassVar[int] = 0

        def __contains__(self, group: object) -> bool:
            Counted.looks += 1
            return super().__contains__(group)

    mine, groups = state("etl", "a-b-c"), Counted({"etl-a"})
    found = [other_readings(f"etl-a-b-c-{task}", mine, (mine,), groups) for task in range(50)]
    assert found[49] == ("task 49 of connector b-c of group etl-a",)
    assert Counted.looks == 3, "etl-a, etl-a-b and etl-a-b-c; etl is read"


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
    query = next(query for query in QUERIES if query.pattern == SOURCE_TASK)
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


def _answer(*errors: str, name: str = "exactly.once.support", boundary: Sequence[str] = ()) -> bytes:
    return json.dumps(
        {
            "name": "x",
            "configs": [
                {"definition": {}, "value": {"name": name, "errors": errors}},
                {"definition": {}, "value": {"name": "transaction.boundary", "errors": boundary}},
            ],
        }
    ).encode()


OFF = "This worker does not have exactly-once source support enabled."
NO = "The connector does not support exactly-once semantics with the provided configuration."
NO_BOUNDARY = "The connector does not support connector-defined transaction boundaries with the given configuration."
MUTE = "The connector does not implement the API required for preflight validation of exactly-once source support."


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (_answer(boundary=[NO_BOUNDARY]), PluginAnswer(True, PluginSupport.SUPPORTED)),
        (_answer(), PluginAnswer(None, PluginSupport.UNKNOWN)),  # as a standalone worker answers
        (_answer(OFF), PluginAnswer(False, PluginSupport.SUPPORTED)),
        (_answer(OFF, NO), PluginAnswer(False, PluginSupport.UNSUPPORTED)),
        (_answer(MUTE), PluginAnswer(True, PluginSupport.UNKNOWN)),
        (_answer("Something new."), PluginAnswer(None, PluginSupport.UNKNOWN)),
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
