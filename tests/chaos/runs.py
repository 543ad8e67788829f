"""The runs of a mode: one, or one on each side of a time in which another cluster answers at the addresses."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Producer

from exporter.model import Deadline
from testkit.cluster import StartError
from testkit.processes import poll
from tests.chaos.agent import STALL_AFTER, AgentScrape, AgentUnderTest
from tests.chaos.cluster import TOPICS, ChaosCluster
from tests.chaos.run import Run, say
from tests.chaos.verdict.identity import NOTICED_SECONDS
from tests.chaos.workloads import BEFORE_COUNTING

SECOND_SEED = 1_000_000
"""A number that is added to the seed for the run after another cluster answered."""
ELSEWHERE_SECONDS = NOTICED_SECONDS + 2 * STALL_AFTER + 10
READY_SECONDS = 120.0
CALL_SECONDS = 30.0
COMMITS = 30
OPEN_MS = 600_000
"""Longer than the transaction of the other cluster is open."""


def runs(cluster: ChaosCluster, seed: int, seconds: float) -> Iterator[Run]:
    """All runs, each of which is done before the next is asked for. Raises StartError."""
    kind = cluster.mode.cluster
    if not kind:
        yield Run(cluster, seed, seconds)
        return
    yield (first := Run(cluster, seed, seconds / 2))
    agent, second = first.agent, seed + SECOND_SEED
    before = agent.look()
    say(f"another cluster: {kind}")
    cluster.become_another(same_id=kind == "formatted")
    elsewhere = [*([before] if before else []), *_look_at_another(cluster, agent)]
    began = time.time()
    _begin_again(agent)
    if kind == "formatted":
        yield Run(cluster, second, seconds / 2, agent=agent, elsewhere=elsewhere, journal_from=began)
        return
    _commit(cluster, f"{BEFORE_COUNTING}-1")
    cluster.become_itself()
    _begin_again(agent)
    yield Run(cluster, second, seconds / 2, agent=agent, workload=first.workload, elsewhere=elsewhere)


def _look_at_another(cluster: ChaosCluster, agent: AgentUnderTest) -> list[AgentScrape]:
    """Commit and leave a transaction open in the other cluster, and look at the agent that knows the first one."""
    scrapes = []
    open_one = _commit(cluster, f"{BEFORE_COUNTING}-0")
    open_one.begin_transaction()
    open_one.produce(next(iter(TOPICS)), b"open", partition=0)
    open_one.flush(CALL_SECONDS)
    until = Deadline.after(ELSEWHERE_SECONDS)
    while poll(until, 1.0):
        if (scrape := agent.look()) is not None:
            scrapes.append(scrape)
    open_one.abort_transaction(CALL_SECONDS)
    return scrapes


def _commit(cluster: ChaosCluster, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    producer = Producer({**settings, "transaction.timeout.ms": OPEN_MS})
    producer.init_transactions(CALL_SECONDS)
    for number in range(COMMITS):
        producer.begin_transaction()
        for topic in TOPICS:
            producer.produce(topic, b"%d" % number, partition=number % TOPICS[topic])
        producer.commit_transaction(CALL_SECONDS)
    return producer


def _begin_again(agent: AgentUnderTest) -> None:
    """Start the agent anew, which then takes the cluster as it is, and wait until it follows its log."""
    agent.kill()
    agent.start()
    until = Deadline.after(READY_SECONDS)
    while not ((scrape := agent.look()) and scrape.follows_log):
        if not poll(until, 0.5):
            raise StartError("the agent does not follow the transaction log of a cluster that it was started at")
