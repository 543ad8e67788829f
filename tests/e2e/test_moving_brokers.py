"""Two brokers, one of which is cut off from the controller, or paused while the agent is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import ListTransactionsRequest

from exporter import catalogue
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.transactions import OPEN_STATES
from exporter.model import Deadline, Fault
from testkit.agent import Metrics
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.settings import Security
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.behind_proxy import brokers_behind_proxy
from tests.e2e.conftest import EnterContext, StartAgent
from tests.e2e.ending_lines import QUIET_SECONDS, ends_something, looks, never, run
from tests.e2e.ending_lines import committed as committed_records
from tests.helpers.tcp_proxy import TcpProxy

HEARING, DEAF = 1, 2
LOG = "__transaction_state"
LOG_PARTITIONS = 6
NO_READER = "noreader"
STOPPED_SECONDS = 25.0
"""Longer than the transaction's timeout of 5 s and the 15 s after which it is overdue."""
AFTER_WAKING_SECONDS = 15.0


class ProxiedBrokers(NamedTuple):
    """Two brokers that reach the controller by a proxy only; broker 2 leads nothing of the topics made here."""

    kafka: KafkaCluster
    proxy: TcpProxy

    def create_topic(self, name: str) -> None:
        admin = self.kafka.admin()  # kept until the answer is here: a client that is collected fails its futures
        placed = [[HEARING, DEAF], [HEARING, DEAF]]
        admin.create_topics([NewTopic(name, 2, replica_assignment=placed)])[name].result(30)

    def leaders(self) -> dict[int, int]:
        found = self.kafka.admin().list_topics(LOG, timeout=60).topics[LOG].partitions
        return {number: partition.leader for number, partition in found.items()}

    def name_led_by(self, stem: str, leader: int) -> str:
        """A transactional.id whose partition of the log this broker leads."""
        leaders = self.leaders()
        names = (f"{stem}-{number}" for number in range(1000))
        return next(name for name in names if leaders[coordinator_partition(name, LOG_PARTITIONS)] == leader)

    def lead(self, number: int, leader: int) -> None:
        """Put a broker first among the replicas of a partition of the transaction log, and elect it."""
        order = [leader, *({HEARING, DEAF} - {leader})]
        with closing(KafkaAdminClient(bootstrap_servers=self.kafka.broker(HEARING).address)) as admin:
            admin.alter_partition_reassignments({KafkaPartition(LOG, number): order})
        electing = self.kafka.admin()
        place = TopicPartition(LOG, number)
        until = Deadline.after(180)
        while self.leaders()[number] != leader:
            electing.elect_leaders(ElectionType.PREFERRED, [place]).result(30)
            assert poll(until, 0.2), f"the leadership did not move to broker {leader}"

    def listed(self) -> set[str]:
        """The open transactions that the brokers list; all answer, and without an error."""
        properties = Properties.parse({"bootstrap.servers": self.kafka.bootstrap})
        request = ListTransactionsRequest(state_filters=list(OPEN_STATES), producer_id_filters=[])
        with closing(ClusterClient(properties)) as client:
            client.metadata(Deadline.after(60))
            answers = client.ask(dict.fromkeys((HEARING, DEAF), request), Deadline.after(60))
        assert not any(isinstance(answer, Fault) or answer.error_code for answer in answers.values()), answers
        told = [answer for answer in answers.values() if not isinstance(answer, Fault)]
        return {state.transactional_id for answer in told for state in answer.transaction_states}


@pytest.fixture(scope="module")
def pair() -> Iterator[ProxiedBrokers]:
    # A paused broker stays leader: no other broker answers for its partitions.
    properties = {"transaction.state.log.min.isr": "1", "broker.session.timeout.ms": "120000"}
    security = Security.of(NO_READER)
    with brokers_behind_proxy(properties=properties, transaction_partitions=LOG_PARTITIONS, security=security) as (
        kafka,
        proxy,
    ):
        kafka.access.allow_all_reads(NO_READER)
        kafka.access.deny(NO_READER, "READ", "Topic", LOG)
        yield ProxiedBrokers(kafka, proxy)


