"""Every situation of the demo, on both Kafka versions and with both client generations: /metrics says exactly that."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from exporter import catalogue
from exporter.model import Metric
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.orphan import Orphan, make_orphan
from testkit.processes import ProcessGroup
from testkit.workloads.outcome_counts import OutcomeCounts
from testkit.workloads.producers import JavaProducer, Producer, ProducerClass, RdkafkaProducer
from tests.e2e.conftest import VERSIONS, in_proof
from tests.helpers.offsets import commit_offsets

STALL_AFTER = 6.0
CLUSTER = "e2e"
CLIENTS: tuple[ProducerClass, ...] = (RdkafkaProducer, JavaProducer)
EACH_WORLD = [(VERSIONS[0], JavaProducer), *in_proof((VERSIONS[0], RdkafkaProducer), *product(VERSIONS[1:], CLIENTS))]


@dataclass
class ObservedRun:
    """One agent that watched everything below happen from before it began."""

    kafka: KafkaCluster
    agent: AgentProcess
    generation: str
    counts: dict[str, OutcomeCounts] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=lambda: Metrics(""))
    stalls: list[dict[str, Any]] = field(default_factory=list)
    page: str = ""
    orphan: Orphan = field(init=False)

    def app(self, role: str) -> str:
        """The application of a role: its transactional.id without the trailing number."""
        return self.counts[role].transactional_id.rpartition("-")[0]

    def value(self, metric: Metric, **labels: str) -> float | None:
        return self.metrics.value(metric, kafka_cluster=CLUSTER, **labels)


def _play(world: ObservedRun, make: ProducerClass, stack: ExitStack, stem: str) -> None:
    """All situations, the slow ones first so that their time passes while the others happen."""
    kafka = world.kafka
    orders, ledger, offsets = f"orders-{stem}", f"ledger-{stem}", f"offsets-{stem}"
    world.names = {"orders": orders, "ledger": ledger, "offsets": offsets, "group": f"reader-{stem}"}
    kafka.create_topic(orders, 2)
    kafka.create_topic(ledger)
    kafka.create_topic(offsets)

    def producer(role: str, timeout: float = 60.0, counts: OutcomeCounts | None = None) -> Producer:
        made: Producer = stack.enter_context(make(kafka, f"{role}-{stem}-1", timeout=timeout, counts=counts))
        world.counts[role] = made.counts
        made.init()
        return made

    late = producer("late", timeout=3.0)
    late.begin()
    late.send(ledger)
    late.flush()

    world.orphan = make_orphan(kafka, ledger)

    healthy = producer("healthy")
    healthy.run(5, orders, 2)
    healthy.run(3, orders, commit=False)

    zombie = producer("rival")
    zombie.begin()
    zombie.send(orders)
    zombie.flush()
    successor = producer("rival", counts=zombie.counts)
    successor.run(1, orders)

    first = producer("restarted")
    first.run(1, orders)
    first.close()
    producer("restarted", counts=first.counts).run(1, orders)

    holder = producer("holder", timeout=600.0)
    holder.begin()
    holder.send(orders, 4, partition=0)
    holder.flush()
    behind = producer("behind")
    behind.begin()
    behind.send(orders, 3, partition=0)
    behind.commit()

    reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": world.names["group"], "log_level": 0})
    commit_offsets(reader, [TopicPartition(offsets, 0, 0)])
    offsets_holder = producer("consuming", timeout=600.0)
    offsets_holder.begin()
    offsets_holder.send_offsets(world.names["group"], offsets, 0, 0)

    commit_offsets(reader, [TopicPartition(orders, 0, 0), TopicPartition(orders, 1, 0)])
    reader.close()


@pytest.fixture(scope="module", params=EACH_WORLD, ids=str)
def world(request: pytest.FixtureRequest, clusters: Callable[..., KafkaCluster]) -> Iterator[ObservedRun]:
    version, make = request.param
    kafka = clusters(version)
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-world-"))
    stem = f"{make.generation}{version.replace('.', '')}x"
    arguments = (
        "--cluster.name",
        CLUSTER,
        "--lso.stall-after",
        f"{STALL_AFTER:.0f}s",
        "--state.dir",
        str(folder / "s"),
    )
    try:
        with ProcessGroup(folder) as processes, ExitStack() as stack:
            agent = AgentProcess(processes, "--bootstrap-server", kafka.bootstrap, *arguments, environment=SWEEP_OFTEN)
            world = ObservedRun(kafka, agent.wait_ready(), make.generation)
            _play(world, make, stack, stem)
            world.metrics = agent.wait_until(lambda metrics: _settled(world, metrics))
            world.stalls = agent.status()["clusters"][0]["stalled_partitions"]
            world.page = agent.get("/").text
            yield world
    finally:
        shutil.rmtree(folder, ignore_errors=True)


SWEEP_OFTEN = {"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "8s", "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "5s"}


def _settled(world: ObservedRun, metrics: Metrics) -> bool:
    """Wait for the slowest results: the timeout, the fence's five seconds, the stalls with their kinds."""
    blockers = metrics.samples(catalogue.LSO_BLOCKER_INFO, topic=world.names["ledger"])
    late = metrics.value(catalogue.TRANSACTIONS_TOTAL, application=world.app("late"), outcome="timed_out")
    fenced = metrics.value(catalogue.TRANSACTIONS_TOTAL, application=world.app("rival"), outcome="fenced")
    stalled = metrics.value(catalogue.STALLED_PARTITIONS, topic=world.names["orders"])
    blocked = metrics.value(catalogue.GROUP_BLOCKED_OFFSETS, group=world.names["group"], topic=world.names["orders"])
    offsets = metrics.samples(catalogue.LSO_BLOCKER_INFO, application=world.app("consuming"))
    unstable = metrics.samples(catalogue.GROUP_UNSTABLE_OFFSET_PARTITIONS, group=world.names["group"])
    hanging = any(sample.labels["kind"] == "hanging" for sample in blockers)
    return bool(late and fenced and stalled and blocked and offsets and unstable and hanging)


