"""``check roll`` on a real cluster: many rolls, each with its prediction and what followed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.e2e.rolls import RollResult, create, roll, rolled_cluster, wait_in_sync, workload

ROLLS = int(os.environ.get("ROLLS", "50"))
SEED = 34
PHASES = (("three",), ("three", "pair"), ("three", "pair", "single"))
"""What transactions write to: the last hour of the log keeps a topic, so that topics are only added."""


@pytest.mark.proof
@pytest.mark.timeout(6000)
def test_no_roll_that_is_called_safe_holds_refuses_or_loses_anything(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    results: list[RollResult] = []
    with rolled_cluster() as kafka:
        for phase, topics in enumerate(PHASES):
            create(kafka, topics[-1])
            wait_in_sync(kafka)
            with workload(kafka, topics) as running:
                for _ in range(_share(phase)):
                    broker, other = chance.sample([1, 2, 3], 2)
                    down = other if chance.random() < 0.4 else None
                    results.append(roll(kafka, running, len(results) + 1, topics, broker, down))
                    print(*results[-1], "harmed" if results[-1].harmed else "unharmed", sep="\t", flush=True)
    wrong = [result for result in results if result.predicted == "safe" and result.harmed]
    assert not wrong
    assert {result.predicted for result in results} >= {"safe", "no"}
    assert any(result.harmed for result in results if result.predicted == "no")


def _share(phase: int) -> int:
    """Rolls of a phase: the last one has a fifth, the others the rest."""
    last = ROLLS // 5
    first = (ROLLS - last) // 2
    return (first, ROLLS - last - first, last)[phase]
