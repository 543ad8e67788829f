"""Tests of what became of a transaction: single cases, and every state of the model of Kafka within small bounds.

``python -m tests.model.explore`` explores larger bounds; docs/internals/proof.md has the counts.
"""

from __future__ import annotations

from typing import Any

import pytest

from exporter.kafka.log.batches import Marker
from exporter.model import KnownLogEnd, TopicPartition
from exporter.transactions.decided import fate
from exporter.transactions.decided.decisions import LogRun, passed_offset
from exporter.transactions.decided.fate import Fate, Judgement, OpenRecords, ProducerLog, judge
from exporter.transactions.transaction import Transaction
from tests.helpers.transactions import decision_of
from tests.model import explore as explore_module
from tests.model import observer
from tests.model.explore import explore
from tests.model.kafka import Bounds

HERE, ELSEWHERE = TopicPartition("orders", 0), TopicPartition("orders", 1)
NO_FAULTS = Bounds((False, False), (0, 0), ((0,), (0,)), 0, 0, 0, 0, 0, 0)


def decided(epoch: int, *, commit: bool, v2: bool, offset: int = 5, at: float = 1000.0) -> Transaction:
    marked = frozenset({epoch + 1 if v2 else epoch})
    who = "pay-1", 7, frozenset({epoch}), marked
    made = decision_of(*who, commit=commit, v2=v2, begun=at - 60, at=at, completed=at + 1)
    return made._replace(partitions=frozenset({HERE}), offset=offset, leader_epoch=0, sure=True)


def opened(epoch: int, *, first: int | None = None, marker: Marker | None = None) -> OpenRecords:
    return OpenRecords(HERE, 7, epoch, first, marker)


def marker(epoch: int, *, commit: bool, at: float, coordinator_epoch: int = 0) -> Marker:
    return Marker(3, round(at * 1000), 7, epoch, commit, coordinator_epoch)


def test_a_v2_epoch_names_its_decision_whatever_else_is_missing() -> None:
    committed = decided(4, commit=True, v2=True)._replace(partitions=None)
    assert judge(opened(4), ProducerLog((committed,))) == Judgement(Fate.COMMITTED, committed)
    aborted = decided(4, commit=False, v2=True)
    assert judge(opened(4, first=4), ProducerLog((aborted,))) == Judgement(Fate.ABORTED, aborted)
    assert judge(opened(4), ProducerLog((aborted,))).fate is Fate.UNKNOWN
    assert judge(opened(4, first=4), ProducerLog((aborted._replace(sure=False),))).fate is Fate.UNKNOWN


def test_a_log_without_a_gap_and_without_the_producer_proves_that_nothing_was_decided() -> None:
    assert judge(opened(0), ProducerLog((), 0)).fate is Fate.NEVER
    said = judge(opened(0), ProducerLog((), None, gaps=("had an election",)))
    assert said.fate is Fate.UNKNOWN
    assert said.missing[0] == "had an election"


def test_a_commit_of_an_older_client_is_its_own_only_by_the_marker_below_it() -> None:
    log = ProducerLog((decided(0, commit=True, v2=False),), 0)
    assert judge(opened(0), log).fate is Fate.UNKNOWN
    assert judge(opened(0, marker=marker(0, commit=True, at=900)), log).fate is Fate.COMMITTED
    assert judge(opened(0, marker=marker(0, commit=True, at=1000)), log).fate is Fate.NEVER
    assert judge(opened(0, marker=marker(0, commit=True, at=950)), log).fate is Fate.COMMITTED
    short = ProducerLog((log.decisions[0]._replace(begun_ms=999_000),), 0)  # within the difference of two clocks
    assert judge(opened(0, marker=marker(0, commit=True, at=1000)), short).fate is Fate.UNKNOWN
    assert judge(opened(0), log._replace(passed=6)).fate is Fate.NEVER


def test_a_marker_from_before_an_election_says_nothing_of_a_decision_after_it() -> None:
    log = ProducerLog((decided(0, commit=True, v2=False)._replace(leader_epoch=1),), 1)
    assert judge(opened(0, marker=marker(0, commit=True, at=1000)), log).fate is Fate.UNKNOWN
    assert judge(opened(0, marker=marker(0, commit=True, at=1000, coordinator_epoch=1)), log).fate is Fate.NEVER


def test_a_marker_says_nothing_of_a_decision_before_which_another_one_may_be_lost() -> None:
    sure = decided(3, commit=True, v2=True)
    records = opened(4, first=4, marker=marker(4, commit=True, at=1000))
    assert judge(records, ProducerLog((sure,), 1)).fate is Fate.NEVER
    assert judge(records, ProducerLog((sure._replace(sure=False),), 1)).fate is Fate.UNKNOWN


def test_a_commit_elsewhere_is_none_of_these_records() -> None:
    elsewhere = decided(0, commit=True, v2=False)._replace(partitions=frozenset({ELSEWHERE}))
    assert judge(opened(0), ProducerLog((elsewhere,), 0)).fate is Fate.NEVER


def test_a_run_of_the_log_begins_after_a_gap_and_after_an_election() -> None:
    run = LogRun()
    assert run.whole_from(0) == 0
    assert run.whole_from(1) is None
    for offset in range(3):
        run.read(offset, 0)
    assert (run.whole_from(0), run.whole_from(1)) == (0, None)
    run.read(4, 0)
    assert run.whole_from(0) == 4
    run.read(5, 1)
    assert run.whole_from(1) == 5
    run.ended(9)
    assert run.whole_from(1) == 9