@pytest.mark.parametrize("role", ["healthy", "late", "rival", "restarted", "holder", "behind"])
def test_every_finished_transaction_is_counted_once_with_its_outcome(world: ObservedRun, role: str) -> None:
    expected = dict.fromkeys(catalogue.OUTCOMES, 0)
    expected |= {"healthy": {"committed": 5, "aborted": 3}, "late": {"timed_out": 1}}.get(role, {})
    expected |= {"rival": {"committed": 1, "fenced": 1}, "restarted": {"committed": 2}}.get(role, {})
    expected |= {"behind": {"committed": 1}}.get(role, {})
    found = {
        outcome: world.value(catalogue.TRANSACTIONS_TOTAL, application=world.app(role), outcome=outcome)
        for outcome in catalogue.OUTCOMES
    }
    assert found == expected
    if role != "late":  # its client never hears of the end, so that its counts leave it open
        assert world.counts[role].outcomes() == expected


def test_open_and_completion_times_are_observed_for_the_outcomes_that_were_seen(world: ObservedRun) -> None:
    name = f"{catalogue.TRANSACTION_OPEN_SECONDS}_count"
    samples = world.metrics.samples(name, application=world.app("healthy"))
    assert {sample.labels["outcome"]: sample.value for sample in samples} == {"committed": 5, "aborted": 3}
    completion = world.metrics.value(
        f"{catalogue.TRANSACTION_COMPLETION_SECONDS}_count", application=world.app("healthy")
    )
    assert completion == 8
    late = world.metrics.value(f"{catalogue.TRANSACTION_OPEN_SECONDS}_sum", application=world.app("late"))
    assert late is not None
    assert late >= 3


def test_a_fence_is_distinguished_from_a_clean_restart(world: ObservedRun) -> None:
    for role, fences in (("rival", 1), ("restarted", 0), ("healthy", 0), ("late", 0)):
        assert world.value(catalogue.PRODUCER_FENCES_TOTAL, application=world.app(role)) == fences, role
    for role, inits in (("rival", 2), ("restarted", 2), ("healthy", 1)):
        assert world.value(catalogue.PRODUCER_INITS_TOTAL, application=world.app(role)) == inits, role
    fenced = world.counts["rival"].transactional_id
    assert world.value(catalogue.RECENT_PRODUCER_FENCES, transactional_id=fenced) == 1
    assert world.metrics.samples(catalogue.RECENT_PRODUCER_FENCES, application=world.app("restarted")) == []


