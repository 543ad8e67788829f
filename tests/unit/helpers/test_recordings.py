from __future__ import annotations

import json

import pytest

from exporter.brokers import source as brokers
from exporter.jvm.mbeans import MBeanQuery
from exporter.producers.source import producers
from exporter.streams import source as streams
from tests.helpers.recordings import RECORDINGS, jolokia_answer

ONE = {"request": {"mbean": "k:name=n,type=One", "attribute": ["a", "b"]}, "status": 200, "value": {"a": 1, "b": 2}}
MANY = {
    "request": {"mbean": "k:id=*,type=Many", "attribute": ["a"]},
    "status": 200,
    "value": {"k:type=Many,id=1": {"a": 3}, "k:type=Many,id=2": {"a": 4}},
}
RECORDING = json.dumps([ONE, MANY])
ASK_ONE, ASK_MANY = MBeanQuery("k:type=One,name=n", ("a", "b")), MBeanQuery("k:type=Many,id=*", ("a",))


def found(*queries: MBeanQuery) -> list[tuple[str, float | str]]:
    answer = jolokia_answer(RECORDING, queries)
    assert (answer.faults, answer.failed) == ((), ())
    return [(value.attribute, value.value) for value in answer.values]


def test_a_query_is_answered_by_its_mbean_whatever_its_place() -> None:
    assert found(ASK_ONE, ASK_MANY) == [("a", 1.0), ("b", 2.0), ("a", 3.0), ("a", 4.0)]
    assert found(ASK_MANY, ASK_ONE) == [("a", 3.0), ("a", 4.0), ("a", 1.0), ("b", 2.0)]


def test_an_attribute_that_is_not_asked_for_is_left_out() -> None:
    assert found(MBeanQuery("k:type=One,name=n", ("b",))) == [("b", 2.0)]


def test_a_query_that_was_not_recorded_is_an_mbean_that_does_not_exist() -> None:
    new = MBeanQuery("k:type=New", ("a",))
    assert found(new, ASK_ONE) == [("a", 1.0), ("b", 2.0)]


@pytest.mark.parametrize(
    ("name", "queries"),
    [
        ("jvms/jolokia-broker-1.json", brokers.QUERIES),
        ("jvms/jolokia-java-pay-1.json", producers.QUERIES),
        ("streams/running.json", streams.QUERIES),
    ],
)
def test_a_new_query_changes_nothing_in_the_answers_to_the_others(name: str, queries: tuple[MBeanQuery, ...]) -> None:
    recording = (RECORDINGS / name).read_text()
    before = jolokia_answer(recording, queries)
    after = jolokia_answer(recording, (MBeanQuery("kafka.server:type=New,name=Gauge", ("Value",)), *reversed(queries)))
    assert before.values
    assert set(map(str, before.values)) == set(map(str, after.values))
