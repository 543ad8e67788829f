"""Tests of what is kept of an agent's status, and what of a document that is none."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from exporter.commands.generate_schemas import schema
from exporter.fleet.answer import MOST_STALLS, AnswerError, read_answer
from exporter.fleet.documents import fleet_document
from exporter.fleet.facts import AgentReading, FleetAgent
from exporter.fleet.merge import merge
from exporter.model import TopicPartition
from exporter.words import BlockerKind
from tests.helpers.fleet_agents import body, cluster, source, stall, status


def test_the_stand_ins_answer_with_the_published_form() -> None:
    jsonschema.validate(status(cluster(stalls=[stall()]), shard={"index": 0, "count": 2}), schema("status"))


def test_a_stall_is_kept_with_its_holder() -> None:
    answer = read_answer(body(status(cluster(stalls=[stall("pay", 3, kind="hanging", producer_id=9)]))))
    [found] = answer.clusters
    [kept] = found.stalls
    assert (kept.partition, kept.kind, kept.producer_id) == (TopicPartition("pay", 3), BlockerKind.HANGING, 9)
    assert (kept.seconds, kept.lag, kept.transactional_id, kept.ignored) == (300.0, 10, "pay-1", False)
    assert (answer.version, answer.shard, answer.odd, found.knows_stalls) == ("0.2.0", (0, 1), 0, True)


def test_a_kind_of_a_later_version_is_unknown() -> None:
    [found] = read_answer(body(status(cluster(stalls=[stall(kind="parked")])))).clusters
    assert found.stalls[0].kind is BlockerKind.UNKNOWN


def test_lists_that_an_earlier_version_does_not_have_are_empty() -> None:
    old = {key: value for key, value in cluster().items() if key not in {"torn_markers", "last_hour", "posture"}}
    answer = read_answer(body(status(old)))
    assert answer.odd == 0
    assert answer.clusters[0].knows_stalls


@pytest.mark.parametrize(
    "odd",
    [
        7,
        None,
        {"topic": "pay"},
        stall(producer_id="9"),
        stall(producer_id=True),
        stall(producer_id=2**70),
        stall(seconds=-1.0),
        stall(seconds=float("nan")),
        stall(lag_offsets=float("inf")),
        {**stall(), "partition": "0"},
        {**stall(), "topic": ["pay"]},
        {**stall(), "blocker": []},
        stall(kind=["open"]),
    ],
)
def test_a_stall_of_another_form_is_counted_and_the_stalls_are_not_all_known(odd: Any) -> None:
    answer = read_answer(body(status(cluster(stalls=[odd, stall(partition=1)]))))
    assert answer.odd == 1
    assert [stall.partition.partition for stall in answer.clusters[0].stalls] == [1]
    assert not answer.clusters[0].knows_stalls


def test_a_cluster_of_another_form_is_left_out_and_the_others_stay() -> None:
    answer = read_answer(body(status(cluster("a"), {"name": 5}, cluster("b", known=None), cluster("c"))))
    assert [cluster.name for cluster in answer.clusters] == ["a", "c"]
    assert answer.odd == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"clusters": {}}',
        b'{"clusters": [], "version": 7}',
        b'{"clusters": [], "version": "1", "shard": {"index": 3, "count": 2}}',
        b'{"clusters": [], "version": "1", "shard": {"index": 0, "count": 1e300}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_status_is_refused(content: bytes) -> None:
    with pytest.raises(AnswerError):
        read_answer(content)


def test_texts_are_cut_and_stalls_beyond_the_limit_are_counted() -> None:
    many = [stall("t" * 5000, number, transactional_id="i" * 40_000) for number in range(3)]
    kept = read_answer(body(status(cluster(stalls=many)))).clusters[0].stalls
    assert max(len(stall.partition.topic) for stall in kept) == 300
    assert max(len(stall.transactional_id) for stall in kept) == 1000
    short = [
        {"topic": "t", "partition": n, "seconds": 1, "lag_offsets": 1, "blocker": {}} for n in range(MOST_STALLS + 5)
    ]
    [found] = read_answer(body(status(cluster(stalls=short)))).clusters
    assert (len(found.stalls), found.left_out) == (MOST_STALLS, 5)


def test_a_source_whose_fault_has_a_reason_that_is_no_text_is_counted_and_left_out() -> None:
    odd = source("txnlog", up=False, faults=[{"reason": ["authorization"], "detail": "READ"}])
    answer = read_answer(body(status(cluster(sources=[odd, source("lso")]))))
    assert answer.odd == 1
    assert [kept.source for kept in answer.clusters[0].sources] == ["lso"]


def test_a_source_that_is_refused_is_kept_as_refused() -> None:
    down = source("txnlog", up=False, faults=[{"reason": "authorization", "detail": "READ"}, 5])
    [found] = read_answer(body(status(cluster(sources=[down])))).clusters
    assert (found.sources[0].up, found.sources[0].refused) == (False, True)


_ODD_VALUES: tuple[Any, ...] = (None, True, -1, 2.5, 1e308, "", "x" * 1000, "\x1b[2J", [], {}, [[]], {"a": 1})


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in _places(child, (*path, key)))]


def test_no_value_in_any_place_of_a_document_is_an_error_of_this_program() -> None:
    """Every place in turn, with values of every type; and pairs of places by lot."""
    hour = {"fence_storms": [{"transactional_id": "a", "fences": 4}], "applications": [{"application": "b"}]}
    whole = status(cluster(stalls=[stall()], last_hour=hour, posture={"failed": [{"name": "n", "subject": "s"}]}))
    places = _places(whole)[1:]
    draw = random.Random(7)
    for attempt in range(len(places) * len(_ODD_VALUES)):
        document = json.loads(json.dumps(whole))
        for path in (places[attempt % len(places)], draw.choice(places)):
            holder: Any = document
            try:
                for step in path[:-1]:
                    holder = holder[step]
                holder[path[-1]] = draw.choice(_ODD_VALUES)
            except (TypeError, KeyError, IndexError):
                continue
        try:
            answer = read_answer(body(document))
        except AnswerError:
            continue
        agent = FleetAgent("http://eos", {})
        reading = AgentReading(agent, answer, 1.0, 1.0, None, 1.0, 0.1, stale=False)
        view = merge([reading, reading], 2.0)
        json.dumps(fleet_document(view, (), lambda *_: "", version="", watched=1.0))