def test_unclean_ends_name_their_producers(world: ObservedRun) -> None:
    for role, outcome in (("rival", "fenced"), ("late", "timed_out")):
        found = world.metrics.samples(
            catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS, transactional_id=world.counts[role].transactional_id
        )
        assert [sample.labels["outcome"] for sample in found] == [outcome]
        assert found[0].labels["producer_epoch"] == "0"
        last = world.value(catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS, application=world.app(role), outcome=outcome)
        assert found[0].value == last


def test_open_transactions_are_counted_by_state_and_shown_by_id(world: ObservedRun) -> None:
    for role, count in (("holder", 1), ("healthy", 0), ("late", 0)):
        found = world.value(catalogue.TRANSACTIONS_OPEN, application=world.app(role), state="ongoing")
        assert found == count, role
        assert world.value(catalogue.OVERDUE_TRANSACTIONS, application=world.app(role)) == 0
    labels = {"transactional_id": world.counts["holder"].transactional_id, "state": "ongoing"}
    started = world.value(catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, **labels)
    assert world.value(catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS, **labels) == 600
    oldest = world.value(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, application=world.app("holder"))
    assert started == oldest
    assert world.value(catalogue.TRANSACTIONAL_IDS, application=world.app("holder")) == 1


def test_a_stalled_partition_names_the_transaction_that_holds_it(world: ObservedRun) -> None:
    blockers = world.metrics.samples(catalogue.LSO_BLOCKER_INFO, topic=world.names["orders"])
    assert len(blockers) == 1
    labels = dict(blockers[0].labels)
    offset = int(labels.pop("start_offset"))
    assert labels.pop("producer_id").isdigit()
    assert labels == {
        "kafka_cluster": CLUSTER,
        "application": world.app("holder"),
        "topic": world.names["orders"],
        "partition": "0",
        "transactional_id": world.counts["holder"].transactional_id,
        "producer_epoch": "0",
        "kind": "open",
    }
    place = {"topic": world.names["orders"], "partition": "0"}
    lag = world.value(catalogue.LSO_LAG_OFFSETS, **place)
    assert lag is not None
    # What the holder wrote, what came behind it, and the marker of that.
    assert lag == 4 + 3 + 1
    assert world.value(catalogue.TOPIC_LSO_LAG_OFFSETS, topic=world.names["orders"]) == lag
    assert world.value(catalogue.STALLED_PARTITIONS, topic=world.names["orders"]) == 1
    assert world.value(catalogue.HANGING_TRANSACTIONS, topic=world.names["orders"]) == 0
    started = world.value(
        catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
        transactional_id=world.counts["holder"].transactional_id,
    )
    since = world.value(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, **place)
    assert started is not None
    assert since is not None
    assert since >= started - 1
    assert offset > 0


def test_every_stalled_partition_has_exactly_one_blocker(world: ObservedRun) -> None:
    stalled = world.metrics.total(catalogue.STALLED_PARTITIONS)
    blockers = world.metrics.samples(catalogue.LSO_BLOCKER_INFO)
    places = {(sample.labels["topic"], sample.labels["partition"]) for sample in blockers}
    assert len(blockers) == len(places) == stalled
    since = world.metrics.samples(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS)
    assert {(sample.labels["topic"], sample.labels["partition"]) for sample in since} == places


def test_consumer_offsets_stall_when_a_transactional_commit_is_left_open(world: ObservedRun) -> None:
    blockers = world.metrics.samples(catalogue.LSO_BLOCKER_INFO, application=world.app("consuming"))
    assert [(sample.labels["topic"], sample.labels["kind"]) for sample in blockers] == [("__consumer_offsets", "open")]


def test_a_group_waits_for_what_a_stalled_lso_withholds(world: ObservedRun) -> None:
    labels = {"group": world.names["group"], "topic": world.names["orders"]}
    held = world.value(catalogue.LSO_LAG_OFFSETS, topic=world.names["orders"], partition="0")
    assert world.value(catalogue.GROUP_BLOCKED_OFFSETS, **labels) == held
    lag = world.value(catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS, **labels)
    assert lag is not None
    assert lag > 0


