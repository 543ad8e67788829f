"""Tests of what a principal may do: how each answer of a broker is read, also those that a healthy cluster does not
give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.kafka.requests.grants import (
    Operation,
    group_operations,
    topics_and_cluster,
    transactional_id_operations,
)
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason

DOWN = Fault(Reason.UNREACHABLE, "broker 1 is down")
ALL = Deadline.after(5)


@dataclass
class GrantingBroker:
    """Answers each kind of request with what it was given, and keeps the requests."""

    answers: Mapping[str, Any]
    brokers: Sequence[int] = (1,)
    asked: list[Any] = field(default_factory=list)

    @property
    def known(self) -> Metadata:
        return Metadata("id", {node: f"k{node}:9092" for node in self.brokers}, {}, frozenset(), {})

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        del deadline, topics, max_age
        return self.known

    def ask(self, requests: Mapping[int, Any], deadline: Deadline) -> dict[int, Any]:
        del deadline
        self.asked += requests.values()
        found = {}
        for node, request in requests.items():
            answer = self.answers[type(request).__name__.removesuffix("Request")]
            found[node] = answer[node] if isinstance(answer, dict) else answer
        return found


def answer(**values: object) -> SimpleNamespace:
    return SimpleNamespace(**values)


def topic(name: str, code: int = 0, operations: set[int] | None = None) -> SimpleNamespace:
    return answer(name=name, error_code=code, authorized_operations=operations)


def test_operations_on_topics_and_the_cluster_are_read_from_one_answer() -> None:
    topics = [topic("a", 0, {3, 8}), topic("b", 29), topic("c", 3), topic("d", 5), topic("e")]
    broker = GrantingBroker({"Metadata": answer(topics=topics, authorized_operations={12})})
    found = topics_and_cluster(broker, broker.known, ["a", "b", "c", "d", "e", "f"], ALL)
    assert found.cluster == frozenset({12})
    assert (found.topics["a"], found.topics["b"]) == (frozenset({3, 8}), frozenset[int]())
    assert found.missing == {"c"}
    for name, detail in (("d", "LEADER_NOT_AVAILABLE"), ("e", "without the operations"), ("f", "without")):
        fault = found.topics[name]
        assert isinstance(fault, Fault)
        assert detail in fault.detail
    (request,) = broker.asked
    assert request.allow_auto_topic_creation is False


def test_no_answer_leaves_everything_unknown() -> None:
    broker = GrantingBroker(
        dict.fromkeys(("Metadata", "DescribeGroups", "AddOffsetsToTxn", "DescribeTransactions"), DOWN)
    )
    assert topics_and_cluster(broker, broker.known, ["a"], ALL) == (DOWN, {"a": DOWN}, frozenset())
    assert group_operations(broker, broker.known, "etl", ALL) == DOWN
    assert transactional_id_operations(broker, broker.known, "etl-a-0", ALL) == {
        Operation.WRITE: DOWN,
        Operation.DESCRIBE: DOWN,
    }


def group(code: int, operations: set[int] | None = None) -> SimpleNamespace:
    return answer(groups=[answer(error_code=code, authorized_operations=operations)])


def test_the_coordinator_among_the_brokers_has_the_operations_on_a_group() -> None:
    answers = {1: group(16), 2: group(0, {3, 8}), 3: DOWN}
    broker = GrantingBroker({"DescribeGroups": answers}, (1, 2, 3))
    assert group_operations(broker, broker.known, "etl", ALL) == frozenset({3, 8})


def test_a_group_is_not_said_to_have_no_coordinator_while_a_broker_gave_no_answer() -> None:
    broker = GrantingBroker({"DescribeGroups": {1: DOWN, 2: group(16)}}, (1, 2))
    assert group_operations(broker, broker.known, "etl", ALL) == DOWN


@pytest.mark.parametrize(
    ("code", "operations", "found"),
    [(30, None, frozenset()), (0, {3}, frozenset({3})), (15, None, None), (0, None, None)],
)
def test_a_group_that_is_refused_may_do_nothing_and_another_error_shows_nothing(
    code: int, operations: set[int] | None, found: frozenset[int] | None
) -> None:
    broker = GrantingBroker({"DescribeGroups": group(code, operations)})
    allowed = group_operations(broker, broker.known, "etl", ALL)
    assert isinstance(allowed, Fault) if found is None else allowed == found


@pytest.mark.parametrize(
    ("write", "described", "expected"),
    [
        (49, 53, (True, True)),  # INVALID_PRODUCER_ID_MAPPING: past the authorization, and WRITE implies DESCRIBE
        (16, 53, (True, True)),
        (15, 53, (True, True)),
        (14, 53, (True, True)),
        (30, 53, (True, True)),  # the group is authorized after the id
        (53, 53, (False, False)),
        (53, 105, (False, True)),
        (53, 0, (False, True)),
        (42, 105, (None, True)),
        (0, 105, (None, True)),  # a coordinator that takes producer id -1: not what was expected, so nothing is known
    ],
)
def test_write_on_an_id_is_known_by_which_refusal_comes(
    write: int, described: int, expected: tuple[bool | None, bool]
) -> None:
    answers = {
        "AddOffsetsToTxn": answer(error_code=write),
        "DescribeTransactions": answer(transaction_states=[answer(error_code=described)]),
    }
    broker = GrantingBroker(answers)
    found = transactional_id_operations(broker, broker.known, "etl-a-0", ALL)
    said = tuple(
        None if isinstance(granted, Fault) else granted
        for granted in (found[Operation.WRITE], found[Operation.DESCRIBE])
    )
    assert said == expected


def test_the_request_that_is_tried_has_a_producer_id_that_no_coordinator_gives() -> None:
    broker = GrantingBroker({"AddOffsetsToTxn": answer(error_code=49)})
    transactional_id_operations(broker, broker.known, "etl-a-0", ALL)
    (request,) = broker.asked
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("etl-a-0", -1, -1)
    assert request.group_id.startswith("kafka-eos-exporter-")
