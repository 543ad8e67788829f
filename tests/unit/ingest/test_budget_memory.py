"""The memory limit of all posted documents."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from exporter import catalogue
from exporter.audit_results.posts import AuditReceiver
from exporter.exposition.text_format import block
from exporter.ingest.budget import Budget, series_bytes
from exporter.ingest.latest import RefusedError
from exporter.model import Clock, Deadline, Facts, Kind, Metric, Sample
from exporter.producers.source.librdkafka import IngestSource, LibrdkafkaReceiver
from exporter.spark.posts import SparkReceiver

MOST_BYTES = 64 * 1024
"""Requests that the endpoint lets in at once."""


class AllReceivers:
    """One of each receiver on one budget, and a clock that goes on by a second with each document."""

    def __init__(self, most: int = 64 * 1024 * 1024, senders: int = 500) -> None:
        self.now = 1000.0
        clock = Clock(lambda: self.now, lambda: self.now + 1_700_000_000)
        self.budget = Budget(most)
        self.clients = LibrdkafkaReceiver([], senders, 180.0, clock, self.budget)
        self.queries = SparkReceiver([], senders, clock, self.budget)
        self.audits = AuditReceiver([], senders, clock, self.budget)

    def post(self, inbox: Any, document: Any) -> None:
        self.now += 1
        body = json.dumps(document, ensure_ascii=False).encode()
        assert len(body) <= MOST_BYTES
        inbox.take(body)


def client(number: int) -> Any:
    return {"client_id": f"c{number}", "instance": "😀" * 199, "eos": {"txn_state": "Ready", "idemp_state": "Assigned"}}


def audit(number: int, examples: int = 3500) -> Any:
    findings = [
        {
            "kind": "duplicate",
            "topic": "t",
            "count": 1,
            "examples": [{f"{at}": at for at in range(30)}] * (examples // 30),
        }
    ]
    head = {"audit": f"a{number}", "finished_at": 1.7e9, "verdict": "unknown", "topics": {"t": {"verdict": "unknown"}}}
    return {**head, "findings": findings}


def many_topics(number: int) -> Any:
    topics = {f"{number}-{at}": {"verdict": "unknown"} for at in range(1000)}
    return {"audit": f"a{number}", "finished_at": 1.7e9, "verdict": "unknown", "topics": topics}


def query(number: int, partitions: int = 3500) -> Any:
    offsets = {f"t{number}": {str(at): at + 100_000 * number for at in range(partitions)}}
    source = {"description": "KafkaV2[x]", "endOffset": offsets, "numInputRows": 1}
    progress = {"batchId": 1, "timestamp": "2026-11-21T00:00:00Z", "durationMs": {"addBatch": 1}, "sources": [source]}
    return {"id": f"q{number}", "application": "x", "state": "running", "progress": progress}


def many_sources(number: int) -> Any:
    document = query(number, 0)
    document["progress"]["sources"][0]["endOffset"] = {f"{number}-{at}-é": {"0": at + 1000} for at in range(1800)}
    return document


def many_ends(number: int) -> Any:
    ends = [{"run_id": f"{number}-{at}-" + "é" * 150, "exceptions": [], "at": 1.5} for at in range(20)]
    return {**query(number, 0), "ends": ends}


@pytest.mark.parametrize(
    ("inbox", "make"),
    [
        ("clients", client),
        ("audits", audit),
        ("audits", many_topics),
        ("queries", query),
        ("queries", many_sources),
        ("queries", many_ends),
    ],
)
def test_nothing_that_is_kept_takes_more_than_it_is_weighed(inbox: str, make: Callable[[int], Any]) -> None:
    world = AllReceivers(2**40)
    world.post(getattr(world, inbox), make(0))  # what is made once
    tracemalloc.start()
    try:
        before, weighed = tracemalloc.get_traced_memory()[0], world.budget.kept
        for number in range(1, 6):
            world.post(getattr(world, inbox), make(number))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken <= world.budget.kept - weighed


@pytest.mark.parametrize("text", ["a", '"', "\\", "\\x01", "\x01", "\u200b", "\U000e0001", '"\\\x01'])
def test_a_line_is_weighed_as_it_is_escaped(text: str) -> None:
    topic = text * (249 // len(text))
    line = block(Metric("t_gauge", Kind.GAUGE, "A gauge.", ("topic",)), {(topic,): 1.0}).piece.data
    around = block(Metric("t_gauge", Kind.GAUGE, "A gauge.", ("topic",)), {("",): 1.0}).piece.data
    copies = 6
    assert series_bytes(topic) - series_bytes("") >= copies * (len(line) - len(around))
    assert series_bytes("a" * 249) - series_bytes("") == copies * 249


def test_a_result_is_weighed_by_its_topic_that_takes_most_when_it_is_escaped() -> None:
    def weighed(*topics: str) -> int:
        world = AllReceivers()
        named = {topic: {"verdict": "clean"} for topic in topics}
        world.post(world.audits, {"audit": "a", "finished_at": 1.7e9, "verdict": "clean", "topics": named})
        return world.budget.kept

    series, copies, further = 6, 6, 5 * 100 - 101
    assert weighed("\\" * 100, "t" * 101) - weighed("x" * 100, "t" * 101) == series * copies * further


def test_the_oldest_of_all_senders_goes_first_and_is_counted() -> None:
    world = AllReceivers(5_000_000)
    world.post(world.clients, client(1))
    world.post(world.queries, query(1))
    world.post(world.audits, audit(1))
    world.post(world.clients, client(1))  # heard of again
    for number in range(2, 6):
        world.post(world.queries, query(number))
    assert world.queries.queries("")[0].id != "q1", "handed in longest ago"
    assert len(world.clients.clients()) == 1
    assert world.budget.kept <= world.budget.most
    before = dict(world.budget.dropped)
    assert before["queries"] >= 1
    samples = list(IngestSource(world.clients, lambda: "", world.budget).read(Deadline.after(1), Facts()))
    found = {item.labels: item.value for item in samples if isinstance(item, Sample) and "dropped" in item.metric.name}
    assert found == {(sender,): float(before.get(sender, 0)) for sender in catalogue.INGEST_SENDERS}


def test_a_document_that_is_larger_than_the_budget_is_refused_and_drops_nothing() -> None:
    world = AllReceivers(500_000)
    world.post(world.clients, client(1))
    with pytest.raises(RefusedError) as refused:
        world.post(world.queries, query(1))
    assert refused.value.status == 413
    assert len(world.clients.clients()) == 1
    assert not any(world.budget.dropped.values())


def test_what_falls_silent_gives_its_memory_back() -> None:
    world = AllReceivers()
    world.post(world.clients, client(1))
    assert world.budget.kept > 0
    world.now += 1000
    assert world.clients.clients() == {}
    assert world.budget.kept == 0


def test_many_of_the_largest_documents_stay_within_the_budget() -> None:
    world = AllReceivers(4 * 1024 * 1024)
    for number in range(20):
        world.post(world.audits, audit(number))
        world.post(world.queries, query(number))
    assert 0 < world.budget.kept <= world.budget.most
    assert sum(world.budget.dropped.values()) > 10
