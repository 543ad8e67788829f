"""Three shards of the agent beside one whole agent, on a real cluster with load and failures: the same series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from demo.agent import AgentProcess
from demo.cluster import KafkaCluster
from demo.orphan import make_orphan
from demo.processes import poll
from exporter import catalogue
from exporter.core.shard import Shard
from exporter.model import Deadline
from tests.e2e.conftest import StartAgent
from tests.helpers.offsets import commit_offsets

pytestmark = pytest.mark.proof

SHARDS = [Shard(index, 3) for index in range(3)]
OFTEN = {
    "KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "1s",
    "KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "3s",
    "KAFKA_EOS_CLUSTERS__0__LSO__STALL_AFTER": "4s",
    "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "2s",
    "KAFKA_EOS_CLUSTERS__0__POSTURE__INTERVAL": "4s",
    # Of open transactions, only those that hold a partition are shown: whose topic is another shard's, too.
    "KAFKA_EOS_CLUSTERS__0__TRANSACTIONS__OPEN_TRANSACTIONS": "0",
}
CALL_SECONDS = 20.0
CLOCK_SECONDS = 5.0
"""Agents that look at different moments date what they see themselves so far apart."""
OWN = tuple(row.name for row in catalogue.OF_EACH_AGENT)
PARTS = {row.name for row in catalogue.OF_EACH_SHARD} - set(OWN)

Series = tuple[str, tuple[tuple[str, str], ...]]
Known = tuple[set[str], set[str], float | None, float | None]


class ShardNames(NamedTuple):
    """Two of each for every shard."""

    topics: list[str]
    applications: list[str]
    groups: list[str]


def spread(stem: str) -> list[str]:
    """Two names for every shard."""
    numbered = [f"{stem}-{number}x" for number in range(60)]
    return [name for shard in SHARDS for name in list(filter(shard.holds, numbered))[:2]]


@pytest.fixture(scope="module")
def names() -> ShardNames:
    return ShardNames(spread("orders"), spread("pay"), spread("readers"))


@pytest.fixture(scope="module")
def kafka(names: ShardNames) -> Iterator[KafkaCluster]:
    """A cluster with topics of every shard, groups that read them, and a transaction that hangs."""
    with KafkaCluster(transaction_partitions=4) as cluster:
        for topic in names.topics:
            cluster.create_topic(topic, 2)
        make_orphan(cluster, names.topics[0])
        for group, topic in zip(names.groups, names.topics, strict=True):
            reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
            commit_offsets(reader, [TopicPartition(topic, 1, 0)])
            reader.close()
        yield cluster


class ReplicatedApplication:
    """A transactional producer of this process; ``across`` are the topics that each of its transactions writes to."""

    def __init__(self, kafka: KafkaCluster, name: str, across: list[str]) -> None:
        settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": name, "log_level": 0}
        self._producer = Producer({**settings, "transaction.timeout.ms": 600_000})
        self._across = across
        self._producer.init_transactions(CALL_SECONDS)

    def begin(self, partition: int) -> None:
        self._producer.begin_transaction()
        for topic in self._across:
            self._producer.produce(topic, b"record", partition=partition)
        self._producer.flush(CALL_SECONDS)

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(CALL_SECONDS)


def series(agent: AgentProcess) -> dict[Series, float]:
    """All its samples, without those of the agent itself."""
    found: dict[Series, float] = {}
    metrics = agent.metrics()
    for name in metrics.names:
        if name.startswith("kafka_eos_") and name not in OWN:
            for sample in metrics.samples(name):
                found[name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def together_of(shards: list[dict[Series, float]]) -> dict[Series, float]:
    """Return what the shards say together: a holder has the sum of its partitions and the earliest of its instants."""
    together: dict[Series, float] = {}
    for shard in shards:
        for (name, labels), value in shard.items():
            key = name, tuple(label for label in labels if name not in PARTS or label[0] != "shard")
            if name in {catalogue.LSO_HOLDER_PARTITIONS.name, catalogue.RECENT_APPLICATIONS.name}:
                together[key] = together.get(key, 0) + value
            elif name in PARTS:
                together[key] = min(together.get(key, value), value)
            else:
                together[key] = value
    return together


def differences(whole: dict[Series, float], shards: list[dict[Series, float]]) -> list[str]:
    """In what the shards together do not say what the whole agent says."""
    said = Counter(key for shard in shards for key in shard)
    together = together_of(shards)
    told = [f"said {times} times: {key}" for key, times in said.items() if times > 1]
    told += [f"said by the shards alone: {key}" for key in together.keys() - whole.keys()]
    told += [f"said by the whole agent alone: {key}" for key in whole.keys() - together.keys()]
    for key in whole.keys() & together.keys():
        apart = abs(whole[key] - together[key])
        of_a_clock = key[0].endswith("_timestamp_seconds") or key[0] == catalogue.CLOCK_DISTANCE_SECONDS.name
        if apart > (CLOCK_SECONDS if of_a_clock else 0):
            told.append(f"{together[key]} and not {whole[key]}: {key}")
    return told


def held(said: dict[Series, float]) -> set[str]:
    """Topics with a partition whose holder is named."""
    return {dict(labels)["topic"] for name, labels in said if name == catalogue.LSO_BLOCKER_INFO.name}


def shown(said: dict[Series, float]) -> set[str]:
    """Applications with an open transaction that is shown by id."""
    return {dict(labels)["application"] for name, labels in said if name.startswith("kafka_eos_open_transaction_")}


def test_three_shards_are_disjoint_and_together_say_what_one_agent_says(
    kafka: KafkaCluster, names: ShardNames, start_agent: StartAgent
) -> None:
    topics = names.topics
    applications = [
        ReplicatedApplication(kafka, f"{name}-1", [topics[at], topics[-at - 1]])
        for at, name in enumerate(names.applications)
    ]
    for application in applications:  # so that the first look of each agent knows all topics that are written to
        application.begin(1)
        application.commit()
    options = ("--bootstrap-server", kafka.bootstrap, "--cluster.name", "prod")
    whole = start_agent(*options, environment=OFTEN, name="whole")
    shards = [
        start_agent(*options, "--shard", str(shard), environment=OFTEN, name=f"shard-{shard.index}") for shard in SHARDS
    ]
    for agent in (whole, *shards):
        agent.wait_until(lambda seen: seen.samples(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS))
    # Busy until both agents that tell the coordinators' clock have seen enough new records for it, and then only held
    # up: half of the applications hold partitions, of topics of several shards.
    until = Deadline.after(180)
    for turn in count():
        for at, application in enumerate(applications):
            application.begin(1)
            if (at + turn) % 3:
                application.commit()
            else:
                application.abort()
        tell = all(agent.metrics().samples(catalogue.CLOCK_DISTANCE_SECONDS) for agent in (whole, shards[0]))
        if turn >= 8 and tell:
            break
        assert not until.over
    with ExitStack() as ending:
        for application in applications[::2]:
            application.begin(0)
            ending.callback(application.abort)
        fenced = names.applications[1]
        applications[1].begin(0)
        rival = ReplicatedApplication(kafka, f"{fenced}-1", topics[:1])
        hanging = (catalogue.HANGING_TRANSACTIONS.name, (("kafka_cluster", "prod"), ("topic", topics[0])))
        fences = (catalogue.PRODUCER_FENCES_TOTAL.name, (("application", fenced), ("kafka_cluster", "prod")))
        everything: Known = (set(topics), set(names.applications[::2]), 1, 1)
        until = Deadline.after(150)
        while True:
            said = series(whole)
            differs = differences(said, [series(shard) for shard in shards])
            known = (held(said), shown(said), said.get(hanging), said.get(fences))
            if (not differs and known == everything) or not poll(until, 1):
                break
        del rival
    assert differs == []
    assert known == everything

    for shard, agent in zip(SHARDS, shards, strict=True):
        metrics = agent.metrics()
        own = [sample for row in catalogue.OF_EACH_AGENT for sample in metrics.samples(row)]
        assert {sample.labels["shard"] for sample in own} == {str(shard.index)}
        assert metrics.value(catalogue.EXPORTER_SHARDS) == 3
        assert bool(metrics.samples(catalogue.CLUSTER_INFO)) == shard.first
        assert len({sample.labels["topic"] for sample in metrics.samples(catalogue.STALLED_PARTITIONS)}) < len(topics)
        assert agent.status()["shard"] == {"index": shard.index, "count": 3}
        assert f"shard {shard}" in agent.get("/").text
        assert f"watching 1 cluster(s), shard {shard}" in agent.log
    assert not [sample for row in catalogue.OF_EACH_AGENT for sample in whole.metrics().samples(row, shard="0")]
    assert whole.status()["shard"] is None
