"""The faults of a chaos run: the same for a seed, enough of them, and each mended before the end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.chaos.modes import MODES, UNCLEAN_ELECTION
from tests.chaos.nemesis import BROKER_KINDS, LIGHT_KINDS, WRONG_CLOCK, plan

CLIENTS = ["one", "two"]


@pytest.mark.parametrize("seed", range(1, 8))
def test_a_plan_has_a_fault_every_six_seconds_and_thirty_in_four_minutes(seed: int) -> None:
    faults = plan(seed, 240, CLIENTS)
    assert len(faults) >= 30
    assert all(later.at - earlier.at <= 6 for earlier, later in pairwise(faults))
    assert all(fault.at + fault.seconds <= 240 for fault in faults)


def test_a_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert plan(3, 120, CLIENTS) == plan(3, 120, CLIENTS)
    assert plan(3, 120, CLIENTS) != plan(4, 120, CLIENTS)


def test_ten_minutes_have_every_kind_of_fault() -> None:
    kinds = {fault.kind for fault in plan(1, 600, CLIENTS)}
    assert kinds == BROKER_KINDS.keys() | LIGHT_KINDS.keys()


def test_a_run_of_unclean_elections_has_those_of_the_log_of_data_and_of_both_and_no_other_fault_of_brokers() -> None:
    faults = [fault for fault in plan(5, 240, CLIENTS, MODES["unclean"]) if fault.kind not in LIGHT_KINDS]
    assert {fault.kind for fault in faults} == {UNCLEAN_ELECTION}
    assert {fault.target.split()[1] for fault in faults} == {"log", "data", "all"}
    for earlier, later in pairwise(faults):
        assert earlier.at + earlier.seconds < later.at


def test_an_agent_beside_brokers_with_clocks_of_their_own_keeps_its_clock() -> None:
    assert WRONG_CLOCK in {fault.kind for fault in plan(1, 600, CLIENTS)}
    assert WRONG_CLOCK not in {fault.kind for fault in plan(1, 600, CLIENTS, MODES["clocks"])}


def test_only_kinds_that_say_so_hurt_two_brokers_and_no_two_faults_of_brokers_overlap() -> None:
    faults = [fault for fault in plan(5, 600, CLIENTS) if fault.kind in BROKER_KINDS]
    for earlier, later in pairwise(faults):
        assert earlier.at + earlier.seconds < later.at
    assert all((len(fault.target.split()) == 2) == fault.kind.startswith("two ") for fault in faults)
