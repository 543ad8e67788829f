"""An agent whose clock is wrong, and the next one with the right clock, on a real broker and the same state."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter import catalogue
from exporter.kafka.ask import coordinator_partition
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import RdkafkaProducer
from tests.chaos.agent import SKEWED
from tests.e2e.conftest import EnterContext, StartAgent, in_proof
from tests.helpers.shifted_clock import with_clock

LATE_SECONDS = 20.0
"""Looks are a second apart, and later on a busy machine; a stall is dated by the look that first saw it."""
OFTEN = {
    "KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "1s",
    "KAFKA_EOS_CLUSTERS__0__LSO__STALL_AFTER": "4s",
}


@pytest.mark.parametrize("wrong", [*in_proof(-60), 95])
def test_a_stall_is_dated_right_after_a_life_with_a_wrong_clock(
    kafka_4: KafkaCluster,
    start_agent: StartAgent,
    keep: EnterContext,
    fresh: Callable[[str], str],
    tmp_path: Path,
    wrong: int,
) -> None:
    topic, application = fresh("orders"), fresh("clock")
    kafka_4.create_topic(topic)
    arguments = ("--bootstrap-server", kafka_4.bootstrap, "--state.dir", str(tmp_path))
    skewed = (sys.executable, str(SKEWED), str(wrong))
    agent = start_agent(*arguments, environment=OFTEN, name="wrong", command=skewed)
    producer = keep(RdkafkaProducer(kafka_4, f"{application}-1"))
    producer.init()

    def knows_its_clock(seen: Metrics) -> bool:
        """New records of the log tell how far the clock is off."""
        producer.run(1, topic)
        return bool(seen.samples(catalogue.CLOCK_DISTANCE_SECONDS))

    agent.wait_until(knows_its_clock)
    began = time.time()
    producer.begin()
    producer.send(topic)
    producer.flush()
    assert _since(agent, topic) == pytest.approx(began, abs=LATE_SECONDS)
    agent.kill()
    again = start_agent(*arguments, environment=OFTEN, name="right")
    assert _since(again, topic) == pytest.approx(began, abs=LATE_SECONDS)
    producer.abort()


def _since(agent: AgentProcess, topic: str) -> float:
    def stalled(seen: Metrics) -> list[float]:
        return [sample.value for sample in seen.samples(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, topic=topic)]

    return stalled(agent.wait_until(stalled))[0]


# --- Brokers with clocks of their own ---

SHIFT_SECONDS = 90
LOG_PARTITIONS = 6


@pytest.fixture
def two_clocks(tmp_path: Path) -> Iterator[KafkaCluster]:
    """Two brokers; the wall clock of broker 2 is 90 s ahead."""
    properties = {"transaction.state.log.min.isr": "1", "min.insync.replicas": "1"}
    with KafkaCluster("4.3.1", 2, properties=properties, transaction_partitions=LOG_PARTITIONS, heap_mb=384) as kafka:
        shifted = kafka.broker(2)
        shifted.restart_with(with_clock(kafka._argv(shifted.node), SHIFT_SECONDS, tmp_path))
        kafka.wait_ready()
        yield kafka


def ids_of(kafka: KafkaCluster, application: str) -> dict[int, str]:
    """A transactional.id for each broker that coordinates it."""
    partitions = kafka.admin().list_topics("__transaction_state", timeout=60).topics["__transaction_state"].partitions
    names = [f"{application}-{number}" for number in range(50)]
    return {partitions[coordinator_partition(name, LOG_PARTITIONS)].leader: name for name in names}


def test_ages_are_judged_by_the_clock_of_the_coordinator_that_wrote_the_record(
    two_clocks: KafkaCluster, start_agent: StartAgent, keep: EnterContext
) -> None:
    kafka = two_clocks
    kafka.create_topic("orders", min_insync_replicas="1")
    first = keep(RdkafkaProducer(kafka, "first-1"))
    first.init()  # the log is there from now on
    ids = ids_of(kafka, "pay")
    assert set(ids) == {1, 2}
    agent = start_agent("--bootstrap-server", kafka.bootstrap, "--cluster.name", "two")
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 1)
    busy = {broker: keep(RdkafkaProducer(kafka, name)) for broker, name in ids.items()}
    for producer in busy.values():
        producer.init()

    def both_clocks_are_known(seen: Metrics) -> bool:
        for producer in busy.values():
            producer.run(1, "orders")
        return len(seen.samples(catalogue.COORDINATOR_CLOCK_SKEW_SECONDS)) == 2

    seen = agent.wait_until(both_clocks_are_known)
    skews = {sample.labels["broker"]: sample.value for sample in seen.samples(catalogue.COORDINATOR_CLOCK_SKEW_SECONDS)}
    assert skews["1"] == pytest.approx(0, abs=LATE_SECONDS)
    assert skews["2"] == pytest.approx(-SHIFT_SECONDS, abs=LATE_SECONDS)
    held = busy[1]
    held.begin()
    held.send("orders")
    held.flush()
    until = time.monotonic() + 10
    overdue: list[float] = []

    def is_watched(metrics: Metrics) -> bool:
        overdue.append(metrics.value(catalogue.OVERDUE_TRANSACTIONS, application="pay") or 0.0)
        return time.monotonic() > until

    agent.wait_until(is_watched)
    assert set(overdue) == {0.0}
    # Its coordinator moves to the other clock, where the transaction is older than its timeout: the scan ends it there,
    # or InitProducerId, whichever comes first. The log tells them apart by the next record alone.
    kafka.broker(1).stop()
    again = keep(RdkafkaProducer(kafka, ids[1], timeout=60.0))
    again.init()

    def ended(metrics: Metrics) -> dict[str, float]:
        outcomes = ("fenced", "timed_out", "aborted")
        found = {
            outcome: metrics.value(catalogue.TRANSACTIONS_TOTAL, application="pay", outcome=outcome) or 0.0
            for outcome in outcomes
        }
        return {outcome: count for outcome, count in found.items() if count}

    assert ended(agent.wait_until(ended)) in ({"fenced": 1}, {"timed_out": 1})