def test_a_live_transaction_whose_coordinator_moves_to_a_broker_that_has_not_heard_of_it_is_never_hanging(
    pair: ProxiedBrokers, keep: EnterContext, start_agent: StartAgent
) -> None:
    kafka = pair.kafka
    pair.create_topic("ledger")
    first = keep(RdkafkaProducer(kafka, "first-1"))
    first.init()  # the transaction log is there from now on
    name = pair.name_led_by("pay", HEARING)
    live = keep(RdkafkaProducer(kafka, name, timeout=600.0))
    live.init()
    live.begin()
    live.send("ledger", 2, 0)
    live.send("ledger", 2, 1)
    live.flush()
    agent = start_agent("--bootstrap-server", kafka.bootstrap, "--lso.stall-after", "4s")
    as_user = {
        "KAFKA_EOS_CLUSTERS__0__KAFKA__" + key.upper().replace(".", "_"): value
        for key, value in kafka.client_properties(NO_READER).items()
    }
    no_reader = start_agent("--lso.stall-after", "4s", environment=as_user, name="no-reader")
    for program in (agent, no_reader):
        program.wait_until(lambda seen: seen.samples(catalogue.LSO_BLOCKER_INFO, topic="ledger", kind="open"))
    assert pair.listed() == {name}
    pair.proxy.hold(lambda client_id: client_id == f"raft-client-{DEAF}")
    try:
        pair.lead(coordinator_partition(name, LOG_PARTITIONS), DEAF)
        until = Deadline.after(180)
        while pair.listed():  # the old coordinator has unloaded it, and the new one has not heard that it is one
            assert poll(until, 0.2), "a coordinator lists the transaction all the time"
        for done in looks(run, "--bootstrap-server", kafka.bootstrap):
            assert not ends_something(done.out, done.err), done
        kinds = never(no_reader, "ledger", QUIET_SECONDS)
        print(f"without READ on the log: {sorted(kinds)}")
        assert "hanging" not in kinds
        kinds = never(agent, "ledger", QUIET_SECONDS / 4)  # it had all the time before as well
        print(f"with READ on the log: {sorted(kinds)}")
        assert "hanging" not in kinds
        assert not pair.listed(), "the situation was over before the end"
    finally:
        pair.proxy.heal()
    live.commit()
    until = Deadline.after(60)  # a commit is decided when it returns; its markers follow
    while committed_records(kafka.bootstrap, "ledger", 2) != 4:
        assert poll(until, 0.5), "readers did not get the records of the commit"


@pytest.mark.proof
def test_an_agent_that_was_stopped_shows_no_ended_transaction_overdue_and_no_lag_without_the_end(
    pair: ProxiedBrokers, keep: EnterContext, start_agent: StartAgent
) -> None:
    kafka = pair.kafka
    pair.create_topic("stopped")
    first = keep(RdkafkaProducer(kafka, "first-2"))
    first.init()
    name = pair.name_led_by("brief", DEAF)
    brief = keep(RdkafkaProducer(kafka, name, timeout=5.0))
    brief.init()
    agent = start_agent("--bootstrap-server", kafka.bootstrap)
    up = {"source": "txnlog"}
    agent.wait_until(lambda seen: seen.value(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS) == 0)
    brief.begin()
    brief.send("stopped", 1, 0)
    brief.flush()
    agent.wait_until(lambda seen: seen.value(catalogue.TRANSACTIONS_OPEN, application="brief", state="ongoing") == 1)
    agent.child.pause()
    stopped = time.monotonic()
    brief.commit()
    while time.monotonic() < stopped + STOPPED_SECONDS:
        time.sleep(0.1)  # the situation itself: so much time passes for all but the agent
    kafka.broker(DEAF).pause()
    seen: list[Metrics] = []
    try:
        agent.child.resume()
        until = Deadline.after(AFTER_WAKING_SECONDS)
        while poll(until, 0.2):
            seen.append(agent.metrics())
            assert not seen[-1].total(catalogue.OVERDUE_TRANSACTIONS)
            assert seen[-1].value(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS) is None
        assert seen[-1].value(catalogue.SOURCE_UP, **up) == 0, "it did not notice that a broker is silent"
    finally:
        agent.child.resume()
        kafka.broker(DEAF).resume()

    def settled(metrics: Metrics) -> bool:
        assert not metrics.total(catalogue.OVERDUE_TRANSACTIONS)
        counted = metrics.value(catalogue.TRANSACTIONS_TOTAL, application="brief", outcome="committed")
        return counted == 1 and metrics.value(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS) == 0

    agent.wait_until(settled)
