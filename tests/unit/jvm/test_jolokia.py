from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.jvm.answers import JvmAnswer
from exporter.jvm.jolokia import question, read_answer
from exporter.jvm.mbeans import MBeanQuery
from exporter.model import Reason

URL = "http://k1:8778/jolokia"
ONE = MBeanQuery("k:type=One", ("a", "b"))
MANY = MBeanQuery("k:type=Many,id=*", ("a",))


def answered(*items: object, queries: tuple[MBeanQuery, ...] = (ONE, MANY)) -> JvmAnswer:
    return read_answer(queries, json.dumps(items).encode(), URL)


def ok(value: Any) -> dict[str, Any]:
    return {"status": 200, "value": value}


def test_the_question_names_exactly_the_attributes_that_are_wanted() -> None:
    asked = json.loads(question([ONE, MANY]))
    assert [(request["type"], request["mbean"], request["attribute"]) for request in asked] == [
        ("read", "k:type=One", ["a", "b"]),
        ("read", "k:type=Many,id=*", ["a"]),
    ]
    assert all(request["config"]["ignoreErrors"] and not request["config"]["includeStackTrace"] for request in asked)


def test_values_come_from_one_mbean_and_from_all_that_match_a_pattern() -> None:
    answer = answered(ok({"a": 1, "b": "x"}), ok({'k:id="q:1",type=Many': {"a": 2.5}, "k:id=2,type=Many": {"a": 3}}))
    assert [(r.mbean.properties.get("id"), r.attribute, r.value) for r in answer.values] == [
        (None, "a", 1.0),
        (None, "b", "x"),
        ("q:1", "a", 2.5),
        ("2", "a", 3.0),
    ]
    assert answer.faults == ()


def test_null_and_values_that_could_not_be_had_are_no_readings() -> None:
    answer = answered(ok({"a": None, "b": "ERROR: javax.management.AttributeNotFoundException"}), ok({}))
    assert answer == JvmAnswer(exhaustive=True)


def test_a_pattern_without_a_match_is_no_failure() -> None:
    answer = answered(ok({"a": 1}), {"status": 404, "error": "javax.management.InstanceNotFoundException"})
    assert [reading.value for reading in answer.values] == [1.0]
    assert (answer.faults, answer.failed) == ((), ())


def test_a_refused_item_is_its_own_fault_and_loses_no_other() -> None:
    answer = answered({"status": 403, "error": "not allowed"}, ok({"k:type=Many,id=1": {"a": 1}}))
    assert [(fault.reason, fault.detail) for fault in answer.faults] == [
        (Reason.AUTHORIZATION, f"{URL} refuses k:type=One: allow it in jolokia-access.xml")
    ]
    assert answer.failed == (ONE,)
    assert len(answer.values) == 1


@pytest.mark.parametrize("value", [7, ["a"], {"k:type=Many,id=1": 7}, {"no name": {"a": 1}}])
def test_an_item_of_another_shape_is_malformed(value: object) -> None:
    answer = answered(ok({"a": 1}), ok(value))
    assert [fault.reason for fault in answer.faults] == [Reason.MALFORMED]
    assert answer.failed == (MANY,)
    assert len(answer.values) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<!DOCTYPE html><html>", "HTML"),
        (b'[{"status": 200, "val', "something broken or cut off"),
        (b"", "nothing"),
        (b"[" * 100_000, "something broken or cut off"),
        (b"[]", "JSON that is not a Jolokia's"),
        (b"[1, 2]", "JSON that is not a Jolokia's"),
        (b'{"a": 1}', "JSON that is not a Jolokia's"),
        (b"\xff\xfe", "something broken or cut off"),
    ],
)
def test_an_answer_that_is_none_is_malformed_and_fails_every_query(body: bytes, said: str) -> None:
    answer = read_answer((ONE, MANY), body, URL)
    assert [fault.reason for fault in answer.faults] == [Reason.MALFORMED]
    assert said in answer.faults[0].detail
    assert answer.failed == (ONE, MANY)


def test_a_question_refused_as_a_whole_is_said_as_such() -> None:
    answer = read_answer((ONE,), b'{"status": 403, "error": "no"}', URL)
    assert answer.faults[0].reason is Reason.AUTHORIZATION
    assert answer.failed == (ONE,)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("k:" + " " * 40_000, {"a": 1}),
        ("k:id=2", {"a": 1}),
        ("other:id=2,type=Many", {"a": 1}),
        ("k:id=2,type=Many", [1]),
    ],
)
def test_an_mbean_that_cannot_be_understood_costs_only_itself(name: str, attributes: Any) -> None:
    answer = answered(ok({"a": 1}), ok({name: attributes, "k:id=1,type=Many": {"a": 3}}))
    assert [reading.value for reading in answer.values] == [1.0, 3.0]
    assert [fault.reason for fault in answer.faults] == [Reason.MALFORMED]
    assert answer.failed == (MANY,), "whether there are more is not known"


@pytest.mark.parametrize("number", ["9" * 401, "-" + "9" * 401, "9" * 5000, "1e999", "NaN", "-Infinity", "1e-999999"])
def test_a_number_beyond_what_a_float_holds_is_no_reading(number: str) -> None:
    body = f'[{{"status": 200, "value": {{"a": {number}, "b": "x"}}}}]'.encode()
    answer = read_answer([ONE], body, URL)
    assert [reading.value for reading in answer.values if reading.value != 0.0] == ["x"]
    assert answer.faults == ()


def test_a_query_for_presence_gets_null_as_an_empty_text_and_no_attribute_that_failed() -> None:
    query = MBeanQuery(ONE.pattern, ("a", "b", "c"), presence=True)
    found = answered(
        ok({"a": None, "b": "ERROR: javax.management.AttributeNotFoundException"}), queries=(query,)
    ).values
    assert [(reading.attribute, reading.value) for reading in found] == [("a", "")]