@pytest.mark.parametrize(
    ("allowed", "v2", "states"),
    [
        ({"elections": 1, "drops": 1, "timeouts": 1}, False, 8762),
        ({"elections": 1, "drops": 1, "timeouts": 1}, True, 4740),
        ({"truncations": 1, "late": 1}, False, 1076),
        ({"truncations": 1, "late": 1}, True, 474),
        ({"compactions": 1, "drops": 1}, False, 1783),
        ({"compactions": 1, "drops": 1}, True, 1155),
        ({"remakes": 1, "drops": 1}, False, 296),
        ({"remakes": 1, "drops": 1, "elections": 1}, True, 2353),
    ],
)
def test_no_state_gives_a_line_while_a_client_was_told_committed(
    allowed: dict[str, Any], v2: bool, states: int
) -> None:
    found = explore(NO_FAULTS._replace(v2=(v2, False), **allowed))
    assert not found.wrong, "\n".join(found.wrong)
    assert found.states == states


@pytest.mark.parametrize(
    ("allowed", "v2", "states"),
    [
        ({"elections": 1, "drops": 1}, False, 3893),
        ({"elections": 1, "drops": 1}, True, 2473),
        ({"elections": 1, "late": 1}, False, 5746),
        ({"compactions": 1, "drops": 1}, True, 1657),
    ],
)
def test_what_an_agent_keeps_over_elections_and_restarts_gives_no_line_for_what_was_promised(
    allowed: dict[str, Any], v2: bool, states: int
) -> None:
    found = explore(NO_FAULTS._replace(v2=(v2, False), looks=1, **allowed))
    assert not found.wrong, "\n".join(found.wrong)
    assert found.states == states


@pytest.mark.parametrize(
    ("allowed", "v2", "states"),
    [
        ({"elections": 1, "drops": 1}, False, 30285),
        ({"elections": 1}, True, 7394),
        ({"truncations": 1, "drops": 1}, False, 5935),
    ],
)
def test_ends_that_an_agent_read_before_give_no_line_for_what_was_promised(
    allowed: dict[str, Any], v2: bool, states: int
) -> None:
    found = explore(NO_FAULTS._replace(v2=(v2, False), notes=True, **allowed))
    assert not found.wrong, "\n".join(found.wrong)
    assert found.states == states


def test_the_model_finds_an_end_that_counts_after_an_election(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_any_epoch(whole_from: int | None, known: KnownLogEnd, _: int) -> int:
        return passed_offset(whole_from, known, known.leader_epoch)

    monkeypatch.setattr(observer, "passed_offset", in_any_epoch)
    assert "a line, and transaction" in explore(NO_FAULTS._replace(elections=1, notes=True)).wrong[0]


def test_the_model_finds_a_log_made_anew_that_counts_as_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "whole_since", lambda starts, _, recorded: starts[0])
    found = explore(NO_FAULTS._replace(remakes=1))
    assert "a line, and transaction" in found.wrong[0]
    assert "log made anew" in found.wrong[0]


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("ahead", [-1, 1, 2, 20])
def test_clocks_of_brokers_that_differ_by_minutes_give_no_line_for_what_was_promised(ahead: int, v2: bool) -> None:
    """An older client's commit was taken for one from before a marker that its leader stamped with a later time.

    Not where the clocks differ by the time between two decisions: then the marker is as old as the later one.
    """
    bounds = NO_FAULTS._replace(owners=(0, 0, 0), places=((0,), (0,), (0,)), drops=2)
    found = explore(bounds._replace(v2=(v2, False), ahead=ahead))
    assert not found.wrong, "\n".join(found.wrong)
    assert found.states == 1849 if not v2 else found.states > 500


def test_the_model_finds_an_order_that_is_taken_from_the_clocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fate, "_marked", lambda *_: 1000)
    bounds = NO_FAULTS._replace(owners=(0, 0, 0), places=((0,), (0,), (0,)), drops=2, ahead=20)
    assert "a line, and transaction" in explore(bounds).wrong[0]


def test_the_model_finds_a_judgement_that_is_kept_although_the_log_lost_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explore_module, "agent_steps", lambda found: found)
    found = explore(NO_FAULTS._replace(looks=1, elections=1, drops=1, timeouts=1))
    assert "what was kept says that nobody was promised" in found.wrong[0]


def test_the_model_finds_an_abort_that_counts_although_an_election_is_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_one_epoch = fate._is_only
    monkeypatch.setattr(fate, "_is_only", lambda decision, shown: of_one_epoch(decision._replace(sure=True), shown))
    assert explore(NO_FAULTS._replace(v2=(True, False), elections=1, drops=1, timeouts=1)).wrong


@pytest.mark.parametrize("v2", [False, True])
def test_orphans_that_nobody_was_promised_get_their_line(v2: bool) -> None:
    dropped = explore(NO_FAULTS._replace(v2=(v2, False), drops=1))
    assert not dropped.wrong
    assert dropped.fates[Fate.ABORTED, "dropped"]
    assert dropped.fates[Fate.COMMITTED, "committed"]
    if not v2:  # in V2 the marker's epoch refuses a late record
        late = explore(NO_FAULTS._replace(late=1))
        assert late.fates[Fate.NEVER, "late"]


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize(
    ("owners", "places"), [((0, 1), ((0,), (0,))), ((0,), ((0, 1),))], ids=["two producers", "two partitions"]
)
def test_another_producer_or_partition_changes_nothing(
    owners: tuple[int, ...], places: tuple[tuple[int, ...], ...], v2: bool
) -> None:
    found = explore(NO_FAULTS._replace(v2=(v2, False), owners=owners, places=places, drops=1, timeouts=1))
    assert not found.wrong, "\n".join(found.wrong)
