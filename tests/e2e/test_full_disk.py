"""The agent on a full disk: counts stay right over a kill, and what could not be written is written later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter import catalogue
from exporter.model import Deadline
from testkit.agent import COMMAND, AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import Producer, RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent
from tests.helpers.small_disk import SmallDisk, small_disk

SINCE = catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS


def outcomes(metrics: Metrics, application: str) -> dict[str, float]:
    """Ended transactions of an application by outcome, those that occurred."""
    found = metrics.samples(catalogue.TRANSACTIONS_TOTAL, application=application)
    return {sample.labels["outcome"]: sample.value for sample in found if sample.value}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as made:
        yield made


def test_a_full_disk_costs_a_note_and_neither_a_count_nor_a_stall_nor_the_agent(
    kafka_4: KafkaCluster,
    start_agent: StartAgent,
    keep: EnterContext,
    fresh: Callable[[str], str],
    disk: SmallDisk,
) -> None:
    topic, held, application = fresh("orders"), fresh("held"), fresh("full")
    kafka_4.create_topic(topic)
    kafka_4.create_topic(held)
    arguments = (
        *("--bootstrap-server", kafka_4.bootstrap, "--state.dir", str(disk.folder)),
        *("--lso.stall-after", "3s"),
    )

    def start(life: int) -> AgentProcess:
        return start_agent(*arguments, name=f"agent-{life}", command=disk.command(str(COMMAND)))

    agent = start(0)
    producer: Producer = keep(RdkafkaProducer(kafka_4, f"{application}-1"))
    producer.init()
    stuck: Producer = keep(RdkafkaProducer(kafka_4, fresh("stuck"), timeout=300.0))
    stuck.init()
    stuck.begin()
    stuck.send(held)
    stuck.flush()

    def work(agent: AgentProcess) -> Metrics:
        """Some transactions, until the agent counts as the client does."""
        producer.run(5, topic)
        producer.run(2, topic, commit=False)
        truth = {outcome: float(count) for outcome, count in producer.counts.outcomes().items() if count}
        return agent.wait_until(lambda seen: outcomes(seen, application) == truth)

    def since(agent: AgentProcess) -> float:
        seen = agent.wait_until(lambda seen: seen.samples(SINCE, topic=held))
        return seen.samples(SINCE, topic=held)[0].value

    work(agent)
    began = since(agent)
    deadline = Deadline.after(180)
    while not disk.run('ls "$0"/*/txnlog.json').stdout:
        assert poll(deadline, 0.2), agent.log

    disk.fill()
    deadline = Deadline.after(120)
    while "No space left on device" not in agent.log:
        work(agent)
        assert poll(deadline, 0.2), agent.log
    work(agent)
    assert since(agent) == began
    assert "No space left on device" in str(agent.status())

    agent.kill()
    agent = start(1)
    work(agent)
    assert since(agent) == pytest.approx(began, abs=1)

    disk.free()
    deadline = Deadline.after(120)
    while "is written again" not in agent.log:
        work(agent)
        assert poll(deadline, 0.2), agent.log
    agent.kill()
    agent = start(2)
    work(agent)
    assert since(agent) == pytest.approx(began, abs=1)
    assert "Traceback" not in agent.log
