"""Ids that come and expire and topics that come and go leave nothing behind: not a thread, a descriptor or a series."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter import catalogue
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import StartAgent

pytestmark = pytest.mark.proof

FORGETFUL = {
    # Longer than three producers take on a busy machine: an application whose last id expired begins at 0 again.
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}
OFTEN = {
    "KAFKA_EOS_CLUSTERS__0__LSO__INTERVAL": "500ms",
    "KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "1s",
    "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "1s",
    "KAFKA_EOS_CLUSTERS__0__TRANSACTIONS__INTERVAL": "500ms",
}
ROUNDS = 6


class HeldResources(NamedTuple):
    """The resources of the process: read from the kernel, and from what it exposes."""

    threads: int
    descriptors: int
    series: int


def _held(agent: AgentProcess, metrics: Metrics) -> HeldResources:
    process = Path("/proc") / str(agent.child.pid)
    ours = [line for line in metrics.text.splitlines() if line.startswith("kafka_eos_")]
    return HeldResources(len(list((process / "task").iterdir())), len(list((process / "fd").iterdir())), len(ours))


def test_threads_descriptors_and_series_stay_flat(start_agent: StartAgent, fresh: Callable[[str], str]) -> None:
    with KafkaCluster("4.3.1", properties=FORGETFUL) as kafka:
        agent = start_agent("--bootstrap-server", kafka.bootstrap, "--cluster.name", "leak", environment=OFTEN)
        after: list[HeldResources] = []
        for round_ in range(ROUNDS):
            topic, application = fresh(f"t{round_}"), fresh(f"a{round_}")
            kafka.create_topic(topic, 3)
            for number in range(3):
                with RdkafkaProducer(kafka, f"{application}-{number}") as producer:
                    producer.init()
                    producer.run(1, topic)
            agent.wait_until(
                lambda seen, topic=topic, application=application: (  # type: ignore[misc]
                    seen.value(catalogue.TRANSACTIONS_TOTAL, application=application, outcome="committed") == 3
                    and seen.samples(catalogue.TOPIC_LSO_LAG_OFFSETS, topic=topic)
                )
            )
            kafka.delete_topic(topic)
            metrics = agent.wait_until(
                lambda seen, topic=topic, application=application: (  # type: ignore[misc]
                    application not in seen.text and topic not in seen.text
                ),
            )
            after.append(_held(agent, metrics))
        first, last = after[1], after[-1]  # the first round made the internal topics, and what watches them
        assert last.series <= first.series
        assert last.threads <= first.threads + 1  # a scrape of ours may be under way
        assert last.descriptors <= first.descriptors + 3
