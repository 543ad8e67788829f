"""The work of the agent where it is exact: requests, partitions, samples and bytes of a fixed scene, and imports.

No time is measured: what is counted here is the same on each machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

from exporter.agent.with_thresholds import WithThresholds
from exporter.core.fact_store import FactStore
from exporter.core.reading import read_source
from exporter.core.thresholds import Thresholds
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import Format
from exporter.kafka.requests.bulk_offsets import OffsetsRequest, offsets_request
from exporter.lso.proof.prover import Prover
from exporter.lso.source.lso import LsoSource
from exporter.model import Clock, Deadline, SampleBatch, Snapshot, Source, TopicPartition
from exporter.settings.sections import LsoConfig, TopicsConfig, TransactionsConfig
from exporter.transactions.machine.records import Status
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import TxnlogSource
from tests.helpers.cluster import LOG, FakeKafka, FakeTransaction, OpenWriter, world_of
from tests.helpers.coordinator import BEGIN_MS, CoordinatorRecord
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

FINISHED, OPEN = 30, 20
MINUTE = 60
HOUR_MS = 3_600_000


def scene(quiet: int) -> FakeKafka:
    """Ten applications. Each open transaction holds a partition of ``held``; ``quiet`` more partitions have no
    writers.
    """
    world = world_of(held=OPEN, quiet=quiet)
    world.time.wall = BEGIN_MS / 1000 + 60
    for number in range(FINISHED + OPEN):
        last = Status.COMPLETE_COMMIT if number < FINISHED else Status.ONGOING
        place = ("held", number - FINISHED if number >= FINISHED else 0)
        if last is Status.ONGOING:
            partition = world.topics["held"][place[1]]
            partition.high_watermark, partition.stable = 25, 10
            partition.writers = [OpenWriter(number, 10)]
            world.transactions[name(number)] = FakeTransaction(
                number, "Ongoing", [place], timeout_ms=HOUR_MS, start_ms=BEGIN_MS
            )
        for status in (Status.ONGOING, last):
            topics = [(place[0], [place[1]])] if status is Status.ONGOING else None
            value = encode_value(1, number, 0, HOUR_MS, status, topics, BEGIN_MS, BEGIN_MS, kafka_tags(number, -1, 0))
            offset = world.topics[LOG][0].high_watermark
            world.write([CoordinatorRecord(0, offset, BEGIN_MS, encode_key(name(number)), value)])
    return world


def name(number: int) -> str:
    return f"app-{number % 10}-tx-{number}"


class FakeAgent:
    """The sources that run all the time, read in turn as their workers read them."""

    def __init__(self, world: FakeKafka) -> None:
        self.world = world
        cluster = world.cluster()
        self.exposition = Exposition(world.time.clock)
        self._facts = FactStore()
        sources: tuple[Source, ...] = (
            TxnlogSource(cluster, TransactionsConfig(), world.tail),
            TransactionsSource(cluster, TransactionsConfig()),
            LsoSource(cluster, LsoConfig(), TopicsConfig(), Prover(cluster, world.reader)),
        )
        self._sources = [WithThresholds(source, Thresholds, world.time.clock, cluster.grouping) for source in sources]
        self._due = [0.0] * len(sources)
        self.made: Counter[str] = Counter()
        self.loose: dict[str, int] = {}
        self._batches: set[SampleBatch] = set()

    def run(self, seconds: int) -> None:
        """Read each source at its pace. ``made`` counts the samples of batches that were not there before."""
        for _ in range(seconds):
            now = self.world.time.monotonic
            for place, source in enumerate(self._sources):
                if now >= self._due[place]:
                    self._due[place] = now + source.pace - 0.01
                    self._take(source)
            self.world.time.pass_(1.0)

    def _take(self, source: WithThresholds) -> None:
        clock: Clock = self.world.time.clock
        deadline = Deadline.after(source.timeout, clock.monotonic)
        snapshot: Snapshot = read_source(source, deadline, self._facts.facts(clock.monotonic()), clock)
        assert not snapshot.faults
        self._facts.post((source.name,), snapshot)
        self.exposition.swap({(source.name,): snapshot})
        self.loose[source.name] = len(snapshot.samples)
        for batch in set(snapshot.batches) - self._batches:
            self.made[source.name] += len(batch.samples)
            self._batches.add(batch)

    def requests(self) -> Mapping[str, int]:
        return Counter(request for _, request, _ in self.world.asked)


def settled(quiet: int) -> FakeAgent:
    """An agent that has the whole picture, all stalls included; nothing changes from here on."""
    agent = FakeAgent(scene(quiet))
    agent.run(2 * MINUTE)
    body = agent.exposition.body(Format.TEXT).decode()
    assert f'stalled_partitions{{kafka_cluster="prod",topic="held"}} {float(OPEN)}' in body
    agent.world.asked.clear()
    agent.made.clear()
    return agent


def asked_partitions(agent: FakeAgent) -> list[int]:
    """Of each request for offsets, how many partitions of user topics it names."""
    requests = [request for request in agent.world.requests("ListOffsets") if isinstance(request, OffsetsRequest)]
    found = [sum(len(rows) for topic, rows in request.asked.items() if topic != LOG) for request in requests]
    return [number for number in found if number]


def test_a_minute_in_which_nothing_happens_makes_no_sample_of_transactions_stalls_or_applications() -> None:
    agent = settled(quiet=100)
    before = agent.exposition.body(Format.TEXT)
    agent.run(MINUTE)
    assert agent.made == {}
    assert agent.exposition.body(Format.TEXT).count(b"\n") == before.count(b"\n")


def test_what_is_made_at_each_read_does_not_grow_with_partitions() -> None:
    few, many = settled(quiet=10), settled(quiet=1000)
    for agent in (few, many):
        agent.run(MINUTE)
    assert few.loose == many.loose
    # Of txnlog: undecodable, lost and the lag; of transactions: the cluster, its internal topic, the clock; of lso: the
    # age of what is withheld of the one topic with an open transaction.
    assert many.loose["lso"] == 1
    assert many.loose["txnlog"] == 3
    assert many.loose["transactions"] < 10


def test_requests_of_a_minute_are_the_same_whatever_the_number_of_partitions() -> None:
    few, many = settled(quiet=500), settled(quiet=1000)
    for agent in (few, many):
        agent.run(MINUTE)
    assert few.requests() == many.requests()
    # Both isolation levels at each of twelve reads; the end and the log end of the transaction log as often.
    assert many.requests()["ListOffsets"] == 4 * MINUTE // 5
    assert many.requests().get("DescribeProducers", 0) == 0
    assert many.requests()["ListTransactions"] <= 2 * MINUTE // 30
    assert sum(many.requests().values()) < 60


def test_partitions_without_a_transaction_are_asked_for_once_a_minute_a_part_at_each_read() -> None:
    agent = settled(quiet=1000)
    agent.run(MINUTE)
    asked = asked_partitions(agent)
    # The last stable offsets of the held partitions at each read; their high watermarks at every third one, with those
    # of a part of all others.
    assert asked[::2] == [OPEN] * 12
    part = -(-(1000 + OPEN + 1) // 12)  # with the transaction log
    assert 1000 <= sum(asked[1::2]) - 4 * OPEN <= 12 * (part + 1)
    assert all(number <= OPEN + part + 1 for number in asked[1::2])


def test_a_transaction_that_ends_makes_only_what_it_changes() -> None:
    agent = settled(quiet=100)
    number = FINISHED
    partition = agent.world.topics["held"][0]
    partition.stable, partition.writers, partition.high_watermark = None, [], 26
    del agent.world.transactions[name(number)]
    end = round(agent.world.time.wall * 1000)
    for status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT):
        topics = [("held", [0])] if status is Status.PREPARE_COMMIT else None
        value = encode_value(1, number, 0, HOUR_MS, status, topics, end, BEGIN_MS, kafka_tags(number, -1, 0))
        offset = agent.world.topics[LOG][0].high_watermark
        agent.world.write([CoordinatorRecord(0, offset, end, encode_key(name(number)), value)])
    agent.run(10)
    first = dict(agent.made)
    assert first.keys() == {"txnlog", "transactions", "lso"}
    agent.run(MINUTE)
    assert agent.made == first


def test_an_offset_request_takes_17_bytes_for_a_partition() -> None:
    metadata = scene(quiet=1000).metadata(Deadline.after(1))
    sizes = []
    for count in (100, 1000):
        batch = [TopicPartition("quiet", number) for number in range(count)]
        request = offsets_request(batch, metadata, dict.fromkeys(batch, -1), 1, -1, 1000)
        sizes.append(len(request.encode(version=8)))
    # Index, leader epoch, timestamp, no tags; the count of partitions takes one byte more above 127.
    assert sizes[1] - sizes[0] == 900 * (4 + 4 + 8 + 1) + 1


NOT_FOR_THE_AGENT = (
    "rich",  # the terminal
    "pyspark",
    "grafanalib",
    "requests",  # until something is read over HTTP
    "jinja2",  # until the page is asked for
    "google.protobuf",  # until client telemetry is received
    "cryptography",  # until a PEM of the properties needs it
    "botocore",
    "bcrypt",  # until a user logs in
    "exporter.alerts",
    "exporter.dashboards",
    "exporter.linter",
    "exporter.commands.audit",
    "exporter.commands.history",
    "exporter.commands.transactions",
    "exporter.jobs",
    "exporter.canary",
    "exporter.ingest",  # until something is posted
    "exporter.kafka.messages",  # until there is such a group
    "exporter.agent.engine_sources",  # until there is an engine or an audit
    "exporter.agent.jvm_sources",  # until a JVM is read
)

RUN = """
import json, sys
from exporter import cli
cli.parser(["run"])
import exporter.agent.composition
listening = sorted(sys.modules)
import exporter.agent.clusters
print(json.dumps([listening, sorted(sys.modules)]))
"""


NOT_TO_LISTEN = ("kafka.protocol", "confluent_kafka", "exporter.cluster", "jinja2")
"""Nor these before the endpoint listens: they take half of the start."""


def test_run_imports_nothing_of_other_commands_and_nothing_before_it_is_needed() -> None:
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=120)
    listening, modules = json.loads(done.stdout)
    assert imported(NOT_FOR_THE_AGENT, modules) == set()
    assert imported(NOT_TO_LISTEN, listening) == set()
    assert "exporter.web_server.server" in listening
    assert "exporter.lso.source.lso" in modules


def imported(names: Iterable[str], modules: Iterable[str]) -> set[str]:
    """Which of these are among the modules, themselves or a part of them."""
    return {name for name in names if any((module + ".").startswith(name + ".") for module in modules)}
