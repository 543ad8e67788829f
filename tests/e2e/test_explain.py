"""``transactions explain`` on real brokers, beside an oracle that counted every record and marker."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.core.state import StateDir
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.lso.proof.record_fate import RecordFate
from exporter.lso.proof.record_reader import RecordReader
from exporter.lso.proof.unended_record import NOT_EXCLUDED
from exporter.model import Deadline, TopicPartition
from exporter.transactions.source.log_range import RangeConsumer
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import JavaProducer, RdkafkaProducer
from tests.e2e.conftest import VERSIONS, EnterContext, StartAgent
from tests.e2e.ending_lines import command, explained
from tests.e2e.record_oracle import PARTITIONS, KnownOffset, RecordOracle
from tests.helpers.offsets import commit_offsets
from tests.helpers.schemas import conform

Fresh = Callable[[str], str]


@contextmanager
def reader_of(kafka: KafkaCluster) -> Iterator[RecordReader]:
    properties = Properties.parse(kafka.client_properties())
    client = ClusterClient(properties)
    try:
        cluster = Cluster(properties, client, Grouping([]), StateDir(None))
        yield RecordReader(cluster, lambda: RangeConsumer(properties))
    finally:
        client.close()


def oracle(kafka: KafkaCluster, keep: EnterContext, fresh: Fresh, records: int, seed: int) -> RecordOracle:
    topic = fresh("ledger")
    kafka.create_topic(topic, PARTITIONS)
    producers = [
        keep(RdkafkaProducer(kafka, fresh("older"), timeout=600)),
        keep(JavaProducer(kafka, fresh("newer"), timeout=600)),
        keep(RdkafkaProducer(kafka, fresh("second-older"), timeout=600)),
        keep(JavaProducer(kafka, fresh("second-newer"), timeout=600)),
    ]
    for producer in producers:
        producer.init()
    found = RecordOracle(kafka, topic, producers, seed)
    found.run(records)
    return found


def drawn(known: RecordOracle, count: int, seed: int) -> list[tuple[int, int]]:
    places = [(number, offset) for number, offsets in enumerate(known.offsets) for offset in offsets]
    return random.Random(seed).sample(places, min(count, len(places)))


def agrees(known: RecordOracle, number: int, offset: int, said: RecordFate, *, one_clock: bool) -> str:
    """Assert that what is said of an offset is what the oracle has; returns how much was said."""
    what: KnownOffset = known.offsets[number][offset]
    text = f"{known.topic}-{number} at {offset}: {what}, said {said}"
    if (transaction := what.transaction) is None:
        assert (said.state, said.transactional_id) == ("no_transaction", ""), text
        return "no_transaction"
    assert said.state == ("marker" if what.kind == "marker" else transaction.state), text
    assert said.transactional_id == transaction.transactional_id, text
    partitions = frozenset(TopicPartition(known.topic, partition) for partition in transaction.partitions)
    if transaction.state == "open":
        assert (said.partitions, said.marker) == (partitions, None), text
        assert not said.missing or (said.missing == (NOT_EXCLUDED,) and not one_clock), text
        return "open, one of before not excluded" if said.missing else "open"
    commit = transaction.state == "committed"
    assert said.marker is not None, text
    assert (said.marker.commit, said.marker.offset) == (commit, transaction.markers[number]), text
    if said.partitions is None:
        assert not one_clock, text
        assert said.decided is None, text
        assert said.missing, text
        return "transaction not told apart"
    assert (said.decided, said.partitions, said.own_marker) == (commit, partitions, True), text
    assert (said.torn, said.missing) == (False, ()), text
    return transaction.state


def check(known: RecordOracle, records: int, seed: int, *, one_clock: bool) -> Counter[str]:
    told: Counter[str] = Counter()
    with reader_of(known.kafka) as reader:
        for number, offset in drawn(known, records, seed):
            said = reader.read(TopicPartition(known.topic, number), offset, Deadline.after(60))
            told[agrees(known, number, offset, said, one_clock=one_clock)] += 1
    return told


def test_records_of_both_client_generations_are_explained_as_they_were_written(
    kafka_4: KafkaCluster, start_agent: StartAgent, keep: EnterContext, fresh: Fresh
) -> None:
    known = oracle(kafka_4, keep, fresh, 60, seed=1)
    told = check(known, 40, 2, one_clock=True)
    assert {"committed", "aborted", "open"} <= told.keys(), told
    opened = next(
        (number, offset)
        for number, offsets in enumerate(known.offsets)
        for offset, what in offsets.items()
        if what.transaction is not None and what.transaction.state == "open"
    )
    readers = fresh("readers")
    _commit_first(kafka_4, readers, known.topic, opened[0])
    code, record = explained(kafka_4.bootstrap, known.topic, *opened)
    assert (code, record["state"], record["marker"]) == (1, "open", None)
    assert record["waiting"] == [{"group": readers, "committed_offset": 0}]
    end = len(known.offsets[0])
    code, record = explained(kafka_4.bootstrap, known.topic, 0, end)
    assert (code, record["state"], record["high_watermark"]) == (2, "beyond_end", end)
    done = command("applications", "--bootstrap-server", kafka_4.bootstrap, "--output", "json")
    assert done.code == 1
    agent = start_agent("--bootstrap-server", kafka_4.bootstrap)
    for text in (done.out, agent.get("/api/v1/inventory").text):
        _the_inventory_has(known, text, fresh, readers)


def _commit_first(kafka: KafkaCluster, group: str, topic: str, number: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "log_level": 0})
    try:
        commit_offsets(consumer, [Position(topic, number, 0)])
    finally:
        consumer.close()


def _the_inventory_has(known: RecordOracle, text: str, fresh: Fresh, readers: str) -> None:
    """The applications of the oracle with their clients, and the records that were written beside them."""
    (cluster,) = conform("applications", json.loads(text))["clusters"]
    found = {application["application"]: application for application in cluster["applications"]}
    for name, generations in (("older", (1, 0)), ("newer", (0, 1))):
        shown = found[fresh(name)]
        assert (shown["ids_of_v1"], shown["ids_of_v2"]) == generations, shown
        assert (shown["topics"], shown["timeouts_seconds"]) == ([known.topic], [600.0])
        ended = Counter(
            transaction.state for transaction in known.transactions if transaction.transactional_id == fresh(name)
        )
        assert (shown["committed"], shown["aborted"]) == (ended["committed"], ended["aborted"])
    (topic,) = (topic for topic in cluster["topics"] if topic["topic"] == known.topic)
    plain = sum(what.transaction is None for offsets in known.offsets for what in offsets.values())
    assert (topic["groups"], topic["batches_outside"]) == ([readers], plain)


@pytest.mark.proof
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("version", "brokers"), [(VERSIONS[0], 3), *((version, 1) for version in VERSIONS)])
def test_a_thousand_records_drawn_by_seed_are_explained_as_the_oracle_has_them(
    version: str, brokers: int, clusters: Callable[..., KafkaCluster], keep: EnterContext, fresh: Fresh
) -> None:
    kafka = clusters(version, brokers)
    known = oracle(kafka, keep, fresh, 1200, seed=34)
    told = check(known, 1000, 35, one_clock=brokers == 1)
    print(f"{version}, {brokers} brokers: {sum(told.values())} records: {dict(told)}")
    assert {"committed", "aborted", "no_transaction"} <= told.keys()