def test_a_group_whose_own_offsets_are_in_an_open_transaction_is_named_with_its_holder(world: ObservedRun) -> None:
    group, topic = world.names["group"], world.names["offsets"]
    assert world.value(catalogue.GROUP_UNSTABLE_OFFSET_PARTITIONS, group=group, topic=topic) == 1
    assert world.value(catalogue.GROUP_UNSTABLE_OFFSET_PARTITIONS, group=group, topic=world.names["orders"]) is None
    mine = world.app("consuming")
    assert [stall["waiting_groups"] for stall in world.stalls if stall["blocker"]["application"] == mine] == [[group]]
    assert "groups that wait" in world.page


def test_a_transaction_that_no_coordinator_has_is_hanging(world: ObservedRun) -> None:
    blockers = world.metrics.samples(catalogue.LSO_BLOCKER_INFO, topic=world.names["ledger"])
    assert [(b.labels["kind"], b.labels["transactional_id"], b.labels["producer_id"]) for b in blockers] == [
        ("hanging", "", str(world.orphan.producer_id))
    ]
    assert blockers[0].labels["start_offset"] == str(world.orphan.start_offset)
    assert world.value(catalogue.HANGING_TRANSACTIONS, topic=world.names["ledger"]) == 1


def test_the_abort_line_is_shown_for_the_hanging_one_only(world: ObservedRun) -> None:
    hanging = [stall for stall in world.stalls if stall["blocker"]["kind"] == "hanging"]
    assert {transaction["topic"] for transaction in hanging} >= {world.names["ledger"]}
    for stall in world.stalls:
        command = stall["next_step"]["command"] or ""
        if stall in hanging:
            assert command.endswith(
                f"abort --topic {stall['topic']} --partition {stall['partition']} "
                f"--start-offset {stall['blocker']['start_offset']}"
            )
        else:
            assert " abort " not in command
    assert world.page.count(" abort --topic ") == len(hanging)


def test_the_cluster_is_identified_and_its_internal_topics_are_counted(world: ObservedRun) -> None:
    info = world.metrics.samples(catalogue.CLUSTER_INFO)
    version = "2" if world.kafka.version.startswith("4") else "0"
    assert [sample.labels["transaction_version"] for sample in info] in ([version], [""])
    total = world.value(catalogue.INTERNAL_TOPIC_PARTITIONS, topic="__transaction_state", condition="total")
    assert total == 50
    for condition in ("offline", "under_replicated", "under_min_isr"):
        found = world.value(catalogue.INTERNAL_TOPIC_PARTITIONS, topic="__transaction_state", condition=condition)
        assert found == 0
    unavailable = world.value(catalogue.TRANSACTIONAL_IDS_UNAVAILABLE, application=world.app("holder"))
    assert unavailable in (0, None)  # None until the log's ids were counted


def test_all_sources_answer_and_nothing_was_lost(world: ObservedRun) -> None:
    ups = world.metrics.samples(catalogue.SOURCE_UP)
    assert {sample.labels["source"]: sample.value for sample in ups} == dict.fromkeys(
        ("lso", "transactions", "txnlog", "groups", "posture"), 1.0
    )
    assert {sample.labels["target"] for sample in ups} == {CLUSTER}
    assert world.value(catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL) == 0
    assert world.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 0


def test_a_repaired_partition_is_no_longer_stalled(world: ObservedRun) -> None:
    orphans = [stall for stall in world.stalls if stall["topic"] == world.names["ledger"]]
    assert len(orphans) == 1
    run = world.kafka.transactions_tool(*_arguments_of(orphans[0]["next_step"]["command"]))
    assert run.returncode == 0, run.stdout + run.stderr
    mended = world.agent.wait_until(
        lambda metrics: metrics.value(catalogue.STALLED_PARTITIONS, topic=world.names["ledger"]) == 0
    )
    assert mended.samples(catalogue.LSO_BLOCKER_INFO, topic=world.names["ledger"]) == []
    assert mended.value(catalogue.HANGING_TRANSACTIONS, topic=world.names["ledger"]) == 0


def _arguments_of(command: str) -> list[str]:
    """The copied line, without the program and the server that the tool is given by the cluster."""
    program, option, _, *rest = command.split()
    assert (program, option) == ("kafka-transactions.sh", "--bootstrap-server")
    return rest
