"""A rolling upgrade of the brokers, and then of the feature that brings Transactions V2, while the agent runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter import catalogue
from testkit.cluster import KafkaCluster
from testkit.formatter import transaction_log
from testkit.workloads.producers import JavaProducer, RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent
from tests.e2e.highest_counters import HighestCounters, outcomes_of

pytestmark = pytest.mark.proof

OLD, NEW = "3.9.2", "4.3.1"


def test_counts_and_open_transactions_go_on_over_an_upgrade_of_the_brokers(
    start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    kafka = keep(KafkaCluster(OLD, 3, heap_mb=320))
    topic, application, held = fresh("orders"), fresh("pay"), fresh("held")
    kafka.create_topic(topic, 3)
    arguments = ("--bootstrap-server", kafka.bootstrap, "--state.dir", str(tmp_path))
    agent = start_agent(*arguments, name="agent-0")
    producers = [
        keep(JavaProducer(kafka, f"{application}-1")),
        keep(RdkafkaProducer(kafka, f"{application}-2")),
    ]
    for producer in producers:
        producer.init()
    waiting = keep(RdkafkaProducer(kafka, f"{held}-1", timeout=800.0))
    waiting.init()
    waiting.begin()
    waiting.send(topic, 3, 0)
    waiting.flush()
    begun = agent.wait_until(
        lambda seen: seen.value(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, application=held)
    ).value(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, application=held)
    shown = HighestCounters(application)

    def work() -> None:
        for producer in producers:
            producer.run(3, topic)
            producer.run(1, topic, commit=False)
        truth: dict[str, float] = dict.fromkeys(catalogue.OUTCOMES, 0.0)
        for producer in producers:
            for outcome, count in producer.counts.outcomes().items():
                truth[outcome] += count
        seen = agent.wait_until(lambda seen: outcomes_of(shown.look(seen), application) == truth)
        assert seen.value(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, application=held) == begun

    work()
    for broker in kafka.upgrade(NEW):
        work()
        if broker.id == 2:  # between two versions
            agent.kill()
            agent = start_agent(*arguments, name="agent-1")
    done = kafka.tool("org.apache.kafka.tools.FeatureCommand", "upgrade", "--release-version", NEW.rpartition(".")[0])
    assert done.returncode == 0, done.stdout + done.stderr
    agent.wait_until(
        lambda seen: [sample.labels["transaction_version"] for sample in seen.samples(catalogue.CLUSTER_INFO)] == ["2"],
    )
    producers.append(keep(JavaProducer(kafka, f"{application}-3")))
    producers[-1].init()
    work()
    work()
    assert {record.layout for record in transaction_log(kafka, f"{application}-1")} == {0, 1}
    epochs = {record.producer_epoch for record in transaction_log(kafka, f"{application}-3")}
    assert len(epochs) > 4, "a client of Transactions V2 has an epoch for each transaction"
    waiting.commit()
    seen = agent.wait_until(lambda seen: outcomes_of(seen, held)["committed"] == 1)
    assert outcomes_of(seen, held) == dict.fromkeys(catalogue.OUTCOMES, 0.0) | {"committed": 1.0}
    assert seen.value(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL) == 0
    assert seen.value(catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL) == 0
    agent.wait_until(lambda seen: all(sample.value for sample in seen.samples(catalogue.SOURCE_UP)))
