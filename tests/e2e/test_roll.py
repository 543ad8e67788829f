"""``check roll`` on a real cluster: many rolls, each with its prediction and what followed."""

from __future__ import annotations

import os
import random

import pytest

from exporter.roll.facts import RollAnswer
from testkit.cluster import KafkaCluster
from tests.e2e.rolls import (
    RolledWorkload,
    RollResult,
    create,
    late_transaction,
    roll,
    rolled_cluster,
    table,
    wait_in_sync,
    workload,
)

ROLLS = int(os.environ.get("ROLLS") or "15")
SEED = 34
PHASES = (("three",), ("three", "pair"), ("three", "pair", "single"))
"""The topics that transactions write to: the last hour of the log keeps a topic, so that topics are only added."""


@pytest.mark.proof
@pytest.mark.timeout(6000)
def test_no_roll_that_is_called_safe_holds_refuses_or_loses_anything() -> None:
    chance = random.Random(SEED)
    results: list[RollResult] = []
    with rolled_cluster() as kafka:
        for phase, topics in enumerate(PHASES):
            create(kafka, topics[-1])
            wait_in_sync(kafka)
            with workload(kafka, topics) as running:
                for _ in range(_share(phase)):
                    results.append(_rolled(kafka, running, len(results) + 1, topics, chance))
                    print(*results[-1], "harmed" if results[-1].harmed else "unharmed", sep="\t", flush=True)
    print(*table(results), sep="\n")
    wrong = [result for result in results if result.predicted is RollAnswer.SAFE and result.harmed]
    assert not wrong
    assert {result.predicted for result in results} == {RollAnswer.SAFE, RollAnswer.NO}
    assert any(result.harmed for result in results if result.predicted is RollAnswer.NO)
    assert any(result.waited for result in results if result.predicted is RollAnswer.SAFE)


def _rolled(
    kafka: KafkaCluster, running: RolledWorkload, number: int, topics: tuple[str, ...], chance: random.Random
) -> RollResult:
    """One roll: of a broker alone, with another one away, or of the coordinator of a transaction that times out."""
    broker, other = chance.sample([1, 2, 3], 2)
    drawn = chance.random()
    if number % 5 == 2:
        with late_transaction(kafka) as coordinator:
            return roll(kafka, running, number, topics, coordinator, None)
    return roll(kafka, running, number, topics, broker, other if drawn < 0.4 else None)


def _share(phase: int) -> int:
    """Rolls of a phase: the last one has a fifth, the others the rest."""
    last = ROLLS // 5
    first = (ROLLS - last) // 2
    return (first, ROLLS - last - first, last)[phase]
