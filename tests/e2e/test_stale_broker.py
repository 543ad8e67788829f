"""A broker that is cut off from the controller alone: it goes on answering from its old view, and is not believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from exporter import catalogue
from exporter.kafka.ask import coordinator_partition
from exporter.model import Deadline
from testkit.agent import Metrics
from testkit.cluster import KafkaCluster
from testkit.processes import ProcessGroup, poll
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.behind_proxy import brokers_behind_proxy
from tests.e2e.conftest import EnterContext, StartAgent
from tests.helpers.tcp_proxy import TcpProxy

OPTIONS = ("--cluster.name", "parted", "--lso.stall-after", "4s")
OFTEN = {"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "5s", "KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "1s"}
LOG_PARTITIONS = 6


class SeparatedBrokers(NamedTuple):
    """Two brokers that reach the controller by a proxy only."""

    kafka: KafkaCluster
    proxy: TcpProxy

    def hold_metadata(self, broker: int) -> None:
        """The broker learns nothing new; its heartbeats pass and keep it in the cluster."""
        self.proxy.hold(lambda client_id: client_id == f"raft-client-{broker}")

    def part(self, broker: int) -> None:
        """Nothing passes between the broker and the controller: another one leads what it led."""
        mine = {str(broker), f"raft-client-{broker}"}
        self.proxy.hold(lambda client_id: client_id in mine or client_id.endswith(f"-{broker}"))


@dataclass
class ClusterByBroker:
    """A cluster for a client that was given the address of one broker."""

    version: str
    processes: ProcessGroup
    bootstrap: str


def log_of(partitions: int) -> pytest.MarkDecorator:
    """The tests whose transaction log has as many partitions share a cluster."""
    return pytest.mark.parametrize("separated", [partitions], indirect=True, scope="module")


@pytest.fixture(scope="module")
def separated(request: pytest.FixtureRequest) -> Iterator[SeparatedBrokers]:
    properties = {"transaction.state.log.min.isr": "1"}
    with brokers_behind_proxy(properties=properties, transaction_partitions=request.param) as (kafka, proxy):
        yield SeparatedBrokers(kafka, proxy)


@pytest.fixture
def parted(separated: SeparatedBrokers) -> Iterator[SeparatedBrokers]:
    """Both brokers reach the controller when a test begins."""
    yield separated
    separated.proxy.heal()
    separated.kafka.wait_ready()


def leaders_by(address: str, topic: str) -> list[int]:
    """Who leads the partitions of a topic, as the broker at this address has it."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
    return [partitions[number].leader for number in sorted(partitions)]


@log_of(1)
def test_a_broker_that_learns_nothing_from_the_controller_is_a_fault_by_its_id(
    parted: SeparatedBrokers, start_agent: StartAgent
) -> None:
    agent = start_agent("--bootstrap-server", parted.kafka.bootstrap, *OPTIONS, environment=OFTEN)
    up = {"source": "transactions"}
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, **up) == 1)
    parted.hold_metadata(2)
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, **up) == 0)
    faults = [
        fault["detail"]
        for source in agent.status()["clusters"][0]["sources"]
        for fault in source["faults"]
        if fault["reason"] == "stale"
    ]
    assert len(faults) == 1
    assert faults[0].startswith(f"broker 2 at {parted.kafka.broker(2).address} answers from a view of the cluster")
    parted.proxy.heal()
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, **up) == 1)


@pytest.mark.proof
@log_of(LOG_PARTITIONS)
def test_a_deposed_leader_makes_no_stall_and_hides_no_commit(
    parted: SeparatedBrokers, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    kafka, topic, name = parted.kafka, fresh("orders"), fresh("pay")
    producer = keep(RdkafkaProducer(kafka, f"{name}-1", timeout=300.0))
    producer.init()  # the transaction log is there from now on
    log = leaders_by(kafka.brokers[0].address, "__transaction_state")
    old = log[coordinator_partition(f"{name}-1", LOG_PARTITIONS)]
    assert set(log) == {1, 2}
    admin = kafka.admin()  # kept until the answer is here: a client that is collected fails its futures
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[old, 3 - old]])])[topic].result(30)
    producer.begin()
    producer.send(topic, 3)
    producer.flush()
    new = kafka.broker(3 - old)
    agent = start_agent("--bootstrap-server", kafka.bootstrap, *OPTIONS, environment=OFTEN)
    agent.wait_until(lambda seen: seen.value(catalogue.TOPIC_LSO_LAG_OFFSETS, topic=topic) == 3)
    parted.part(old)
    until = Deadline.after(180)
    while {leader for name in (topic, "__transaction_state") for leader in leaders_by(new.address, name)} != {new.id}:
        assert poll(until, 0.2), "the leaderships did not move"
    # At the new leader the next incarnation aborts what is open and goes on. At the old one it stays open for ever.
    survivor = keep(
        RdkafkaProducer(
            ClusterByBroker(kafka.version, kafka.processes, new.address), f"{name}-1", counts=producer.counts
        )
    )
    survivor.init()
    survivor.run(40, topic)
    seen: list[Metrics] = []

    def all_is_counted(metrics: Metrics) -> bool:
        seen.append(metrics)
        counted = metrics.value(catalogue.TRANSACTIONS_TOTAL, application=name, outcome="committed")
        return counted == 40 and metrics.value(catalogue.TOPIC_LSO_LAG_OFFSETS, topic=topic) == 0

    # Until the next incarnation came, what was open was a stall indeed.
    agent.wait_until(all_is_counted)
    settled = len(seen) - 1
    last = seen[-1].value(catalogue.SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS, source="lso") or 0.0
    agent.wait_until(
        lambda now: (
            all_is_counted(now)
            and (now.value(catalogue.SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS, source="lso") or 0.0) > last + 15
        ),
    )
    assert not [
        sample
        for metrics in seen[settled:]
        for sample in metrics.samples(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS)
    ]
    assert "forceTerminateTransaction" not in agent.get("/").text


@log_of(1)
def test_a_tail_whose_only_broker_was_deposed_goes_to_the_new_leader(
    parted: SeparatedBrokers, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    """librdkafka has a connection to the leader of the log alone, and asks no other broker who leads."""
    kafka, topic, name = parted.kafka, fresh("orders"), fresh("pay")
    producer = keep(RdkafkaProducer(kafka, f"{name}-1", timeout=300.0))
    producer.init()
    (old,) = leaders_by(kafka.brokers[0].address, "__transaction_state")
    admin = kafka.admin()
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[3 - old]])])[topic].result(30)
    agent = start_agent("--bootstrap-server", kafka.broker(old).address, *OPTIONS, environment=OFTEN)
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 1)
    producer.run(5, topic)
    agent.wait_until(lambda seen: committed(seen, name) == 5)
    new = kafka.broker(3 - old)
    parted.part(old)
    until = Deadline.after(60)
    while leaders_by(new.address, "__transaction_state") != [new.id]:
        assert poll(until, 0.2), "the leadership did not move"
    survivor = keep(
        RdkafkaProducer(
            ClusterByBroker(kafka.version, kafka.processes, new.address), f"{name}-1", counts=producer.counts
        )
    )
    survivor.init()
    survivor.run(40, topic)
    agent.wait_until(lambda seen: committed(seen, name) == 45)


def committed(seen: Metrics, name: str) -> float | None:
    return seen.value(catalogue.TRANSACTIONS_TOTAL, application=name, outcome="committed")
