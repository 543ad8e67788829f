"""An agent whose clock is wrong, and the next one with the right clock, on a real broker and the same state."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.agent import AgentProcess, Metrics
from demo.cluster import KafkaCluster
from demo.workloads.producers import RdkafkaProducer
from exporter import catalogue
from tests.chaos.agent import SKEWED
from tests.e2e.conftest import EnterContext, StartAgent, in_proof

LOOK_SECONDS = 3.0
"""Looks are a second apart, and a stall is dated by the look that first saw it."""
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
    assert _since(agent, topic) == pytest.approx(began, abs=LOOK_SECONDS)
    agent.kill()
    again = start_agent(*arguments, environment=OFTEN, name="right")
    assert _since(again, topic) == pytest.approx(began, abs=LOOK_SECONDS)
    producer.abort()


def _since(agent: AgentProcess, topic: str) -> float:
    def stalled(seen: Metrics) -> list[float]:
        return [each.value for each in seen.samples(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, topic=topic)]

    return stalled(agent.wait_until(stalled))[0]
